import json
import time
from pathlib import Path

import numba
import pytest

from alphac4.compiled import announce_compilation
from alphac4.nn import Evaluator, PolicyValueNetwork, backend_memory, evaluator
from alphac4.nn.backend_memory import FILE, measurement_key, recall, remember
from alphac4.nn.network import NetworkConfig
from alphac4.user_folders import CACHE, cache_folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test remembers for itself."""
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))


def test_a_backend_is_measured_once_for_a_network(network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second start takes up what the first has found; another network or size of batch is measured for itself."""
    measured = []

    def measure(*_arguments: object) -> dict[str, float]:
        measured.append(1)
        return {"torch-fp32": 2.0, "torch-bf16": 1.0}

    monkeypatch.setattr(evaluator, "measure_backends", measure)
    for _ in range(3):
        assert Evaluator(network, batch_size=1, device="cpu", remembers=True).backend == "torch-fp32"
    assert len(measured) == 1
    Evaluator(network, batch_size=2, device="cpu", remembers=True)
    Evaluator(PolicyValueNetwork(NetworkConfig(channels=8, blocks=1)), batch_size=1, device="cpu", remembers=True)
    assert len(measured) == 3
    Evaluator(network, batch_size=1, device="cpu")
    assert len(measured) == 4


def test_a_measurement_of_another_version_or_machine_does_not_count(
    network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are part of what a measurement is remembered for."""
    key = measurement_key(network, device="cpu", batch=1)
    assert key == measurement_key(network, device="cpu", batch=1)
    monkeypatch.setattr(backend_memory, "processor_name", lambda: "another processor")
    other = measurement_key(network, device="cpu", batch=1)
    monkeypatch.setattr(backend_memory, "__version__", "99")
    assert len({key, other, measurement_key(network, device="cpu", batch=1)}) == 3


def test_an_old_measurement_is_repeated() -> None:
    """It may have been taken while something else ran."""
    remember("key", "torch-fp32")
    assert recall("key") == "torch-fp32"
    path = cache_folder() / FILE
    entries = json.loads(path.read_text())
    for measured in (time.time() - 40 * 24 * 3600, time.time() + 1e6, "yesterday"):
        entries["key"]["measured"] = measured
        path.write_text(json.dumps(entries))
        assert recall("key") is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"key": 1}', b'{"key": {"backend": 1}}', b"\xff\xfe", b"[" * 9999]
)
def test_a_damaged_file_only_costs_a_measurement(content: bytes) -> None:
    """And is whole again afterwards."""
    cache_folder().mkdir()
    (cache_folder() / FILE).write_bytes(content)
    assert recall("key") is None
    remember("key", "torch-bf16")
    assert recall("key") == "torch-bf16"


def test_a_folder_that_cannot_be_written_only_costs_a_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that is a file."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(CACHE, str(tmp_path / "file" / "below"))
    remember("key", "torch-fp32")
    assert recall("key") is None


def test_the_file_does_not_grow_for_ever() -> None:
    """The oldest measurements go."""
    for number in range(backend_memory.MOST_REMEMBERED + 5):
        remember(str(number), "torch-fp32")
    assert recall("4") is None
    assert recall("5") == "torch-fp32"


def test_compiling_is_announced_once() -> None:
    """Before the first function that has to be compiled."""
    announced: list[int] = []
    announce_compilation(lambda: announced.append(1))
    for addend in (1, 2):
        assert numba.njit(lambda number, addend=addend: number + addend)(1) == 1 + addend
    assert announced == [1]
