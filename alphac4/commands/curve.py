"""`alphac4 curve`: how the networks of runs improved, measured against exact play."""

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from tqdm import tqdm

from alphac4.commands.arguments import read_arguments
from alphac4.commands.evaluate import parse_budgets
from alphac4.compute import Compute, choose
from alphac4.evaluation.accuracy import judge_moves
from alphac4.evaluation.answers import ask_network
from alphac4.evaluation.curves import CurvePoint, check_comparable, draw_run, draw_runs, read_figures
from alphac4.evaluation.pictures import check_picture
from alphac4.evaluation.positions import PositionSet, load_positions, packaged_positions
from alphac4.game.rules import STANDARD
from alphac4.storage.checkpoints import Checkpoint, checkpoint_geometry, load_checkpoint
from alphac4.storage.files import append_line, check_output, read_lines, write_atomically
from alphac4.storage.locks import own_file
from alphac4.storage.records import MOST, check_ranges, read_signed_line, read_value

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CurveOptions:
    """Judge every network that runs have kept, and draw the errors against minutes and evaluations.

    A run keeps all its networks with ``alphac4 train --keep-checkpoints 1000``. One run is drawn with a line for each
    set of positions; several with a line each, over all positions. Runs that differ in their seed alone are given as
    one, and drawn as their mean in a band from the best to the worst of them:

        alphac4 curve runs/mine
        alphac4 curve quick=runs/q0,runs/q1,runs/q2 standard=runs/s0

    A file that ``--output`` has written stands for the runs in it: they are drawn again without being judged again.
    Runs of a name that is in it join its band.

        alphac4 curve quick=runs/q0,runs/q1 --output curve.jsonl
        alphac4 curve curve.jsonl standard=runs/s0
    """

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Folders of runs, or files of figures; or NAME=FOLDER, or NAME=FOLDER,FOLDER,... for several seeds."""
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
    """A file of JSON lines, to which the figures of the networks judged are added. What it holds is not judged again,
    so that the same command goes on if interrupted."""
    backend: str = "auto"
    """Inference backend."""

    def __post_init__(self) -> None:
        check_ranges(self, count=(1, MOST), every=(1, MOST))


@dataclass(frozen=True, kw_only=True)
class RunGroup:
    """Runs that are drawn as one, such as those that differ in their seed alone."""

    name: str  # empty for a file of figures that keeps the names in it
    folders: tuple[Path, ...]  # or files of figures


@dataclass(frozen=True, kw_only=True)
class FoundRun:
    """What is there of a run: networks to judge, or figures of those that were."""

    group: str
    folder: Path
    networks: list[Path] = field(default_factory=list)
    progress: dict[int, tuple[float, int]] = field(default_factory=dict)  # as `progress_of` tells
    figures: list[CurvePoint] = field(default_factory=list)

    @property
    def iterations(self) -> set[int]:
        """The iterations whose networks are there."""
        return {int(path.stem) for path in self.networks} | {point.iteration for point in self.figures}


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(read_arguments(CurveOptions, arguments, "curve"))


def run(options: CurveOptions) -> int:
    """Judge, print, draw."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    check_picture(options.picture)
    check_output(options.picture)
    budgets = parse_budgets(options.simulations)
    groups = parse_groups(options.runs)
    found = [run for group in groups for run in find_runs(group, options.every)]
    check_groups(found)
    networks = [path for run in found for path in run.networks]
    geometry = checkpoint_geometry(networks[0]) if networks else STANDARD
    sets: Sequence[PositionSet] = [load_positions(path, geometry) for path in options.positions] or packaged_positions()
    sets = [part.head(options.count) if options.count is not None else part for part in sets]
    for path in networks:
        if checkpoint_geometry(path) != sets[0].geometry:
            raise ValueError(f"{path}: plays on another board; --positions takes files of one board, that of all runs")
    points = [point for run in found for point in run.figures]
    total = sum(len(run.networks) for run in found)
    compute = choose(backend=options.backend)
    with own_file(options.output), tqdm(total=total, desc="networks", disable=None) as bar:
        known = read_figures(options.output, may_be_empty=True) if options.output else []
        check_comparable([*points, *known], sets if total else ())
        for run in found:
            for path in run.networks:
                judged = figures_of(known, run, int(path.stem), budgets)
                missing = [budget for budget in budgets if budget not in {point.simulations for point in judged}]
                for point in judge(load_checkpoint(path), sets, missing, run.progress, compute) if missing else ():
                    named = replace(point, run=run.group, folder=str(run.folder))
                    judged.append(named)
                    _tell(named, shown=str(run.folder) if len(found) > 1 else "")
                    if options.output is not None:
                        append_line(options.output, json.dumps(asdict(named)))
                points += judged
                bar.update()
    alone = len({point.folder for point in points}) == 1
    content = draw_run(points, options.picture) if alone else draw_runs(points, options.picture)
    write_atomically(options.picture, content)
    return 0


def figures_of(known: Sequence[CurvePoint], run: FoundRun, iteration: int, budgets: Sequence[int]) -> list[CurvePoint]:
    """Those of a run's network, by the run's folder, the iteration and the evaluations until then."""
    _, evaluations = run.progress.get(iteration, (0.0, 0))
    wanted = (str(run.folder), iteration, evaluations)
    own = {p.simulations: p for p in known if (p.folder, p.iteration, p.evaluations) == wanted}
    return [replace(own[budget], run=run.group) for budget in budgets if budget in own]


def _tell(point: CurvePoint, shown: str) -> None:
    errors = "  ".join(f"{name} {share:.1%}" for name, share in point.errors.items())
    spent = f"{point.minutes:.1f} min, {point.simulations} simulations"
    print(f"{shown + ': ' if shown else ''}iteration {point.iteration}, {spent}: {errors}")


def parse_groups(texts: Sequence[str]) -> list[RunGroup]:
    """Runs from texts such as "quick=runs/q0,runs/q1"; a text that names a folder is that folder.

    Raises:
        ValueError: if none or one twice is named, or two groups have one name.
    """
    groups = []
    for text in texts:
        name, equals, listed = text.rpartition("=") if not is_folder(text) else ("", "", text)
        names = [listed] if is_folder(listed) else listed.split(",")
        folders = tuple(Path(folder) for folder in names if folder)
        if not folders or (equals and not name):
            raise ValueError(f"{text!r} names no runs; write FOLDER, or NAME=FOLDER,FOLDER")
        name = name or ("" if is_file_of_figures(folders[0]) else folders[0].absolute().name)
        groups.append(RunGroup(name=name, folders=folders))
    if not groups:
        raise ValueError("name at least one run's folder")
    for kind, given in (
        ("name", [group.name for group in groups if group.name]),
        ("folder", [str(folder.absolute()) for group in groups for folder in group.folders]),
    ):
        if twice := [item for index, item in enumerate(given) if item in given[:index]]:
            raise ValueError(f"the {kind} {twice[0]} is given twice; runs are told apart as NAME=FOLDER")
    return groups


def is_folder(text: str) -> bool:
    """Whether a text as it stands names a folder, whatever signs it holds."""
    return os.path.isdir(text)  # noqa: PTH112 - a name too long for a folder is none, not an error


def is_file_of_figures(path: Path) -> bool:
    """Whether a name is that of a file which ``--output`` may have written, and not of a run's folder."""
    return path.suffix == ".jsonl" and not is_folder(str(path))


def find_runs(group: RunGroup, every: int) -> list[FoundRun]:
    """The runs of a group, before the first network is judged.

    Raises:
        ValueError: if one is none.
    """
    found = []
    for path in group.folders:
        if is_file_of_figures(path):
            points = [replace(point, run=group.name or point.run) for point in read_figures(path)]
            for folder in dict.fromkeys(point.folder for point in points):
                own = [point for point in points if point.folder == folder]
                found.append(FoundRun(group=own[0].run, folder=Path(folder), figures=own))
        else:
            progress = progress_of(path)
            networks = find_checkpoints(path, every)
            found.append(FoundRun(group=group.name, folder=path, progress=progress, networks=networks))
    return found


def check_groups(found: Sequence[FoundRun]) -> None:
    """Raise a ValueError if a group holds a run twice, or runs that have no iteration in common."""
    for name in {run.group for run in found}:
        runs = [run for run in found if run.group == name]
        folders = [run.folder.absolute() for run in runs]
        if twice := [folder for index, folder in enumerate(folders) if folder in folders[:index]]:
            raise ValueError(f"{name}: the run {twice[0]} is there twice, in a file of figures and once more")
        if not set.intersection(*(run.iterations for run in runs)):
            raise ValueError(f"{name}: its runs have kept no network of the same iteration")


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
                error=judge_moves(sets, answers.columns).error.value,
                positions=sum(len(part) for part in sets),
            )
        )
    return points
