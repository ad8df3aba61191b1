"""Draw search trees as SVG."""

import contextlib
from dataclasses import dataclass
from html import escape

from alphac4.game import Position, column_name
from alphac4.mcts.results import NodeFinder, NodeView

# Sizes in pixels. The tree grows to the right, so that its text stays legible on a page of 800 pixels.
CARD_WIDTH, CARD_HEIGHT = 232, 84
COLUMN_GAP, ROW_GAP, MARGIN = 40, 10, 12
BOARD_WIDTH, BOARD_HEIGHT, PADDING = 66, 57, 9
LINE_HEIGHT = 18
EDGE_SPREAD = 12  # distance between the starting points of two edges
DOT_RADIUS = 5.5  # of the stone before a side's name
SIDES = (("Red", "x"), ("Yellow", "o"))  # name and class of the first and the second player

STYLE = """
svg { background: #fff; font-family: system-ui, sans-serif; font-size: 14px; }
text { fill: #222; }
.move { font-weight: bold; }
.quiet { fill: #666; }
.card { fill: #f7f7f5; stroke: #bbb; }
.best { stroke: #333; stroke-width: 2; }
.edge { fill: none; stroke: #9aa; }
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
    """Drawing of a node's card and its descendants to the right, with the upper left corner at 0, 0."""

    svg: str
    width: float
    height: float
    middle: float  # vertical centre of the card


def draw_tree(find: NodeFinder, *, depth: int = 2, width: int = 3) -> str:
    """Return a search tree of ``depth`` plies as a self-contained SVG document.

    It has the ``width`` most visited moves of each node. A card shows the position after a move, the move's side,
    column and visits, and its value and proven outcome for that side. The first card is for the side to move. The
    thickness of an edge shows the move's share of its parent's visits.
    """
    if depth < 1 or width < 1:
        raise ValueError(f"depth and width of a drawn tree must be at least 1, not {depth} and {width}")
    root = find([])
    to_move = 0 if root.position.first_to_move else 1
    card = _draw_card(root.position, to_move, "to move", root.visits, root.value, proof="", best=False)
    tree = _draw(find, [], root, card, depth, width)
    size_x, size_y = tree.width + 2 * MARGIN, tree.height + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-MARGIN} {-MARGIN} {size_x:.0f} {size_y:.0f}" '
        f'width="{size_x:.0f}" height="{size_y:.0f}" role="img">\n'
        f"<title>Search tree after {escape(root.position.moves or 'no moves')}</title>\n<style>{STYLE}</style>\n"
        f"{tree.svg}\n</svg>\n"
    )


def _draw(find: NodeFinder, path: list[int], node: NodeView | None, card: str, depth: int, width: int) -> _Subtree:
    """Draw ``card`` and to its right the most visited moves of its node, ``depth`` plies deep."""
    parts: list[str] = []
    children: list[tuple[float, float]] = []  # shares of the visits and the vertical centres of the cards
    top, width_right = 0.0, 0.0
    tried = [move for move in node.columns[::-1] if move.visits] if node is not None else []
    tried.sort(key=lambda move: -move.visits)
    for move in sorted(tried[:width], key=lambda move: move.column):
        assert node is not None
        position, below = node.position.play(move.column), None
        if depth > 1 and position.outcome() is None:
            with contextlib.suppress(ValueError):  # a move that was proven immediately has no node
                below = find([*path, move.column])
        mover, is_best = 0 if node.position.first_to_move else 1, move == tried[0]
        title = f"plays {column_name(move.column)}"
        child_card = _draw_card(position, mover, title, move.visits, move.value, move.proof, best=is_best)
        child = _draw(find, [*path, move.column], below, child_card, depth - 1, width)
        parts.append(f'<g transform="translate({CARD_WIDTH + COLUMN_GAP} {top:.1f})">\n{child.svg}\n</g>')
        children.append((move.visit_share, top + child.middle))
        top += child.height + ROW_GAP
        width_right = max(width_right, child.width + COLUMN_GAP)
    middle = (children[0][1] + children[-1][1]) / 2 if children else CARD_HEIGHT / 2
    start, end = CARD_WIDTH, CARD_WIDTH + COLUMN_GAP
    for place, (share, y) in enumerate(children):
        begin, bend = middle + EDGE_SPREAD * (place - (len(children) - 1) / 2), (start + end) / 2
        parts.append(
            f'<path class="edge" stroke-width="{1 + 7 * share:.1f}" '
            f'd="M{start} {begin:.1f} C{bend} {begin:.1f} {bend} {y:.1f} {end} {y:.1f}"/>'
        )
    parts.append(f'<g transform="translate(0 {middle - CARD_HEIGHT / 2:.1f})">{card}</g>')
    return _Subtree(
        svg="\n".join(parts),
        width=CARD_WIDTH + width_right,
        height=max(top - ROW_GAP, CARD_HEIGHT),
        middle=middle,
    )


def _draw_card(
    position: Position, side: int, does: str, visits: int, value: float | None, proof: str, *, best: bool
) -> str:
    """Draw a position with its statistics, which are for ``side``; ``does`` is the text after the side's name."""
    board = position.board
    cell = min(BOARD_WIDTH / board.columns, BOARD_HEIGHT / board.rows)
    width, height = cell * board.columns, cell * board.rows
    left, top = float(PADDING), (CARD_HEIGHT - height) / 2
    (name, stone_class), text_left = SIDES[side], left + BOARD_WIDTH + PADDING
    parts = [
        f'<rect class="{"card best" if best else "card"}" width="{CARD_WIDTH}" height="{CARD_HEIGHT}" rx="8"/>',
        f'<rect class="board" x="{left:.1f}" y="{top}" width="{width:.1f}" height="{height:.1f}"/>',
    ]
    for row, line in enumerate(position.grid()[::-1]):
        parts += [
            f'<circle class="{("empty", "x", "o")[stone]}" cx="{left + (column + 0.5) * cell:.1f}" '
            f'cy="{top + (row + 0.5) * cell:.1f}" r="{0.4 * cell:.1f}"/>'
            for column, stone in enumerate(line)
        ]
    parts.append(
        f'<circle class="{stone_class}" cx="{text_left + DOT_RADIUS:.1f}" cy="{LINE_HEIGHT - 3}" r="{DOT_RADIUS}"/>'
    )
    texts = (
        ("move", f"{name} {does}", 2 * DOT_RADIUS + 5),
        ("plain", f"{visits:,} visit{'s' * (visits != 1)}", 0.0),
        ("plain", "" if value is None else f"{value:+.2f} for {name}", 0.0),
        ("quiet", proof, 0.0),
    )
    for number, (kind, text, indent) in enumerate(texts, start=1):
        y = number * LINE_HEIGHT + 2
        parts.append(f'<text class="{kind}" x="{text_left + indent:.1f}" y="{y}">{escape(text)}</text>')
    return "".join(parts)
