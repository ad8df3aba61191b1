import json
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import safetensors.numpy
import torch

from alphac4.game.rules import make_board
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import PolicyValueNetwork
from alphac4.storage.arrays import load_arrays, save_arrays
from alphac4.storage.checkpoints import (
    FORMAT,
    SCHEMA_VERSION,
    Checkpoint,
    checkpoint_file,
    load_checkpoint,
    save_checkpoint,
)
from alphac4.storage.files import FileError
from alphac4.storage.networks import SHIPPED, check_network, register_scheme


@pytest.fixture
def saved(tmp_path: Path, network: PolicyValueNetwork) -> Path:
    path = tmp_path / "good.safetensors"
    save_checkpoint(path, Checkpoint(network=network, provenance={"run": "test"}, strength={"uct:20": {}}))
    return path


def test_a_checkpoint_is_loaded_as_it_was_saved(saved: Path, network: PolicyValueNetwork) -> None:
    loaded = load_checkpoint(saved)
    assert loaded.network.config == network.config
    for name, tensor in network.state_dict().items():
        assert torch.equal(loaded.network.state_dict()[name], tensor)
    assert not loaded.network.training
    assert loaded.provenance == {"run": "test"}
    assert loaded.strength == {"uct:20": {}}


def test_other_files_are_rejected_by_name(tmp_path: Path) -> None:
    foreign, deep = tmp_path / "foreign.safetensors", tmp_path / "deep.safetensors"
    safetensors.numpy.save_file({"x": np.zeros(3)}, foreign)
    safetensors.numpy.save_file({"x": np.zeros(3)}, deep, {"header": "[" * 100_000 + "]" * 100_000, "sha256": ""})
    for path in (foreign, deep, tmp_path / "missing.safetensors"):
        with pytest.raises(FileError, match=re.escape(str(path))):
            load_checkpoint(path)


def test_arrays_of_another_format_or_digest_are_rejected(tmp_path: Path) -> None:
    path, arrays, header = tmp_path / "state.safetensors", {"x": np.zeros(3)}, {"format": "form-2"}
    save_arrays(path, arrays, header)
    assert load_arrays(path, "form-2")[1] == header
    with pytest.raises(FileError, match=r"state\.safetensors: contains 'form-2', expected 'form-3'"):
        load_arrays(path, "form-3")
    for digest in ({}, {"sha256": 64 * "0"}):
        safetensors.numpy.save_file(arrays, path, {"header": json.dumps(header)} | digest)
        with pytest.raises(FileError, match=r"state\.safetensors: the digest does not match"):
            load_arrays(path, "form-2")


def test_non_finite_weights_are_rejected(tmp_path: Path) -> None:
    network = PolicyValueNetwork(NetworkConfig(channels=4, blocks=1))
    torch.nn.init.constant_(network.value.bias, float("nan"))
    path = tmp_path / "nan.safetensors"
    save_checkpoint(path, Checkpoint(network=network))
    with pytest.raises(FileError, match="finite"):
        load_checkpoint(path)


def repacked(path: Path, *, header: dict[str, object] | None = None, **weights: npt.NDArray[np.float32] | None) -> None:
    """Change a checkpoint and compute its digest again."""
    old_weights, old_header = load_arrays(path, FORMAT)
    changed = {**old_weights, **{name.replace("__", "."): array for name, array in weights.items()}}
    kept = {name: array for name, array in changed.items() if array is not None}
    save_arrays(path, kept, {**old_header, **(header or {})})


def test_missing_unknown_and_misshapen_tensors_are_rejected(saved: Path) -> None:
    content = saved.read_bytes()
    for change in ({"policy__weight": None}, {"stranger": np.zeros(1)}, {"policy__bias": np.zeros(6)}):
        saved.write_bytes(content)
        repacked(saved, **change)
        with pytest.raises(FileError, match=r"good\.safetensors: the weights do not fit the header"):
            load_checkpoint(saved)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"schema_version": SCHEMA_VERSION + 1}, "schema version"),
        ({"format": "another"}, "contains 'another'"),
        ({"geometry": {"rows": 5, "columns": 7, "run_length": 4, "diagonals": True}}, "different boards"),
        ({"architecture": {"unheard_of": 3}}, "unheard_of"),
    ],
)
def test_an_invalid_header_is_rejected(saved: Path, header: dict[str, object], message: str) -> None:
    repacked(saved, header=header)
    with pytest.raises(FileError, match=message):
        load_checkpoint(saved)


def test_every_shipped_network_has_a_name_and_a_description() -> None:
    folder = checkpoint_file(Path("best")).parent
    files = {path.name for path in folder.glob("*.safetensors")}
    assert files == {checkpoint_file(Path(name)).name for name in SHIPPED}
    described = (folder / "README.md").read_text(encoding="utf-8")
    for file in files:
        assert f"| `{file.removesuffix('.safetensors')}` |" in described
        assert load_checkpoint(Path(file.removesuffix(".safetensors"))).board == make_board()


def test_a_file_in_the_current_folder_does_not_take_a_shipped_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: PolicyValueNetwork
) -> None:
    monkeypatch.chdir(tmp_path)
    save_checkpoint(tmp_path / "best", Checkpoint(network=network))
    assert load_checkpoint(Path("best")).network.config == load_checkpoint(checkpoint_file(Path("best"))).network.config
    assert load_checkpoint(tmp_path / "best").network.config == network.config


def test_a_header_with_a_huge_network_is_rejected_before_allocation(saved: Path) -> None:
    config = {"rows": 6, "columns": 7, "channels": 4096, "blocks": 2, "head_channels": 1, "value_hidden": 1}
    resource = pytest.importorskip("resource", reason="needs a system that counts a process's memory")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # maximum of the whole process so far, in KB
    for architecture in (config, {**config, "blocks": 100_000}, {**config, "channels": 10**9}, {"rows": True}, "wide"):
        repacked(saved, header={"architecture": architecture})
        with pytest.raises(FileError, match=r"good\.safetensors: the weights do not fit the header"):
            load_checkpoint(saved)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000


def test_network_with_a_scheme_is_found_by_the_function_of_its_scheme(checkpoint: Path) -> None:
    """Also after a conversion to `Path`. A name with an unknown scheme is a path."""
    register_scheme("mine", lambda name: checkpoint.with_name(f"{name}.safetensors"))
    name = f"mine://{checkpoint.stem}"
    check_network(name)
    assert checkpoint_file(Path(name)) == checkpoint_file(Path(Path(name).as_posix())) == checkpoint
    with pytest.raises(ValueError, match="other:/small: no such file"):
        check_network("other:/small")
