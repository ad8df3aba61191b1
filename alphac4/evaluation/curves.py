"""The errors of the networks that runs have kept, from finding them to judging each."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from alphac4.compute import Compute
from alphac4.evaluation.answers import ask_players, errors_by_set, judge_moves, network_players
from alphac4.evaluation.positions import PositionSet
from alphac4.storage.checkpoints import Checkpoint
from alphac4.storage.journal import Journal, read_entries, read_entry
from alphac4.storage.records import read_record, read_value

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


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Time and evaluations of a run until the end of an iteration."""

    seconds: float = 0.0
    evaluations: int = 0


@dataclass(frozen=True, kw_only=True)
class FoundRun:
    """A run's networks to judge, or figures of those that were judged."""

    group: str
    folder: Path
    networks: list[Path] = field(default_factory=list)
    spent: dict[int, Spent] = field(default_factory=dict)  # by iteration
    figures: list[CurvePoint] = field(default_factory=list)

    @property
    def iterations(self) -> set[int]:
        """The iterations whose networks are there."""
        return {int(path.stem) for path in self.networks} | {point.iteration for point in self.figures}

    def known(self, figures: Sequence[CurvePoint], iteration: int, budgets: Sequence[int]) -> list[CurvePoint]:
        """The figures of one network of this run, known by folder, iteration and evaluations until then."""
        wanted = (str(self.folder), iteration, self.spent.get(iteration, Spent()).evaluations)
        own = {p.simulations: p for p in figures if (p.folder, p.iteration, p.evaluations) == wanted}
        return [replace(own[budget], run=self.group) for budget in budgets if budget in own]

    def judge(
        self, checkpoint: Checkpoint, sets: Sequence[PositionSet], budgets: Sequence[int], compute: Compute
    ) -> list[CurvePoint]:
        """One network's errors with each budget."""
        evaluator = compute.evaluator(checkpoint.network, streams=compute.streams)
        iteration = int(dict(checkpoint.provenance).get("iteration", 0))
        spent = self.spent.get(iteration, Spent())
        points = []
        for budget in budgets:
            answers = ask_players(network_players(compute, evaluator, budget, checkpoint.geometry), sets)
            points.append(
                CurvePoint(
                    iteration=iteration,
                    minutes=spent.seconds / 60,
                    evaluations=spent.evaluations,
                    simulations=budget,
                    errors=errors_by_set(sets, answers),
                    error=judge_moves(sets, answers.columns).error.value,
                    positions=sum(len(part) for part in sets),
                    run=self.group,
                    folder=str(self.folder),
                )
            )
        return points


def open_figures(path: Path | None) -> tuple[Journal, list[CurvePoint]]:
    """The file of JSON lines that `alphac4 curve --output` writes, and the points in it.

    Raises:
        FileError: if it is another file.
    """
    journal = Journal(path, FORMAT, {})
    return journal, list(journal.read(lambda entry: read_record(CurvePoint, entry)))


def read_figures(path: Path) -> list[CurvePoint]:
    """The points in a file of figures.

    Raises:
        ValueError: naming the file, if there are none in it.
    """
    points = open_figures(path)[1] if path.exists() else []
    if not points:
        raise ValueError(f"{path}: no figures of a run here")
    return points


def check_comparable(points: Sequence[CurvePoint], sets: Sequence[PositionSet]) -> None:
    """Raise a ValueError unless all points are of the same positions: those of ``sets``, if there are any."""
    kinds = {(frozenset(point.errors), point.positions) for point in points}
    if sets:
        kinds.add((frozenset(part.name for part in sets), sum(len(part) for part in sets)))
    if len(kinds) > 1:
        told = "; ".join(sorted(f"{count:,} of {', '.join(sorted(names))}" for names, count in kinds))
        raise ValueError(f"figures of different positions cannot be drawn beside each other: {told}")


def find_runs(texts: Sequence[str], every: int) -> list[FoundRun]:
    """The runs that texts such as "quick=runs/q0,runs/q1" name, before the first network is judged.

    A text that names a folder is that folder, whatever signs it holds. Runs of one name are drawn as one.

    Raises:
        ValueError: if none or one twice is named, two groups have one name, or a group's runs no common iteration.
    """
    named: dict[str, list[Path]] = {}
    found: list[FoundRun] = []
    for text in texts:
        name, equals, listed = text.rpartition("=") if not _is_folder(text) else ("", "", text)
        folders = [Path(folder) for folder in ([listed] if _is_folder(listed) else listed.split(",")) if folder]
        if not folders or (equals and not name):
            raise ValueError(f"{text!r} names no runs; write FOLDER, or NAME=FOLDER,FOLDER")
        name = name or ("" if _is_file_of_figures(folders[0]) else folders[0].absolute().name)
        if name in named and name:
            raise ValueError(f"the name {name} is given twice; runs are told apart as NAME=FOLDER")
        named[name] = folders
        found += [run for folder in folders for run in _find_runs(name, folder, every)]
    if not found:
        raise ValueError("name at least one run's folder")
    for name in {run.group for run in found}:
        runs = [run for run in found if run.group == name]
        if not set.intersection(*(run.iterations for run in runs)):
            raise ValueError(f"{name}: its runs have kept no network of the same iteration")
    folders = [run.folder.absolute() for run in found]
    if twice := [folder for index, folder in enumerate(folders) if folder in folders[:index]]:
        raise ValueError(f"the run {twice[0]} is given twice")
    return found


def _find_runs(name: str, path: Path, every: int) -> list[FoundRun]:
    """The run of a folder, or those in a file of figures."""
    if not _is_file_of_figures(path):
        return [FoundRun(group=name, folder=path, spent=_read_spent(path), networks=find_checkpoints(path, every))]
    points = [replace(point, run=name or point.run) for point in read_figures(path)]
    folders = {folder: [p for p in points if p.folder == folder] for folder in dict.fromkeys(p.folder for p in points)}
    return [FoundRun(group=own[0].run, folder=Path(folder), figures=own) for folder, own in folders.items()]


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


def _read_spent(folder: Path) -> dict[int, Spent]:
    """Time and evaluations of a run until the end of each iteration, from its reports.

    Raises:
        ValueError: if there are none.
    """

    def parse(line: str) -> tuple[int, Spent]:
        report = read_entry(line)
        kinds = {"iteration": int, "seconds_total": float, "evaluations_total": int}
        iteration, seconds, evaluations = (read_value(kind, report.get(name), name) for name, kind in kinds.items())
        return iteration, Spent(seconds=seconds, evaluations=evaluations)

    found = {0: Spent()} | dict(read_entries(folder / "reports.jsonl", parse))
    if len(found) == 1:
        raise ValueError(f"{folder}: no reports of a run here")
    return found


def _is_folder(text: str) -> bool:
    """Whether a text as it stands names a folder, whatever signs it holds."""
    return os.path.isdir(text)  # noqa: PTH112 - a name too long for a folder is none, not an error


def _is_file_of_figures(path: Path) -> bool:
    """Whether a name is that of a file which ``--output`` may have written, and not of a run's folder."""
    return path.suffix == ".jsonl" and not _is_folder(str(path))
