"""The strength report: from answers to records, as JSON and as tables for the terminal."""

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from alphac4.arena.ratings import Z95
from alphac4.evaluation.answers import Estimate, Figures
from alphac4.evaluation.positions import ALL

FORMAT = "alphac4 strength report 2"
UNTRAINED = "untrained"  # the name of the network that has learned nothing


@dataclass(frozen=True, kw_only=True)
class BudgetReport:
    """One subject's figures with one budget."""

    simulations: int | None  # per position; 0 is the raw network, None the player's own
    sets: dict[str, Figures]  # by name, and `ALL`
    seconds: float  # wall time


@dataclass(frozen=True, kw_only=True)
class SubjectReport:
    """The figures of a network or another player."""

    name: str
    description: str
    budgets: list[BudgetReport]
    network: str | None = None  # the SHA-256 of its file


@dataclass(frozen=True, kw_only=True, repr=False)
class StrengthReport:
    """The results of an evaluation, shown as tables; the first subject is the one to measure."""

    subjects: list[SubjectReport]

    @property
    def sets(self) -> dict[str, Figures]:
        """The first subject's figures with its first budget, by set: what they count is the same for all."""
        return self.subjects[0].budgets[0].sets

    def to_json(self) -> str:
        """Indented JSON; numbers that do not exist, such as a rate over no positions, are null."""
        return json.dumps(_plain({"format": FORMAT} | dataclasses.asdict(self)), indent=1)

    def errors(self, simulations: int | None = None) -> dict[str, float]:
        """The share of mistakes in each set and in all, at one of the budgets; by default at the last.

        Raises:
            ValueError: for a budget that was not measured.
        """
        budgets = {budget.simulations: budget for budget in self.subjects[0].budgets}
        requested = simulations if simulations is not None else list(budgets)[-1]
        if requested not in budgets:
            raise ValueError(f"measured with {', '.join(map(str, budgets))} simulations, not with {requested}")
        return {name: figures.mistakes.value for name, figures in budgets[requested].sets.items()}

    def __repr__(self) -> str:
        return f"{_as_text(self)}\n\n{self.summary()}"

    def summary(self) -> str:
        """The result in a sentence: the mistakes of each subject with its last budget, in all positions."""
        found = []
        for subject in self.subjects:
            budget = subject.budgets[-1]
            how = {0: " without search", None: ""}.get(budget.simulations, f" with {budget.simulations} simulations")
            found.append(f"{_percent(budget.sets[ALL].mistakes)} % for {subject.name}{how}")
        return f"Mistakes in all {self.sets[ALL].mistakes.count:,} positions: {', '.join(found)}."


def _plain(data: Any) -> Any:
    """The data with NaN, which JSON has no word for, as None."""
    if isinstance(data, dict):
        return {key: _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _as_text(report: StrengthReport) -> str:
    """Mistakes by set and budget for every subject, then the other figures over all sets."""
    names = list(report.sets)
    counts = [
        ["positions", *(str(found.mistakes.count) for found in report.sets.values())],
        ["decisive", *(str(found.decisive.count) for found in report.sets.values())],
    ]
    figures: dict[str, Callable[[Figures], str]] = {
        "fastest too %": lambda found: _percent(found.fastest),
        "score lost": lambda found: _number(found.score_loss),
        "value error": lambda found: _number(found.value.error) if found.value else "-",
        "calibration error": lambda found: f"{found.value.calibration_error:.3f}" if found.value else "-",
    }
    blocks = [
        _table(
            report,
            "Mistakes in % of moves (± farther end of the 95 % interval)",
            names,
            lambda budget: [_percent(budget.sets[name].mistakes) for name in names],
            counts,
        ),
        _table(
            report,
            "The same in decisive positions, where at least one move is a mistake",
            names,
            lambda budget: [_percent(budget.sets[name].decisive) for name in names],
        ),
        _table(
            report,
            "All positions together",
            list(figures),
            lambda budget: [show(budget.sets[ALL]) for show in figures.values()],
        ),
    ]
    return "\n\n".join(blocks)


def _table(
    report: StrengthReport,
    title: str,
    header: Sequence[str],
    cells: Callable[[BudgetReport], list[str]],
    above: Sequence[list[str]] = (),
) -> str:
    """A title, a header, and for each subject its name and a row for each of its budgets."""
    rows = [["simulations", *header], *above]
    for subject in report.subjects:
        described = f"{subject.name} ({subject.description})" if subject.description else subject.name
        rows += [[described], *([_budget(budget), *cells(budget)] for budget in subject.budgets)]
    widths = [max(len(row[index]) for row in rows if len(row) > 1) for index in range(len(rows[0]))]
    lines = [
        row[0] if len(row) == 1 else " ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join([title, *lines])


def _budget(budget: BudgetReport) -> str:
    return {0: "0 (raw)", None: "-"}.get(budget.simulations, str(budget.simulations))


def _percent(share: Estimate) -> str:
    """A share with the farther end of its interval, which is not symmetric: 0 of 100 may well be 3.7 %."""
    if not share.count:
        return "-"
    return f"{100 * share.value:.1f} ± {100 * max(share.high - share.value, share.value - share.low):.1f}"


def _number(number: Estimate) -> str:
    if number.count < 2:  # a single one has no standard error
        return f"{number.value:.2f}" if number.count else "-"
    return f"{number.value:.2f} ± {Z95 * number.error:.2f}"
