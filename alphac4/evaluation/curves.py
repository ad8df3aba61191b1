"""Pictures of how the networks of runs got better."""

import io
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from alphac4.evaluation.positions import PositionSet
from alphac4.storage.files import read_lines
from alphac4.storage.records import parse_json, read_record

_log = logging.getLogger(__name__)

# Colours that colour-blind people can tell apart (Okabe and Ito 2008); line and marker differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES = ("-", "--", "-.", ":")
MARKERS = "os^Dv<>"


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One network's errors with one budget."""

    iteration: int
    minutes: float  # of training until then
    evaluations: int  # network evaluations in self-play until then
    simulations: int
    errors: dict[str, float]  # share of moves that err, by set
    error: float  # share of moves that err over all positions
    positions: int = 0  # how many there are
    run: str = ""  # what it is drawn as: a run's name, or that of several seeds
    folder: str = ""  # the run's folder


@dataclass(frozen=True, kw_only=True)
class Band:
    """A line and the band around it: the mean of some runs, and their extremes."""

    across: list[float]  # minutes or million evaluations
    middle: list[float]  # % of moves that err
    low: list[float]
    high: list[float]


def read_figures(path: Path, *, may_be_empty: bool = False) -> list[CurvePoint]:
    """The points in a file of JSON lines that `alphac4 curve --output` has written.

    A line among others that is no JSON, as a full disk leaves it, is told and left out.

    Raises:
        ValueError: naming the file and the line that is something else, or if there is no point, unless it
            ``may_be_empty``.
        OSError: if it cannot be read.
    """
    points, damaged = [], []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        try:
            data = parse_json(line)
        except ValueError as error:
            damaged.append(f"{where}: {error}")
            continue
        try:
            points.append(read_record(CurvePoint, data))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
    if not points and (damaged or not may_be_empty):
        raise ValueError(damaged[0] if damaged else f"{path}: no figures of a run here")
    for told in damaged:
        _log.warning("%s; it is left out", told)
    return points


def check_comparable(points: Sequence[CurvePoint], sets: Sequence[PositionSet]) -> None:
    """Raise a ValueError unless all points are of the same positions: those of ``sets``, if there are any."""
    kinds = {(frozenset(point.errors), point.positions) for point in points}
    if sets:
        kinds.add((frozenset(part.name for part in sets), sum(len(part) for part in sets)))
    if len(kinds) > 1:
        told = "; ".join(sorted(f"{count:,} of {', '.join(sorted(names))}" for names, count in kinds))
        raise ValueError(f"figures of different positions cannot be drawn beside each other: {told}")


def band(points: Sequence[CurvePoint], across: Callable[[CurvePoint], float]) -> Band:
    """Runs as one, by iteration; an iteration counts where every run has its network."""
    folders = {point.folder for point in points}
    by_iteration: dict[int, list[CurvePoint]] = defaultdict(list)
    for point in points:
        by_iteration[point.iteration].append(point)
    rows = [row for _, row in sorted(by_iteration.items()) if {point.folder for point in row} == folders]
    errors = [[100 * point.error for point in row] for row in rows]
    return Band(
        across=[float(np.mean([across(point) for point in row])) for row in rows],
        middle=[float(np.mean(row)) for row in errors],
        low=[min(row) for row in errors],
        high=[max(row) for row in errors],
    )


def draw_run(points: Sequence[CurvePoint], path: Path) -> bytes:
    """One run, a line for each set: a panel for each budget against minutes, and the last one against evaluations."""
    budgets = sorted({point.simulations for point in points})
    panels = [(budget, "minutes") for budget in budgets] + [(budgets[-1], "evaluations")]
    figure, axes = _panels(1, len(panels))
    for place, (budget, against) in zip(axes[0], panels, strict=True):
        rows = sorted((p for p in points if p.simulations == budget), key=lambda p: p.iteration)
        for name in rows[0].errors:
            errors = [100 * row.errors[name] for row in rows]
            place.plot([_across(row, against) for row in rows], errors, marker=".", ms=4, lw=1.3, label=_text(name))
        _finish(place, budget, against)
    axes[0][0].legend(fontsize="small")
    return _rendered(figure, path)


def draw_runs(points: Sequence[CurvePoint], path: Path) -> bytes:
    """Several runs, a line for each name: a column for each budget, above by minutes and below by evaluations."""
    budgets = sorted({point.simulations for point in points})
    names = list(dict.fromkeys(point.run for point in points))
    figure, axes = _panels(2, len(budgets))
    for row, against in zip(axes, ("minutes", "evaluations"), strict=True):
        for place, budget in zip(row, budgets, strict=True):
            for index, name in enumerate(names):
                own = [point for point in points if (point.run, point.simulations) == (name, budget)]
                seeds = len({point.folder for point in own})
                found = band(own, lambda point, against=against: _across(point, against))  # type: ignore[misc]
                colour = COLOURS[index % len(COLOURS)]
                place.plot(
                    found.across,
                    found.middle,
                    color=colour,
                    linestyle=DASHES[index % len(DASHES)],
                    marker=MARKERS[index % len(MARKERS)],
                    ms=3.5,
                    lw=1.4,
                    label=_text(name) + (f" ({seeds} runs)" if seeds > 1 else ""),
                )
                if seeds > 1:
                    place.fill_between(found.across, found.low, found.high, color=colour, alpha=0.2, linewidth=0)
            _finish(place, budget, against)
    axes[0][0].legend(fontsize="small")
    return _rendered(figure, path)


def _across(point: CurvePoint, against: str) -> float:
    return point.minutes if against == "minutes" else point.evaluations / 1e6


def _panels(rows: int, columns: int) -> tuple[Figure, Any]:
    figure = Figure(figsize=(5 * columns, 4.4 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _finish(place: Any, budget: int, against: str) -> None:
    """Scale and label a panel."""
    place.set_yscale("symlog", linthresh=0.5, linscale=0.5)  # logarithmic, with room for 0
    place.set_yticks([0, 0.5, 1, 2, 5, 10, 20, 50])
    place.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
    place.yaxis.set_minor_locator(NullLocator())
    place.set_ylim(bottom=-0.1)
    place.grid(alpha=0.3)
    place.set_title("raw network" if budget == 0 else f"{budget} simulations")
    place.set_xlabel("minutes of training" if against == "minutes" else "million evaluations in self-play")
    place.set_ylabel("moves that err, %")


def _rendered(figure: Figure, path: Path) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, dpi=110, format=path.suffix[1:])
    return content.getvalue()


def _text(name: str) -> str:
    """A name as it stands: a dollar sign would begin a formula."""
    return name.replace("$", r"\$")
