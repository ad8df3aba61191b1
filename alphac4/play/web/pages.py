"""The page: what its scripts are told, and the page as files that any web server can hand out.

In such an export network, search and solver run in the visitor's browser. A review in one file is made from the same
scripts.
"""

import base64
import dataclasses
import functools
import hashlib
import http.client
import io
import json
import re
import shutil
import tarfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from alphac4.certificate.file import CertificateError, read_certificate, shipped_certificates, walk_certificate
from alphac4.certificate.walk import longest_games
from alphac4.export.onnx import export_onnx
from alphac4.game import Geometry
from alphac4.game.rules import STANDARD, board_settings
from alphac4.machine import cache_folder
from alphac4.mcts.config import PuctConfig
from alphac4.play.levels import LEVELS, Level
from alphac4.puzzles import packaged_puzzles
from alphac4.review import Review
from alphac4.solver.book import packaged_book
from alphac4.storage.checkpoints import Checkpoint
from alphac4.storage.files import new_folder, write_atomically

STATIC, LOCAL = (Path(__file__).parent / name for name in ("static", "local"))
SIMULATIONS = 800  # of an analysis in the exported page; a phone makes some hundred a second
REVIEW_SIMULATIONS = 50  # for the network's opinion of each position of a reviewed game
CERTIFIED_STONES = 10  # up to which the exported page has the certificate; beyond, its solver is fast
REVIEW_SCRIPTS = ("dom.js", "rules.js", "board.js", "record.js", "review_file.js")  # each after those that it needs

SPACE = """\
---
title: Connect Four
emoji: 🔴
colorFrom: blue
colorTo: yellow
sdk: static
app_file: index.html
license: mit
short_description: Play a network that taught itself
---

Connect Four against a network that taught itself, with puzzles, reviews and exact play, all in your browser.
"""  # the file by which Hugging Face runs the folder as a Space; https://huggingface.co/docs/hub/spaces-config-reference

RUNTIME_URL = "https://registry.npmjs.org/onnxruntime-web/-/onnxruntime-web-1.30.0.tgz"
RUNTIME_SHA512 = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
RUNTIME_FILES = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")  # the part that runs on any browser's CPU


def page_setup(
    geometry: Geometry, network: str, levels: Sequence[Level], *, simulations: int, exact: bool, review: bool
) -> dict[str, object]:
    """The page's settings: the board, the network's name, the levels, the ``simulations`` of an analysis.

    And whether the ``exact`` solver can be asked, and a ``review``.
    """
    return {
        **board_settings(geometry),
        "levels": [dataclasses.asdict(level) for level in levels],
        "network": network,
        "simulations": simulations,
        "exact": exact,
        "review": review,
        "puzzles": geometry == STANDARD,
    }


def page_puzzles(geometry: Geometry) -> list[tuple[str, int, int, int]]:
    """The package's puzzles: position, 0-based column, moves until the win, difficulty."""
    if geometry != STANDARD:
        return []
    return [(p.moves, p.solution, p.distance, p.difficulty) for p in packaged_puzzles()]


def review_page(reviews: Sequence[Review]) -> str:
    """These games as one HTML file, to be stepped through; it loads nothing, and so works from a file."""
    scripts = "".join((STATIC / name).read_text(encoding="utf-8") for name in REVIEW_SCRIPTS)
    scripts = re.sub(r"^import .*\n", "", scripts, flags=re.MULTILINE)  # they stand in one scope now
    scripts = re.sub(r"^export ", "", scripts, flags=re.MULTILINE)
    # No "<": whatever a player's name holds, it ends neither the script nor the page.
    reviewed = json.dumps([review.to_dict() for review in reviews]).replace("<", "\\u003c")
    parts = {
        "/*STYLE*/": (STATIC / "style.css").read_text(encoding="utf-8"),
        "/*REVIEWS*/": reviewed,
        "/*SCRIPTS*/": scripts,
    }
    page = (STATIC / "review.html").read_text(encoding="utf-8")
    return re.sub("|".join(map(re.escape, parts)), lambda place: parts[place[0]], page)


def export_page(checkpoint: Checkpoint, name: str, folder: Path, runtime: Path | None = None) -> None:
    """Write the page with the network called ``name`` into a folder, as a whole.

    Args:
        checkpoint: the network and its board.
        name: what the page calls it.
        folder: a new one.
        runtime: onnxruntime-web as npm packs it; by default it is downloaded once and kept in the user's cache.

    Raises:
        ValueError: if ``folder`` is there already, or the runtime is not the one expected.
        RuntimeError: if a package is missing.
        OSError: if something cannot be downloaded or written; ``folder`` is then as it was before.
    """
    packed = read_runtime(runtime)
    with new_folder(folder) as new:
        static = new / "static"
        shutil.copytree(STATIC, static, ignore=shutil.ignore_patterns("review.html", "review_file.js"))
        shutil.copytree(LOCAL, static, dirs_exist_ok=True)
        (static / "index.html").rename(new / "index.html")
        (static / "offline.js").rename(new / "offline.js")  # a service worker serves what lies beside and below it
        (static / "onnxruntime").mkdir()
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            for file in RUNTIME_FILES:
                member = archive.extractfile(f"package/dist/{file}")
                assert member is not None
                (static / "onnxruntime" / file).write_bytes(member.read())
        export_onnx(checkpoint, new / "network.onnx")
        data = {
            "puzzles": page_puzzles(checkpoint.geometry),
            "book": book(),
            "certificate": certified(checkpoint.geometry),
            "setup": exported_setup(checkpoint.geometry, name),
        }
        for stem, content in data.items():
            write_atomically(new / f"{stem}.json", json.dumps(content).encode())
        write_offline_worker(new)
        write_atomically(new / "README.md", SPACE.encode())  # not for the worker: only the hub reads it


def exported_setup(geometry: Geometry, name: str) -> dict[str, object]:
    """The exported page's settings, those of its search included. Its solver knows the standard board only."""
    exact = geometry == STANDARD
    levels = [level for level in LEVELS if exact or not level.perfect]
    page = page_setup(geometry, name, levels, simulations=SIMULATIONS, exact=exact, review=exact)
    return page | {"search": PuctConfig()._asdict(), "review_simulations": REVIEW_SIMULATIONS}


def book() -> dict[str, object]:
    """The solver's opening book; its keys are numbers that JavaScript holds exactly."""
    known = packaged_book(STANDARD)
    return {"plies": known.plies, "keys": known.keys.tolist(), "scores": known.scores.tolist()}


@functools.cache
def certified(geometry: Geometry) -> tuple[tuple[int, int, int], ...]:
    """The certificates' positions with few stones: canonical key, 0-based column in that orientation, plies to the win.

    Where the player wins at once the column is -1. There are none on another board than a certificate's, or without
    its file.
    """
    found: list[tuple[int, int, int]] = []
    for path in shipped_certificates():
        try:
            certificate = read_certificate(path)
        except CertificateError:
            continue
        if certificate.claim.geometry != geometry or certificate.claim.result != "win":
            continue
        levels = list(walk_certificate(certificate))
        for level, longest in zip(levels, longest_games(geometry, levels), strict=True):
            if level.stones <= CERTIFIED_STONES:
                found += zip(level.keys.tolist(), level.moves.tolist(), longest.tolist(), strict=True)
    return tuple(found)


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


def read_runtime(path: Path | None) -> bytes:
    """onnxruntime-web as npm packs it: from a file, the cache, or the registry.

    Raises:
        ValueError: if it is not the version expected.
        RuntimeError: if it cannot be downloaded.
        OSError: if the file cannot be read.
    """
    file = path or cache_folder() / Path(RUNTIME_URL).name
    content = file.read_bytes() if path is not None or file.is_file() else b""
    if path is None and not _is_expected(content):
        content = _download(RUNTIME_URL)
        write_atomically(file, content)
    if not _is_expected(content):
        raise ValueError(f"{path or RUNTIME_URL} is not the onnxruntime-web expected ({file.name})")
    return content


def _is_expected(content: bytes) -> bool:
    return base64.b64encode(hashlib.sha512(content).digest()).decode() == RUNTIME_SHA512


def _download(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            content: bytes = response.read()  # raises if it is cut short
            return content
    except (OSError, http.client.HTTPException) as error:  # URLError and TimeoutError are OSErrors
        reason = getattr(error, "reason", error)
        raise RuntimeError(
            f"{url} cannot be downloaded ({str(reason).strip()}); give the file by --web-runtime"
        ) from error
