"""Altered files of every format: refused in one line that names the file, or harmless, in bounded time and memory.

A format with digests must never give anything that was not in the file. One without, such as a list of positions that
people write by hand, may give what the altered text says, if that is possible at all.
"""

import dataclasses
import logging
import re
import resource
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from hypothesis import strategies as st

from alphac4.arena.match import MatchResult
from alphac4.arena.tournament import FORMAT as TOURNAMENT_FORMAT
from alphac4.arena.tournament import read_part
from alphac4.certificate.walk import ASK, stones_of
from alphac4.evaluation.positions import load_positions
from alphac4.evaluation.walks import KnownMoves, MoveKind, Moves
from alphac4.game.rules import STANDARD, make_geometry
from alphac4.play.games import Session
from alphac4.runs.costs import CostCounter
from alphac4.runs.reports import read_reports
from alphac4.runs.state import Costs, load_state
from alphac4.runs.tensorboard import Monitor
from alphac4.selfplay.replay import load_shard
from alphac4.solver.book import KnownScores, load_book, save_book
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.storage.journal import Journal
from alphac4.training.config import load_config
from campaigns.command import Findings, fuzz
from campaigns.tiny_run import tiny_run, train

MAX_SECONDS = 5.0  # of processor time that no file of a few kilobytes may take
MAX_MEMORY = 3 << 30  # bytes that this process may take beyond what it has
NUMBERS = [b"0", b"-1", b"1e999", b"NaN", b"100000", b"4000000000", b"9" * 30, b"9" * 5000, b'"7"', b"null", b"1.5"]
NESTED = [b"[" * depth + b"]" * depth for depth in (100, 990, 100_000)]

TOURNAMENT = {"players": ["a", "b"], "games": 100, "seed": 1}
WALK = {"player": "best@600", "seed": 0}
WALKED = {0: 3, 70: 2, 900: 3}  # columns by the keys of positions
SMALL_BOARD = make_geometry(4, 5, 4)


@dataclass(frozen=True)
class Format:
    """A kind of file."""

    name: str
    read: Callable[[Path], Any]  # as plain values; a set if each of its lines stands alone
    source: str = ""  # in a run's folder; empty if `make_files` makes it
    signed: bool = True  # nothing but what was in it may be read


def attack(folder: Path, count: int, seed: int) -> Findings:
    """Alter and read ``count`` files."""
    found = Findings()
    make_files(folder)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (taken + MAX_MEMORY, limits[1]))
    try:
        for form in FORMATS:
            path = folder / form.name
            judge = partial(judged, form, path, form.read(path))
            fuzz(altered(path.read_bytes()), judge, -(-count // len(FORMATS)), seed, found)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        logging.disable(logging.NOTSET)
    return found


def judged(form: Format, path: Path, expected: object, changed: bytes) -> str:
    """Read an altered file, and judge what comes of it."""
    path.write_bytes(changed)
    started = time.process_time()
    try:
        read = form.read(path)
    except (ValueError, OSError) as error:  # what commands print in one line
        said, kind = str(error), "refused"
        assert "\n" not in said, f"{form.name}: {said}"
        assert path.name in said, f"{form.name}: {said}"
        assert len(said) <= 500, f"{form.name}: {said}"
    else:
        harmless = read == expected or (isinstance(read, frozenset) and read <= expected)
        assert harmless or not form.signed, f"{form.name}: accepted"
        kind = "harmless" if harmless else "another file of a format without digests"
    assert time.process_time() - started < MAX_SECONDS, f"{form.name}: slow"
    return kind


@st.composite
def altered(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with up to three changes: bits, bytes, lengths, lines, huge numbers, deep nesting."""
    for _ in range(draw(st.integers(1, 3))):
        lines = [found.span() for found in re.finditer(rb"[^\n]+\n?", content[:20_000])]
        numbers = [found.span() for found in re.finditer(rb"\d+", content[:20_000])]
        starts = st.integers(0, min(len(content), 2000)) | st.integers(0, len(content))  # sizes and types come first
        lengths = st.sampled_from([0, 1, 1]) | st.integers(0, 60) | st.sampled_from([400, len(content)])
        spans = [st.tuples(starts, lengths).map(lambda span: (span[0], span[0] + span[1]))]
        start, stop = draw(st.one_of(spans + [st.sampled_from(some) for some in (numbers, lines) if some]))
        old = content[start:stop]
        new = [st.binary(max_size=40), st.sampled_from([b"", old + old, bytes(len(old)), *NESTED])]
        if (start, stop) in numbers:
            new.append(st.sampled_from(NUMBERS))
        if (start, stop) in lines:
            new.append(st.sampled_from(lines).map(lambda span, content=content: content[slice(*span)]))  # type: ignore[misc]
        if old:
            new.append(st.integers(0, 7).map(lambda bit, old=old: bytes([old[0] ^ 1 << bit]) + old[1:]))  # type: ignore[misc]
        content = content[:start] + draw(st.one_of(new)) + content[stop:]
    return content


def make_files(folder: Path) -> None:
    """A file of each format."""
    no_pictures = mock.patch.object(Monitor, "_figures", return_value={})  # seconds of drawing
    with no_pictures:
        train(folder / "run", tiny_run(iterations=1))
    for form in FORMATS:
        if form.source:
            shutil.copyfile(next((folder / "run").glob(form.source)), folder / form.name)
    tournament = Journal(folder / "tournament.jsonl", TOURNAMENT_FORMAT, TOURNAMENT)
    walk = KnownMoves(STANDARD, folder / "walk.jsonl", WALK)
    for part in range(5):
        result = MatchResult(wins=1, draws=1, losses=0, pair_scores=(1.5,), games=("1234", "4321"))
        tournament.add({"players": ("a", "b"), "part": part, **dataclasses.asdict(result)})
    for key, column in WALKED.items():
        walk.add([Moves.of_kind(MoveKind.ANSWER, np.array([key], np.uint64), np.array([column]))])
    book = KnownScores(np.arange(3, 90, 3, dtype=np.uint64), np.arange(29, dtype=np.int8), 4)
    save_book(folder / "board.book", SMALL_BOARD, book)
    (folder / "positions.columns").write_text("4455 1 2 3 -4 5 6 7\n444444 -1 0 1 . 2 3 4\n")
    (folder / "game.txt").write_text("44552316\n")


def plain(value: Any) -> Any:
    """Tensors and arrays as bytes, so that everything can be compared."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return str(value.dtype), tuple(value.shape), np.asarray(value).tobytes()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({item.name: getattr(value, item.name) for item in dataclasses.fields(value)})
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def read_checkpoint(path: Path) -> Any:
    """The contents of a checkpoint."""
    found = load_checkpoint(path)
    facts = (found.geometry, dict(found.provenance), dict(found.strength), found.network.config)
    return plain([*facts, dict(found.network.state_dict())])


def read_tournament(path: Path) -> Any:
    """The parts of a tournament; whoever opens it writes nothing into a file that holds something."""
    before = path.read_bytes()
    parts = frozenset(Journal(path, TOURNAMENT_FORMAT, TOURNAMENT).read(read_part))
    assert path.read_bytes() == before or not before.strip(), "a file that holds something was written to"
    return parts


def read_walk(path: Path) -> Any:
    """The moves of a walk."""
    known, keys = KnownMoves(STANDARD, path, WALK), np.array(sorted(WALKED), np.uint64)
    found = zip(keys, stones_of(STANDARD, keys).tolist(), strict=True)
    moves = {(int(key), int(known.find(stones, np.array([key]))[0][0])) for key, stones in found}
    return frozenset(move for move in moves if move[1] != ASK)


def read_costs(path: Path) -> Any:
    """The costs of a run, unless they begin anew."""
    costs = dataclasses.replace(CostCounter(path, Costs()).now(), seconds=0.0)
    return frozenset() if costs == Costs() else frozenset({costs})


def read_game(path: Path) -> Any:
    """The moves of a game."""
    session = Session(geometry=STANDARD)
    session.open(str(path))
    return session.moves


FORMATS = (
    Format("network.safetensors", read_checkpoint, "checkpoints/best.safetensors"),
    Format("state.safetensors", lambda path: plain(load_state(path)), "state.safetensors"),
    Format("000001.safetensors", lambda path: plain(load_shard(path).arrays()), "replay/*.safetensors"),
    Format("reports.jsonl", lambda path: frozenset(map(repr, read_reports(path))), "reports.jsonl", signed=False),
    Format("costs.json", read_costs, "costs.json", signed=False),
    Format("config.json", load_config, "config.json", signed=False),
    Format("tournament.jsonl", read_tournament, signed=False),
    Format("walk.jsonl", read_walk),
    Format("board.book", lambda path: plain(list(load_book(path, SMALL_BOARD)))),
    Format("positions.columns", lambda path: plain(vars(load_positions(path))), signed=False),
    Format("game.txt", read_game, signed=False),
)
