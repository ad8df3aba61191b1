"""The batch-first interface of all players, and the players that search trees: classic MCTS and networks."""

import copy
import dataclasses
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from alphac4.arena import PlayerError
from alphac4.game import Board, IllegalMove, Position
from alphac4.game.planes import make_planes, stones
from alphac4.game.position import count_of
from alphac4.game.rules import STANDARD, oriented
from alphac4.machine import cores
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.classic.uct import UctConfig
from alphac4.mcts.network_search import (
    NetworkSearch,
    NotFiniteError,
    SupportsEvaluate,
    evaluate_checked,
    input_planes,
)
from alphac4.mcts.results import NodeView, SearchResults, root_wdl
from alphac4.mcts.search import Budget, Reuse, TreeSearch
from alphac4.mcts.simulation import Selection
from alphac4.mcts.tree import ILLEGAL, PROVEN_DRAW, UNPROVEN, parent_proof, proof_value

if TYPE_CHECKING:  # which loads PyTorch
    from alphac4.compute.cores import Compute

MAX_DEEP_TREES = 256  # trees that an `AutoPlayer` searches together; more would take too much memory


class Player(Protocol):
    """Player that chooses moves for a batch of unfinished positions."""

    name: str

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """Return a 0-based column for each position."""


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """Settings of a new player, besides its specification. A player ignores those that do not apply to it."""

    rng: np.random.Generator
    """The player's random numbers."""
    board: Board = STANDARD
    """The board to play on."""
    threads: int = field(default_factory=cores)
    """Cores to use; by default all."""
    compute: "Compute | None" = None
    """Device and backend of networks; by default those of `choose_compute`."""
    batch_size: int = 64
    """The usual number of positions that a network evaluates together."""
    reuse: Reuse | None = None
    """Trees that a search keeps for later positions; by default the player's own choice."""
    selection: Selection | None = None
    """Selects the moves in a network's tree, instead of PUCT with the specification's options."""


@runtime_checkable
class SearchingPlayer(Player, Protocol):
    """Player that also returns the results of its search, for any budget."""

    @property
    def budget(self) -> Budget:
        """The default budget per position."""

    @property
    def reuse(self) -> Reuse:
        """The kind of tree reuse: a search keeps "nothing", "proofs" or "trees" for later positions."""

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResults:
        """Search each position with a budget, by default the player's own.

        ``moves`` of the result are the player's choices.
        """

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """Return the node after a path of 0-based columns, in the tree of the last search's ``index``-th position."""


def is_player(value: object) -> bool:
    """Return whether an object is a player: an instance with a string ``name`` and a method ``choose``."""
    is_instance = not isinstance(value, type)
    return is_instance and isinstance(getattr(value, "name", None), str) and callable(getattr(value, "choose", None))


def checked_moves(player: Player, positions: Sequence[Position]) -> list[int]:
    """Return the 0-based columns that a player chooses, after checking that they are legal moves."""
    if not positions:
        return []
    columns = np.asarray(player.choose(positions))
    if columns.ndim != 1:
        raise ValueError(f"player {player.name} returned {columns.tolist()!r:.60}, expected a list of columns")
    if len(columns) != len(positions):
        raise ValueError(
            f"player {player.name} chose {count_of(len(columns), 'move')} for {count_of(len(positions), 'position')}"
        )
    if columns.dtype.kind == "f" and np.isnan(columns).any():
        raise NotFiniteError(f"player {player.name} returned NaN for a column")
    if columns.dtype.kind not in "iu":
        actual = f"{columns.tolist()[0]!r:.60}"
        raise ValueError(f"player {player.name} returned {actual} for a column, expected an integer that counts from 0")
    for position, column in zip(positions, columns.tolist(), strict=True):
        try:
            position.play(column)
        except IllegalMove as error:
            raise IllegalMove(column, error.moves, f"{error.reason} (player {player.name})") from None
    return columns.tolist()  # type: ignore[no-any-return]


def keep_trees(player: SearchingPlayer) -> SearchingPlayer:
    """Return a copy that keeps the trees of the last search, or the player itself if it has no ``detach()``."""
    return player.detach() if hasattr(player, "detach") else player


def drop_trees(player: SearchingPlayer) -> None:
    """Discard a player's trees, as before a new game, if it has ``drop_trees()``."""
    if hasattr(player, "drop_trees"):
        player.drop_trees()


def backends_of(players: Iterable[Player]) -> str:
    """Return the inference backends of the players' networks, separated by commas; "" without a network."""
    return ", ".join(sorted({getattr(player, "inference_backend", "") for player in players} - {""}))


class RandomPlayer:
    """Player of uniformly random legal moves."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.name = "random"
        self._rng = rng

    def choose(self, positions: Sequence[Position]) -> list[int]:
        return [int(self._rng.choice(position.legal_columns())) for position in positions]


class TreePlayer:
    """Base class of players that search a tree, with a search and its default budget."""

    def __init__(self, name: str, search: TreeSearch, budget: Budget) -> None:
        self.name = name
        self.budget = budget
        self._search = search

    @property
    def reuse(self) -> Reuse:
        """The kind of tree reuse: a search keeps "nothing", "proofs" or "trees" for later positions."""
        return self._search.reuse

    def choose(self, positions: Sequence[Position]) -> list[int]:
        return [int(move) for move in self.search(positions).moves]

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResults:
        """Search the positions; by default with the player's own budget."""
        return self._search.search(positions, budget or self.budget)

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """Return a node of the trees of the last search, as `TreeSearch.node` does."""
        return self._search.node(index, path)

    def drop_trees(self) -> None:
        self._search.drop_trees()

    def detach(self) -> Self:
        """Return a copy with the trees of the last search; this player's next search begins without trees."""
        detached = copy.copy(self)
        detached._search = self._search.detach()
        return detached


class UctPlayer(TreePlayer):
    """Classic MCTS with random rollouts."""

    def __init__(
        self,
        budget: Budget,
        rng: np.random.Generator,
        board: Board = STANDARD,
        config: UctConfig | None = None,
        *,
        threads: int = 1,
        reuse: Reuse | None = None,
        name: str = "",
    ) -> None:
        if budget.simulations == 0:
            raise PlayerError("uct:0: classic MCTS needs at least one simulation")
        search = UctSearch(config, board=board, rng=rng, reuse=reuse, threads=threads)
        super().__init__(name or f"uct:{budget}", search, budget)


class NetworkPlayer(TreePlayer):
    """A network with PUCT search, or its raw policy with a budget of zero simulations.

    Args:
        name: shown in results.
        search: a search whose evaluator is the network.
        budget: the default budget per position.
        rng: draws the moves; needed with a temperature.
        temperature: 0 plays the best move. T above 0 draws moves in proportion to ``visits ** (1 / T)`` or, without
            simulations, from the policy with its logits divided by T. Moves that a search has proven to lose are not
            drawn. If it has proven the position's outcome, the best move is played.
    """

    _search: NetworkSearch

    def __init__(
        self,
        name: str,
        search: NetworkSearch,
        budget: Budget,
        rng: np.random.Generator | None = None,
        *,
        temperature: float = 0.0,
    ) -> None:
        super().__init__(name, search, budget)
        self.temperature = temperature
        self._rng = rng

    @property
    def inference_backend(self) -> str:
        """Backend that runs the network; "" for an evaluator that is not the package's."""
        return str(getattr(self._search.evaluator, "backend", ""))

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResults:
        """Search the positions; a budget of 0 simulations returns the raw policy and value."""
        is_raw = (budget or self.budget).simulations == 0
        if is_raw:
            search = self._search
            result = raw_result(search.evaluator, positions, search.board, mirror=search.options["mirror"])
        else:
            result = super().search(positions, budget)
        if self.temperature == 0:
            return result
        moves = np.array([self._drawn(result, row, is_raw=is_raw) for row in range(len(positions))], np.int64)
        lines = zip(moves.tolist(), result.variations, strict=True)
        variations = [line if line[:1] == [move] else [move] for move, line in lines]
        return dataclasses.replace(result, moves=moves, variations=variations)

    def proven_moves(self, index: int, min_proof: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int8]]:
        """Return a proof from the last search's ``index``-th position that secures ``min_proof``, a proven outcome.

        It has the keys [P] of positions that replies lead to, and a move [P] in each; see `mcts.tree.proven_moves`.
        """
        return self._search.proven_moves(index, min_proof)

    def _drawn(self, result: SearchResults, row: int, *, is_raw: bool) -> int:
        """Draw a move by a softmax of the visits' logarithms or a raw policy's logits, divided by the temperature."""
        assert self._rng is not None, "a temperature needs a generator of random numbers"
        visits, proofs = result.visits[row], result.proofs[row]
        columns = np.flatnonzero(proofs != ILLEGAL if is_raw else (visits > 0) & (proofs >= PROVEN_DRAW))
        if not is_raw and (result.root_proof(row) != UNPROVEN or not len(columns)):
            return int(result.moves[row])
        logits = result.scores[row, columns] if is_raw else np.log(visits[columns])
        weights = np.exp((logits - logits.max()) / self.temperature)
        return int(columns[self._rng.choice(len(weights), p=weights / weights.sum())])


def raw_result(
    evaluator: SupportsEvaluate, positions: Sequence[Position], board: Board, *, mirror: bool = True
) -> SearchResults:
    """Return a network's raw policy and value of unfinished positions, as the result of zero simulations.

    The move is the legal one with the largest policy logit; ``scores`` are the logits. As in a search, the network
    evaluates the canonical orientation of each position, unless ``mirror`` is False.
    """
    started = time.perf_counter()
    own, occupied = stones(positions)
    mirrored = np.zeros(len(own), np.bool_)
    if mirror:
        own, occupied, mirrored = oriented(board, own, occupied)
    logits, wdl = evaluate_checked(evaluator, make_planes(board, own, occupied, input_planes(evaluator)))
    logits = np.where(mirrored[:, None], logits[:, ::-1], logits)
    count, columns = logits.shape
    legal = np.zeros((count, columns), np.bool_)
    for row, position in enumerate(positions):
        legal[row, position.legal_columns()] = True
    scores = np.where(legal, logits, np.nan).astype(np.float64)
    weights = np.where(legal, np.exp(scores - np.nanmax(scores, axis=1, keepdims=True)), 0.0)
    total = np.sort(weights, axis=1).sum(axis=1, keepdims=True)  # the same for a position and its mirror image
    moves = np.nanargmax(scores, axis=1)
    value = (wdl[:, 0] - wdl[:, 2]).astype(np.float64)
    return SearchResults(
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
    """Rule for when a first search suffices, and how a longer search spends its simulations.

    A first search suffices if it has proven the position's outcome or if its move's |value| is at least
    ``decided_value``. Otherwise, sequential halving (Karnin et al. 2013) searches the position after every move that is
    not proven, because the policy may miss the best move.
    """

    simulations: int = 400
    """Simulations of the first search."""
    decided_value: float = 0.95
    """A position with at least this |value| is considered decided."""
    rounds: tuple[tuple[int, int], ...] = ((64, 100), (4, 300), (2, 1600))
    """For each round, the maximum number of moves and the additional simulations per move. A proven result or a |value|
    of at least ``decided_value`` ends the search early."""


class AutoPlayer(NetworkPlayer):
    """`NetworkPlayer` that searches longer, by `TimeManagement`, where a first search is unsure.

    A call with a budget runs the first search only. `node` and `proven_moves` use the trees of the first search.
    """

    def __init__(
        self,
        name: str,
        search: NetworkSearch,
        deeper: NetworkSearch,  # of the same network; it keeps its trees
        management: TimeManagement,
    ) -> None:
        super().__init__(name, search, Budget(simulations=management.simulations))
        self.management = management
        self._deeper = deeper

    @property
    def reuse(self) -> Reuse:
        """Always "nothing", because the proofs of the longer search are not kept; the first search keeps its own."""
        return "nothing"

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResults:
        """Search the positions; with a budget, run the first search only."""
        self._search.compile()
        started = time.perf_counter()
        result = super().search(positions, budget)
        if budget is not None:
            return result
        value = np.take_along_axis(result.values, result.moves[:, None], axis=1)[:, 0]
        value = np.where(np.isnan(value), result.value, value)
        is_open = np.array([result.root_proof(row) == UNPROVEN for row in range(len(positions))], np.bool_)
        unsure = np.flatnonzero(is_open & (np.abs(value) < self.management.decided_value))
        batch = MAX_DEEP_TREES // self._search.board.columns
        for start in range(0, len(unsure), batch):
            self._search_moves(positions, unsure[start : start + batch].tolist(), result)
        return dataclasses.replace(result, seconds=time.perf_counter() - started)

    def _search_moves(self, positions: Sequence[Position], rows: Sequence[int], result: SearchResults) -> None:
        """Search the moves of the positions ``rows`` by sequential halving; write the findings into ``result``."""

        def not_lost(row: int) -> list[int]:
            return [c for c in positions[row].legal_columns() if result.proofs[row, c] >= PROVEN_DRAW]

        remaining = {row: not_lost(row) for row in rows}
        for row in rows:
            result.visits[row], result.values[row] = 0, np.nan
        seen: dict[tuple[int, int], tuple[npt.NDArray[np.float64], list[int]]] = {}  # wdl and variation of a move
        self._deeper.drop_trees()
        for kept, simulations in self.management.rounds:
            for row, columns in remaining.items():
                columns.sort(key=lambda column: self._rank(result, row, column), reverse=True)
                remaining[row] = columns[:kept]
            moves = [(row, column) for row, columns in remaining.items() for column in columns]
            moves = [(row, column) for row, column in moves if result.proofs[row, column] == UNPROVEN]
            if not moves:
                break
            found = self._deeper.search([positions[r].play(c) for r, c in moves], Budget(simulations=simulations))
            for index, (row, column) in enumerate(moves):
                proof = found.root_proof(index)
                if proof != UNPROVEN:
                    result.proofs[row, column] = parent_proof(proof)
                result.visits[row, column] += found.simulations[index]
                result.values[row, column] = -found.value[index]
                seen[row, column] = found.wdl[index, ::-1], [column, *found.variations[index]]
                result.simulations[row] += found.simulations[index]
            for row in list(remaining):
                if all(result.proofs[row, column] < PROVEN_DRAW for column in remaining[row]):
                    remaining[row] = not_lost(row) or remaining[row]  # no dropped move is worse than a loss
                best = max(remaining[row], key=lambda column: self._rank(result, row, column))
                value, proof = result.values[row, best], result.proofs[row, best]
                result.moves[row] = best
                result.value[row] = value if proof == UNPROVEN else proof_value(proof)
                if (row, best) in seen:
                    result.wdl[row], result.variations[row] = seen[row, best]
                if abs(result.value[row]) >= self.management.decided_value or result.root_proof(row) != UNPROVEN:
                    del remaining[row]

    @staticmethod
    def _rank(result: SearchResults, row: int, column: int) -> tuple[float, float]:
        """Return a sort key: the value, and for proven moves the speed of the win or the delay of the loss.

        Moves without a value come last, by their priors.
        """
        proof = int(result.proofs[row, column])
        if proof != UNPROVEN:
            return proof_value(proof), float(proof)
        value = result.values[row, column]
        return (float(result.priors[row, column]) - 2.0, 0.0) if np.isnan(value) else (float(value), 0.0)
