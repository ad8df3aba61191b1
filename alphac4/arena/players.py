"""One batch-first interface of every player, and the players that search trees: classic MCTS and networks."""

import copy
import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from alphac4.game import Geometry, IllegalMove, Position
from alphac4.game.planes import make_planes, stones
from alphac4.game.rules import STANDARD, oriented
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.classic.uct import UctConfig
from alphac4.mcts.network_search import NetworkSearch, NotFiniteError, SupportsEvaluate, evaluate_checked, input_planes
from alphac4.mcts.results import HasSearchTree, NodeView, SearchResult, join_results, root_wdl
from alphac4.mcts.search import Budget, Reuse, TreeSearch
from alphac4.mcts.tree import ILLEGAL, PROVEN_DRAW, UNPROVEN, parent_proof, proof_value

MAX_DEEP_TREES = 256  # of the deep searches, which take memory


class PlayerError(ValueError):
    """A player that cannot be made or cannot play here; the message says why in one line."""


class Player(Protocol):
    """Chooses moves for a batch of unfinished positions."""

    name: str

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """Return a 0-based column for each position."""


@runtime_checkable
class SearchingPlayer(Player, Protocol):
    """A player that also returns the findings of its search, for any budget."""

    @property
    def budget(self) -> Budget:
        """Budget for a position unless `search` is given another one."""

    @property
    def reuse(self) -> Reuse:
        """What a search keeps for the positions that follow; see `Reuse`."""

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResult:
        """Search each position, by default for the player's own budget; ``moves`` are those that it plays."""

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """Return a node in the tree of the ``index``-th position searched last; see `TreeSearch.node`."""


def checked_moves(player: Player, positions: Sequence[Position]) -> list[int]:
    """Return the 0-based columns that a player chooses, and check that they are legal moves.

    Raises:
        IllegalMove: naming the player that made it.
        NotFiniteError: if the player returns NaN for a column.
        ValueError: if it returns another number of columns than there are positions, or other things than integers.
    """
    if not positions:
        return []
    columns = np.asarray(player.choose(positions))
    if columns.ndim != 1:
        raise ValueError(f"player {player.name} did not return a list of columns, but {columns.tolist()!r:.60}")
    if len(columns) != len(positions):
        raise ValueError(f"player {player.name} chose {len(columns)} moves for {len(positions)} positions")
    if columns.dtype.kind == "f" and np.isnan(columns).any():
        raise NotFiniteError("it returned NaN for a column")
    if columns.dtype.kind not in "iu":
        found = f"{columns.tolist()[0]!r:.60}"
        raise ValueError(f"player {player.name} returned {found} for a column, expected an integer that counts from 0")
    for position, column in zip(positions, columns.tolist(), strict=True):
        try:
            position.play(column)
        except IllegalMove as error:
            raise IllegalMove(column, error.moves, f"{error.reason} (player {player.name})") from None
    return columns.tolist()  # type: ignore[no-any-return]


def keep_trees(player: SearchingPlayer) -> HasSearchTree:
    """Return the trees of a player's last search, which its next search does not change.

    Those of a player without ``detach()`` do change.
    """
    return player.detach() if hasattr(player, "detach") else player


def drop_trees(player: SearchingPlayer) -> None:
    """Make a player begin its next search with no tree, as in a new game, if it has ``drop_trees()``."""
    if hasattr(player, "drop_trees"):
        player.drop_trees()


class RandomPlayer:
    """Plays uniformly random legal moves."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.name = "random"
        self._rng = rng

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        return [int(self._rng.choice(position.legal_columns())) for position in positions]


class TreePlayer:
    """Base of the players that search a tree: a search and its usual budget."""

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
        if budget.seconds is None or self._search.reuse == "trees" or len(positions) <= 1:
            self._trees = len(positions)
            return self._search.search(positions, budget)
        # Where time bounds a tree there must be room for a large one: all positions use the same in turn.
        self._trees = 0
        return join_results([self._search.search([position], budget) for position in positions])

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """See `SearchingPlayer`. Raises ValueError if there is no such tree, or it does not reach that far."""
        if not 0 <= index < self._trees:
            raise ValueError(f"there is no tree {index} of the last search")
        return self._search.node(index, path)

    def drop_trees(self) -> None:
        """Keep no tree for the positions that follow."""
        self._search.drop_trees()

    def detach(self) -> Self:
        """Return a copy that takes the trees of the last search; this player begins with none."""
        detached = copy.copy(self)
        detached._search = self._search.detach()
        return detached


class UctPlayer(TreePlayer):
    """Classic MCTS with random rollouts.

    Args:
        budget: what it spends on a position.
        rng: of the rollouts.
        geometry: the board.
        config: how it searches.
        roots: independent trees a position, whose statistics add up.
        threads: trees searched at a time.
        reuse: what it keeps between moves.
        name: how it is called; by default "uct:1000" or the like.

    Raises:
        PlayerError: for a budget of no simulations.
    """

    def __init__(
        self,
        budget: Budget,
        rng: np.random.Generator,
        geometry: Geometry = STANDARD,
        config: UctConfig | None = None,
        *,
        roots: int = 1,
        threads: int = 1,
        reuse: Reuse = "nothing",
        name: str = "",
    ) -> None:
        if budget.simulations == 0:
            raise PlayerError("uct:0: classic MCTS needs at least one simulation")
        search = UctSearch(config, geometry=geometry, rng=rng, reuse=reuse, threads=threads, roots=roots)
        super().__init__(name or f"uct:{budget_name(budget)}", search, budget)


class NetworkPlayer(TreePlayer):
    """A network with PUCT search, a fresh tree each move; at a budget of no simulations, its raw policy.

    A result that one search has proven is played out from its tree without another search.

    With a ``temperature`` T above 0 it draws moves in proportion to ``visits ** (1 / T)``, or from the raw policy
    with its logits divided by T, instead of playing the best one; a proven result is always played.

    Args:
        name: how it is called.
        evaluator: the network.
        budget: what it spends on a position.
        rng: draws the moves; needed with a temperature.
        temperature: see above.
        search: of the network; by default the usual one, on the standard board, which keeps proofs between moves.
    """

    def __init__(
        self,
        name: str,
        evaluator: SupportsEvaluate,
        budget: Budget,
        rng: np.random.Generator | None = None,
        *,
        temperature: float = 0.0,
        search: TreeSearch | None = None,
    ) -> None:
        super().__init__(name, search or NetworkSearch(evaluator, rng=rng, reuse="proofs"), budget)
        self.temperature = temperature
        self._rng = rng
        self._evaluator = evaluator

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResult:
        """See `SearchingPlayer`; without simulations, return the raw policy and value."""
        is_raw = (budget or self.budget).simulations == 0
        if is_raw:
            self._trees = 0
            result = raw_result(self._evaluator, positions, self._search.geometry)
        else:
            result = super().search(positions, budget)
        if self.temperature == 0:
            return result
        moves = np.array([self._drawn(result, row, is_raw=is_raw) for row in range(len(positions))], np.int64)
        lines = zip(moves.tolist(), result.variations, strict=True)
        variations = [line if line[:1] == [move] else [move] for move, line in lines]
        return dataclasses.replace(result, moves=moves, variations=variations)

    def proven_moves(self, index: int, least: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int8]]:
        """Return the moves that prove a result in the ``index``-th position; see `TreeSearch.proven_moves`."""
        return self._search.proven_moves(index, least)

    def _drawn(self, result: SearchResult, row: int, *, is_raw: bool) -> int:
        """Draw a move by softmax over the temperature: of the visits' logarithms, or of a raw policy's logits."""
        assert self._rng is not None, "a temperature needs a generator of random numbers"
        visits, proofs = result.visits[row], result.proofs[row]
        columns = np.flatnonzero(proofs != ILLEGAL if is_raw else (visits > 0) & (proofs >= PROVEN_DRAW))
        if not is_raw and (result.root_proof(row) != UNPROVEN or not len(columns)):
            return int(result.moves[row])
        logits = result.scores[row, columns] if is_raw else np.log(visits[columns])
        weights = np.exp((logits - logits.max()) / self.temperature)
        return int(columns[self._rng.choice(len(weights), p=weights / weights.sum())])


def raw_result(evaluator: SupportsEvaluate, positions: Sequence[Position], geometry: Geometry) -> SearchResult:
    """Return a network's raw policy and value of unfinished positions, as a search of no simulations.

    The move is the legal one with the largest policy logit; the logits stand as scores. As in a search, the network is
    asked about the canonical orientation of each position.
    """
    started = time.perf_counter()
    own, occupied = stones(positions)
    own, occupied, mirrored = oriented(geometry, own, occupied)
    logits, wdl = evaluate_checked(evaluator, make_planes(geometry, own, occupied, input_planes(evaluator)))
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


@dataclass(frozen=True, kw_only=True)
class TimeManagement:
    """Rule for when a search is enough and how a longer one is spent, the same for every position.

    A search that has proven its move, or whose value is beyond ``sure``, is enough. Otherwise every legal move is
    searched in its own right, for the policy may know nothing of the right one: sequential halving (Karnin et al.
    2013) over ``rounds``, each how many moves may remain and the simulations that each of them gets.
    """

    simulations: int = 400
    """Of the first search."""
    sure: float = 0.95
    """A value so near to a win or a loss needs no second look."""
    rounds: tuple[tuple[int, int], ...] = ((64, 100), (4, 300), (2, 1600))
    """Moves and additional simulations a move; it ends early once the best of them is beyond ``sure``."""


class AutoPlayer(NetworkPlayer):
    """Searches as a `NetworkPlayer` does, and longer by `TimeManagement` where that leaves it unsure.

    PositionLike a budget, it keeps to that. Trees and proofs are those of the first, brief search; ``deeper`` is a search of
    the same network that keeps its trees.
    """

    def __init__(
        self,
        name: str,
        evaluator: SupportsEvaluate,
        search: TreeSearch,
        deeper: TreeSearch,
        management: TimeManagement,
    ) -> None:
        if deeper.reuse != "trees":
            raise ValueError("the deeper search must keep its trees from round to round")
        super().__init__(name, evaluator, Budget(simulations=management.simulations), search=search)
        self.management = management
        self._deeper = deeper

    @property
    def reuse(self) -> Reuse:
        """See `SearchingPlayer`: nothing, as what only the longer search has proven is not kept for the next move."""
        return "nothing"

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResult:
        """See `SearchingPlayer`."""
        started = time.perf_counter()
        result = super().search(positions, budget)
        if budget is not None:
            return result
        value = np.take_along_axis(result.values, result.moves[:, None], axis=1)[:, 0]
        value = np.where(np.isnan(value), result.value, value)
        is_open = np.array([result.root_proof(row) == UNPROVEN for row in range(len(positions))], np.bool_)
        unsure = np.flatnonzero(is_open & (np.abs(value) < self.management.sure))
        together = MAX_DEEP_TREES // self._search.geometry.columns
        for start in range(0, len(unsure), together):
            self._think(positions, unsure[start : start + together].tolist(), result)
        return dataclasses.replace(result, seconds=time.perf_counter() - started)

    def _think(self, positions: Sequence[Position], rows: Sequence[int], result: SearchResult) -> None:
        """Search every move of some positions by halving; writes what it finds into their rows of ``result``."""

        def not_lost(row: int) -> list[int]:
            return [c for c in positions[row].legal_columns() if result.proofs[row, c] >= PROVEN_DRAW]

        remaining = {row: not_lost(row) for row in rows}
        for row in rows:
            result.visits[row], result.values[row] = 0, np.nan
        seen: dict[tuple[int, int], tuple[npt.NDArray[np.float64], list[int]]] = {}  # wdl and line after a move
        self._deeper.drop_trees()
        for kept, simulations in self.management.rounds:
            for row, columns in remaining.items():
                columns.sort(key=lambda column: self._rank(result, row, column), reverse=True)
                remaining[row] = columns[:kept]
            asked = [(row, column) for row, columns in remaining.items() for column in columns]
            asked = [(row, column) for row, column in asked if result.proofs[row, column] == UNPROVEN]
            if not asked:
                break
            found = self._deeper.search([positions[r].play(c) for r, c in asked], Budget(simulations=simulations))
            for index, (row, column) in enumerate(asked):
                proof = found.root_proof(index)
                if proof != UNPROVEN:
                    result.proofs[row, column] = parent_proof(proof)
                result.visits[row, column] += found.simulations[index]
                result.values[row, column] = -found.value[index]
                seen[row, column] = found.wdl[index, ::-1], [column, *found.variations[index]]
                result.simulations[row] += found.simulations[index]
            for row in list(remaining):
                if all(result.proofs[row, column] < PROVEN_DRAW for column in remaining[row]):
                    remaining[row] = not_lost(row) or remaining[row]  # one that was left out loses no sooner
                best = max(remaining[row], key=lambda column: self._rank(result, row, column))
                value, proof = result.values[row, best], result.proofs[row, best]
                result.moves[row] = best
                result.value[row] = value if proof == UNPROVEN else proof_value(proof)
                if (row, best) in seen:
                    result.wdl[row], result.variations[row] = seen[row, best]
                if abs(result.value[row]) >= self.management.sure or result.root_proof(row) != UNPROVEN:
                    del remaining[row]

    @staticmethod
    def _rank(result: SearchResult, row: int, column: int) -> tuple[float, float]:
        """Rank a move by value, and among proven moves by speed."""
        proof = int(result.proofs[row, column])
        if proof != UNPROVEN:
            return proof_value(proof), float(proof)
        value = result.values[row, column]
        return (float(result.priors[row, column]) - 2.0, 0.0) if np.isnan(value) else (float(value), 0.0)


def budget_name(budget: Budget) -> str:
    """Return a budget as specifications write it: "600" or "1.5s"."""
    return str(budget.simulations) if budget.simulations is not None else f"{budget.seconds:g}s"
