"""What a run has written down, as tables for Python users."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from alphac4.runs.reports import REPORTS_FILE, IterationReport
from alphac4.runs.reports import read_reports as read_lines_of_reports
from alphac4.training.reports import MatchReport

Row = dict[str, Any]


def _under(part: str, *names: str) -> dict[str, str]:
    """Columns that are called as figures are in a part of the report."""
    return {name: f"{part}.{name}" for name in names}


# The columns of the table "iterations", and where a report has them.
_COLUMNS = {
    "iteration": "iteration",
    "minutes": "seconds_total",
    "games": "games_total",
    "positions": "samples_total",
    "evaluations": "evaluations_total",
    "elo": "elo",
    "elo_error": "elo_error",
    "best_iteration": "best_iteration",
    "gate_score": "gate.score",
    "promoted": "gate.accepted",
    **{f"raw_{name}": f"evaluation.raw.{name}" for name in ("error", "low", "high", "value_error")},
    **{f"search_{name}": f"evaluation.search.{name}" for name in ("error", "low", "high", "value_error")},
    **_under("learning", "policy_loss", "value_loss", "ownership_loss", "learning_rate", "gradient_norm", "window"),
    "target_entropy": "selfplay.policy_entropy",
    "network_entropy": "learning.policy_entropy",
    "surprise": "selfplay.root_surprise",
    "plies": "selfplay.mean_plies",
    **_under("selfplay", "calibration_error", "first_player_wins", "draws", "distinct_openings", "cache_hits"),
    **_under("selfplay", "evaluations_per_second", "simulations_per_second"),
    "memory_mb": "memory_mb",
}


def read_reports(run: str | Path, table: str = "iterations") -> list[Row]:
    """What a run reports, as rows for ``pandas.DataFrame``, each with the same few columns.

    Args:
        run: the run's folder, or its file ``reports.jsonl``. A run in progress can be read as well.
        table: which of four tables.

            "iterations": one row each, with the figures that TensorBoard draws as curves. Errors are shares of moves
            judged by the exact solver over all sets, raw and by a small search, with 95 % intervals; the gate's and
            classic search's scores are shares of the points; None where an iteration has no such figure.

            "errors": a row for each iteration, ``player`` ("raw" or "search") and ``set`` of positions.

            "matches": a row for each match, ``kind`` "gate" or "classic".

            "time": a row for each iteration and ``phase`` with its ``share`` of the wall time.

    Raises:
        ValueError: in one line, if there is no run, or no such table.
    """
    if table not in _TABLES:
        raise ValueError(f"no table {table!r}; there are {', '.join(_TABLES)}")
    path = Path(run)
    path = path / REPORTS_FILE if path.is_dir() else path
    if not path.is_file():
        raise ValueError(f"{run}: no reports of a run here")
    return [row for report in read_lines_of_reports(path) for row in _TABLES[table](report)]


def _iteration(report: IterationReport) -> list[Row]:
    """The one row of an iteration."""
    row = {column: _value(report, path) for column, path in _COLUMNS.items()}
    classic = next(iter(report.matches), None)
    row["classic_score"] = None if classic is None else classic.score
    return [row | {"minutes": report.seconds_total / 60, "warnings": "; ".join(report.warnings)}]


def _value(report: IterationReport, path: str) -> Any:
    """A figure by the names that lead to it; None where a part of the report is missing."""
    found: Any = report
    for name in path.split("."):
        found = None if found is None else getattr(found, name)
    return found


def _errors(report: IterationReport) -> list[Row]:
    if report.evaluation is None:
        return []
    return [
        {
            "iteration": report.iteration,
            "minutes": report.seconds_total / 60,
            "player": name,
            "set": part,
            "error": error,
        }
        for name, figures in (("raw", report.evaluation.raw), ("search", report.evaluation.search))
        for part, error in figures.errors.items()
    ]


def _matches(report: IterationReport) -> list[Row]:
    played = [("gate", report.gate), *(("classic", match) for match in report.matches)]
    return [_match(kind, report, match) for kind, match in played]


def _match(kind: str, report: IterationReport, match: MatchReport) -> Row:
    names = ("player", "opponent", "wins", "draws", "losses", "score", "low", "high", "seconds", "accepted")
    return {"iteration": report.iteration, "kind": kind} | {name: getattr(match, name) for name in names}


def _time(report: IterationReport) -> list[Row]:
    return [
        {"iteration": report.iteration, "phase": phase, "share": share} for phase, share in report.time_shares.items()
    ]


_TABLES: dict[str, Callable[[IterationReport], list[Row]]] = {
    "iterations": _iteration,
    "errors": _errors,
    "matches": _matches,
    "time": _time,
}
