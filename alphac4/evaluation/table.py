"""The strength report as text for the terminal."""

from collections.abc import Callable, Sequence

from alphac4.arena.ratings import Z95
from alphac4.evaluation.accuracy import Estimate
from alphac4.evaluation.games import PerfectMatchReport
from alphac4.evaluation.report import ALL, BudgetReport, Figures, StrengthReport

CHANGES = {(1, 0): "a win became a draw", (1, -1): "a win became a loss", (0, -1): "a draw became a loss"}

Cells = Callable[[BudgetReport], list[str]]


def as_text(report: StrengthReport) -> str:
    """Move errors by set and budget for every subject, then the other figures over all sets, then the games."""
    names = [part.name for part in report.sets]
    counts = [
        ["positions", *(str(part.positions) for part in report.sets)],
        ["decisive", *(str(part.decisive) for part in report.sets)],
    ]
    figures: dict[str, Callable[[Figures], str]] = {
        "keeps outcome %": lambda found: _percent(found.moves.keeps),
        "fastest too %": lambda found: _percent(found.moves.fastest),
        "score lost": lambda found: _number(found.moves.loss),
        "value error": lambda found: _number(found.value.absolute) if found.value else "-",
        "squared": lambda found: _number(found.value.squared) if found.value else "-",
        "calibration error": lambda found: f"{found.value.calibration_error:.3f}" if found.value else "-",
    }
    blocks = [
        _table(
            report,
            "Move errors: % of moves whose outcome is worse than the best move's (± farther end of the 95 % interval)",
            names,
            lambda budget: [_percent(budget.sets[name].moves.error) for name in names],
            counts,
        ),
        _table(
            report,
            "The same in decisive positions, where at least one move errs",
            names,
            lambda budget: [_percent(budget.sets[name].decisive.error) for name in names],
        ),
        _table(
            report,
            "All positions together",
            list(figures),
            lambda budget: [show(budget.sets[ALL]) for show in figures.values()],
        ),
    ]
    blocks += [games_text(subject.name, subject.games) for subject in report.subjects if subject.games is not None]
    return "\n\n".join(blocks)


def games_text(name: str, match: PerfectMatchReport) -> str:
    """Results by colour, and what slipped when."""
    budget = {None: "", 0: ", raw,"}.get(match.simulations, f" with {match.simulations} simulations")
    lines = [f"{name}{budget} against perfect play"]
    for first, start in ((True, "moving first from the empty board"), (False, "moving second, the first stone given")):
        games = [game for game in match.games if game.first == first]
        if not games:
            continue
        won, drawn, lost = (match.count(outcome, first) for outcome in (1, 0, -1))
        slipped = sum(bool(game.slips) for game in games)
        lines.append(
            f"  {start}: {won} won, {drawn} drawn, {lost} lost; "
            f"a won or drawn position slipped in {slipped} of {len(games)} games"
        )
        for change, words in CHANGES.items():
            plies = [slip.ply for game in games for slip in game.slips if (slip.before, slip.after) == change]
            if plies:
                lines.append(f"    {words} {len(plies)} x, at ply {_counted(plies)}")
    return "\n".join(lines)


def _counted(plies: Sequence[int]) -> str:
    """Numbers in ascending order with how often each occurs, such as "9, 11 (3 x)"."""
    return ", ".join(f"{ply} ({n} x)" if (n := plies.count(ply)) > 1 else str(ply) for ply in sorted(set(plies)))


def _table(
    report: StrengthReport, title: str, header: Sequence[str], cells: Cells, above: Sequence[list[str]] = ()
) -> str:
    """A title, a header, and for each subject its name and a row for each of its budgets."""
    rows = [["simulations", *header], *above]
    for subject in report.subjects:
        described = f"{subject.name} ({subject.description})" if subject.description else subject.name
        rows += [[described], *([_budget(budget), *cells(budget)] for budget in subject.budgets)]
    widths = [max(len(row[index]) for row in rows if len(row) > 1) for index in range(len(rows[0]))]
    lines = [
        row[0] if len(row) == 1 else "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
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
    return f"{number.value:.2f} ± {Z95 * number.error:.2f}" if number.count else "-"
