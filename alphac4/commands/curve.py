"""`alphac4 curve`: how a run's networks improved, measured against exact play."""

import io
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from tqdm import tqdm

from alphac4.checkpoint import Checkpoint, load_checkpoint
from alphac4.commands.arguments import read_arguments
from alphac4.commands.evaluate import parse_budgets
from alphac4.compute import Compute, choose
from alphac4.evaluation.accuracy import judge_moves
from alphac4.evaluation.answers import ask_network
from alphac4.evaluation.pictures import check_picture
from alphac4.evaluation.positions import PositionSet, load_positions, packaged_positions
from alphac4.files import append_line, read_lines, write_atomically
from alphac4.json_files import read_signed_line, read_value
from alphac4.outputs import check_output, own_file
from alphac4.ranges import MOST, check_ranges

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CurveOptions:
    """Judge every network that a run has kept, and draw the errors against minutes and evaluations.

    A run keeps all its networks with ``alphac4 train --keep-checkpoints 1000``.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder."""
    simulations: str = "0,600"
    """Simulations a position; each is judged. 0 is the raw network."""
    positions: tuple[Path, ...] = ()
    """Files of positions to take instead of the package's six sets; see `alphac4 evaluate`."""
    count: int | None = None
    """Only the first so many positions of each set."""
    every: int = 1
    """Judge each so-many-th network, counted from the last."""
    picture: Path = Path("curve.png")
    """The picture to draw."""
    output: Path | None = None
    """A file of JSON lines for the figures."""
    backend: str = "auto"
    """Inference backend."""

    def __post_init__(self) -> None:
        check_ranges(self, count=(1, MOST), every=(1, MOST))


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One network's errors with one budget."""

    iteration: int
    minutes: float  # of training until then
    evaluations: int  # network evaluations in self-play until then
    simulations: int
    errors: dict[str, float]  # share of moves that err, by set


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(read_arguments(CurveOptions, arguments, "curve"))


def run(options: CurveOptions) -> int:
    """Judge, print, draw."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    check_picture(options.picture)
    check_output(options.picture)
    budgets = parse_budgets(options.simulations)
    sets: Sequence[PositionSet] = [load_positions(path) for path in options.positions] or packaged_positions()
    sets = [part.head(options.count) if options.count is not None else part for part in sets]
    progress = progress_of(options.run)
    compute = choose(backend=options.backend)
    points = []
    with own_file(options.output):
        for path in tqdm(find_checkpoints(options.run, options.every), desc="networks", disable=None):
            for point in judge(load_checkpoint(path), sets, budgets, progress, compute):
                points.append(point)
                errors = "  ".join(f"{name} {share:.1%}" for name, share in point.errors.items())
                spent = f"{point.minutes:.1f} min, {point.simulations} simulations"
                print(f"iteration {point.iteration}, {spent}: {errors}")
                if options.output is not None:
                    append_line(options.output, json.dumps(asdict(point)))
    draw(points, options.picture)
    return 0


def find_checkpoints(folder: Path, every: int = 1) -> list[Path]:
    """The numbered networks of a run, each ``every``-th, the last one included.

    Raises:
        ValueError: if there is none.
    """
    inner = folder / "checkpoints"
    found = (inner if inner.is_dir() else folder).glob("[0-9]*.safetensors")
    paths = sorted(path for path in found if path.stem.isdecimal())  # and no stray copies
    if not paths:
        raise ValueError(f"{folder}: no networks of a run here")
    return paths[::-1][::every][::-1]


def progress_of(folder: Path) -> dict[int, tuple[float, int]]:
    """Seconds and evaluations until the end of each iteration, from a run's reports.

    Raises:
        ValueError: if there are none.
    """
    path = folder / "reports.jsonl"
    found: dict[int, tuple[float, int]] = {0: (0.0, 0)}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            report, _ = read_signed_line(line)
            kinds = {"iteration": int, "seconds_total": float, "evaluations_total": int}
            iteration, seconds, evaluations = (read_value(kind, report.get(name), name) for name, kind in kinds.items())
        except ValueError as error:
            _log.warning("%s: line %d is damaged and left out: %s", path, number, error)
        else:
            found[iteration] = seconds, evaluations
    if len(found) == 1:
        raise ValueError(f"{folder}: no reports of a run here")
    return found


def judge(
    checkpoint: Checkpoint,
    sets: Sequence[PositionSet],
    budgets: Sequence[int],
    progress: Mapping[int, tuple[float, int]],
    compute: Compute,
) -> list[CurvePoint]:
    """One network's errors with each budget; ``progress`` is `progress_of` its run."""
    evaluator = compute.evaluator(checkpoint.network, batch_size=compute.batch, streams=compute.streams)
    rng = np.random.default_rng(0)
    searches = [compute.search(evaluator, geometry=checkpoint.geometry, rng=rng) for _ in range(compute.streams)]
    provenance: dict[str, Any] = dict(checkpoint.provenance)
    iteration = int(provenance.get("iteration", 0))
    seconds, evaluations = progress.get(iteration, (0.0, 0))
    points = []
    for budget in budgets:
        answers = ask_network(evaluator, sets, budget, searches, batch=compute.batch)
        points.append(
            CurvePoint(
                iteration=iteration,
                minutes=seconds / 60,
                evaluations=evaluations,
                simulations=budget,
                errors={
                    part.name: judge_moves([part], [columns]).error.value
                    for part, columns in zip(sets, answers.columns, strict=True)
                },
            )
        )
    return points


def draw(points: Sequence[CurvePoint], path: Path) -> None:
    """A panel for each budget against minutes, and one for the last budget against evaluations."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter, NullLocator

    budgets = sorted({point.simulations for point in points})
    panels = [(budget, "minutes") for budget in budgets] + [(budgets[-1], "evaluations")]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(5 * len(panels), 4.4), squeeze=False, layout="constrained")
    for place, (budget, against) in zip(axes[0], panels, strict=True):
        rows = sorted((p for p in points if p.simulations == budget), key=lambda p: p.iteration)
        across = [row.minutes if against == "minutes" else row.evaluations / 1e6 for row in rows]
        for name in rows[0].errors:
            errors = [100 * row.errors[name] for row in rows]
            place.plot(across, errors, marker=".", ms=4, lw=1.3, label=name.replace("$", r"\$"))
        place.set_yscale("symlog", linthresh=0.5, linscale=0.5)  # logarithmic, with room for 0
        place.set_yticks([0, 0.5, 1, 2, 5, 10, 20, 50])
        place.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
        place.yaxis.set_minor_locator(NullLocator())
        place.set_ylim(bottom=-0.1)
        place.grid(alpha=0.3)
        place.set_title("raw network" if budget == 0 else f"{budget} simulations")
        place.set_xlabel("minutes of training" if against == "minutes" else "million evaluations in self-play")
        place.set_ylabel("moves that err, %")
    axes[0][0].legend(fontsize="small")
    content = io.BytesIO()
    figure.savefig(content, dpi=110, format=path.suffix[1:])
    pyplot.close(figure)
    write_atomically(path, content.getvalue())
