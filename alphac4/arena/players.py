"""Every kind of opponent behind one batch-first interface."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from alphac4.arena.negamax import score_moves
from alphac4.arena.uct_options import UctOptions, describe_uct_options
from alphac4.game import Geometry, Position
from alphac4.game.planes import make_planes, stones
from alphac4.game.rules import STANDARD
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.results import SearchResult
from alphac4.mcts.search import Budget, Evaluate, NetworkSearch, TreeSearch
from alphac4.mcts.tree import PROVEN_DRAW, UNPROVEN
from alphac4.mcts.uct import UctConfig
from alphac4.mcts.uct_search import UctSearch


class PlayerError(ValueError):
    """A player that cannot be made, or cannot play here, and why, in one line."""


class Player(Protocol):
    """Chooses moves for a batch of unfinished positions."""

    name: str

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """A 0-based column for each position."""


class RandomPlayer:
    """Plays uniformly random legal moves."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.name = "random"
        self._rng = rng

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        return [int(self._rng.choice(position.legal_columns())) for position in positions]


class UctPlayer:
    """Classic MCTS with random rollouts; ``threads`` trees are searched at a time."""

    def __init__(
        self,
        budget: Budget,
        rng: np.random.Generator,
        geometry: Geometry = STANDARD,
        options: UctOptions | None = None,
        threads: int = 1,
    ) -> None:
        options = options or UctOptions(config=UctConfig())
        self.name = f"uct:{budget_name(budget)}{describe_uct_options(options)}"
        self.budget = budget
        self.tree_search = UctSearch(
            options.config,
            geometry=geometry,
            rng=rng,
            reuse="trees" if options.tree == "keep" else "nothing",
            threads=threads,
            roots=options.roots,
        )

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        return [int(move) for result in _search_each(self.tree_search, positions, self.budget) for move in result.moves]


class NetworkPlayer:
    """A network with PUCT search, a fresh tree each move; without a budget, its raw policy.

    What one search has proven is played out from its tree without another.

    With a ``temperature`` T above 0 it draws moves in proportion to ``visits ** (1 / T)``, or from the raw policy
    with its logits divided by T, instead of playing the best one; a proven result is always played. Another
    ``search`` of the same network takes the place of the usual one.
    """

    def __init__(
        self,
        name: str,
        evaluator: Evaluate,
        budget: Budget | None,
        rng: np.random.Generator,
        geometry: Geometry = STANDARD,
        config: PuctConfig | None = None,
        *,
        temperature: float = 0.0,
        search: NetworkSearch | None = None,
    ) -> None:
        if temperature < 0:
            raise ValueError(f"temperature must not be negative, not {temperature}")
        self.name = name
        self.budget = budget
        self.geometry = geometry
        self.temperature = temperature
        self._rng = rng
        self._evaluator = evaluator
        self.tree_search = search or NetworkSearch(evaluator, config, geometry=geometry, rng=rng, reuse="proofs")

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        return self.decide(positions)[0]

    def decide(self, positions: Sequence[Position]) -> tuple[list[int], list[bool]]:
        """`choose`, and whether the search has proven that the move wins."""
        if self.budget is None:
            return self._choose_by_policy(positions), [False] * len(positions)
        results = _search_each(self.tree_search, positions, self.budget)
        moves = [move for result in results for move in self._pick(result)]
        proofs = [row for result in results for row in result.proofs]
        return moves, [PROVEN_DRAW < row[move] < UNPROVEN for move, row in zip(moves, proofs, strict=True)]

    def _choose_by_policy(self, positions: Sequence[Position]) -> list[int]:
        own, occupied = stones(positions)
        logits, _ = self._evaluator.evaluate(make_planes(self.geometry, own, occupied))
        moves = []
        for position, row in zip(positions, logits, strict=True):
            legal = position.legal_columns()
            moves.append(legal[self._draw(row[legal].astype(np.float64))])
        return moves

    def _pick(self, result: SearchResult) -> list[int]:
        if self.temperature == 0:
            return [int(move) for move in result.moves]
        moves = []
        for best, visits, proofs in zip(result.moves, result.visits, result.proofs, strict=True):
            decided = not (proofs == UNPROVEN).any() or ((proofs > PROVEN_DRAW) & (proofs < UNPROVEN)).any()
            open_columns = np.flatnonzero((visits > 0) & (proofs >= PROVEN_DRAW))
            if decided or not len(open_columns):
                moves.append(int(best))
            else:
                moves.append(int(open_columns[self._draw(np.log(visits[open_columns]))]))
        return moves

    def _draw(self, log_weights: npt.NDArray[np.float64]) -> int:
        """An index, by softmax of ``log_weights`` over the temperature; the largest at temperature 0."""
        if self.temperature == 0:
            return int(log_weights.argmax())
        weights = np.exp((log_weights - log_weights.max()) / self.temperature)
        return int(self._rng.choice(len(weights), p=weights / weights.sum()))


class NegamaxPlayer:
    """Alpha-beta to a fixed depth in plies with a hand-written evaluation, at random among equally good moves."""

    def __init__(self, depth: int, rng: np.random.Generator) -> None:
        if depth < 1:
            raise PlayerError(f"negamax looks at least 1 ply ahead, not {depth}")
        self.name = f"negamax:{depth}"
        self.depth = depth
        self._rng = rng

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        moves = []
        for position in positions:
            scores = np.zeros(position.geometry.columns, np.int64)
            score_moves(position.geometry, position.own, position.occupied, self.depth, scores)
            moves.append(_random_best(scores, self._rng))
        return moves


class OpenSpielPlayer:
    """OpenSpiel's C++ MCTS with random rollouts: an independent implementation to be held against."""

    def __init__(self, simulations: int, rng: np.random.Generator) -> None:
        try:
            import pyspiel
        except ImportError as error:
            raise PlayerError("openspiel needs the open_spiel package: pip install 'alphac4[openspiel]'") from error
        self.name = f"openspiel:{simulations}"
        self._game = pyspiel.load_game("connect_four")
        seed, rollout_seed = (int(number) for number in rng.integers(1, 2**31 - 1, 2))
        exploration, memory_mb, solve, verbose = 2.0, 1000, True, False
        rollouts = pyspiel.RandomRolloutEvaluator(1, rollout_seed)
        self._bot = pyspiel.MCTSBot(self._game, rollouts, exploration, simulations, memory_mb, solve, seed, verbose)

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`; the positions need their move strings.

        Raises:
            PlayerError: for a position whose moves are not known, or on another board.
        """
        moves = []
        for position in positions:
            if position.moves is None or position.geometry != STANDARD:
                raise PlayerError("openspiel only plays positions of the standard board whose moves are known")
            state = self._game.new_initial_state()
            for name in position.moves:
                state.apply_action(int(name) - 1)
            moves.append(int(self._bot.step(state)))
        return moves


def budget_name(budget: Budget) -> str:
    """A budget as specifications write it: "600" or "1.5s"."""
    return str(budget.simulations) if budget.simulations is not None else f"{budget.seconds:g}s"


def _search_each(search: TreeSearch, positions: Sequence[Position], budget: Budget) -> list[SearchResult]:
    """Search all positions at once, or with one tree for all in turn if time alone bounds its size."""
    if budget.seconds is None or search.reuse == "trees":
        return [search.search(positions, budget)]
    return [search.search([position], budget) for position in positions]


def _random_best(scores: npt.NDArray[np.integer], rng: np.random.Generator) -> int:
    """A random one of the columns with the highest score; full ones are marked by a score below all others."""
    return int(rng.choice(np.flatnonzero(scores == scores.max())))
