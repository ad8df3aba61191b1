"""Results of a search, as arrays, as records and as text."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from alphac4.game import Position, column_name
from alphac4.game.position import count_of, describe_bound, percents
from alphac4.machine import format_table
from alphac4.mcts.tree import ILLEGAL, PROVEN_DRAW, PROVEN_WIN, UNPROVEN, Trees, write_variations

MAX_PV_MOVES = 20


@dataclass(frozen=True, kw_only=True)
class SearchResults:
    """Results of a search at the roots of B positions; values are for the side to move."""

    moves: npt.NDArray[np.int64]  # [B] the move to play, 0-based column
    visits: npt.NDArray[np.int64]  # [B, A]
    values: npt.NDArray[np.float64]  # [B, A] mean values in [-1, 1]; NaN where unvisited
    priors: npt.NDArray[np.float64]  # [B, A] those of the search, with its `prior_temperature`; 0 without a network
    scores: npt.NDArray[np.float64]  # [B, A] the selection's, for the next simulation; NaN for full columns
    proofs: npt.NDArray[np.int64]  # [B, A] UNPROVEN, ILLEGAL or a proven outcome; see `alphac4.mcts.tree`
    value: npt.NDArray[np.float64]  # [B] the root's value in [-1, 1]
    wdl: npt.NDArray[np.float64]  # [B, 3] win/draw/loss probabilities; exact where the root is proven
    simulations: npt.NDArray[np.int64]  # [B] run by this call
    seconds: float  # wall time of the whole batch
    variations: list[list[int]]  # [B] principal variations, 0-based columns

    @property
    def chosen_moves_win(self) -> npt.NDArray[np.bool_]:
        """Whether the move to play is proven to win [B]."""
        proofs = np.take_along_axis(self.proofs, self.moves[:, None], axis=1)[:, 0]
        return (proofs > PROVEN_DRAW) & (proofs < UNPROVEN)

    def root_proof(self, index: int) -> int:
        """Return the proven outcome of one position for the side to move, or UNPROVEN."""
        proofs = self.proofs[index]
        closed = proofs[proofs != UNPROVEN]
        best = int(closed.max(initial=ILLEGAL))
        return UNPROVEN if len(closed) < len(proofs) and best <= PROVEN_DRAW else best


@dataclass(frozen=True, kw_only=True)
class ColumnAnalysis:
    """Statistics of one move in a search; values are for the side that makes it."""

    column: int  # 0-based
    visits: int
    visit_share: float  # share of all visits
    prior: float | None  # by the policy, whose logits a search divides by `prior_temperature`; None without a network
    value: float | None  # mean in [-1, 1]; None where unvisited
    score: float | None  # the selection's; None where it is not finite
    proof: str  # "wins within 3 moves", "draws", "loses within 2 moves" or ""


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """Statistics of one node of a search tree; values are for the side to move."""

    position: Position
    value: float  # in [-1, 1]: the proven value, or the mean of all evaluations
    visits: int  # visits of all its moves
    columns: tuple[ColumnAnalysis, ...]  # its legal moves, by column


NodeFinder = Callable[[Sequence[int]], NodeView]
"""Function that returns the node of a tree that a path of 0-based columns leads to, or raises ValueError."""


def join_results(results: Sequence[SearchResults]) -> SearchResults:
    """Concatenate the results of several batches; their times are added."""
    joined: dict[str, Any] = {}
    for item in dataclasses.fields(SearchResults):
        parts = [getattr(result, item.name) for result in results]
        joined[item.name] = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else sum(parts[1:], parts[0])
    return SearchResults(**joined)


def root_wdl(value: npt.NDArray[np.floating], draw: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return win/draw/loss probabilities [..., 3] from values in [-1, 1] and draw probabilities, both [...]."""
    value = np.asarray(value, np.float64)
    draw = np.clip(draw, 0.0, 1.0 - np.abs(value))
    return np.clip(np.stack([(1 - draw + value) / 2, draw, (1 - draw - value) / 2], axis=-1), 0.0, 1.0)


def principal_variations(trees: Trees, moves: npt.NDArray[np.int64]) -> list[list[int]]:
    """Return the principal variations that begin with ``moves`` [B], up to each tree's end or `MAX_PV_MOVES`."""
    lines, lengths = np.empty((len(moves), MAX_PV_MOVES), np.int64), np.empty(len(moves), np.int64)
    write_variations(trees, moves, lines, lengths)
    return [line[:length].tolist() for line, length in zip(lines, lengths, strict=True)]


def describe_proof(proof: int) -> str:
    """Return a proven outcome as text, such as "wins within 3 moves", or "". A proof only bounds the distance."""
    if proof in (ILLEGAL, UNPROVEN):
        return ""
    if proof == PROVEN_DRAW:
        return "draws"
    moves = (PROVEN_WIN - abs(proof) + 1) // 2  # the winner's, who moves first or second
    return describe_bound(proof, moves)


def describe_columns(statistics: Mapping[str, npt.NDArray[Any]], row: int) -> tuple[ColumnAnalysis, ...]:
    """Return the statistics of the legal moves in a row of arrays [B, A], which are named as in `SearchResults`."""
    visits, values, priors, scores, proofs = (
        statistics[name][row] for name in ("visits", "values", "priors", "scores", "proofs")
    )
    total = max(int(visits.sum()), 1)
    return tuple(
        ColumnAnalysis(
            column=int(column),
            visits=int(visits[column]),
            visit_share=int(visits[column]) / total,
            prior=prior_of(priors, int(column)),
            value=_finite(values[column]),
            score=_finite(scores[column]),
            proof=describe_proof(int(proofs[column])),
        )
        for column in np.flatnonzero(proofs != ILLEGAL)
    )


def prior_of(priors: npt.NDArray[np.floating], column: int) -> float | None:
    """Return a move's probability from the policy [A]; None if all are 0, as in positions that the rules decide."""
    return float(priors[column]) if priors.any() else None


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


class WinDrawLoss(NamedTuple):
    """Probabilities of the results for the side to move; they sum to 1."""

    win: float
    draw: float
    loss: float


@dataclass(frozen=True, repr=False)
class SearchTree:
    """Tree of one search, which notebooks display as SVG."""

    _find: NodeFinder

    def svg(self, *, depth: int = 2, width: int = 3) -> str:
        """Return an SVG document of ``depth`` plies, with the ``width`` most visited moves of each node."""
        from alphac4.mcts.drawing import draw_tree  # it imports this module

        return draw_tree(self._find, depth=depth, width=width)

    def _repr_svg_(self) -> str:
        return self.svg()

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Pickle and copy the tree as None, because it belongs to its search."""
        return type(None), ()

    def __repr__(self) -> str:
        root = self._find([])
        return f"<SearchTree of {root.position!r}, {count_of(root.visits, 'visit')}; svg() draws it>"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SearchResult:
    """Result of a search in one position; values are for the side to move, columns 0-based."""

    position: Position
    player: str
    move: int
    """The column to play."""
    value: float
    """From -1 (lost) to 1 (won)."""
    wdl: WinDrawLoss
    """The probabilities of win, draw and loss; exact if the outcome is proven."""
    columns: dict[int, ColumnAnalysis]
    """Statistics of each legal move, by column."""
    pv: list[int]
    """The principal variation: best play of both sides, up to the end of the tree or 20 moves."""
    simulations: int
    """Simulations run for this position."""
    seconds: float
    """Wall time of the batch that was searched together."""
    finished: bool = True
    """False while the search continues, or if it was stopped before its budget was spent."""
    tree: SearchTree | None = None
    """The tree, if it was kept. A raw policy has none, and neither has a pickled result."""

    @classmethod
    def of_result(
        cls, position: Position, player: str, result: SearchResults, index: int = 0, find: NodeFinder | None = None
    ) -> Self:
        """Make the record of the ``index``-th position of a result; ``find`` returns the nodes of its tree."""
        return cls(
            position=position,
            player=player,
            move=int(result.moves[index]),
            value=float(result.value[index]),
            wdl=WinDrawLoss(*map(float, result.wdl[index])),
            columns={item.column: item for item in describe_columns(vars(result), index)},
            pv=list(result.variations[index]),
            simulations=int(result.simulations[index]),
            seconds=result.seconds,
            tree=None if find is None or not result.visits[index].any() else SearchTree(find),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; columns are written as in move strings, such as "4"."""
        columns = {column_name(column): dataclasses.asdict(item) for column, item in self.columns.items()}
        for item in columns.values():
            del item["column"]
        return {
            "moves": self.position.moves or "",
            "player": self.player,
            "move": column_name(self.move),
            "value": self.value,
            **self.wdl._asdict(),
            "pv": [column_name(column) for column in self.pv],
            "simulations": self.simulations,
            "seconds": self.seconds,
            "finished": self.finished,
            "columns": columns,
        }

    def table(self, name: Callable[[int], str] = column_name) -> str:
        """Return a table of the moves, the principal variation and the search's speed, as text.

        ``name`` formats a 0-based column, by default as move strings do. Moves without visits show neither value nor
        score, and moves of a position that no network has evaluated show no prior.
        """
        rows = [("column", "visits", "value", "prior", "score", "")]
        for item in self.columns.values():
            numbers = (item.value, item.score) if item.visits else (None, None)
            value, score = ("-" if number is None else f"{number:+.3f}" for number in numbers)
            prior = "-" if item.prior is None else f"{item.prior:.3f}"
            mark = "*  " if item.column == self.move else ""
            rows.append((name(item.column), str(item.visits), value, prior, score, f"{mark}{item.proof}"))
        win, draw, loss = percents(self.wdl)
        rate = self.simulations / max(self.seconds, 1e-9)
        lines = [
            *format_table(rows, left=[5]),
            "",
            f"value {self.value:+.3f}: win {win}, draw {draw}, loss {loss}",
            f"best line {' '.join(map(name, self.pv))}",
            f"{count_of(self.simulations, 'simulation')} in {self.seconds:.2f} s, {rate:,.0f} per second",
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        moves = self.position.moves
        after = f"after {moves!r}" if moves is not None else f"with {count_of(self.position.plies, 'stone')}"
        return f"{self.player} plays {self.move} {after} (columns count from 0)\n{self.table(str)}"
