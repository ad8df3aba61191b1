"""What a run has written down, as tables for Python users."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from alphac4.runs.reports import REPORTS_FILE, IterationReport
from alphac4.runs.reports import read_reports as read_lines_of_reports
from alphac4.training.reports import MatchReport

Row = dict[str, Any]


def read_reports(run: str | Path, table: str = "iterations") -> list[Row]:
    """What a run reports, as rows for ``pandas.DataFrame``, each with the same few columns.

    Args:
        run: the run's folder, or its file ``reports.jsonl``. A run under way can be read as well.
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
    selfplay, learning, gate = report.selfplay, report.learning, report.gate
    classic = next(iter(report.matches), None)
    row: Row = {
        "iteration": report.iteration,
        "minutes": report.seconds_total / 60,
        "games": report.games_total,
        "positions": report.samples_total,
        "evaluations": report.evaluations_total,
        "elo": report.elo,
        "elo_error": report.elo_error,
        "best_iteration": report.best_iteration,
        "gate_score": gate.score,
        "promoted": gate.accepted,
        "classic_score": None if classic is None else classic.score,
    }
    for name in ("raw", "search"):
        figures = None if report.evaluation is None else getattr(report.evaluation, name)
        for column, field in (("error", "error"), ("low", "low"), ("high", "high"), ("value_error", "value_error")):
            row[f"{name}_{column}"] = None if figures is None else getattr(figures, field)
    return [
        row
        | {
            "policy_loss": learning.policy_loss,
            "value_loss": learning.value_loss,
            "ownership_loss": learning.ownership_loss,
            "learning_rate": learning.learning_rate,
            "gradient_norm": learning.gradient_norm,
            "window": learning.window,
            "target_entropy": selfplay.policy_entropy,
            "network_entropy": learning.policy_entropy,
            "surprise": selfplay.root_surprise,
            "calibration_error": selfplay.calibration_error,
            "plies": selfplay.mean_plies,
            "first_player_wins": selfplay.first_player_wins,
            "draws": selfplay.draws,
            "distinct_openings": selfplay.distinct_openings,
            "evaluations_per_second": selfplay.evaluations_per_second,
            "simulations_per_second": selfplay.simulations_per_second,
            "cache_hits": selfplay.cache_hits,
            "memory_mb": report.memory_mb,
            "warnings": "; ".join(report.warnings),
        }
    ]


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
