"""Matches, training, reports of runs and measurements of strength for Python users."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Unpack

from alphac4.api.agent import MAX_BATCH, Agent, AnyPlayer, is_network_specification, load
from alphac4.api.positions import AnyBoard
from alphac4.arena.match import MatchResult, match_openings
from alphac4.arena.match import play_match as play_openings
from alphac4.arena.players import SearchingPlayer
from alphac4.arena.registry import common_board
from alphac4.bars import Bar
from alphac4.compute import choose_compute
from alphac4.evaluation.measurement import MeasurementPlan, Subject, choose_budgets, measure_strength
from alphac4.evaluation.positions import choose_sets
from alphac4.evaluation.report import StrengthReport
from alphac4.game import Board
from alphac4.mcts.search import MAX_VISITS
from alphac4.runs import reports
from alphac4.runs.reports import TrainedRun
from alphac4.runs.session import find_config
from alphac4.runs.session import train as train_run
from alphac4.selfplay.replay import find_shards, load_shard
from alphac4.selfplay.samples import Samples, concatenate
from alphac4.storage.records import MAX_NUMBER, Range, Seed, checked
from alphac4.training.config import TrainConfig
from alphac4.training.extensions import Extensions, Functions
from alphac4.training.loop import Callbacks

MAX_GAMES = 1_000_000  # of a match

RunPath = Annotated[str | os.PathLike[str], "a path such as 'runs/mine'"]


@checked
def play_match(
    first: "AnyPlayer",
    second: "AnyPlayer",
    *,
    games: Annotated[int, Range(2, MAX_GAMES)] = 100,
    seed: Seed = 0,
    board: AnyBoard | None = None,
    progress: bool = False,
) -> MatchResult:
    """Play a match of colour-swapped pairs of games from random balanced openings.

    Args:
        first: a player; see `load`.
        second: its opponent.
        games: the number of games, even.
        seed: seed of the openings and the players.
        board: by default that of an `Agent` or of a network's file among the players, otherwise the standard board.
        progress: whether to show a progress bar.

    Returns:
        The first player's result.

    Raises:
        TypeError: for an argument of another type.
        ValueError: for a player that cannot be created, an odd number of games, or an illegal move.
    """
    if games % 2:
        raise ValueError(f"games must be even, not {games}: every opening is played with both colours")
    if board is None:
        board = _common_board(first, second)
    sides = []
    for side, player in enumerate((first, second)):
        options: dict[str, Any] = {"batch_size": min(games, MAX_BATCH)} if is_network_specification(player) else {}
        if not hasattr(player, "choose"):
            options["seed"] = [seed, 2, side]
        sides.append(load(player, board=board, **options))
    openings = match_openings(games // 2, seed, board)
    label, disable = f"{sides[0].name} v. {sides[1].name}", {} if progress else {"disable": True}
    with Bar(total=games, desc=label, unit="game", **disable) as bar:
        return play_openings(sides[:1], sides[1:], openings, bar.update)


def _common_board(*players: AnyPlayer) -> Board:
    """Return the board of the first agent among the players, else of the first network, else the standard one."""
    for player in players:
        if isinstance(player, Agent):
            return player.board
    return common_board(tuple(str(player) for player in players if isinstance(player, str | Path)))


@checked
def train(
    config: "TrainConfig | str | None" = None,
    *,
    run: RunPath = "runs/latest",
    settings: RunPath | Mapping[str, Any] | None = None,
    callbacks: Callbacks = (),
    progress: bool = True,
    tensorboard: bool = True,
    **functions: "Unpack[Functions]",
) -> TrainedRun:
    """Train a new network, or resume the run in the folder.

    Args:
        config: settings such as ``TrainConfig.preset("quick", iterations=12)``, or a preset's name. By default a run
            in the folder resumes with its own settings, and a new run has the preset "standard".
        run: the run's folder.
        settings: a JSON file of settings, or a mapping such as ``{"iterations": 8, "network": {"blocks": 6}}``, which
            override those of ``config``.
        callbacks: called during the run. They may stop it by raising `StopTraining`; repeat the call to resume it.
        progress: whether to print a table row for each iteration to the standard error, and progress bars on a
            terminal.
        tensorboard: whether to write curves and images to the folder.
        functions: your own functions instead of the package's, by the names of `iterate`, such as ``loss`` or
            ``gate``. They are not settings: the folder records their names, and a run resumes only with
            functions of the same names.

    Returns:
        The run. If it was stopped, ``history`` ends with the last finished iteration and ``closing_matches`` is empty.

    Raises:
        MemoryError: as for `iterate`.
        OSError: for a folder that cannot be used, or a file of settings that cannot be read.
        RuntimeError: as for `iterate`.
        TypeError: for an argument of another type.
        ValueError: for unknown settings, a folder with another run, or a function that returns invalid values.
    """
    if not str(run):
        raise ValueError("run must be a path such as 'runs/mine', not ''")
    folder, given = Path(run), settings if settings is None or isinstance(settings, Mapping) else Path(settings)
    chosen, extensions = find_config(folder, config, given), Extensions(**functions)
    return train_run(
        folder, chosen, callbacks=callbacks, extensions=extensions, progress=progress, tensorboard=tensorboard
    )


@checked
def read_reports(run: RunPath) -> list[reports.IterationReport]:
    """Read the reports of a run's iterations, as in the ``history`` that `train` returns; the run may be in progress.

    ``pandas.json_normalize([dataclasses.asdict(report) for report in reports])`` converts them to a table.

    Args:
        run: the run's folder, or its file ``reports.jsonl``.

    Raises:
        TypeError: if the run is not a path.
        ValueError: for a run that does not exist, or a file with other contents.
    """
    path = Path(run)
    path = path / reports.REPORTS_FILE if os.path.isdir(path) else path  # noqa: PTH112 - no error for very long names
    if not os.path.isfile(path):  # noqa: PTH113
        raise ValueError(f"{run}: no reports of a run here")
    found = reports.read_reports(path)
    if not found and path.stat().st_size:
        raise ValueError(f"{run}: no reports of a run here")
    return found


@checked
def read_samples(run: RunPath) -> Samples:
    """Read the samples in a run's folder: all positions that it still keeps, the oldest iteration first.

    Args:
        run: the folder of a run, or of the command ``alphac4 selfplay``.

    Raises:
        TypeError: if the run is not a path.
        ValueError: for a folder without samples, or a damaged file.
    """
    shards = find_shards(Path(run) / "replay")
    if not shards:
        raise ValueError(f"{run}: no samples of a run here")
    return concatenate([load_shard(path) for path in shards.values()])


@checked
def evaluate(
    player: "AnyPlayer" = "best",
    *,
    simulations: Sequence[Annotated[int, Range(0, MAX_VISITS)]] | None = None,
    positions: Sequence[str | Path] = (),
    count: Annotated[int, Range(1, MAX_NUMBER)] | None = None,
    references: Sequence[Any] = (),
    seed: Seed = 0,
    device: str = "auto",
    backend: str = "auto",
) -> StrengthReport:
    """Measure a network, or any other player, against exact play.

    Args:
        player: a player; see `load`.
        simulations: numbers of simulations with which to measure a network; 0 is the raw network. By default 0 and 100.
            A specification with a limit, such as "best@600", keeps it. A loaded player keeps its own unless you pass
            ``simulations``.
        positions: files to use instead of the package's six sets.
        count: the number of positions to use of each set; by default all.
        references: other players to measure.
        seed: seed of the searches, and of the untrained network that a checkpoint is compared with.
        device: device of networks in files.
        backend: inference backend of networks in files.

    Raises:
        OSError: for a missing file of positions, or a file that cannot be read.
        RuntimeError: for a device that cannot be used.
        TypeError: for an argument of another type.
        ValueError: for an unknown player, an invalid number, ``simulations`` although all players are specifications
            that do not use them, or a file that holds no positions or a wrong score.
    """
    if simulations is not None and not simulations:
        raise ValueError("simulations must not be empty: give at least one number, such as [0, 100]")
    board, players = _common_board(player), (player, *references)
    written = [str(each) for each in players if isinstance(each, str | Path)]
    measurement = MeasurementPlan(
        sets=choose_sets(board, [Path(path) for path in positions], count),
        budgets=choose_budgets(simulations or (), written if len(written) == len(players) else ()),
        seed=seed,
        compute=choose_compute(device, backend),
    )

    def subject(given: AnyPlayer) -> str | Subject:
        if isinstance(given, str | Path):
            return str(given)
        loaded = load(given, board=board).player
        has_budgets = isinstance(loaded, SearchingPlayer) and (simulations or not hasattr(given, "choose"))
        return Subject.of_player(loaded, measurement.budgets if has_budgets else None)

    return measure_strength(subject(player), measurement, list(map(subject, references)))
