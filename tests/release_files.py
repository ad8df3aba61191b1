"""Files of each kind as released versions wrote them. Later versions read them with the same content.

Before each release, write those of its version and commit them; do not change those of earlier versions:

    python tests/release_files.py
"""

import dataclasses
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from campaigns.tiny_run import tiny_run

import alphac4
from alphac4.arena.tournament import FORMAT as TOURNAMENT
from alphac4.arena.tournament import read_part
from alphac4.cli import main as alphac4_command
from alphac4.evaluation.positions import load_positions
from alphac4.evaluation.walks import FORMAT as WALK
from alphac4.evaluation.walks import unpack_moves
from alphac4.game.rules import STANDARD
from alphac4.runs.costs import CostCounter
from alphac4.runs.state import Costs, load_state
from alphac4.selfplay.replay import load_shard
from alphac4.solver.book import KnownScores, load_book, save_book
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.storage.journal import Journal, read_about
from alphac4.training.config import load_config

TESTS = Path(__file__).resolve().parent
CONTENT = "content.json"  # beside the files of a version: what each of them holds
POSITIONS = ["", "4455", "11223"]
ARENA = "arena random uct:2 --games 4 --processes 1 --output"
AUDIT = "audit negamax:1 --max-stones 1 --output"


def written_folders() -> list[Path]:
    """Return the folders of all versions: those of the core, and those of each plugin that has files of its own."""
    return sorted(path.parent for path in TESTS.rglob(f"data/*/{CONTENT}"))


def write_all(tests: Path = TESTS) -> None:
    """Write the files of this version and their content; then replace those that exist."""
    version = ".".join(alphac4.__version__.split(".")[:2])
    for part, write in WRITERS.items():
        folder = tests / part / "data" / version
        with tempfile.TemporaryDirectory() as name:
            new = Path(name) / version
            new.mkdir()
            write(new)
            for lock in new.rglob("*.lock"):
                lock.unlink()
            files = (path for path in sorted(new.rglob("*")) if path.is_file())
            content = {path.relative_to(new).as_posix(): read(path) for path in files}
            (new / CONTENT).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(new, folder)


def read(path: Path) -> Any:
    """Return the content of a file as plain values of JSON, by the reader of its kind."""
    reader = next(reader for pattern, reader in READERS.items() if re.search(pattern, path.as_posix()))
    return json.loads(json.dumps(plain(reader(path))))


def differences(expected: Any, actual: Any, name: str = "") -> Iterator[str]:
    """Yield the parts of the expected content that a file lacks. Later versions may add entries to an object."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key, value in expected.items():
            yield from differences(value, actual.get(key), f"{name}.{key}")
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, values in enumerate(zip(expected, actual, strict=True)):
            yield from differences(*values, f"{name}[{index}]")
    elif isinstance(expected, float) and isinstance(actual, int | float):
        if abs(expected - actual) > 1e-4 * max(1.0, abs(expected)):
            yield f"{name} is {actual}, not {expected}"
    elif expected != actual:
        yield f"{name} is {actual!r:.200}, not {expected!r:.200}"


def run(line: str, *words: object) -> None:
    """Run a command of alphac4, which must succeed."""
    if alphac4_command([*line.split(), *map(str, words)]) != 0:
        raise RuntimeError(f"alphac4 {line} failed")


def _write_core(folder: Path) -> None:
    settings = dataclasses.asdict(tiny_run(iterations=2))
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    run("train --run", folder / "run", "--settings", folder / "settings.json")
    (folder / "settings.json").unlink()  # its form is that of config.json
    shutil.rmtree(folder / "run" / "tensorboard")
    run(ARENA, folder / "tournament.jsonl")
    run(AUDIT, folder / "audit.jsonl")
    sample = (TESTS / "core" / "data" / "solver_sample.columns").read_text(encoding="utf-8").splitlines()
    (folder / "sample.columns").write_text("\n".join(sample[-3:]) + "\n", encoding="utf-8")
    book = KnownScores(np.arange(3, 30, 3, dtype=np.uint64), np.arange(9, dtype=np.int8), 4)
    save_book(folder / "small.book", STANDARD, book)


def _write_certificate(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as walk:
        run("certificate build --player quick@20 --backend torch-fp32 --moves 3344 --output", walk)
        shutil.copy(Path(walk) / "best.certificate", folder / "after-3344.certificate")


def _write_onnx(folder: Path) -> None:
    run("export", TESTS / "core" / "data" / folder.name / BEST, "--onnx", folder / "network.onnx")


def _read_checkpoint(path: Path) -> Any:
    checkpoint = load_checkpoint(path)
    return {
        "provenance": dict(checkpoint.provenance),
        "strength": dict(checkpoint.strength),
        "evaluations": _evaluations(path, backend="torch-fp32"),
    }


def _evaluations(path: Path, **options: Any) -> list[Any]:
    """Return a network's policy and value in a few positions."""
    agent = alphac4.load(path, **options)
    found = [agent.search(position, simulations=0) for position in POSITIONS]
    return [[[column.prior for column in result.columns.values()], result.value] for result in found]


def _read_journal(path: Path, kind: str, parse: Callable[[dict[str, Any]], Any]) -> Any:
    about = read_about(path, kind) or {}
    return {"about": about, "entries": list(Journal(path, kind, about).read(parse))}


def _read_positions(path: Path) -> Any:
    found = load_positions(path)
    return {"positions": [position.moves for position in found.positions], "scores": found.scores.tolist()}


def _read_certificate(path: Path) -> Any:
    from alphac4.plugins.certificates.file import read_certificate, walk_certificate

    certificate = read_certificate(path)
    claim = certificate.claim
    return {
        "claim": [claim.side, claim.after, claim.result],
        "columns": certificate.columns.tolist(),
        "positions": sum(len(level.keys) for level in walk_certificate(certificate)),
        "about": dict(certificate.about),
    }


def plain(value: Any) -> Any:
    """Convert records to objects, and arrays to their types, shapes and digests."""
    if isinstance(value, torch.Tensor | np.ndarray):
        array = np.asarray(value)
        return [array.dtype.name, list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


BEST = "run/checkpoints/best.safetensors"
WRITERS = {"core": _write_core, "plugins/certificates": _write_certificate, "plugins/foreign": _write_onnx}
READERS: dict[str, Callable[[Path], Any]] = {  # by a pattern of the path
    r"checkpoints/.*\.safetensors$": _read_checkpoint,
    r"replay/.*\.safetensors$": lambda path: load_shard(path).arrays(),
    r"state\.safetensors$": load_state,
    r"config\.json$": load_config,
    r"costs\.json$": lambda path: dataclasses.replace(CostCounter(path, Costs()).now(), seconds=0.0),
    r"reports\.jsonl$": alphac4.read_reports,
    r"tournament\.jsonl$": lambda path: _read_journal(path, TOURNAMENT, read_part),
    r"audit\.jsonl$": lambda path: _read_journal(path, WALK, lambda entry: unpack_moves(entry, STANDARD)),
    r"\.columns$": _read_positions,
    r"\.book$": lambda path: load_book(path, STANDARD),
    r"\.certificate$": _read_certificate,
    r"\.onnx$": _evaluations,
}

if __name__ == "__main__":
    write_all()
    subprocess.run(["du", "-ab", *written_folders()], check=False, stdout=sys.stderr)
