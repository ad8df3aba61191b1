"""Trees that are kept for positions which follow from those of the last call."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from alphac4.game import Geometry, Position
from alphac4.game.position import COLUMN_NAMES
from alphac4.mcts.tree import ROOT, UNPROVEN, Trees, advance_root, make_trees, node_proof, plant

Reuse = Literal["nothing", "proofs", "trees"]
"""What a search keeps for positions that follow: nothing, trees whose root is proven, so that they need no second
search, or every tree."""


class KeptTrees:
    """The trees of a batch of positions; ``look_ahead`` is that of `alphac4.mcts.tree.add_node`."""

    def __init__(self, geometry: Geometry, rng: np.random.Generator, *, look_ahead: bool, evaluations: bool) -> None:
        self.geometry = geometry
        self.trees: Trees | None = None
        self.positions: list[Position] = []  # whose trees they are
        self._rng = rng
        self._look_ahead = look_ahead
        self._evaluations = evaluations

    def empty(self) -> "KeptTrees":
        """The same without any trees, for which it makes new memory."""
        return KeptTrees(self.geometry, self._rng, look_ahead=self._look_ahead, evaluations=self._evaluations)

    def prepare(self, positions: Sequence[Position], capacity: int, reuse: Reuse) -> Trees:
        """Trees whose roots are these positions, with room for ``capacity`` more nodes each."""
        trees = self.trees
        sources = [None] * len(positions) if reuse == "nothing" else self._sources(positions, reuse)
        kept = max((int(trees.size[row]) for row in sources if row is not None and trees is not None), default=0)
        room = capacity + kept if reuse == "trees" else max(capacity, kept)  # proven trees grow no more
        if trees is None or len(trees.size) < len(positions) or trees.parent.shape[1] < room:
            if reuse == "trees" and trees is not None and trees.parent.shape[1] < room:
                room = max(room, 2 * trees.parent.shape[1])  # or a tree that grows and grows would be copied each time
            trees = self._enlarged(trees, len(positions), room)
            self.trees = trees
        _gather(trees, sources, kept)
        for t, (position, row) in enumerate(zip(positions, sources, strict=True)):
            if row is None:
                plant(self.geometry, trees, t, position.own, position.occupied, self._look_ahead)
            else:
                for name in (position.moves or "")[len(self.positions[row].moves or "") :]:
                    advance_root(self.geometry, trees, t, COLUMN_NAMES.index(name), self._look_ahead)
                if reuse == "proofs" and node_proof(trees, t, ROOT) == UNPROVEN:  # the game has left the proven line
                    plant(self.geometry, trees, t, position.own, position.occupied, self._look_ahead)
        self.positions = list(positions)
        return trees

    def _sources(self, positions: Sequence[Position], reuse: Reuse) -> list[int | None]:
        """The tree of the last call from whose position each follows; one tree for one position, None without."""
        rows: dict[str | tuple[int, int], list[int]] = {}
        for row, position in enumerate(self.positions):
            if reuse == "trees" or self._is_proven(row):
                rows.setdefault(_name(position), []).append(row)
        sources = []
        for position in positions:
            moves = position.moves
            # Without its moves nobody knows what a position follows from; the very same one is found.
            starts = [_name(position)] if moves is None else [moves[:ply] for ply in range(len(moves), -1, -1)]
            found = next((rows[start] for start in starts if rows.get(start)), [])
            sources.append(found.pop(0) if found else None)
        return sources

    def _is_proven(self, row: int) -> bool:
        return self.trees is not None and node_proof(self.trees, row, ROOT) != UNPROVEN

    def _enlarged(self, old: Trees | None, count: int, nodes: int) -> Trees:
        """New trees with more room that hold what the old ones did."""
        count = max(count, 0 if old is None else len(old.size))
        new = make_trees(count, nodes, self.geometry, self._rng, evaluations=self._evaluations)
        if old is not None:
            # Memory that was never used is not taken yet, and need not be.
            used = min(int(old.size.max(initial=0)), nodes)
            for name in Trees._fields:
                source, target = getattr(old, name), getattr(new, name)
                if source.ndim == 1 and name != "rng":
                    target[: len(source)] = source
                elif source.ndim > 1:
                    target[: len(source), :used] = source[:, :used]
        return new


def _name(position: Position) -> str | tuple[int, int]:
    """A position's moves, or its stones where they are not known."""
    return (int(position.own), int(position.occupied)) if position.moves is None else position.moves


def _gather(trees: Trees, sources: Sequence[int | None], nodes: int) -> None:
    """Bring the first ``nodes`` nodes of tree ``sources[t]`` into tree t, wherever that is another."""
    moved = [(t, row) for t, row in enumerate(sources) if row not in (None, t)]
    if moved:
        to, out_of = (np.array(column) for column in zip(*moved, strict=True))
        for name in set(Trees._fields) - {"rng"}:
            array = getattr(trees, name)
            if array.ndim == 1:
                array[to] = array[out_of]
            else:
                array[to, :nodes] = array[out_of, :nodes]
