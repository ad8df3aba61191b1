"""Altered files of every format are rejected in one line that names the file, or are harmless.

A file with a digest is never read as anything but its original content. A file without one, such as a list of positions
written by hand, may be read as the altered text says. `pytest --hypothesis-profile=deep` tries thousands of changes.
"""

import dataclasses
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from release_files import plain

from alphac4.arena.match import MatchResult
from alphac4.arena.tournament import FORMAT as TOURNAMENT_FORMAT
from alphac4.arena.tournament import read_part
from alphac4.evaluation.positions import load_positions
from alphac4.evaluation.walks import KnownMoves, MoveKind, Moves
from alphac4.game.rules import STANDARD, make_board
from alphac4.game.walk import NO_MOVE, stone_counts
from alphac4.runs.costs import CostCounter
from alphac4.runs.reports import read_reports
from alphac4.runs.state import Costs, load_state
from alphac4.selfplay.replay import load_shard
from alphac4.solver.book import KnownScores, load_book, save_book
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.storage.journal import Journal
from alphac4.training.config import load_config

RUN = Path(__file__).parent / "data" / "1.0" / "run"  # as `release_files` wrote it
MAX_SECONDS = 5.0  # CPU time for a file of a few kilobytes
MAX_MEMORY = 3 << 30  # bytes beyond what the process has
NUMBERS = [b"0", b"-1", b"1e999", b"NaN", b"100000", b"4000000000", b"9" * 30, b"9" * 5000, b'"7"', b"null", b"1.5"]
NESTED = [b"[" * depth + b"]" * depth for depth in (100, 990, 100_000)]
TOURNAMENT = {"players": ["a", "b"], "games": 100, "seed": 1}
WALK = {"player": "best@600", "seed": 0}
WALKED = {0: 3, 70: 2, 900: 3}  # columns by key
SMALL_BOARD = make_board(4, 5, 4)


@dataclass(frozen=True)
class Format:
    name: str
    read: Callable[[Path], Any]  # as plain values; a set if its lines are independent
    source: str = ""  # in a run's folder; empty if the fixture writes it
    signed: bool = True  # has a digest


def read_checkpoint(path: Path) -> Any:
    found = load_checkpoint(path)
    facts = (found.board, dict(found.provenance), dict(found.strength), found.network.config)
    return plain([*facts, dict(found.network.state_dict())])


def read_tournament(path: Path) -> Any:
    before = path.read_bytes()
    parts = frozenset(Journal(path, TOURNAMENT_FORMAT, TOURNAMENT).read(read_part))
    assert path.read_bytes() == before or not before.strip(), "opening it writes nothing into a file with content"
    return parts


def read_walk(path: Path) -> Any:
    known, keys = KnownMoves(STANDARD, path, WALK), np.array(sorted(WALKED), np.uint64)
    found = zip(keys, stone_counts(STANDARD, keys).tolist(), strict=True)
    moves = {(int(key), int(known.find(stones, np.array([key]))[0][0])) for key, stones in found}
    return frozenset(move for move in moves if move[1] != NO_MOVE)


def read_costs(path: Path) -> Any:
    return dataclasses.replace(CostCounter(path, Costs()).now(), seconds=0.0)


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
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of each format."""
    folder = tmp_path_factory.mktemp("files")
    for form in FORMATS:
        if form.source:
            shutil.copyfile(next(RUN.glob(form.source)), folder / form.name)
    tournament = Journal(folder / "tournament.jsonl", TOURNAMENT_FORMAT, TOURNAMENT)
    walk = KnownMoves(STANDARD, folder / "walk.jsonl", WALK)
    result = MatchResult(
        player="a", opponent="b", wins=1, draws=1, losses=0, pair_points=(1.5,), games=("1234", "4321")
    )
    for part in range(5):
        tournament.add({"part": part, **dataclasses.asdict(result)})
    for key, column in WALKED.items():
        walk.add([Moves.of_kind(MoveKind.ANSWER, np.array([key], np.uint64), np.array([column]))])
    book = KnownScores(np.arange(3, 90, 3, dtype=np.uint64), np.arange(29, dtype=np.int8), 4)
    save_book(folder / "board.book", SMALL_BOARD, book)
    (folder / "positions.columns").write_text("4455 1 2 3 -4 5 6 7\n444444 -1 0 1 . 2 3 4\n")
    return folder


@pytest.fixture(scope="module", autouse=True)
def _little_memory() -> Iterator[None]:
    """Limit the memory that this process may take."""
    resource = pytest.importorskip("resource", reason="needs a system that limits a process's memory")
    before = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MAX_MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@st.composite
def altered(draw: st.DrawFn, content: bytes) -> bytes:
    """Change the content up to three times: bits, bytes, lengths, lines, huge numbers, deep nesting."""
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
            new.append(st.sampled_from([content[slice(*span)] for span in lines[:50]]))
        if old:
            new.append(st.sampled_from([bytes([old[0] ^ 1 << bit]) + old[1:] for bit in range(8)]))
        content = content[:start] + draw(st.one_of(new)) + content[stop:]
    return content


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_an_altered_file_is_rejected_in_one_line_or_harmless(form: Format, files: Path) -> None:
    path = files / form.name
    content, expected = path.read_bytes(), form.read(path)

    @given(altered(content))
    def check(changed: bytes) -> None:
        path.write_bytes(changed)
        started = time.process_time()
        try:
            read = form.read(path)
        except (ValueError, OSError) as error:  # which commands print as one line
            message = str(error)
            assert "\n" not in message
            assert path.name in message
            assert len(message) <= 500
        else:
            is_harmless = read == expected or (isinstance(read, frozenset) and read <= expected)
            assert is_harmless or not form.signed
        assert time.process_time() - started < MAX_SECONDS

    check()
