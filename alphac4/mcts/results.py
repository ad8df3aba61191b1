"""Results of a search: for those who use it, and as text."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from alphac4.game import Position, column_name
from alphac4.game.position import describe_end
from alphac4.mcts.tree import ILLEGAL, PROVEN_DRAW, PROVEN_WIN, UNPROVEN, Trees, write_variations

MAX_PV_MOVES = 20  # moves of a principal variation


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """Results of the searches of B positions, at their roots."""

    moves: npt.NDArray[np.int64]  # [B] the move to play, 0-based column
    visits: npt.NDArray[np.int64]  # [B, A]
    values: npt.NDArray[np.float64]  # [B, A] mean value to the side to move in [-1, 1]; NaN where unvisited
    priors: npt.NDArray[np.float64]  # [B, A]
    scores: npt.NDArray[np.float64]  # [B, A] the selection rule's, as the next simulation sees them; NaN if full
    proofs: npt.NDArray[np.int64]  # [B, A] see `alphac4.mcts.tree`: UNPROVEN, ILLEGAL or a proven outcome
    value: npt.NDArray[np.float64]  # [B] the root's value to the side to move
    wdl: npt.NDArray[np.float64]  # [B, 3] its win/draw/loss shares; exact where the root is proven
    simulations: npt.NDArray[np.int64]  # [B] simulations run for this call
    seconds: float  # wall time of the whole batch
    variations: list[list[int]]  # [B] principal variations, 0-based columns

    @property
    def proven_wins(self) -> npt.NDArray[np.bool_]:
        """Whether the search has proven that the move to play wins [B]."""
        proofs = np.take_along_axis(self.proofs, self.moves[:, None], axis=1)[:, 0]
        return (proofs > PROVEN_DRAW) & (proofs < UNPROVEN)

    def root_proof(self, index: int) -> int:
        """The outcome proven for the side to move in one position, or UNPROVEN; see `alphac4.mcts.tree.node_proof`."""
        proofs = self.proofs[index]
        closed = proofs[proofs != UNPROVEN]
        best = int(closed.max(initial=ILLEGAL))
        return UNPROVEN if len(closed) < len(proofs) and best <= PROVEN_DRAW else best


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """Knowledge of a search about one node of its tree."""

    position: Position
    visits: npt.NDArray[np.int64]  # [A]
    values: npt.NDArray[np.float64]  # [A] mean value to the side to move; NaN where unvisited
    priors: npt.NDArray[np.float64]  # [A]
    scores: npt.NDArray[np.float64]  # [A]
    proofs: npt.NDArray[np.int64]  # [A]
    value: float  # the node's own, to its side to move
    total_visits: int  # of its moves


@dataclass(frozen=True, kw_only=True)
class ColumnAnalysis:
    """One move as the search sees it; values are for the side that makes it."""

    column: int  # 0-based
    visits: int
    share: float  # of all visits
    prior: float
    value: float | None  # mean in [-1, 1]; None where unvisited
    score: float | None  # what the search ranks by; None where it is not finite
    proof: str  # "wins in 3 moves", "draws", "loses in 2 moves", or nothing


class HasSearchTree(Protocol):
    """A search, or a player that searches, whose nodes can be looked at."""

    def node(self, index: int, path: Sequence[int]) -> NodeView:
        """See `alphac4.mcts.search.TreeSearch.node`."""


def join_results(results: Sequence[SearchResult]) -> SearchResult:
    """The searches of several batches as one."""
    joined: dict[str, Any] = {}
    for item in dataclasses.fields(SearchResult):
        parts = [getattr(result, item.name) for result in results]
        joined[item.name] = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else sum(parts[1:], parts[0])
    return SearchResult(**joined)


def root_wdl(value: npt.NDArray[np.floating], draw: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Win/draw/loss [..., 3] with this value in [-1, 1] and probability of a draw, both [...]."""
    value = np.asarray(value, np.float64)
    draw = np.clip(draw, 0.0, 1.0 - np.abs(value))
    return np.clip(np.stack([(1 - draw + value) / 2, draw, (1 - draw - value) / 2], axis=-1), 0.0, 1.0)


def principal_variations(trees: Trees, moves: npt.NDArray[np.int64]) -> list[list[int]]:
    """The line of best play from each of ``moves`` [B] on, as far as the trees know it; see `write_variations`."""
    lines, lengths = np.empty((len(moves), MAX_PV_MOVES), np.int64), np.empty(len(moves), np.int64)
    write_variations(trees, moves, lines, lengths)
    return [line[:known].tolist() for line, known in zip(lines, lengths, strict=True)]


def describe_proof(proof: int) -> str:
    """A proven outcome in words, such as "wins in 3 moves", "draws" or "loses in 1 move"; empty for none."""
    if proof in (ILLEGAL, UNPROVEN):
        return ""
    if proof == PROVEN_DRAW:
        return "draws"
    return describe_end(proof, (PROVEN_WIN - abs(proof) + 1) // 2)  # the winner moves first or second


def describe_columns(seen: SearchResult | NodeView, row: int | EllipsisType = ...) -> tuple[ColumnAnalysis, ...]:
    """The moves that can be made in the ``row``-th position of a result, or in a node."""
    visits, proofs = seen.visits[row], seen.proofs[row]
    total = max(int(visits.sum()), 1)
    return tuple(
        ColumnAnalysis(
            column=int(column),
            visits=int(visits[column]),
            share=int(visits[column]) / total,
            prior=float(seen.priors[row][column]),
            value=_finite(seen.values[row][column]),
            score=_finite(seen.scores[row][column]),
            proof=describe_proof(int(proofs[column])),
        )
        for column in np.flatnonzero(proofs != ILLEGAL)
    )


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


class WinDrawLoss(NamedTuple):
    """Probabilities for the side to move."""

    win: float
    draw: float
    loss: float


@dataclass(frozen=True)
class SearchTree:
    """The tree of one search; a notebook draws it."""

    _trees: HasSearchTree
    _index: int

    def svg(self, *, depth: int = 2, width: int = 3) -> str:
        """Return an SVG document of ``depth`` plies, with the ``width`` most visited moves of each node."""
        from alphac4.mcts.drawing import draw_tree  # which describes results

        return draw_tree(self._trees, self._index, depth=depth, width=width)

    def _repr_svg_(self) -> str:
        return self.svg()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SearchedPosition:
    """Findings of a search in one position; values are for the side to move, columns 0-based."""

    position: Position
    player: str
    move: int
    """The column to play."""
    value: float
    """From -1, lost, to 1, won."""
    wdl: WinDrawLoss
    """The probabilities of win, draw and loss; certain where the search has proven the outcome."""
    columns: dict[int, ColumnAnalysis]
    """Findings on each legal move, by column."""
    pv: list[int]
    """Best play of both sides as far as the tree goes."""
    simulations: int
    """Simulations spent on this position."""
    seconds: float
    """Time spent on it, and on those searched together with it."""
    finished: bool = True
    """False if the search continues, or was stopped before its budget was spent."""
    tree: SearchTree | None = None
    """The tree, if it was kept; a raw policy has none."""

    @classmethod
    def of_result(
        cls, position: Position, player: str, result: SearchResult, index: int = 0, trees: HasSearchTree | None = None
    ) -> Self:
        """Return the findings in the ``index``-th position of a search's result; ``trees`` are those of the search."""
        return cls(
            position=position,
            player=player,
            move=int(result.moves[index]),
            value=float(result.value[index]),
            wdl=WinDrawLoss(*map(float, result.wdl[index])),
            columns={item.column: item for item in describe_columns(result, index)},
            pv=list(result.variations[index]),
            simulations=int(result.simulations[index]),
            seconds=result.seconds,
            tree=None if trees is None or not result.visits[index].any() else SearchTree(trees, index),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as plain values for JSON."""
        return {
            "moves": self.position.moves or "",
            "player": self.player,
            "move": self.move,
            "value": self.value,
            **self.wdl._asdict(),
            "pv": self.pv,
            "simulations": self.simulations,
            "seconds": self.seconds,
            "finished": self.finished,
            "columns": [dataclasses.asdict(item) for item in self.columns.values()],
        }

    def table(self, name: Callable[[int], str] = column_name) -> str:
        """Describe each move, the line of best play, and the time taken, as text.

        ``name`` writes a 0-based column, by default as move strings do. A move without visits has no score: its score
        ranks moves, but is not an evaluation.
        """
        lines = ["column  visits   value   prior   score"]
        for item in self.columns.values():
            numbers = (item.value, item.score) if item.visits else (None, None)
            value, score = ("-" if number is None else f"{number:+.3f}" for number in numbers)
            line = f"{name(item.column):>6}  {item.visits:>6}  {value:>6}  {item.prior:>6.3f}  {score:>6}"
            lines.append(f"{line}{'  *' if item.column == self.move else ''}  {item.proof}".rstrip())
        win, draw, loss = (100 * share for share in self.wdl)
        rate = self.simulations / max(self.seconds, 1e-9)
        lines += [
            "",
            f"value {self.value:+.3f}: win {win:.0f} %, draw {draw:.0f} %, loss {loss:.0f} %",
            f"best line {' '.join(map(name, self.pv))}",
            f"{self.simulations:,} simulations in {self.seconds:.2f} s, {rate:,.0f} per second",
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        moves = self.position.moves
        after = f"after {moves!r}" if moves is not None else f"with {self.position.plies} stones"
        return f"{self.player} plays {self.move} {after} (columns count from 0)\n{self.table(str)}"
