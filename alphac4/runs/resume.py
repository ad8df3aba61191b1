"""The games in progress when a run goes on, on as many actors as there are now."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from alphac4.compute import Actors
from alphac4.runs.folder import RunFolder
from alphac4.runs.state import RunState
from alphac4.selfplay.actor import GamesInProgress, count_games, join_actors, share_out, split_actors
from alphac4.storage.arrays import ArrayFileError, load_arrays, save_arrays
from alphac4.training.config import RunRandom

logger = logging.getLogger(__name__)

SHARED_OUT_FORMAT = "alphac4-games-shared-out-2"


@dataclass(frozen=True, kw_only=True)
class LeftGames:
    """The games that an interrupted run has left, by actor."""

    games: Mapping[int, GamesInProgress]
    missing: Mapping[int, int]  # actors whose games are lost, and the number of the shard that each begins with
    shards: Mapping[int, int]  # how many each actor has recorded in this iteration


def resume_games(actors: Actors, folder: RunFolder, state: RunState, random: RunRandom) -> None:
    """Continue the games that were in progress, or begin new ones where they do not fit.

    With as many actors as before, each continues its own games exactly. With another number they are dealt out anew, at
    most as many as are played at once here, and a file in ``in_progress/`` records the deal, because an actor's later
    shards then come from other games than its earlier ones.
    """
    iteration = state.iteration + 1
    left = _left_games(folder, state, iteration)
    if state.iteration:
        actors.reset(lambda index: random.generator(state.iteration, "new games", index))
    if left is None or (state.iteration and not left.games):
        _begin_anew(actors, folder, iteration, random)
    elif not _fit(actors, left.games):
        _share_out(actors, folder, left, iteration, random)
    else:
        try:
            _continue(actors, left, iteration, random)
        except ValueError:  # of arrays that do not fit
            _begin_anew(actors, folder, iteration, random)


def shards_before_sharing(folder: RunFolder, iteration: int) -> Mapping[int, int]:
    """How many shards of an iteration each actor had recorded when its games were dealt out anew; none if never."""
    path = folder.shared_out_path(iteration)
    try:
        return _load_sharing(path)[1] if path.exists() else {}
    except ArrayFileError:  # `resume_games` has told it
        return {}


def _continue(actors: Actors, left: LeftGames, iteration: int, random: RunRandom) -> None:
    """Let each actor play on; one whose games are lost begins new ones."""
    actors.restore(join_actors(left.games))
    for index, number in left.missing.items():
        if actors.takes(index):
            actors.reset_one(index, random.generator(iteration, "resumed actor", index + 1000 * number))


def _begin_anew(actors: Actors, folder: RunFolder, iteration: int, random: RunRandom) -> None:
    """Let all actors begin new games."""
    logger.warning("the games in progress were played with other settings, or are lost: new ones begin")
    recorded = sum(folder.replay.next_numbers(iteration).values())
    actors.reset(lambda index: random.generator(iteration, f"new games after {recorded}", index))


def _share_out(actors: Actors, folder: RunFolder, left: LeftGames, iteration: int, random: RunRandom) -> None:
    """Let other numbers of actors play the games that have begun."""
    recorded = sum(left.shards.values())
    groups = share_out(left.games, actors.slots)
    kept = {index: games for index, games in enumerate(groups) if actors.takes(index)}
    dropped = sum(map(count_games, groups)) - sum(map(count_games, kept.values()))
    if dropped:
        logger.warning("%d games in progress are not kept: fewer are played at once here", dropped)
    facts = {"format": SHARED_OUT_FORMAT, "shards": left.shards}
    save_arrays(folder.shared_out_path(iteration), join_actors(kept), facts)
    actors.reset(lambda index: random.generator(iteration, f"shared out after {recorded}", index))
    actors.restore(join_actors(kept))


def _load_sharing(path: Path) -> tuple[dict[int, GamesInProgress], dict[int, int]]:
    """The games of each actor as they were dealt out, and how many shards each had recorded until then.

    Raises:
        ArrayFileError: if the file is damaged.
    """
    arrays, facts = load_arrays(path, SHARED_OUT_FORMAT)
    return split_actors(arrays), {int(index): int(number) for index, number in facts["shards"].items()}


def _left_games(folder: RunFolder, state: RunState, iteration: int) -> LeftGames | None:
    """As of each actor's last shard, else of when they were shared out, else of the iteration before.

    None if it cannot be known which games have come to their end.
    """
    games, known = split_actors(state.actors), dict[int, int]()
    path = folder.shared_out_path(iteration)
    if path.exists():
        try:
            games, known = _load_sharing(path)
        except ArrayFileError as error:
            logger.warning("%s", error)
            return None
    shards, missing = folder.replay.next_numbers(iteration), {}
    for index, number in shards.items():
        if number > known.get(index, 0):
            found = folder.games_in_progress(iteration, index, number - 1)
            games.pop(index, None)
            if found is None:
                missing[index] = number
            else:
                games[index] = found
    return LeftGames(games=games, missing=missing, shards=shards)


def _fit(actors: Actors, games: Mapping[int, GamesInProgress]) -> bool:
    """Whether each actor can go on with the games that it had; the last one may have had fewer than it plays."""
    return all(
        actors.takes(index)
        and (count_games(found) == actors.slots or (index == max(games) and 0 < count_games(found) < actors.slots))
        for index, found in games.items()
    )
