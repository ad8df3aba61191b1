"""Actors, each of which plays some of a run's games on one core, with its own calls to the network.

A slot plays one game after the other, has its own random state and advances by a given number of moves per call. So its
games do not depend on the other slots or on speed: the games of a run are the same on any number of cores, provided
that the network's answers are batch-invariant.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from alphac4.game.rules import Board
from alphac4.machine import has_block_ended, run_in_threads
from alphac4.mcts.network_search import (
    EvaluationCache,
    SupportsEvaluate,
    evaluate_checked,
    input_planes,
    make_cache,
    refresh_cache,
    share_cache,
)
from alphac4.mcts.puct import Puct, check_selection
from alphac4.mcts.simulation import Selection, reuses_tree
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
    make_plan,
    restart_searches,
)
from alphac4.selfplay.samples import ActorStats, Block

SELF_PLAY_PUCT = Puct(prior_temperature=PRIOR_TEMPERATURE)
"""Selection of self-play, unless the settings or functions of a run choose another."""
MAX_BLOCK_INTERVAL_S = 2.0  # longest time for which finished games are held back
# Cached evaluations, of 64 bytes each on the standard board, so that few positions are evaluated twice. The size of the
# cache changes the speed of self-play, not the games.
MAX_CACHED_EVALUATIONS = 2**19
RECORD_COPIES = 4  # of each game in progress: for play, in the run's state, and two while the state's file is written
UNLIMITED_MOVES = 2**62  # moves per game of an actor that plays until it is stopped


class SelfPlayer(Protocol):
    """Player of some of a run's games, such as `Actor`, which plays them on a core."""

    slots: int  # number of concurrent games

    def play(self, moves: int, stopped: Callable[[], bool], plan: GamePlan | None = None) -> Iterator[Block]:
        """Play ``moves`` moves in each slot, starting a new game when one ends, and yield finished games.

        Games in progress continue with the next call. Playing ends early if ``stopped`` returns True; the default
        ``plan`` has the settings' budgets and starts from the empty board.
        """

    def reset(self, rng: np.random.Generator) -> None:
        """Discard the games in progress and start new ones, with random states drawn from ``rng``."""

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the complete state between two calls of `play`: the games in progress, one row per game."""

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Resume the games of `state`; raise ValueError if their number or the board's size differs."""


def bytes_per_game(board: Board, config: SelfPlayConfig, max_simulations: int) -> int:
    """Return the size of a game's tree and of the copies of its record."""
    trees = make_trees(1, config.tree_nodes(max_simulations), board, np.random.default_rng(0))
    parts = [*trees, *RECORD_COPIES * make_games(1, board)]
    return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))


class Actor:
    """`SelfPlayer` on one core, whose games continue from one call of `play` to the next."""

    def __init__(
        self,
        board: Board,
        config: SelfPlayConfig,
        evaluator: SupportsEvaluate,
        slots: int,
        rng: np.random.Generator,  # draws the slots' random states in turn: several actors play the same games as one
        cache: EvaluationCache | None = None,  # shared by actors with the same evaluator; by default a cache of its own
        *,
        selection: Selection = SELF_PLAY_PUCT,
        max_simulations: int = 0,  # largest budget of plans, if above those of ``config``
    ) -> None:
        self.board = board
        self.config = config
        self.evaluator = evaluator
        self.slots = slots
        self._selection = check_selection(selection)
        self._trees = make_trees(slots, config.tree_nodes(max_simulations), board, rng, reuse=reuses_tree(selection))
        self._games = make_games(slots, board)
        self.stats = ActorStats()  # statistics of the work since the last block
        self._cache = share_cache(cache) if cache else make_cache(MAX_CACHED_EVALUATIONS, board)

    def play(self, moves: int, stopped: Callable[[], bool], plan: GamePlan | None = None) -> Iterator[Block]:
        board, trees, games = self.board, self._trees, self._games
        plan = plan or make_plan(board, self.config)
        slots = self.slots
        planes = np.zeros((slots, input_planes(self.evaluator), board.rows, board.columns), np.float32)
        logits, wdl = np.zeros((slots, board.columns), np.float32), np.zeros((slots, 3), np.float32)
        games.left[:] = moves
        restart_searches(trees, games, planes)
        refresh_cache(self._cache, self.evaluator)
        finished = list[Games]()
        now = last_block = time.perf_counter()
        while not stopped():
            waiting = np.flatnonzero(trees.leaf != NO_NODE)
            if len(waiting):
                logits[waiting], wdl[waiting] = evaluate_checked(self.evaluator, planes[waiting])
                self.stats.evaluations += len(waiting)
            elif not games.left.any() and not (games.stage == GAME_OVER).any():
                break
            evaluated = time.perf_counter()
            over = np.flatnonzero(games.stage == GAME_OVER)
            if len(over):
                finished.append(Games._make(array[over] for array in games))
                games.stage[over] = NEW_GAME
            advance(trees, games, plan, self._selection, logits, wdl, planes, self._cache)
            self.stats.network_seconds += evaluated - now
            now = time.perf_counter()
            self.stats.tree_seconds += now - evaluated
            count = sum(len(part.plies) for part in finished)
            if count >= 2 * slots or (count and now - last_block > MAX_BLOCK_INTERVAL_S):
                last_block = now
                yield self._make_block(finished)
                finished = []
        # The next call restarts the searches in progress.
        if finished:
            yield self._make_block(finished)

    def _make_block(self, finished: Sequence[Games]) -> Block:
        """Return the finished games with the statistics since the last block."""
        stats, self.stats = self.stats, ActorStats()
        stats.simulations = int(self._games.simulations.sum())
        self._games.simulations[:] = 0
        stats.cached = int(self._cache.hits[0])
        self._cache.hits[0] = 0
        return Block(games=join_finished(finished), stats=stats)

    def reset(self, rng: np.random.Generator) -> None:
        self._games.stage[:] = NEW_GAME
        self._trees.rng[:] = rng.integers(1, 2**63, self.slots, dtype=np.uint64)

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        trees = {name: getattr(self._trees, name) for name in ("own", "occupied", "rng")}
        games = {name: getattr(self._games, name) for name in Games._fields if name != "simulations"}
        return {f"{kind}.{name}": a for kind, part in (("trees", trees), ("games", games)) for name, a in part.items()}

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        for name, array in self.state().items():
            if name not in state or state[name].shape != array.shape:
                raise ValueError("the saved games do not fit the settings of self-play")
            array[...] = state[name]


def play_together(
    actors: Sequence[SelfPlayer],
    moves: int,
    on_block: Callable[[int, Block], None],  # called in the calling thread with an actor's index and its games
    check: Callable[[], None] = lambda: None,  # called in the calling thread at least once per `CHECK_INTERVAL_S`
    plan: GamePlan | None = None,
) -> None:
    """Call `SelfPlayer.play` of every actor in a thread of its own, until all are done.

    An exception, of a callback or an actor, is raised immediately, and stops all actors after their current step.
    """

    def play(index: int, on_event: Callable[[tuple[int, Block]], None]) -> None:
        for block in actors[index].play(moves, has_block_ended, plan):
            on_event((index, block))

    run_in_threads([partial(play, index) for index in range(len(actors))], lambda event: on_block(*event), check)
