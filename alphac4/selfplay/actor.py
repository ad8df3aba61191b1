"""Actors: each plays some of a run's games in lockstep on one core, with its own calls to the network.

A game draws random numbers of its own, and goes on by a given number of moves. So it does not matter to a game which
others an actor plays, nor how fast: the games of a run are the same on any number of cores, as long as the network's
answer to a position does not depend on the others in its batch.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from alphac4.game.rules import Geometry
from alphac4.mcts.network_search import (
    Evaluate,
    EvaluationCache,
    NetworkParameters,
    evaluate_checked,
    input_planes,
    make_cache,
    refresh_cache,
    share_cache,
)
from alphac4.mcts.search import compiled_for
from alphac4.mcts.simulation import check_rule
from alphac4.mcts.tree import NO_NODE, make_trees
from alphac4.selfplay.config import PRIOR_TEMPERATURE, SelfPlayConfig
from alphac4.selfplay.games import (
    GAME_OVER,
    NEW_GAME,
    GamePlan,
    Games,
    advance,
    join_finished,
    make_games,
    make_parameters,
    make_plan,
    restart_searches,
)
from alphac4.selfplay.samples import Block, Work

SECONDS_BETWEEN_BLOCKS = 2.0  # at most, once games have finished
# Evaluations that are kept, so that few positions go through the same weights twice: 64 bytes each on the standard
# board. It changes how long games take, not how they are played.
MAX_CACHED_EVALUATIONS = 2**19
UNLIMITED = 2**62  # moves of each game: an actor plays on until it is stopped
CHECK_INTERVAL_S = 0.1  # at most, while actors play


class SelfPlayer(Protocol):
    """Plays some of a run's games; see `Actor`, which does so on a core."""

    slots: int  # games at once

    def play(self, moves: int, stopped: Callable[[], bool], plan: GamePlan | None = None) -> Iterator[Block]:
        """Go on by so many ``moves`` in each game, a new one beginning where one ends, or until ``stopped()``.

        What has not ended stays where it is.
        """

    def reset(self, rng: np.random.Generator) -> None:
        """Forget the games in progress and start others."""

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the games in progress, one row per game; between two calls of `play` nothing else matters."""

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Resume the games of `state`.

        Raises:
            ValueError: if they were played with other settings.
        """


class Actor:
    """Plays ``slots`` games at once; its games go on from one `play` to the next.

    ``rng`` gives each of them a number to begin with, so that actors made one after the other have the same games as
    one that has all of them. Actors of one network may share a ``cache``. ``selection`` holds the parameters of the
    rule of selection, by default PUCT; plans may ask for searches of up to ``max_simulations``.
    """

    def __init__(
        self,
        geometry: Geometry,
        config: SelfPlayConfig,
        evaluator: Evaluate,
        slots: int,
        rng: np.random.Generator,
        cache: EvaluationCache | None = None,
        *,
        selection: NetworkParameters | None = None,
        max_simulations: int = 0,
    ) -> None:
        self.geometry = geometry
        self.config = config
        self.evaluator = evaluator
        self.slots = slots
        self._selection = selection or config.puct(PRIOR_TEMPERATURE)
        nodes = max(config.full_simulations, config.fast_simulations, max_simulations) + 2
        self._trees = make_trees(slots, nodes, geometry, rng)
        check_rule(self._selection, self._trees)
        self._games = make_games(slots, geometry)
        self.work = Work()  # since the last block
        self._cache = share_cache(cache) if cache else make_cache(MAX_CACHED_EVALUATIONS, geometry)

    def play(self, moves: int, stopped: Callable[[], bool], plan: GamePlan | None = None) -> Iterator[Block]:
        """See `SelfPlayer`."""
        geometry, trees, games = self.geometry, self._trees, self._games
        parameters, selection = make_parameters(self.config), self._selection
        plan = plan or make_plan(geometry, self.config)
        advance_games = compiled_for(selection, advance)
        slots = self.slots
        planes = np.zeros((slots, input_planes(self.evaluator), geometry.rows, geometry.columns), np.float32)
        logits, wdl = np.zeros((slots, geometry.columns), np.float32), np.zeros((slots, 3), np.float32)
        games.left[:] = moves
        restart_searches(trees, games, planes)
        refresh_cache(self._cache, self.evaluator)  # clears the cache of their answers
        finished = list[Games]()
        now = last_block = time.perf_counter()
        while not stopped():
            waiting = np.flatnonzero(trees.leaf != NO_NODE)
            if len(waiting) > slots // 2:
                logits[:], wdl[:] = evaluate_checked(self.evaluator, planes)
                self.work.evaluations += slots
            elif len(waiting):  # the others have made their moves
                logits[waiting], wdl[waiting] = evaluate_checked(self.evaluator, planes[waiting])
                self.work.evaluations += len(waiting)
            elif not games.left.any() and not (games.stage == GAME_OVER).any():
                break
            evaluated = time.perf_counter()
            over = np.flatnonzero(games.stage == GAME_OVER)
            if len(over):
                finished.append(Games._make(array[over] for array in games))
                games.stage[over] = NEW_GAME
            advance_games(trees, games, parameters, plan, selection, logits, wdl, planes, self._cache)
            self.work.network_seconds += evaluated - now
            now = time.perf_counter()
            self.work.tree_seconds += now - evaluated
            count = sum(len(part.plies) for part in finished)
            if count >= 2 * slots or (count and now - last_block > SECONDS_BETWEEN_BLOCKS):
                last_block = now
                yield self._make_block(finished)
                finished = []
        # The searches in progress have been for nothing: the next call begins them anew.
        if finished:
            yield self._make_block(finished)

    def _make_block(self, finished: Sequence[Games]) -> Block:
        """Return the games that have ended, with the work since the last block."""
        work, self.work = self.work, Work()
        work.simulations = int(self._games.simulations.sum())
        self._games.simulations[:] = 0
        work.cached = int(self._cache.hits[0])
        self._cache.hits[0] = 0
        return Block(games=join_finished(finished), work=work)

    def reset(self, rng: np.random.Generator) -> None:
        """See `SelfPlayer`."""
        self._games.stage[:] = NEW_GAME
        self._trees.rng[:] = rng.integers(1, 2**63, self.slots, dtype=np.uint64)

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """See `SelfPlayer`."""
        trees = {name: getattr(self._trees, name) for name in ("own", "occupied", "rng")}
        games = {name: getattr(self._games, name) for name in Games._fields if name != "simulations"}
        return {f"{kind}.{name}": a for kind, part in (("trees", trees), ("games", games)) for name, a in part.items()}

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """See `SelfPlayer`."""
        for name, array in self.state().items():
            if name not in state or state[name].shape != array.shape:
                raise ValueError("the saved games do not fit the settings")
            array[...] = state[name]


def play_together(
    actors: Sequence[SelfPlayer],
    moves: int,
    on_block: Callable[[int, Block], None],
    check: Callable[[], None] = lambda: None,
    plan: GamePlan | None = None,
) -> None:
    """Let every actor `SelfPlayer.play` on a thread of its own.

    ``on_block(actor, block)`` and ``check()`` run in the calling thread, ``check`` at least once in
    `CHECK_INTERVAL_S`. An exception, here or in an actor, stops all actors and is raised once they have stopped.
    """
    blocks: queue.Queue[tuple[int, Block | BaseException | None]] = queue.Queue()
    halt = threading.Event()

    def work(index: int) -> None:
        try:
            for block in actors[index].play(moves, halt.is_set, plan):
                blocks.put((index, block))
            blocks.put((index, None))
        except BaseException as error:  # carried to the caller
            blocks.put((index, error))

    threads = [threading.Thread(target=work, args=(index,), name=f"actor-{index}") for index in range(len(actors))]
    for thread in threads:
        thread.start()
    try:
        running = len(actors)
        while running:
            check()
            try:
                index, block = blocks.get(timeout=CHECK_INTERVAL_S)
            except queue.Empty:
                continue
            if isinstance(block, BaseException):
                raise block
            if block is None:
                running -= 1
            else:
                on_block(index, block)
    finally:
        halt.set()
        for thread in threads:
            thread.join()
