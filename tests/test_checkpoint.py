import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

from alphac4.checkpoint import (
    FORMAT,
    SCHEMA_VERSION,
    SHIPPED,
    Checkpoint,
    CheckpointError,
    load_checkpoint,
    pack_tensors,
    save_checkpoint,
    shipped_checkpoint,
    unpack_tensors,
)
from alphac4.files import append_line, write_atomically
from alphac4.game.rules import make_geometry
from alphac4.machine import resident_memory_mb
from alphac4.nn import NetworkConfig, PolicyValueNetwork


@pytest.fixture
def saved(tmp_path: Path, network: PolicyValueNetwork) -> Path:
    """A good checkpoint."""
    path = tmp_path / "good.safetensors"
    save_checkpoint(path, Checkpoint(network=network, provenance={"run": "test"}, strength={"elo": 12}))
    return path


def test_a_checkpoint_comes_back_as_it_was(saved: Path, network: PolicyValueNetwork) -> None:
    """Weights, architecture, provenance and strength."""
    loaded = load_checkpoint(saved)
    assert loaded.network.config == network.config
    for name, tensor in network.state_dict().items():
        assert torch.equal(loaded.network.state_dict()[name], tensor)
    assert loaded.provenance == {"run": "test"}
    assert loaded.strength == {"elo": 12}


def test_a_truncated_file_is_refused_at_any_length(saved: Path, tmp_path: Path) -> None:
    """In one line that names the file."""
    content = saved.read_bytes()
    for length in (0, 1, 7, 8, 100, len(content) // 2, len(content) - 1):
        path = tmp_path / "cut.safetensors"
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=r"cut\.safetensors") as caught:
            load_checkpoint(path)
        assert "\n" not in str(caught.value)


def test_a_changed_byte_anywhere_is_noticed(saved: Path, tmp_path: Path) -> None:
    """In the header and in the weights."""
    content = bytearray(saved.read_bytes())
    path = tmp_path / "changed.safetensors"
    for index in np.linspace(8, len(content) - 1, 60).astype(int):
        changed = bytearray(content)
        changed[index] ^= 1
        path.write_bytes(changed)
        with pytest.raises(CheckpointError):
            load_checkpoint(path)


def test_foreign_files_are_refused_in_one_line(tmp_path: Path) -> None:
    """Another program's safetensors, random bytes, a folder, no file at all."""
    foreign = tmp_path / "foreign.safetensors"
    safetensors.numpy.save_file({"x": np.zeros(3)}, foreign)
    noise = tmp_path / "noise.safetensors"
    noise.write_bytes(np.random.default_rng(0).bytes(5000))
    for path in (foreign, noise, tmp_path, tmp_path / "missing.safetensors"):
        with pytest.raises(CheckpointError) as caught:
            load_checkpoint(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    """A network that diverged must not be played by accident."""
    network = PolicyValueNetwork(NetworkConfig(channels=4, blocks=1))
    torch.nn.init.constant_(network.value.bias, float("nan"))
    path = tmp_path / "nan.safetensors"
    save_checkpoint(path, Checkpoint(network=network))
    with pytest.raises(CheckpointError, match="finite"):
        load_checkpoint(path)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk."""
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_line_cut_short_is_ended_before_the_next(tmp_path: Path) -> None:
    """A kill in the middle of a write must not spoil the line after it."""
    path = tmp_path / "lines"
    append_line(path, "one")
    with path.open("ab") as file:
        file.write(b"tw")
    append_line(path, "three")
    assert path.read_text().splitlines() == ["one", "tw", "three"]


def repacked(path: Path, *, header: dict[str, object] | None = None, **tensors: torch.Tensor | None) -> None:
    """Change a good checkpoint and sign it anew: only its meaning is wrong, not its digest."""
    old_header, old_tensors = unpack_tensors(path, FORMAT, SCHEMA_VERSION)
    changed = {**old_tensors, **{name.replace("__", "."): tensor for name, tensor in tensors.items()}}
    kept = {name: tensor.clone() for name, tensor in changed.items() if tensor is not None}
    path.write_bytes(pack_tensors(kept, {**old_header, **(header or {})}))


def test_a_missing_a_foreign_and_a_misshapen_tensor_are_refused(saved: Path) -> None:
    """Even when the digest matches."""
    content = saved.read_bytes()
    for change in ({"policy__weight": None}, {"stranger": torch.zeros(1)}, {"policy__bias": torch.zeros(6)}):
        saved.write_bytes(content)
        repacked(saved, **change)
        with pytest.raises(CheckpointError, match=r"good\.safetensors: the weights do not fit the header") as caught:
            load_checkpoint(saved)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"schema_version": SCHEMA_VERSION + 1}, "schema version"),
        ({"format": "another"}, "holds 'another'"),
        ({"geometry": {"rows": 60, "columns": 7, "run_length": 4, "diagonals": True}}, "64 bits"),
        ({"geometry": {"rows": 5, "columns": 7, "run_length": 4, "diagonals": True}}, "another board"),
        ({"architecture": {"unheard_of": 3}}, "unheard_of"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(saved: Path, header: dict[str, object], message: str) -> None:
    """A newer schema, another format, an impossible board, a setting that this program does not know."""
    repacked(saved, header=header)
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(saved)


def test_another_board_comes_back_with_its_rules(tmp_path: Path) -> None:
    """Connect 3 without diagonals on 5 x 6."""
    geometry = make_geometry(5, 6, 3, diagonals=False)
    network = PolicyValueNetwork(NetworkConfig(rows=5, columns=6, channels=4, blocks=1))
    save_checkpoint(tmp_path / "small", Checkpoint(network=network, geometry=geometry))
    assert load_checkpoint(tmp_path / "small").geometry == geometry


def test_every_shipped_network_has_a_name_and_a_description() -> None:
    """The files beside the README are those that the names lead to, and all of them load."""
    folder = shipped_checkpoint().parent
    files = {path.name for path in folder.glob("*.safetensors")}
    assert files == {shipped_checkpoint(name).name for name in SHIPPED}
    described = (folder / "README.md").read_text(encoding="utf-8")
    for file in files:
        assert f"## {file}" in described
        assert load_checkpoint(Path(file.removesuffix(".safetensors"))).geometry == make_geometry()
    with pytest.raises(CheckpointError, match="best, fast, grown"):
        shipped_checkpoint("other")


def test_a_file_in_the_current_folder_does_not_take_a_shipped_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: PolicyValueNetwork
) -> None:
    """The name means the shipped network to everybody; the file is read by its absolute path."""
    monkeypatch.chdir(tmp_path)
    save_checkpoint(tmp_path / "best", Checkpoint(network=network))
    assert load_checkpoint(Path("best")).network.config == load_checkpoint(shipped_checkpoint("best")).network.config
    assert load_checkpoint(tmp_path / "best").network.config == network.config


def test_a_small_file_that_claims_to_be_large_is_refused_before_memory_is_taken(saved: Path) -> None:
    """A network of 0.6 billion weights in a file of kilobytes: refused in well under a second and 200 MB."""
    config = {"rows": 6, "columns": 7, "channels": 4096, "blocks": 2, "head_channels": 1, "value_hidden": 1}
    before = resident_memory_mb()
    for architecture in (config, {**config, "blocks": 100_000}, {**config, "channels": 10**9}, {"rows": True}, "wide"):
        repacked(saved, header={"architecture": architecture})
        started = time.process_time()
        with pytest.raises(CheckpointError, match=r"good\.safetensors: the weights do not fit the header") as caught:
            load_checkpoint(saved)
        assert "\n" not in str(caught.value)
        assert time.process_time() - started < 2
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert peak - before < 1000


def test_a_deeply_nested_header_is_refused_in_one_line(saved: Path, tmp_path: Path) -> None:
    """Not with a traceback."""
    tensors = {"x": np.zeros(3)}
    path = tmp_path / "deep.safetensors"
    safetensors.numpy.save_file(tensors, path, {"header": "[" * 100_000 + "]" * 100_000, "sha256": ""})
    with pytest.raises(CheckpointError, match=r"deep\.safetensors.*nested too deeply"):
        load_checkpoint(path)
    repacked(saved, header={"provenance": {"a": 1}, "strength": []})
    assert load_checkpoint(saved).provenance == {"a": 1}


@pytest.mark.parametrize("size", [{"blocks": 100_000}, {"channels": 4096, "blocks": 256}, {"value_hidden": 10**12}])
def test_networks_of_impossible_size_are_refused(size: dict[str, int]) -> None:
    """At once, and by name."""
    with pytest.raises(ValueError, match=r"blocks|too large|value_hidden"):
        NetworkConfig(**size)


def test_loading_a_network_does_not_load_pytorchs_compiler() -> None:
    """It takes seconds, which every command would pay at its start."""
    code = "import sys; from pathlib import Path; from alphac4.checkpoint import load_checkpoint; "
    code += "load_checkpoint(Path('fast')); print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
