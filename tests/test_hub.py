import logging
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hub_stand_in import serve_hub

import alphac4
from alphac4 import hub
from alphac4.arena.networks import find_network
from alphac4.checkpoint import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
from alphac4.cli import main
from alphac4.game import make_geometry
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork
from alphac4.training.config import from_dict
from alphac4.training.provenance import load_start

pytest.importorskip("huggingface_hub", reason="needs pip install 'alphac4[hub]'")
BOARD = make_geometry(4, 5, 3)


@pytest.fixture(scope="module")
def network_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The checkpoint of a small network for a small board."""
    path = tmp_path_factory.mktemp("network") / "net.safetensors"
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network = PolicyValueNetwork(NetworkConfig(rows=4, columns=5, channels=4, blocks=1)).eval()
    save_checkpoint(path, Checkpoint(network=network, geometry=BOARD))
    return path.read_bytes()


@pytest.fixture
def requests(network_bytes: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A hub with one repository, a cache that is empty, and what the hub is asked."""
    files = {
        "model.safetensors": network_bytes,
        "other/small.safetensors": network_bytes,
        "bad.safetensors": b"nothing",
    }
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    hub._download.cache_clear()
    with serve_hub({"someone/connect-4.5": files}) as (address, asked):
        monkeypatch.setenv("HF_ENDPOINT", address)
        yield asked
    hub._download.cache_clear()


def test_a_network_of_the_hub_plays_wherever_a_network_is_named(
    requests: list[str],
    network_bytes: bytes,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is the file that was uploaded, downloaded once; commands take it with simulations, as a path, from Python."""
    caplog.set_level(logging.INFO)
    found = find_network("hf://someone/connect-4.5@7,c-init=2")
    assert found is not None
    assert (found.name, found.limit, found.options.config.c_init) == ("someone/connect-4.5", "7", 2)
    assert found.path.read_bytes() == network_bytes
    assert found.geometry == BOARD
    inner = find_network("hf://someone/connect-4.5/other/small.safetensors@7")
    assert inner is not None
    assert inner.name == "someone/connect-4.5/other/small"
    assert load_checkpoint(Path("hf://someone/connect-4.5")).geometry == BOARD  # as commands with a path give it
    assert main(["export", "hf://someone/connect-4.5", "--kaggle", str(tmp_path / "main.py")]) == 0
    assert "HTTP" not in caplog.text  # the library would tell of every request
    assert main(["search", "12", "--player", "hf://someone/connect-4.5@9"]) == 0
    assert "someone/connect-4.5@9" in capsys.readouterr().out
    assert alphac4.load("hf://someone/connect-4.5@8").search("12").simulations == 8
    network = {"channels": 4, "blocks": 2}  # it may grow
    board = {"rows": 4, "columns": 5, "run_length": 3}
    run = from_dict({"start_from": "hf://someone/connect-4.5", "board": board, "network": network})
    assert (start := load_start(run)) is not None
    assert start.facts["checkpoint"] == "hf://someone/connect-4.5"
    assert start.network.config.blocks == 1
    assert len([line for line in requests if line.startswith("GET") and "/model." in line]) == 1


@pytest.mark.usefixtures("requests")
def test_what_was_downloaded_is_used_without_a_connection(
    network_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the hub cannot be reached at all."""
    hub.hub_file("hf://someone/connect-4.5")
    hub._download.cache_clear()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{unused_port()}")
    assert hub.hub_file("hf://someone/connect-4.5").read_bytes() == network_bytes


@pytest.mark.usefixtures("requests")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hf://nobody/nothing", "hf://nobody/nothing: no such repository on the hub"),
        ("hf://someone/connect-4.5/no.safetensors", "has no file 'no.safetensors'"),
        ("hf://someone/connect-4.5/bad.safetensors", "truncated, or no safetensors file"),
        ("hf://someone", "is no network on the hub; write hf://OWNER/NAME"),
        ("hf://some one/n--ame", "no name that the hub has"),
    ],
)
def test_what_the_hub_lacks_is_told_in_one_line(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, for players and for files alike."""
    for arguments in (["search", "12", "--player", f"{name}@5"], ["export", name, "--onnx", "net.onnx"]):
        assert main(arguments) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert words in line


@pytest.mark.usefixtures("requests")
def test_no_connection_and_no_library_are_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what would help."""
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{unused_port()}")
    assert main(["evaluate", "hf://someone/connect-4.5"]) == 2
    assert "no connection to the hub" in capsys.readouterr().err.splitlines()[-1]
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert main(["evaluate", "hf://someone/connect-4.5"]) == 2
    assert "pip install 'alphac4[hub]'" in capsys.readouterr().err.splitlines()[-1]


def unused_port() -> int:
    """A port at which nobody answers."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


@pytest.mark.usefixtures("requests")
def test_a_cache_that_takes_no_files_is_not_called_a_lost_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here it lies below a file; a full disk answers likewise."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(CheckpointError, match="cannot be kept in the hub's cache, which HF_HUB_CACHE names"):
        load_checkpoint(Path("hf://someone/connect-4.5"))
