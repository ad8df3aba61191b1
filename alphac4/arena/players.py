"""One batch-first interface of every player, and the players that need nothing but the rules or a tree search."""

import copy
import dataclasses
import time
from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from alphac4.arena.options import UctOptions, describe_options
from alphac4.game import Geometry, Position
from alphac4.game.planes import make_planes, stones
from alphac4.game.rules import STANDARD
from alphac4.game.symmetry import oriented
from alphac4.mcts.drawing import Searched
from alphac4.mcts.kept_trees import Reuse
from alphac4.mcts.network_search import Evaluate, NetworkParameters, NetworkSearch, input_planes
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.results import NodeView, SearchResult, join_results, root_wdl
from alphac4.mcts.search import Budget, TreeSearch
from alphac4.mcts.tree import ILLEGAL, PROVEN_DRAW, UNPROVEN
from alphac4.mcts.uct_search import UctSearch


class PlayerError(ValueError):
    """A player that cannot be made, or cannot play here, and why, in one line."""


class Player(Protocol):
    """Chooses moves for a batch of unfinished positions."""

    name: str

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """A 0-based column for each position."""


@runtime_checkable
class SearchingPlayer(Player, Protocol):
    """A player that can also say what it thinks, for whatever budget it is given."""

    @property
    def budget(self) -> Budget:
        """What it spends on a position unless `search` is given another budget."""

    @property
    def reuse(self) -> Reuse:
        """What it keeps of one search for the positions that follow; see `Reuse`."""

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResult:
        """What it thinks of each position, and in ``moves`` what it plays, by default for its own budget."""

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """A node in the tree of the ``index``-th position searched last; see `TreeSearch.node`."""


@runtime_checkable
class KeepsTrees(Protocol):
    """A player that keeps trees between searches."""

    def drop_trees(self) -> None:
        """Let no tree be kept for the positions that follow."""


@runtime_checkable
class GivesTrees(Protocol):
    """A player that can give the trees of its last search away."""

    def detach(self) -> Searched:
        """Those trees, which stay as they are."""


def keep_trees(player: SearchingPlayer) -> Searched:
    """The trees of a player's last search, which stay as they are whatever it searches next.

    A player of somebody else's shows those of whatever it has searched last.
    """
    return player.detach() if isinstance(player, GivesTrees) else player


def drop_trees(player: SearchingPlayer) -> None:
    """Let a player begin its next search anew, as in a new game; somebody else's player decides that by itself."""
    if isinstance(player, KeepsTrees):
        player.drop_trees()


def as_searching(player: Player) -> SearchingPlayer | None:
    """The player as one that searches; None if it only chooses."""
    return player if isinstance(player, SearchingPlayer) else None


class RandomPlayer:
    """Plays uniformly random legal moves."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.name = "random"
        self._rng = rng

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        return [int(self._rng.choice(position.legal_columns())) for position in positions]


class TreePlayer:
    """What players that search a tree share: a search and its usual budget."""

    def __init__(self, name: str, search: TreeSearch, budget: Budget) -> None:
        self.name = name
        self.budget = budget
        self._search = search
        self._trees = 0  # that belong to the positions searched last

    @property
    def reuse(self) -> Reuse:
        """See `SearchingPlayer`."""
        return self._search.reuse

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        return [int(move) for move in self.search(positions).moves]

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResult:
        """See `SearchingPlayer`."""
        budget = budget or self.budget
        if budget.seconds is None or self.reuse == "trees" or len(positions) <= 1:
            self._trees = len(positions)
            return self._search.search(positions, budget)
        # Where time bounds a tree there must be room for a large one: all positions use the same in turn.
        self._trees = 0
        return join_results([self._search.search([position], budget) for position in positions])

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """See `SearchingPlayer`.

        Raises:
            ValueError: if there is no such tree, or it does not reach that far.
        """
        if not 0 <= index < self._trees:
            raise ValueError(f"there is no tree {index} of the last search")
        return self._search.node(index, path)

    def drop_trees(self) -> None:
        """See `KeepsTrees`."""
        self._trees = 0
        self._search.drop_trees()

    def detach(self) -> Self:
        """The player with the trees of its last search, which this one gives away: they stay as they are."""
        detached = copy.copy(self)
        detached._search = self._search.detach()
        self._trees = 0
        return detached


class UctPlayer(TreePlayer):
    """Classic MCTS with random rollouts; ``threads`` trees are searched at a time.

    By default it keeps between moves what its options say; ``reuse`` overrules them.
    """

    def __init__(
        self,
        budget: Budget,
        rng: np.random.Generator,
        geometry: Geometry = STANDARD,
        options: UctOptions | None = None,
        threads: int = 1,
        reuse: Reuse | None = None,
    ) -> None:
        options = options or UctOptions()
        if budget.simulations == 0:
            raise PlayerError("uct:0: classic MCTS needs at least one simulation")
        search = UctSearch(
            options.config,
            geometry=geometry,
            rng=rng,
            reuse=reuse or ("trees" if options.tree == "keep" else "nothing"),
            threads=threads,
            roots=options.roots,
        )
        super().__init__(f"uct:{budget_name(budget)}{describe_options(options)}", search, budget)


class NetworkPlayer(TreePlayer):
    """A network with PUCT search, a fresh tree each move; at a budget of no simulations, its raw policy.

    What one search has proven is played out from its tree without another.

    With a ``temperature`` T above 0 it draws moves in proportion to ``visits ** (1 / T)``, or from the raw policy
    with its logits divided by T, instead of playing the best one; a proven result is always played.

    Args:
        name: how it is called.
        evaluator: the network.
        budget: what it spends on a position.
        rng: draws the moves; needed with a temperature.
        geometry: the board.
        config: the usual search's settings, or a rule of one's own.
        temperature: see above.
        reuse: what the usual search keeps between moves.
        search: another search of the same network, on its own board, in place of the usual one.

    Raises:
        ValueError: for a negative temperature, or one above 0 without ``rng``.
    """

    def __init__(
        self,
        name: str,
        evaluator: Evaluate,
        budget: Budget,
        rng: np.random.Generator | None = None,
        geometry: Geometry = STANDARD,
        config: PuctConfig | NetworkParameters | None = None,
        *,
        temperature: float = 0.0,
        reuse: Reuse = "proofs",
        search: TreeSearch | None = None,
    ) -> None:
        if temperature < 0:
            raise ValueError(f"temperature must not be negative, not {temperature}")
        if temperature > 0 and rng is None:
            raise ValueError("a temperature needs a generator of random numbers")
        search = search or NetworkSearch(evaluator, config, geometry=geometry, rng=rng, reuse=reuse)
        super().__init__(name, search, budget)
        self.temperature = temperature
        self._rng = rng
        self._evaluator = evaluator

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResult:
        """See `SearchingPlayer`; without simulations, what the network alone says."""
        if (budget or self.budget).simulations == 0:
            self._trees = 0
            result = raw_result(self._evaluator, positions, self._search.geometry)
            draw = self._drawn_by_policy
        else:
            result = super().search(positions, budget)
            draw = self._drawn_by_visits
        if self.temperature == 0:
            return result
        moves = np.array([draw(result, row) for row in range(len(positions))], np.int64)
        lines = zip(moves.tolist(), result.variations, strict=True)
        variations = [line if line[:1] == [move] else [move] for move, line in lines]
        return dataclasses.replace(result, moves=moves, variations=variations)

    def winning_moves(self, index: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int8]]:
        """The moves that prove a win in the ``index``-th position searched last; see `TreeSearch.winning_moves`."""
        return self._search.winning_moves(index)

    def _drawn_by_policy(self, result: SearchResult, row: int) -> int:
        columns = np.flatnonzero(result.proofs[row] != ILLEGAL)
        return int(columns[self._draw(result.scores[row, columns])])

    def _drawn_by_visits(self, result: SearchResult, row: int) -> int:
        visits, proofs = result.visits[row], result.proofs[row]
        columns = np.flatnonzero((visits > 0) & (proofs >= PROVEN_DRAW))
        if result.root_proof(row) != UNPROVEN or not len(columns):
            return int(result.moves[row])
        return int(columns[self._draw(np.log(visits[columns]))])

    def _draw(self, log_weights: npt.NDArray[np.float64]) -> int:
        """An index, by softmax of ``log_weights`` over the temperature."""
        assert self._rng is not None
        weights = np.exp((log_weights - log_weights.max()) / self.temperature)
        return int(self._rng.choice(len(weights), p=weights / weights.sum()))


def raw_result(evaluator: Evaluate, positions: Sequence[Position], geometry: Geometry) -> SearchResult:
    """What a network says of unfinished positions without any look ahead, as a search of no simulations.

    The move is the legal one with the largest policy logit; the logits stand as scores. As in a search, the network is
    asked about the canonical orientation of each position.
    """
    started = time.perf_counter()
    own, occupied = stones(positions)
    own, occupied, mirrored = oriented(geometry, own, occupied)
    logits, wdl = evaluator.evaluate(make_planes(geometry, own, occupied, input_planes(evaluator)))
    logits = np.where(mirrored[:, None], logits[:, ::-1], logits)
    count, columns = logits.shape
    legal = np.zeros((count, columns), np.bool_)
    for row, position in enumerate(positions):
        legal[row, position.legal_columns()] = True
    scores = np.where(legal, logits, np.nan).astype(np.float64)
    weights = np.where(legal, np.exp(scores - np.nanmax(scores, axis=1, keepdims=True)), 0.0)
    total = np.sort(weights, axis=1).sum(axis=1, keepdims=True)  # in one order for a position and its mirror image
    moves = np.nanargmax(scores, axis=1)
    value = (wdl[:, 0] - wdl[:, 2]).astype(np.float64)
    return SearchResult(
        moves=moves,
        visits=np.zeros((count, columns), np.int64),
        values=np.full((count, columns), np.nan),
        priors=weights / total,
        scores=scores,
        proofs=np.where(legal, UNPROVEN, ILLEGAL).astype(np.int64),
        value=value,
        wdl=root_wdl(value, wdl[:, 1]),
        simulations=np.zeros(count, np.int64),
        seconds=time.perf_counter() - started,
        variations=[[int(move)] for move in moves],
    )


def budget_name(budget: Budget) -> str:
    """A budget as specifications write it: "600" or "1.5s"."""
    return str(budget.simulations) if budget.simulations is not None else f"{budget.seconds:g}s"


def random_best(scores: npt.NDArray[np.integer], rng: np.random.Generator) -> int:
    """A random one of the columns with the highest score; full ones are marked by a score below all others."""
    return int(rng.choice(np.flatnonzero(scores == scores.max())))
