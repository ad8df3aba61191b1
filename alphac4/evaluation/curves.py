"""The errors of the networks that runs have kept, from finding them to judging each."""

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from alphac4.compute import Compute
from alphac4.evaluation.answers import ask_players, errors_by_set, judge_moves, network_players
from alphac4.evaluation.positions import PositionSet
from alphac4.storage.checkpoints import Checkpoint
from alphac4.storage.journal import Journal
from alphac4.storage.records import read_record

FORMAT = "alphac4-curve"


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One network's errors with one budget."""

    iteration: int
    minutes: float  # of training until then
    evaluations: int  # network evaluations in self-play until then
    simulations: int
    errors: dict[str, float]  # share of moves that err, by set
    error: float  # share of moves that err over all positions
    positions: int  # how many there are
    run: str  # what it is drawn as: a run's name, or that of several seeds
    folder: str  # the run's folder

    def is_of(self, folder: Path, checkpoint: Checkpoint) -> bool:
        """Whether it is of this network, which a run in the folder has made."""
        spent = checkpoint.provenance.get("evaluations", 0), checkpoint.provenance.get("iteration", 0)
        return (self.folder, self.evaluations, self.iteration) == (str(folder), *spent)


def judge_network(
    checkpoint: Checkpoint,
    run: str,
    folder: Path,
    sets: Sequence[PositionSet],
    budgets: Sequence[int],
    compute: Compute,
) -> Iterator[CurvePoint]:
    """A network's errors with each budget; when it was made stands in its file."""
    if not budgets:
        return
    evaluator, made = compute.evaluator(checkpoint.network, streams=compute.streams), checkpoint.provenance
    for budget in budgets:
        answers = ask_players(network_players(compute, evaluator, budget, checkpoint.geometry), sets)
        yield CurvePoint(
            iteration=made.get("iteration", 0),
            minutes=made.get("seconds", 0) / 60,
            evaluations=made.get("evaluations", 0),
            simulations=budget,
            errors=errors_by_set(sets, answers),
            error=judge_moves(sets, answers.columns).error.value,
            positions=sum(len(part) for part in sets),
            run=run,
            folder=str(folder),
        )


def open_figures(path: Path | None) -> tuple[Journal, list[CurvePoint]]:
    """The file of JSON lines that `alphac4 curve --output` writes, and the points in it.

    Raises:
        FileError: if it is another file.
    """
    journal = Journal(path, FORMAT, {})
    return journal, list(journal.read(lambda entry: read_record(CurvePoint, entry)))


def check_comparable(points: Sequence[CurvePoint], sets: Sequence[PositionSet]) -> None:
    """Raise a ValueError unless all points are of the same positions: those of ``sets``, if there are any."""
    kinds = {(frozenset(point.errors), point.positions) for point in points}
    if sets:
        kinds.add((frozenset(part.name for part in sets), sum(len(part) for part in sets)))
    if len(kinds) > 1:
        told = "; ".join(sorted(f"{count:,} of {', '.join(sorted(names))}" for names, count in kinds))
        raise ValueError(f"figures of different positions cannot be drawn beside each other: {told}")


def check_common(networks: Sequence[tuple[str, Path, Path]], points: Sequence[CurvePoint]) -> None:
    """Raise a ValueError unless all runs of a name have a common iteration: their mean is drawn of those alone.

    ``networks``: (name in the picture, the run's folder, the network's file).
    """
    kept: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for name, folder, path in networks:
        kept[name][str(folder)].add(int(path.stem))
    for point in points:
        kept[point.run][point.folder].add(point.iteration)
    for name, runs in kept.items():
        if not set.intersection(*runs.values()):
            raise ValueError(f"{name}: its runs have kept no network of the same iteration")


def find_runs(texts: Sequence[str]) -> tuple[dict[str, list[Path]], list[CurvePoint]]:
    """The folders of runs by what they are drawn as, and the points of files, before any network is judged.

    A text such as "quick=runs/q0,runs/q1" names folders; one that is a folder as it stands is that folder, whatever
    signs it holds, and one that ends in ".jsonl" is a file of points.

    Raises:
        ValueError: if none or one twice is named, or two groups have one name.
    """
    runs: dict[str, list[Path]] = {}
    points: list[CurvePoint] = []
    for text in texts:
        path = Path(text)
        if path.suffix == ".jsonl" and path.is_file():
            points += open_figures(path)[1]
            continue
        is_folder = os.path.isdir(text)  # noqa: PTH112 - a list too long for a name is no folder, not an error
        name, equals, listed = ("", "", text) if is_folder else text.rpartition("=")
        folders = [path] if is_folder else [Path(folder) for folder in listed.split(",") if folder]
        if not folders or (equals and not name):
            raise ValueError(f"{text!r} names no runs; write FOLDER, or NAME=FOLDER,FOLDER")
        name = name or folders[0].absolute().name
        if name in runs:
            raise ValueError(f"the name {name} is given twice; runs are told apart as NAME=FOLDER")
        runs[name] = folders
    folders = [folder.absolute() for group in runs.values() for folder in group]
    folders += {Path(point.folder).absolute() for point in points}
    if not folders:
        raise ValueError("name at least one run's folder, or a file of figures")
    if twice := [folder for index, folder in enumerate(folders) if folder in folders[:index]]:
        raise ValueError(f"the run {twice[0]} is given twice")
    return runs, points


def find_checkpoints(folder: Path, every: int = 1) -> list[Path]:
    """The numbered networks of a run, each ``every``-th, the last one included. Raises ValueError if there is none."""
    inner = folder / "checkpoints"
    found = (inner if inner.is_dir() else folder).glob("[0-9]*.safetensors")
    paths = sorted(path for path in found if path.stem.isdecimal())  # and no stray copies
    if not paths:
        raise ValueError(f"{folder}: no networks of a run here")
    return paths[::-1][::every][::-1]
