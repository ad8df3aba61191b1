"""The play page as static files: network, search and solver run in the visitor's browser."""

import base64
import hashlib
import http.client
import io
import json
import shutil
import tarfile
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from alphac4.game import Board
from alphac4.game.rules import STANDARD
from alphac4.machine import CACHE_VARIABLE, cache_folder
from alphac4.mcts.puct import Puct
from alphac4.play.levels import LEVELS
from alphac4.play.proofs import load_proofs
from alphac4.play.registry import Panel, find_panels
from alphac4.play.web.pages import STATIC, index_page, page_setup
from alphac4.plugins.export.onnx import export_onnx
from alphac4.solver.book import packaged_book
from alphac4.storage.checkpoints import Checkpoint
from alphac4.storage.files import new_folder, write_atomically

LOCAL = Path(__file__).parent / "local"  # scripts that only the exported page has, or that replace those of the server
SIMULATIONS = 800  # simulations of an analysis in the exported page; a phone makes hundreds per second
MAX_PROVEN_STONES = 10  # stones of the page's proven positions; with more, the page's solver is fast

SPACE = """\
---
title: Connect Four
emoji: 🔴
colorFrom: blue
colorTo: yellow
sdk: static
app_file: index.html
short_description: Play a network that taught itself
---

Connect Four against a network that taught itself, with exact play, all in your browser.
"""  # README.md of a Hugging Face Space; https://huggingface.co/docs/hub/spaces-config-reference

RUNTIME_URL = "https://registry.npmjs.org/onnxruntime-web/-/onnxruntime-web-1.30.0.tgz"
RUNTIME_SHA512 = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
RUNTIME_FILES = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")  # the part for CPUs


def export_page(checkpoint: Checkpoint, name: str, folder: Path, runtime: bytes) -> None:
    """Write the page with a network into a new folder, which appears only when it is complete.

    ``name`` is the network's name on the page, ``runtime`` the npm package that `read_runtime` returns.
    """
    with new_folder(folder) as new:
        static, panels = new / "static", find_panels(checkpoint.board)
        copy_scripts(panels, static)
        (static / "index.html").unlink()
        write_atomically(new / "index.html", index_page(panels).encode())
        (static / "offline.js").rename(new / "offline.js")  # a service worker serves its own folder
        (static / "onnxruntime").mkdir()
        with tarfile.open(fileobj=io.BytesIO(runtime)) as archive:
            for file in RUNTIME_FILES:
                member = archive.extractfile(f"package/dist/{file}")
                assert member is not None
                (static / "onnxruntime" / file).write_bytes(member.read())
        export_onnx(checkpoint, new / "network.onnx")
        proofs = load_proofs(checkpoint.board)
        data = {
            "book": book(),
            "proofs": proofs.early_wins(MAX_PROVEN_STONES) if proofs else [],
            "setup": exported_setup(checkpoint.board, name, checkpoint.provenance),
        }
        for stem, content in data.items():
            write_atomically(new / f"{stem}.json", json.dumps(content).encode())
        write_offline_worker(new)
        write_atomically(new / "README.md", SPACE.encode())  # after the worker, which need not cache it


def copy_scripts(panels: Sequence[Panel], folder: Path) -> None:
    """Copy the page's files and those of panels to a new folder; files for use without a server replace others."""
    for source in (STATIC, LOCAL):
        shutil.copytree(source, folder, dirs_exist_ok=True)
    for panel in panels:
        for source in filter(None, (panel.folder, panel.offline_folder)):
            shutil.copytree(source, folder / panel.name, dirs_exist_ok=True)


def exported_setup(board: Board, name: str, provenance: Mapping[str, Any]) -> dict[str, object]:
    """Return the exported page's settings, including its search; its solver supports the standard board only."""
    exact = board == STANDARD
    levels = [level for level in LEVELS if exact or not level.perfect]
    page = page_setup(board, name, levels, simulations=SIMULATIONS, exact=exact, provenance=provenance)
    return page | {"search": Puct()._asdict()}


def book() -> dict[str, object]:
    """Return the solver's opening book; JavaScript represents its keys exactly."""
    known = packaged_book(STANDARD)
    return {"plies": known.plies, "keys": known.keys.tolist(), "scores": known.scores.tolist()}


def write_offline_worker(folder: Path) -> None:
    """Add the names of a finished export's files, and a version by their contents, to the service worker."""
    worker = folder / "offline.js"
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    names.remove(worker.name)
    digest = hashlib.sha256()
    for name in names:
        digest.update(name.encode() + b"\0" + hashlib.sha256((folder / name).read_bytes()).digest())
    facts = f"const VERSION = {json.dumps(digest.hexdigest()[:16])}, FILES = {json.dumps(['./', *names])};\n"
    write_atomically(worker, facts.encode() + worker.read_bytes())


def read_runtime(path: Path | None) -> bytes:
    """Return the npm package of onnxruntime-web from a file, the cache, or the registry."""
    file = path or cache_folder() / Path(RUNTIME_URL).name
    content = file.read_bytes() if path is not None or file.is_file() else b""
    if path is None and not _is_expected(content):
        content = _download(RUNTIME_URL)
        try:
            write_atomically(file, content)
        except OSError as error:
            raise RuntimeError(f"{error}: {CACHE_VARIABLE} names another folder for downloads") from error
    if not _is_expected(content):
        raise ValueError(f"{path or RUNTIME_URL} is not the expected onnxruntime-web: use {Path(RUNTIME_URL).name}")
    return content


def _is_expected(content: bytes) -> bool:
    return base64.b64encode(hashlib.sha512(content).digest()).decode() == RUNTIME_SHA512


def _download(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            content: bytes = response.read()  # raises if it is incomplete
            return content
    except (OSError, http.client.HTTPException) as error:  # URLError and TimeoutError are OSErrors
        reason = getattr(error, "reason", error)
        raise RuntimeError(
            f"{url}: cannot be downloaded ({str(reason).strip()}); give the file with --web-runtime"
        ) from error
