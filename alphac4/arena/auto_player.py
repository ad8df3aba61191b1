"""A player that thinks longer where it is unsure."""

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alphac4.arena.players import NetworkPlayer
from alphac4.game import Geometry, Position
from alphac4.mcts.drawing import Searched
from alphac4.mcts.kept_trees import Reuse
from alphac4.mcts.results import NodeView, SearchResult
from alphac4.mcts.search import Budget, TreeSearch
from alphac4.mcts.tree import PROVEN_DRAW, UNPROVEN, one_ply_earlier, proof_value

TREES_AT_ONCE = 256  # of the deep searches, which take memory


@dataclass(frozen=True, kw_only=True)
class TimeManagement:
    """When a search is enough, and how a longer one is spent: the same rule for every position.

    A search that has proven its move, or whose value is beyond ``sure``, is enough. Otherwise every legal move is
    searched in its own right, for the policy may know nothing of the right one: sequential halving (Karnin et al.
    2013) over ``rounds``, each the most moves that remain and the simulations that each of them gets.
    """

    simulations: int = 400
    """Of the first search."""
    sure: float = 0.95
    """A value so near to a win or a loss needs no second look."""
    rounds: tuple[tuple[int, int], ...] = ((64, 100), (4, 300), (2, 1600))
    """Moves and additional simulations a move; it ends early once the best of them is beyond ``sure``."""


class AutoPlayer:
    """Searches as a `NetworkPlayer` does, and longer by `TimeManagement` where that leaves it unsure.

    Given a budget, it keeps to that. ``deeper`` is a search of the same network that keeps its trees.
    """

    def __init__(self, name: str, first: NetworkPlayer, deeper: TreeSearch, management: TimeManagement) -> None:
        if deeper.reuse != "trees":
            raise ValueError("the deeper search must keep its trees from round to round")
        self.name = name
        self.budget = Budget(simulations=management.simulations)
        self.management = management
        self._first = first
        self._deeper = deeper

    @property
    def reuse(self) -> Reuse:
        """See `SearchingPlayer`: nothing, as what only the longer search has proven is not kept for the next move."""
        return "nothing"

    @property
    def geometry(self) -> Geometry:
        """The board."""
        return self._deeper.geometry

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        return [int(move) for move in self.search(positions).moves]

    def search(self, positions: Sequence[Position], budget: Budget | None = None) -> SearchResult:
        """See `SearchingPlayer`."""
        started = time.perf_counter()
        result = self._first.search(positions, budget or self.budget)
        if budget is not None:
            return result
        value = np.take_along_axis(result.values, result.moves[:, None], axis=1)[:, 0]
        value = np.where(np.isnan(value), result.value, value)
        is_open = np.array([result.root_proof(row) == UNPROVEN for row in range(len(positions))], np.bool_)
        unsure = np.flatnonzero(is_open & (np.abs(value) < self.management.sure))
        per_position = self.geometry.columns
        for start in range(0, len(unsure), TREES_AT_ONCE // per_position):
            rows = unsure[start : start + TREES_AT_ONCE // per_position]
            self._think(positions, rows.tolist(), result)
        return dataclasses.replace(result, seconds=time.perf_counter() - started)

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """See `SearchingPlayer`; the tree is that of the first, brief search."""
        return self._first.node(index, path)

    def detach(self) -> Searched:
        """See `alphac4.arena.players.GivesTrees`."""
        return self._first.detach()

    def drop_trees(self) -> None:
        """See `alphac4.arena.players.KeepsTrees`."""
        self._first.drop_trees()

    def winning_moves(self, index: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int8]]:
        """The moves that prove a win in the ``index``-th position searched last, if the first search found it."""
        return self._first.winning_moves(index)

    def _think(self, positions: Sequence[Position], rows: Sequence[int], result: SearchResult) -> None:
        """Search every move of some positions by halving; writes what it finds into their rows of ``result``."""

        def not_lost(row: int) -> list[int]:
            return [c for c in positions[row].legal_columns() if result.proofs[row, c] >= PROVEN_DRAW]

        remaining = {row: not_lost(row) for row in rows}
        for row in rows:
            result.visits[row], result.values[row] = 0, np.nan
        seen: dict[tuple[int, int], tuple[npt.NDArray[np.float64], list[int]]] = {}  # wdl and line after a move
        self._deeper.drop_trees()
        for most, simulations in self.management.rounds:
            for row, columns in remaining.items():
                columns.sort(key=lambda column: self._rank(result, row, column), reverse=True)
                remaining[row] = columns[:most]
            asked = [(row, column) for row, columns in remaining.items() for column in columns]
            asked = [(row, column) for row, column in asked if result.proofs[row, column] == UNPROVEN]
            if not asked:
                break
            found = self._deeper.search([positions[r].play(c) for r, c in asked], Budget(simulations=simulations))
            for index, (row, column) in enumerate(asked):
                proof = found.root_proof(index)
                if proof != UNPROVEN:
                    result.proofs[row, column] = one_ply_earlier(proof)
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
        """By value, and among proven moves by speed."""
        proof = int(result.proofs[row, column])
        if proof != UNPROVEN:
            return proof_value(proof), float(proof)
        value = result.values[row, column]
        return (float(result.priors[row, column]) - 2.0, 0.0) if np.isnan(value) else (float(value), 0.0)
