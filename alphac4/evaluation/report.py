"""Strength report: metrics of each subject by budget and set, as JSON and as tables for the terminal."""

import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from alphac4.arena.ratings import Z95
from alphac4.evaluation.metrics import Estimate, Metrics
from alphac4.evaluation.positions import ALL
from alphac4.game.position import count_of
from alphac4.machine import format_table, terminal_width
from alphac4.storage.records import finite_or_null

FORMAT = "alphac4 strength report 4"
UNTRAINED = "untrained"  # name of the untrained network


@dataclass(frozen=True, kw_only=True)
class BudgetReport:
    """Metrics of one subject with one budget."""

    simulations: int | None  # per position; 0 is the raw policy, None the player's own budget
    sets: dict[str, Metrics]  # by name, and `ALL`
    seconds: float  # wall time


@dataclass(frozen=True, kw_only=True)
class SubjectReport:
    """Metrics of a network or another player."""

    name: str
    description: str
    budgets: list[BudgetReport]
    network_sha256: str | None = None  # SHA-256 of its file


@dataclass(frozen=True, kw_only=True, repr=False)
class StrengthReport:
    """Result of an evaluation; its text is the tables and a summary. The first subject is the measured player."""

    subjects: list[SubjectReport]

    @property
    def first_sets(self) -> dict[str, Metrics]:
        """Metrics of the first subject with its first budget, by set; all subjects have the same positions."""
        return self.subjects[0].budgets[0].sets

    def to_json(self) -> str:
        """Return indented JSON; undefined numbers, such as a rate over no positions, are null."""
        return json.dumps(finite_or_null({"format": FORMAT} | dataclasses.asdict(self)), indent=1)

    def mistake_rates(self, simulations: int | None = None) -> dict[str, float]:
        """Return the measured player's share of mistakes in [0, 1] by set, and for all sets as "all".

        Args:
            simulations: a measured budget; by default the last one.

        Raises:
            ValueError: for a budget that was not measured.
        """
        budgets = {budget.simulations: budget for budget in self.subjects[0].budgets}
        requested = simulations if simulations is not None else list(budgets)[-1]
        if requested not in budgets:
            raise ValueError(f"measured with {', '.join(map(str, budgets))} simulations, not with {requested}")
        return {name: metrics.mistakes.value for name, metrics in budgets[requested].sets.items()}

    def __repr__(self) -> str:
        return f"{_as_text(self, terminal_width(sys.stdout))}\n\n{self.summary()}"

    def summary(self) -> str:
        """Return a sentence with each subject's mistakes in all positions, with its last budget."""
        results = []
        for subject in self.subjects:
            budget = subject.budgets[-1]
            how = {0: " without search", None: ""}.get(
                budget.simulations, f" with {count_of(budget.simulations or 0, 'simulation')}"
            )
            results.append(f"{_percent(budget.sets[ALL].mistakes)} % for {subject.name}{how}")
        return f"Mistakes in {count_of(self.first_sets[ALL].mistakes.count, 'position')}: {', '.join(results)}."


def _as_text(report: StrengthReport, max_width: int | None) -> str:
    """Format mistakes by subject, budget and set, then the other metrics over all sets, to a terminal's width."""
    names = list(report.first_sets)
    counts = [
        ["positions", *(str(metrics.mistakes.count) for metrics in report.first_sets.values())],
        ["decisive", *(str(metrics.mistakes_in_decisive.count) for metrics in report.first_sets.values())],
    ]
    columns: dict[str, Callable[[Metrics], str]] = {
        "fastest too %": lambda metrics: _percent(metrics.fastest_moves),
        "score lost": lambda metrics: _number(metrics.score_loss),
        "value error": lambda metrics: _number(metrics.value.absolute_error) if metrics.value else "-",
        "calibration error": lambda metrics: f"{metrics.value.calibration_error:.3f}" if metrics.value else "-",
    }
    blocks = [
        _table(
            report,
            "Mistakes in % of positions (± farther end of the 95 % interval)",
            names,
            lambda budget: [_percent(budget.sets[name].mistakes) for name in names],
            counts,
            max_width=max_width,
        ),
        _table(
            report,
            "The same in decisive positions, where at least one move is a mistake",
            names,
            lambda budget: [_percent(budget.sets[name].mistakes_in_decisive) for name in names],
            max_width=max_width,
        ),
        _table(
            report,
            "All positions together",
            list(columns),
            lambda budget: [show(budget.sets[ALL]) for show in columns.values()],
            max_width=max_width,
        ),
    ]
    return "\n\n".join(blocks)


def _table(
    report: StrengthReport,
    title: str,
    header: Sequence[str],
    cells: Callable[[BudgetReport], list[str]],
    above: Sequence[list[str]] = (),
    *,
    max_width: int | None,
) -> str:
    """Format a title, a header, and for each subject its name and a row per budget."""
    rows = [["simulations", *header], *above]
    for subject in report.subjects:
        described = f"{subject.name} ({subject.description})" if subject.description else subject.name
        rows += [[described], *([_budget(budget), *cells(budget)] for budget in subject.budgets)]
    return "\n".join([title, *_aligned(rows, max_width)])


def _aligned(rows: list[list[str]], max_width: int | None) -> list[str]:
    """Align the columns; if the lines are too long, narrow the columns, then split the table into several."""

    def lines(columns: Sequence[int]) -> list[str]:
        return format_table([row if len(row) == 1 else [row[index] for index in columns] for row in rows], gap=" ")

    def is_too_wide(columns: Sequence[int]) -> bool:
        widths = [len(line) for line, row in zip(lines(columns), rows, strict=True) if len(row) > 1]
        return max_width is not None and max(widths) > max_width

    if is_too_wide(range(len(rows[0]))):
        heads = [heading.rsplit("-", 1) for heading in rows[0]]
        first = [f"{parts[0]}-" if len(parts) > 1 else "" for parts in heads]
        narrow = [[cell.replace(" ± ", "±") for cell in row] for row in rows[1:]]
        rows = [first, [parts[-1] for parts in heads], *narrow]
    parts = [[0]]
    for index in range(1, len(rows[0])):
        if len(parts[-1]) > 1 and is_too_wide([*parts[-1], index]):
            parts.append([0])
        parts[-1].append(index)
    return [line for part in parts for line in lines(part)]


def _budget(budget: BudgetReport) -> str:
    return {0: "0 (raw)", None: "-"}.get(budget.simulations, str(budget.simulations))


def _percent(share: Estimate) -> str:
    """Format a share in % with the distance to the farther end of its asymmetric interval, such as "0.0 ± 3.7"."""
    if not share.count:
        return "-"
    return f"{100 * share.value:.1f} ± {100 * max(share.high - share.value, share.value - share.low):.1f}"


def _number(number: Estimate) -> str:
    if number.count < 2:  # the standard error is undefined
        return f"{number.value:.2f}" if number.count else "-"
    return f"{number.value:.2f} ± {Z95 * number.stderr:.2f}"
