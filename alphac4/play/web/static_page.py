"""The page as files that any web server can serve: network and search run in the visitor's browser."""

import base64
import contextlib
import dataclasses
import hashlib
import http.client
import io
import json
import shutil
import tarfile
import urllib.request
from pathlib import Path

from tqdm import tqdm

from alphac4.export.onnx import export_onnx
from alphac4.game import Geometry
from alphac4.game.rules import STANDARD
from alphac4.mcts.puct import PuctConfig
from alphac4.play.levels import LEVELS
from alphac4.play.web.page_setup import page_puzzles, page_setup
from alphac4.solver.book import packaged_book
from alphac4.storage.checkpoints import Checkpoint
from alphac4.storage.files import write_atomically
from alphac4.storage.folders import cache_folder, check_replaceable, foreign_file, place_to_build, put_in_place, seal

WEB = Path(__file__).parent
SIMULATIONS = 800  # of an analysis in the page; a phone makes some hundred a second
REVIEW_SIMULATIONS = 50  # for the network's opinion of each position of a reviewed game

RUNTIME_URL = "https://registry.npmjs.org/onnxruntime-web/-/onnxruntime-web-1.30.0.tgz"
RUNTIME_SHA512 = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
RUNTIME_FILES = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")  # the part that runs on any browser's CPU


def export_page(checkpoint: Checkpoint, name: str, folder: Path, runtime: Path | None = None) -> None:
    """Write the page with the network called ``name``; an earlier export in ``folder`` is replaced as a whole.

    Args:
        checkpoint: the network and its board.
        name: what the page calls it.
        folder: new, empty, or an earlier export.
        runtime: onnxruntime-web as npm packs it; by default it is downloaded once and kept in the user's cache.

    Raises:
        ValueError: if ``folder`` holds something else, or the runtime is not the one expected.
        RuntimeError: if a package is missing.
        OSError: if something cannot be downloaded or written; ``folder`` is then as it was before.
    """
    shown, folder = folder, folder.resolve()  # a link stays, and what it names is replaced
    _check_ours(shown, folder)
    packed = read_runtime(runtime)
    building = place_to_build(folder)
    try:
        shutil.copytree(WEB / "static", building / "static")
        shutil.copytree(WEB / "local", building / "static", dirs_exist_ok=True)
        (building / "static" / "index.html").rename(building / "index.html")
        # At the top, as a service worker serves what lies beside and below it.
        (building / "static" / "offline.js").rename(building / "offline.js")
        unpack_runtime(packed, building / "static" / "onnxruntime")
        export_onnx(checkpoint, building / "network.onnx")
        puzzles = page_puzzles(checkpoint.geometry)
        write_atomically(building / "puzzles.json", json.dumps(puzzles).encode())
        write_atomically(building / "book.json", json.dumps(book()).encode())
        write_atomically(building / "setup.json", json.dumps(setup(checkpoint.geometry, name), indent=1).encode())
        write_offline_worker(building)
        seal(building)
        _check_ours(shown, folder, building)
        put_in_place(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def write_offline_worker(folder: Path) -> None:
    """Tell the page's service worker which files a finished export holds, and a name for just these contents."""
    worker = folder / "offline.js"
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    names.remove(worker.name)
    digest = hashlib.sha256()
    for name in names:
        digest.update(name.encode() + b"\0" + hashlib.sha256((folder / name).read_bytes()).digest())
    facts = f"const VERSION = {json.dumps(digest.hexdigest()[:16])}, FILES = {json.dumps(['./', *names])};\n"
    write_atomically(worker, facts.encode() + worker.read_bytes())


def _check_ours(shown: Path, folder: Path, building: Path | None = None) -> None:
    """Raise a ValueError if a folder holds what this program did not write, as far as that can be known so early.

    The same for the current folder.
    """
    check_replaceable(shown)
    if not folder.exists():
        return
    foreign = foreign_file(folder, building) if building or not (folder / "setup.json").is_file() else ""
    if foreign:
        raise ValueError(f"{shown} holds {foreign}, which this program did not write: choose a new folder")


def setup(geometry: Geometry, name: str) -> dict[str, object]:
    """What the page gets, with the settings of its search. Its solver knows the standard board only."""
    exact = geometry == STANDARD
    levels = [level for level in LEVELS if exact or not level.perfect]
    page = page_setup(geometry, name, levels, simulations=SIMULATIONS, exact=exact, review=exact)
    return page | {"search": dataclasses.asdict(PuctConfig()), "review_simulations": REVIEW_SIMULATIONS}


def book() -> dict[str, object]:
    """The solver's opening book; its keys are numbers that JavaScript holds exactly."""
    known = packaged_book(STANDARD)
    return {"plies": known.plies, "keys": known.keys.tolist(), "scores": known.scores.tolist()}


def read_runtime(path: Path | None) -> bytes:
    """onnxruntime-web as npm packs it: from a file, the cache, or the registry.

    Raises:
        ValueError: if it is not the version expected.
        RuntimeError: if it cannot be downloaded.
        OSError: if the file cannot be read.
    """
    name = Path(RUNTIME_URL).name
    if path is None:
        with contextlib.suppress(OSError, RuntimeError):  # nothing there, an unreadable folder, or no home
            content = (cache_folder() / name).read_bytes()
            if _is_expected(content):
                return content
    content = path.read_bytes() if path is not None else _download(RUNTIME_URL)
    if not _is_expected(content):
        raise ValueError(f"{path or RUNTIME_URL} is not the onnxruntime-web expected ({name})")
    if path is None:
        with contextlib.suppress(OSError, RuntimeError):  # without a place to keep it, it is downloaded again
            write_atomically(cache_folder() / name, content)
    return content


def unpack_runtime(packed: bytes, folder: Path) -> None:
    """Write the files that the page needs, with their licence."""
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for name in RUNTIME_FILES:
            member = archive.extractfile(f"package/dist/{name}")
            assert member is not None
            (folder / name).write_bytes(member.read())


def _is_expected(content: bytes) -> bool:
    return base64.b64encode(hashlib.sha512(content).digest()).decode() == RUNTIME_SHA512


def _download(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            size = int(response.headers.get("Content-Length") or 0)
            content = b""
            with tqdm(total=size, desc="onnxruntime-web", unit="B", unit_scale=True, disable=None, leave=False) as bar:
                while part := response.read(1 << 20):
                    content += part
                    bar.update(len(part))
            if len(content) < size:
                raise OSError(f"cut short after {len(content):,} of {size:,} bytes")
            return content
    except (OSError, http.client.HTTPException) as error:  # URLError and TimeoutError are OSErrors
        reason = getattr(error, "reason", error)
        raise RuntimeError(
            f"{url} cannot be downloaded ({str(reason).strip()}); give the file by --web-runtime"
        ) from error
