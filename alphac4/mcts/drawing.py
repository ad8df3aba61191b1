"""The search tree drawn as SVG."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from alphac4.game import Position, column_name
from alphac4.mcts.results import NodeView, Searched

NODE_WIDTH, NODE_HEIGHT = 92, 116
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


@dataclass
class _Card:
    """A node to be drawn: its place, and the edge that leads to it."""

    position: Position
    visits: int
    value: float  # to the side that moved here
    label: str  # the move, empty at the root
    proof: str
    best: bool = False
    children: list["_Card"] = field(default_factory=list)
    x: float = 0.0


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
    view = search.node(index, [])
    root = _Card(position=view.position, visits=view.total_visits, value=view.value, label="", proof="")
    _grow(search, index, [], view, root, depth, width)
    columns = _place(root, 0.0)
    size_x = 2 * MARGIN + columns * (NODE_WIDTH + GAP_ACROSS) - GAP_ACROSS
    size_y = 2 * MARGIN + (_height(root) + 1) * (NODE_HEIGHT + GAP_DOWN) - GAP_DOWN
    edges, cards = _draw(root, 0)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size_x:.0f} {size_y:.0f}" '
        f'width="{size_x:.0f}" height="{size_y:.0f}" role="img">\n'
        f"<title>Search tree after {escape(root.position.moves or 'no moves')}</title>\n<style>{STYLE}</style>\n"
        + "\n".join([*edges, *cards])
        + "\n</svg>\n"
    )


def _grow(
    search: Searched, index: int, path: Sequence[int], view: NodeView, card: _Card, depth: int, width: int
) -> None:
    """Add the cards of the moves that were tried most."""
    tried = [int(column) for column in view.visits.argsort(kind="stable")[::-1] if view.visits[column] > 0]
    for column in sorted(tried[:width]):
        child = _Card(
            position=view.position.play(column),
            visits=int(view.visits[column]),
            value=float(view.values[column]),
            label=column_name(column),
            proof=view.describe_proof(column),
            best=column == tried[0],
        )
        card.children.append(child)
        if depth > 1 and child.position.outcome() is None:
            try:
                below = search.node(index, [*path, column])
            except ValueError:  # proven at once: no node was made
                continue
            _grow(search, index, [*path, column], below, child, depth - 1, width)


def _place(card: _Card, left: float) -> float:
    """Put the card above the middle of its children; returns how many cards wide the part is."""
    if not card.children:
        card.x = left
        return 1.0
    used = 0.0
    for child in card.children:
        used += _place(child, left + used)
    card.x = (card.children[0].x + card.children[-1].x) / 2
    return used


def _height(card: _Card) -> int:
    return 1 + max(map(_height, card.children)) if card.children else 0


def _draw(card: _Card, level: int) -> tuple[list[str], list[str]]:
    x = MARGIN + card.x * (NODE_WIDTH + GAP_ACROSS)
    y = MARGIN + level * (NODE_HEIGHT + GAP_DOWN)
    edges: list[str] = []
    cards = [_draw_card(card, x, y)]
    for child in card.children:
        child_x = MARGIN + child.x * (NODE_WIDTH + GAP_ACROSS) + NODE_WIDTH / 2
        start_x, start_y, end_y = x + NODE_WIDTH / 2, y + NODE_HEIGHT, y + NODE_HEIGHT + GAP_DOWN
        middle = (start_y + end_y) / 2
        thickness = 1 + 9 * child.visits / max(card.visits, 1)
        edges.append(
            f'<path class="edge" stroke-width="{thickness:.1f}" '
            f'd="M{start_x:.1f} {start_y} C{start_x:.1f} {middle} {child_x:.1f} {middle} {child_x:.1f} {end_y - 16}"/>'
        )
        cards.append(f'<text x="{child_x:.1f}" y="{end_y - 5}" font-weight="bold">{child.label}</text>')
        lower_edges, lower_cards = _draw(child, level + 1)
        edges += lower_edges
        cards += lower_cards
    return edges, cards


def _draw_card(card: _Card, x: float, y: float) -> str:
    geometry = card.position.geometry
    cell = min(CELL, (NODE_WIDTH - 12) / geometry.columns, 72 / geometry.rows)
    board_x, board_y = x + (NODE_WIDTH - cell * geometry.columns) / 2, y + 8
    board_width, board_height = cell * geometry.columns, cell * geometry.rows
    card_class = "card best" if card.best else "card"
    parts = [
        f'<rect class="{card_class}" x="{x:.1f}" y="{y}" width="{NODE_WIDTH}" height="{NODE_HEIGHT}" rx="8"/>',
        f'<rect class="board" x="{board_x:.1f}" y="{board_y}" width="{board_width:.1f}" height="{board_height:.1f}"/>',
    ]
    for row, line in enumerate(str(card.position).splitlines()[: geometry.rows]):
        for column, stone in enumerate(line.split()):
            kind = stone if stone in "xo" else "empty"
            parts.append(
                f'<circle class="{kind}" cx="{board_x + (column + 0.5) * cell:.1f}" '
                f'cy="{board_y + (row + 0.5) * cell:.1f}" r="{0.4 * cell:.1f}"/>'
            )
    middle = x + NODE_WIDTH / 2
    value = f"{card.value:+.2f}" if math.isfinite(card.value) else "-"
    parts.append(f'<text x="{middle:.1f}" y="{y + NODE_HEIGHT - 32}">{card.visits:,} visits</text>')
    parts.append(f'<text x="{middle:.1f}" y="{y + NODE_HEIGHT - 19}">value {value}</text>')
    if card.proof:
        parts.append(f'<text class="quiet" x="{middle:.1f}" y="{y + NODE_HEIGHT - 6}">{escape(card.proof)}</text>')
    return "".join(parts)
