"""The search tree drawn as SVG."""

import contextlib
import math
from dataclasses import dataclass
from html import escape

from alphac4.game import Position, column_name
from alphac4.mcts.results import NodeView, Searched, describe_proof

NODE_WIDTH, NODE_HEIGHT = 112, 116
GAP_ACROSS, GAP_DOWN, MARGIN = 14, 62, 16
CELL = 9

STYLE = """
svg { background: #fff; font-family: system-ui, sans-serif; font-size: 11px; }
text { fill: #222; text-anchor: middle; }
.quiet { fill: #777; }
.card { fill: #f7f7f5; stroke: #bbb; }
.best { stroke: #333; stroke-width: 2; }
.edge { fill: none; stroke: #9aa; stroke-linecap: round; }
.board { fill: #2b5fa8; }
.empty { fill: #fff; }
.x { fill: #e5484d; }
.o { fill: #f5c518; }
@media (prefers-color-scheme: dark) {
  svg { background: #16181c; }
  text { fill: #eee; }
  .quiet { fill: #999; }
  .card { fill: #22252b; stroke: #555; }
  .best { stroke: #eee; }
  .edge { stroke: #667; }
  .empty { fill: #16181c; }
}
"""


@dataclass(frozen=True, kw_only=True)
class _Subtree:
    """A node's card and all below it, drawn with the upper left corner at 0, 0."""

    svg: str
    width: float
    height: float
    middle: float  # of the card, from the left


def draw_tree(search: Searched, index: int = 0, *, depth: int = 2, width: int = 3) -> str:
    """The tree of the ``index``-th position searched last as a self-contained SVG document.

    ``depth`` plies are drawn, and of each node the ``width`` most visited moves. A card shows the position after the
    move, its visits, its value to the side that made the move, and what is proven; an edge is the thicker the larger
    its share of its parent's visits.

    Raises:
        ValueError: if nothing has been searched or a limit is not positive.
    """
    if depth < 1 or width < 1:
        raise ValueError("a drawn tree needs a depth and a width of at least 1")
    root = search.node(index, [])
    card = _draw_card(root.position, root.total_visits, root.value, proof="", best=False)
    tree = _draw(search, index, [], root, card, depth, width)
    size_x, size_y = tree.width + 2 * MARGIN, tree.height + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-MARGIN} {-MARGIN} {size_x:.0f} {size_y:.0f}" '
        f'width="{size_x:.0f}" height="{size_y:.0f}" role="img">\n'
        f"<title>Search tree after {escape(root.position.moves or 'no moves')}</title>\n<style>{STYLE}</style>\n"
        f"{tree.svg}\n</svg>\n"
    )


def _draw(
    search: Searched, index: int, path: list[int], node: NodeView | None, card: str, depth: int, width: int
) -> _Subtree:
    """A node, whose ``card`` is given, over its most visited moves for ``depth`` plies more."""
    parts: list[str] = []
    children: list[tuple[int, float]] = []  # columns, and where the middle of each card is
    left, height = 0.0, 0.0
    tried = [] if node is None else [int(c) for c in node.visits.argsort(kind="stable")[::-1] if node.visits[c] > 0]
    for column in sorted(tried[:width]):
        assert node is not None
        position, below = node.position.play(column), None
        if depth > 1 and position.outcome() is None:
            with contextlib.suppress(ValueError):  # proven at once: no node was made
                below = search.node(index, [*path, column])
        visits, value, proof = int(node.visits[column]), float(node.values[column]), int(node.proofs[column])
        card_below = _draw_card(position, visits, value, describe_proof(proof), best=column == tried[0])
        child = _draw(search, index, [*path, column], below, card_below, depth - 1, width)
        parts.append(f'<g transform="translate({left:.1f} {NODE_HEIGHT + GAP_DOWN})">\n{child.svg}\n</g>')
        children.append((column, left + child.middle))
        left += child.width + GAP_ACROSS
        height = max(height, child.height + GAP_DOWN)
    middle = (children[0][1] + children[-1][1]) / 2 if children else NODE_WIDTH / 2
    start, end = NODE_HEIGHT, NODE_HEIGHT + GAP_DOWN
    for column, x in children:
        assert node is not None
        thickness = 1 + 9 * node.visits[column] / max(node.total_visits, 1)
        parts.append(
            f'<path class="edge" stroke-width="{thickness:.1f}" d="M{middle:.1f} {start} '
            f"C{middle:.1f} {start + GAP_DOWN / 2} {x:.1f} {start + GAP_DOWN / 2} "
            f'{x:.1f} {end - 16 - thickness / 2:.1f}"/>'
            f'<text x="{x:.1f}" y="{end - 5}" font-weight="bold">{column_name(column)}</text>'
        )
    parts.append(f'<g transform="translate({middle - NODE_WIDTH / 2:.1f} 0)">{card}</g>')
    return _Subtree(
        svg="\n".join(parts),
        width=max(left - GAP_ACROSS, NODE_WIDTH),
        height=NODE_HEIGHT + height,
        middle=middle,
    )


def _draw_card(position: Position, visits: int, value: float, proof: str, *, best: bool) -> str:
    """A position, and what is known of it: its value is to the side that moved there."""
    geometry = position.geometry
    cell = min(CELL, (NODE_WIDTH - 12) / geometry.columns, 72 / geometry.rows)
    width, height = cell * geometry.columns, cell * geometry.rows
    left, top, middle = (NODE_WIDTH - width) / 2, 8, NODE_WIDTH / 2
    parts = [
        f'<rect class="{"card best" if best else "card"}" width="{NODE_WIDTH}" height="{NODE_HEIGHT}" rx="8"/>',
        f'<rect class="board" x="{left:.1f}" y="{top}" width="{width:.1f}" height="{height:.1f}"/>',
    ]
    for row, line in enumerate(position.grid()[::-1]):
        parts += [
            f'<circle class="{("empty", "x", "o")[stone]}" cx="{left + (column + 0.5) * cell:.1f}" '
            f'cy="{top + (row + 0.5) * cell:.1f}" r="{0.4 * cell:.1f}"/>'
            for column, stone in enumerate(line)
        ]
    shown = f"{value:+.2f}" if math.isfinite(value) else "-"
    for lift, kind, text in (
        (32, "plain", f"{visits:,} visit{'s' * (visits != 1)}"),
        (19, "plain", f"value {shown}"),
        (6, "quiet", proof),
    ):
        parts.append(f'<text class="{kind}" x="{middle:.1f}" y="{NODE_HEIGHT - lift}">{escape(text)}</text>')
    return "".join(parts)
