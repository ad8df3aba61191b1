"""The strength report as records, from answers to JSON."""

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from alphac4.evaluation.accuracy import Accuracy, ValueAccuracy, judge_moves, judge_values
from alphac4.evaluation.answers import Answers
from alphac4.evaluation.games import PerfectMatchReport
from alphac4.evaluation.positions import PositionSet

FORMAT = "alphac4 strength report 1"
ALL = "all"  # the name of all sets together
UNTRAINED = "untrained"  # the name of the network that has learned nothing


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What one subject did with one budget on one set, or on all."""

    moves: Accuracy
    decisive: Accuracy  # the same where at least one move errs
    value: ValueAccuracy | None  # None for players that tell no value


@dataclass(frozen=True, kw_only=True)
class BudgetReport:
    """What one subject did with one budget."""

    simulations: int | None  # a position; 0 is the raw network, None whatever the player itself does
    sets: dict[str, Figures]  # by name, and `ALL`
    seconds: float  # wall time


@dataclass(frozen=True, kw_only=True)
class SubjectReport:
    """What a network or another player did."""

    name: str
    description: str
    budgets: list[BudgetReport]
    games: PerfectMatchReport | None = None  # against the perfect player, where any were asked for
    network: str | None = None  # the SHA-256 of its file


@dataclass(frozen=True, kw_only=True)
class SetSummary:
    """A set of positions in numbers."""

    name: str
    positions: int
    decisive: int  # where at least one move errs


@dataclass(frozen=True, kw_only=True)
class StrengthReport:
    """Everything that an evaluation found; the first subject is the one asked about."""

    sets: list[SetSummary]
    subjects: list[SubjectReport]

    def to_json(self) -> str:
        """Indented JSON; numbers that do not exist, such as a rate over no positions, are null."""
        return json.dumps(_plain({"format": FORMAT} | dataclasses.asdict(self)), indent=1)


def budget_report(
    sets: Sequence[PositionSet], answers: Answers, simulations: int | None, seconds: float
) -> BudgetReport:
    """The figures of one subject's answers."""
    parts: dict[str, slice] = {part.name: slice(index, index + 1) for index, part in enumerate(sets)}
    parts[ALL] = slice(None)
    return BudgetReport(
        simulations=simulations,
        sets={
            name: Figures(
                moves=judge_moves(sets[part], answers.columns[part]),
                decisive=judge_moves(sets[part], answers.columns[part], decisive=True),
                value=None if answers.values is None else judge_values(sets[part], answers.values[part]),
            )
            for name, part in parts.items()
        },
        seconds=seconds,
    )


def summarise_sets(sets: Sequence[PositionSet]) -> list[SetSummary]:
    """The sets in numbers, and all of them together."""
    rows = [(part.name, len(part), int(part.decisive.sum())) for part in sets]
    total = (ALL, sum(row[1] for row in rows), sum(row[2] for row in rows))
    return [SetSummary(name=name, positions=count, decisive=decisive) for name, count, decisive in [*rows, total]]


def _plain(data: Any) -> Any:
    """The data with NaN, which JSON has no word for, as None."""
    if isinstance(data, dict):
        return {key: _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
