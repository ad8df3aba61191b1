"""Altered files of every format: refused in one line that names the file, or harmless, in bounded time and memory.

``PYTHONPATH=tests python -m campaigns.mutations --count 20000``

A format with digests must never give anything that was not in the file. One without, such as a list of positions that
people write by hand, may give what the altered text says, if that is possible at all.
"""

import dataclasses
import json
import logging
import re
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from alphac4.arena.match import MatchResult
from alphac4.arena.record import TournamentRecord
from alphac4.array_files import load_arrays, save_arrays
from alphac4.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from alphac4.evaluation.positions import load_positions
from alphac4.evaluation.proof import CONTINUES, MoveRecord
from alphac4.game import Position
from alphac4.game.rules import STANDARD, make_geometry
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork
from alphac4.play.session import Session
from alphac4.selfplay.shards import Samples, load_shard, save_shard
from alphac4.solver.book import load_book, save_book
from alphac4.solver.exact import KnownScores
from alphac4.training.config import load_config, to_dict
from alphac4.training.costs import CostJournal, Costs
from alphac4.training.reports import IterationReport, LearningReport, MatchReport, SelfPlayReport, read_reports
from alphac4.training.run_state import RunState, load_state, save_state
from alphac4.training.schedule import Schedule
from campaigns.command import run_campaign
from campaigns.tiny_run import tiny_run

SECONDS = 5.0  # of processor time that no file of a few kilobytes may take
MEMORY = 3 << 30  # bytes that this process may take beyond what it has


@dataclass(frozen=True, kw_only=True)
class Format:
    """A kind of file: how one is made, read, and compared with what it held."""

    name: str
    make: Callable[[Path], object]
    read: Callable[[Path], Any]  # what a reader gets, as plain values; a set if each of its lines stands alone
    signed: bool = True  # nothing but what was in it may be read


@dataclass(kw_only=True)
class Tally:
    """The results with the altered files."""

    files: int = 0
    refused: int = 0
    harmless: int = 0  # read as before, or with lines left out
    plausible: int = 0  # read as another file of a format without digests
    slowest: float = 0.0
    failures: list[str] = field(default_factory=list)


def main() -> int:
    """Parse, attack, print one line."""
    return run_campaign(attack, describe, about=__doc__, count=20000)


def describe(tally: Tally) -> str:
    """What was found, in a line."""
    return (
        f"mutations: {tally.files} altered files of {len(FORMATS)} formats: {tally.refused} refused, "
        f"{tally.harmless} harmless, {tally.plausible} another file of a format without digests, slowest "
        f"{tally.slowest:.2f} s"
    )


def attack(folder: Path, count: int, seed: int) -> Tally:
    """Alter and read ``count`` files."""
    logging.disable(logging.CRITICAL)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, limits[1]))
    tally = Tally()
    try:
        for kind, form in enumerate(FORMATS):
            path = folder / form.name
            path.parent.mkdir(parents=True, exist_ok=True)
            form.make(path)
            content, expected = path.read_bytes(), form.read(path)
            rng = np.random.default_rng([seed, kind])
            for _ in range(-(-count // len(FORMATS))):
                altered, how = mutate(content, rng)
                if altered != content:
                    path.write_bytes(altered)
                    _judge(form, path, expected, how, tally)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        logging.disable(logging.NOTSET)
    return tally


def _judge(form: Format, path: Path, expected: Any, how: str, tally: Tally) -> None:
    tally.files += 1
    problem, started = "", time.process_time()
    try:
        found = form.read(path)
    except (ValueError, OSError) as error:  # what commands print in one line
        tally.refused += 1
        if "\n" in str(error) or path.name not in str(error) or len(str(error)) > 500:
            problem = f"{type(error).__name__}: {error}"
    except BaseException as error:
        problem = f"{type(error).__name__}: {error}"
    else:
        if found == expected or (isinstance(found, frozenset) and found <= expected):
            tally.harmless += 1
        elif form.signed:
            problem = "accepted"
        else:
            tally.plausible += 1
    spent = time.process_time() - started
    tally.slowest = max(tally.slowest, spent)
    if spent > SECONDS:
        problem = problem or f"took {spent:.1f} s"
    if problem:
        tally.failures.append(f"{form.name} ({how}): {problem[:300]}")


def mutate(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Another content, and how it came about."""
    kinds = [_flip, _overwrite, _cut, _insert, _remove, _repeat, _zero, _enlarge_number, _nest, _swap_lines]
    how = kinds[int(rng.integers(len(kinds)))]
    for _ in range(int(rng.integers(1, 4))):
        content = how(content, rng)
    return content, how.__name__.strip("_")


def _place(content: bytes, rng: np.random.Generator) -> int:
    """A place in a file, often near its beginning, where sizes and types are."""
    end = len(content) if rng.random() < 0.6 else min(len(content), 2000)
    return int(rng.integers(max(end, 1)))


def _flip(content: bytes, rng: np.random.Generator) -> bytes:
    place = _place(content, rng)
    if not content:
        return content
    return content[:place] + bytes([content[place] ^ (1 << int(rng.integers(8)))]) + content[place + 1 :]


def _overwrite(content: bytes, rng: np.random.Generator) -> bytes:
    place, length = _place(content, rng), int(rng.integers(1, 16))
    return content[:place] + rng.bytes(length) + content[place + length :]


def _cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: _place(content, rng)]


def _insert(content: bytes, rng: np.random.Generator) -> bytes:
    place = _place(content, rng)
    return content[:place] + rng.bytes(int(rng.integers(1, 40))) + content[place:]


def _remove(content: bytes, rng: np.random.Generator) -> bytes:
    place = _place(content, rng)
    return content[:place] + content[place + int(rng.integers(1, 60)) :]


def _repeat(content: bytes, rng: np.random.Generator) -> bytes:
    place, length = _place(content, rng), int(rng.integers(1, 60))
    return content[:place] + content[place : place + length] + content[place:]


def _zero(content: bytes, rng: np.random.Generator) -> bytes:
    place, length = _place(content, rng), int(rng.integers(1, 400))
    return content[:place] + bytes(len(content[place : place + length])) + content[place + length :]


def _enlarge_number(content: bytes, rng: np.random.Generator) -> bytes:
    numbers = list(re.finditer(rb"\d+", content[:20_000]))
    if not numbers:
        return content
    found = numbers[int(rng.integers(len(numbers)))]
    options = [b"0", b"-1", b"1e999", b"NaN", b"100000", b"4000000000", b"9" * 30, b"9" * 5000, b'"7"', b"null", b"1.5"]
    return content[: found.start()] + options[int(rng.integers(len(options)))] + content[found.end() :]


def _nest(content: bytes, rng: np.random.Generator) -> bytes:
    place, depth = _place(content, rng), int(rng.choice([100, 990, 100_000]))
    return content[:place] + b"[" * depth + b"]" * depth + content[place:]


def _swap_lines(content: bytes, rng: np.random.Generator) -> bytes:
    lines = content.split(b"\n")
    first, second = (int(rng.integers(len(lines))) for _ in range(2))
    lines[first], lines[second] = lines[second], lines[first]
    return b"\n".join(lines)


# The formats.


def _plain(value: Any) -> Any:
    """Tensors and arrays as bytes, so that everything can be compared."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.contiguous().numpy().tobytes()
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain({item.name: getattr(value, item.name) for item in dataclasses.fields(value)})
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _make_checkpoint(path: Path) -> None:
    network = PolicyValueNetwork(NetworkConfig(channels=2, blocks=1, head_channels=1, value_hidden=2))
    save_checkpoint(path, Checkpoint(network=network, provenance={"iteration": 3}, strength={"elo": 5}))


def _read_checkpoint(path: Path) -> Any:
    checkpoint = load_checkpoint(path)
    facts = (checkpoint.geometry, dict(checkpoint.provenance), dict(checkpoint.strength), checkpoint.network.config)
    return _plain([*facts, dict(checkpoint.network.state_dict())])


def _make_state(path: Path) -> None:
    state = RunState(iteration=3, best_iteration=2, seconds=7.5, schedule=Schedule(start_rate=0.1, end_step=9))
    state.learner = {"network.a": torch.arange(6.0), "steps": torch.tensor(4)}
    state.actors = {"0.trees.own": np.arange(5, dtype=np.uint64), "0.games.full": np.array([True, False])}
    save_state(path, state)


def _samples() -> Samples:
    rng, count = np.random.default_rng(0), 6
    position = Position.from_moves("4455")
    return Samples(
        own=np.full(count, position.own, np.uint64),
        occupied=np.full(count, position.occupied, np.uint64),
        policy=rng.dirichlet(np.ones(7), count).astype(np.float16),
        full=rng.random(count) < 0.5,
        outcome=rng.integers(-1, 2, count).astype(np.int8),
        value=rng.uniform(-1, 1, count).astype(np.float32),
        draw=rng.uniform(0, 0.2, count).astype(np.float32),
        returns=rng.dirichlet(np.ones(3), count).astype(np.float16),
        final_own=np.full(count, position.own, np.uint64),
        final_occupied=np.full(count, position.occupied, np.uint64),
    )


TOURNAMENT = {"players": ["a", "b"], "games": 100, "seed": 1}
RESULT = MatchResult(wins=1, draws=1, losses=0, pair_scores=(1.5,), games=("1234", "4321"))
WALK = {"player": "best@600", "seed": 0}


def _make_tournament(path: Path) -> None:
    path.unlink(missing_ok=True)
    record = TournamentRecord(path, TOURNAMENT)
    for part in range(5):
        record.add(("a", "b"), part, RESULT)


def _make_walk(path: Path) -> None:
    path.unlink(missing_ok=True)
    record = MoveRecord(path, WALK)
    positions = [Position.from_moves(moves) for moves in ("", "4", "44", "123")]
    record.add(positions, [3, 2, 3, 0], [CONTINUES] * 4)


def _report_lines() -> str:
    learning = LearningReport(
        steps=3, policy_loss=1.5, value_loss=1, policy_entropy=1, gradient_norm=1, learning_rate=1, window=5, seconds=2
    )
    numbers = {item.name: 1 for item in dataclasses.fields(SelfPlayReport) if item.type in (int, float, "int", "float")}
    selfplay = SelfPlayReport(
        **numbers,  # type: ignore[arg-type]
        first_moves=[1] * 7,
        openings={"1234": 2},
        value_calibration=[(0.5, 0.25, 3)],
        evaluator="torch-fp32",
        sample_games=[],
    )
    gate = MatchReport(player="a", opponent="b", wins=1, draws=0, losses=1, seconds=1, accepted=True, games=["12"])
    reports = [
        IterationReport(
            iteration=iteration,
            seconds_total=1.0,
            games_total=2,
            samples_total=3,
            evaluations_total=4,
            selfplay=selfplay,
            learning=learning,
            gate=gate,
            matches=[],
            elo=1,
            elo_error=1,
            best_iteration=1,
            memory_mb=5,
            time_shares={"gate": 0.5},
            warnings=["none"],
        )
        for iteration in (1, 2)
    ]
    return "".join(report.to_json() + "\n" for report in reports)


SMALL_BOARD = make_geometry(4, 5, 4)
BOOK = KnownScores(np.arange(3, 90, 3, dtype=np.uint64), np.arange(29, dtype=np.int8), 4)


def _read_costs(path: Path) -> Any:
    nothing = Costs()
    journal = CostJournal(path, nothing)
    costs = dataclasses.replace(journal.now(), seconds=0.0)
    return frozenset() if costs == nothing else frozenset({costs})


def _make_arrays(path: Path) -> None:
    save_arrays(path, {"a": np.arange(9, dtype=np.uint64), "b": np.ones((2, 3), np.float16)}, {"format": "x", "n": "1"})


FORMATS = (
    Format(name="network.safetensors", make=_make_checkpoint, read=_read_checkpoint),
    Format(name="state.safetensors", make=_make_state, read=lambda path: _plain(load_state(path))),
    Format(
        name="000001-000-00000.safetensors",
        make=lambda path: save_shard(path, _samples(), 1),
        read=lambda path: _plain(load_shard(path).arrays()),
    ),
    Format(name="under-way.safetensors", make=_make_arrays, read=lambda path: _plain(load_arrays(path, "x"))),
    Format(name="tournament.jsonl", make=_make_tournament, read=lambda path: _read_tournament(path)),
    Format(name="walk.txt", make=_make_walk, read=lambda path: frozenset(MoveRecord(path, dict(WALK))._moves.items())),
    Format(
        name="reports.jsonl",
        make=lambda path: path.write_text(_report_lines()),
        read=lambda path: frozenset(report.to_json() for report in read_reports(path)),
    ),
    Format(
        name="costs.json",
        make=lambda path: CostJournal(path, Costs(games=5, evaluations=7)).write(),
        read=_read_costs,
    ),
    Format(
        name="board.book",
        make=lambda path: save_book(path, SMALL_BOARD, BOOK),
        read=lambda path: _plain(list(load_book(path, SMALL_BOARD))),
    ),
    Format(
        name="config.json",
        make=lambda path: path.write_text(json.dumps(to_dict(tiny_run()), indent=1)),
        read=load_config,
        signed=False,
    ),
    Format(
        name="positions.columns",
        make=lambda path: path.write_text("4455 1 2 3 -4 5 6 7\n444444 -1 0 1 . 2 3 4\n"),
        read=lambda path: _plain([load_positions(path).scores, [p.moves for p in load_positions(path).positions]]),
        signed=False,
    ),
    Format(
        name="game.txt",
        make=lambda path: path.write_text("44552316\n"),
        read=lambda path: _read_game(path),
        signed=False,
    ),
)


def _read_tournament(path: Path) -> Any:
    before = path.read_bytes()
    record = TournamentRecord(path, TOURNAMENT)
    if path.read_bytes() != before and before.strip():
        raise AssertionError("a file that holds something was written to")
    return frozenset(record.parts.items())


def _read_game(path: Path) -> Any:
    session = Session(geometry=STANDARD)
    try:
        session.load_file(path)
    except ValueError as error:  # its caller names the file
        raise ValueError(f"{path}: {error}") from error
    return session.moves


if __name__ == "__main__":
    raise SystemExit(main())
