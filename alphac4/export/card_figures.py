"""The figures of a network's model card: measured here, or read from the report of an evaluation."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from alphac4.compute import choose
from alphac4.evaluation.answers import Answers, judge_moves, make_asker
from alphac4.evaluation.positions import ALL, PositionSet, packaged_positions
from alphac4.evaluation.report import FORMAT
from alphac4.game import Outcome, Position
from alphac4.game.rules import STANDARD
from alphac4.storage.checkpoints import Checkpoint
from alphac4.storage.records import parse_json, read_value

BUDGETS = (0, 100)  # simulations a position, where the figures are measured here: about a minute on two cores


@dataclass(frozen=True, kw_only=True)
class ErrorRate:
    """The share of moves that err in a set, with its 95 % interval."""

    set: str
    positions: int
    simulations: int  # a position; 0 is the raw network
    share: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class KnownError:
    """A position in which the network's move loses a won or drawn game's outcome."""

    position: Position
    column: int  # its move, 0-based
    better: Sequence[int]  # those that keep the outcome, 0-based
    before: Outcome  # with best play, for the side to move
    after: Outcome


@dataclass(frozen=True, kw_only=True)
class CardFigures:
    """What is known of a network's strength, and how."""

    rates: Sequence[ErrorRate]
    errors: Sequence[KnownError]  # in the packaged positions, with the greatest of `BUDGETS`
    asked: int  # positions in which those were looked for
    source: str  # how the rates were found, for a reader


def measure(checkpoint: Checkpoint) -> CardFigures | None:
    """The network's errors in the packaged positions; None on another board than theirs."""
    if checkpoint.geometry != STANDARD:
        return None
    sets, compute = packaged_positions(), choose()
    rates: list[ErrorRate] = []
    errors: list[KnownError] = []
    ask = make_asker(compute, checkpoint.network, checkpoint.geometry)
    for simulations in BUDGETS:
        total, label = sum(map(len, sets)), f"{simulations or 'no'} simulations"
        with tqdm(total=total, desc=label, unit="pos", disable=None, leave=False) as bar:
            answers = ask(sets, simulations, on_batch=bar.update)
        for names, part in [(p.name, slice(i, i + 1)) for i, p in enumerate(sets)] + [(ALL, slice(None))]:
            found = judge_moves(sets[part], answers.columns[part]).error
            rates.append(
                ErrorRate(
                    set=names,
                    positions=found.count,
                    simulations=simulations,
                    share=found.value,
                    low=found.low,
                    high=found.high,
                )
            )
        errors = _errors(sets, answers)
    source = f"Measured by `alphac4 export --hub` on the positions that come with alphac4, by {compute.inference}."
    return CardFigures(rates=rates, errors=errors, asked=sum(map(len, sets)), source=source)


def read_rates(path: Path, checkpoint: Checkpoint, digest: str | None = None) -> list[ErrorRate]:
    """The error rates in a file that `alphac4 evaluate --json` has written.

    Args:
        path: the report.
        checkpoint: the network that it has to be about.
        digest: the SHA-256 of the network's file; reports of former versions do not tell it.

    Raises:
        ValueError: in one line, if it is no such file, or is about another network.
    """
    try:
        report = parse_json(path.read_bytes())
        if not isinstance(report, dict) or report.get("format") != FORMAT:
            raise ValueError("no report of alphac4 evaluate --json")
        subjects = read_value(list[dict[str, Any]], report.get("subjects"), "subjects")
        if not subjects:
            raise ValueError("subjects is empty")
        config = checkpoint.network.config
        shape = f"{config.channels} channels x {config.blocks} blocks"
        described = read_value(str, subjects[0].get("description"), "description")
        if not described.startswith(shape):
            raise ValueError(f"measures {described or 'another player'}, not this network of {shape}")
        measured = subjects[0].get("network")
        if measured and digest and measured != digest:
            raise ValueError("measures the network of another file")
        budgets = read_value(list[dict[str, Any]], subjects[0].get("budgets"), "budgets")
        return [rate for budget in budgets for rate in _read_budget(budget)]
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _read_budget(budget: dict[str, Any]) -> list[ErrorRate]:
    simulations = read_value(int, budget.get("simulations"), "simulations")
    rates = []
    for name, figures in read_value(dict[str, dict[str, Any]], budget.get("sets"), "sets").items():
        found = read_value(dict[str, float], figures.get("moves", {}).get("error"), f"{name}: error")
        if missing := {"value", "low", "high", "count"} - set(found):
            raise ValueError(f"{name}: error has no {min(missing)}")
        rates.append(
            ErrorRate(
                set=name,
                positions=int(found["count"]),
                simulations=simulations,
                share=found["value"],
                low=found["low"],
                high=found["high"],
            )
        )
    return rates


def _errors(sets: Sequence[PositionSet], answers: Answers) -> list[KnownError]:
    found = []
    for part, columns in zip(sets, answers.columns, strict=True):
        rows = np.arange(len(part))
        for row in map(int, np.flatnonzero(part.outcomes[rows, columns] < part.best_outcome)):
            outcomes, best = part.outcomes[row], part.best_outcome[row]
            found.append(
                KnownError(
                    position=part.positions[row],
                    column=int(columns[row]),
                    better=[int(column) for column in np.flatnonzero(outcomes == best)],
                    before=Outcome(int(best)),
                    after=Outcome(int(outcomes[columns[row]])),
                )
            )
    return found
