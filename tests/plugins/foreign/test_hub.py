"""Networks on the Hugging Face hub."""

import contextlib
import hashlib
import http.server
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import as_if_trained

import alphac4
from alphac4.arena.registry import find_network
from alphac4.game import make_board
from alphac4.plugins.foreign import hub
from alphac4.runs.costs import load_initial_network
from alphac4.storage.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from alphac4.storage.networks import check_network
from alphac4.training.config import from_dict

huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs ./scripts/setup.sh hub")

SIZES = {"rows": 4, "columns": 5, "run_length": 3}
BOARD = make_board(**SIZES)
NAME = "hf://someone/connect-4.5"


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers HEAD and GET of /OWNER/NAME/resolve/REVISION/FILE as the hub does for downloads."""

    def answer(self) -> None:
        server: Any = self.server
        server.requests.append(f"{self.command} {self.path}")
        repository, _, file = self.path.lstrip("/").partition("/resolve/")
        known = f"hf://{repository}" == NAME
        data = server.files.get(file.partition("/")[2]) if known else None
        self.send_response(404 if data is None else 200)
        if known:
            self.send_header("X-Repo-Commit", "0123456789abcdef0123456789abcdef01234567")
        if data is None:
            self.send_header("X-Error-Code", "EntryNotFound" if known else "RepoNotFound")
        else:
            self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        if data is not None and self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET = answer  # noqa: N815 - the base class's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log nothing."""


@pytest.fixture(scope="module")
def network_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    config = from_dict({"board": SIZES, "network": {"channels": 4, "blocks": 1}}).network_config()
    path = tmp_path_factory.mktemp("hub") / "model.safetensors"
    save_checkpoint(path, Checkpoint(network=as_if_trained(config), board=BOARD))
    return path.read_bytes()


@pytest.fixture
def requests(network_bytes: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A hub with one repository, and an empty cache; the value lists the requests."""
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.requests = []
    server.files = {
        hub.NETWORK_FILE: network_bytes,
        "other/small.safetensors": network_bytes,
        "bad.safetensors": b"nothing",
    }
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    hub.hub_file.cache_clear()
    yield server.requests
    hub.hub_file.cache_clear()
    server.shutdown()
    server.server_close()
    thread.join()


@contextlib.contextmanager
def no_connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the hub's address to a port on which no program listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{bound.getsockname()[1]}")
        yield


def test_a_hub_network_is_accepted_wherever_a_network_is_named(
    requests: list[str], network_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is downloaded once, for players, paths of commands, Python, and the start of a run."""
    outer = find_network(f"{NAME}@7,c-init=2")
    assert outer is not None
    assert (outer.name, outer.limit, outer.selection.c_init) == ("someone/connect-4.5", "7", 2)
    assert outer.path.read_bytes() == network_bytes
    inner = find_network(f"{NAME}/other/small.safetensors@7")
    assert inner is not None
    assert inner.name == "someone/connect-4.5/other/small"
    assert load_checkpoint(Path(NAME)).board == BOARD  # as a path
    check_network(Path(NAME).as_posix())
    assert alphac4.load(f"{NAME}@8").search("12").simulations == 8
    larger = {"channels": 4, "blocks": 2}
    start = load_initial_network(from_dict({"start_from": NAME, "board": SIZES, "network": larger}))
    assert start is not None
    assert start[1]["checkpoint"] == NAME
    assert len([line for line in requests if line.startswith("GET") and "/model." in line]) == 1
    hub.hub_file.cache_clear()
    with no_connection(monkeypatch):
        assert hub.hub_file(NAME.removeprefix("hf://")).read_bytes() == network_bytes


@pytest.mark.usefixtures("requests")
def test_errors_of_the_hub_are_reported_in_one_line(
    tmp_path: Path, error_line: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, words in (
        ("hf://nobody/nothing", "hf://nobody/nothing: cannot download model.safetensors: 404"),
        (f"{NAME}/no.safetensors", "cannot download no.safetensors: 404"),
        (f"{NAME}/bad.safetensors", "truncated, or not a safetensors file"),
        ("hf://someone", "is not a network on the hub; write hf://OWNER/NAME"),
    ):
        assert words in error_line(f"search 12 --player {name}@5")
    (tmp_path / "file").touch()
    with monkeypatch.context() as patch:  # a full disk raises a similar error
        patch.setenv("HF_HUB_CACHE", str(tmp_path / "file" / "below"))
        assert f"Not a directory: '{tmp_path / 'file' / 'below'}" in error_line(f"search 12 --player {NAME}@5")
    with no_connection(monkeypatch):
        assert "Connection refused" in error_line(f"search 12 --player {NAME}/elsewhere.safetensors@5")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "./scripts/setup.sh hub" in error_line(f"search 12 --player {NAME}@5")
