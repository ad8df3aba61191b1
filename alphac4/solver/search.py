"""Exact score of a position by null-window alpha-beta search.

Based on Pascal Pons, "Solving Connect 4" (http://blog.gamesolver.org): bitboards, non-losing moves, threats first, null
windows. We add: a child's replies are generated with the child, so that wins two plies ahead cost no node; fail-soft
bounds of both kinds in the table; enhanced transposition cutoffs (Schaeffer and Plaat 1996); Allis's claimeven as a
static bound; one table entry for a position and its mirror image where both can be reached. A history heuristic, as in
Tromp's Fhourstones, searched more nodes here.

A loop over an explicit stack searches the tree, because recursive calls are slow in Numba. Every value is for the side
to move at its own node. Functions share the ``board``, its ``layout``, the transposition ``table`` and the
``stack``; ``share_mirror`` is whether a position and its mirror image share a table entry.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import allocating, compiled
from alphac4.game import rules
from alphac4.game.rules import U64_0, U64_1, Board, Words, canonical_key, position_key
from alphac4.solver.book import UNKNOWN_SCORE, KnownScores, look_up
from alphac4.solver.memory import (
    UNBOUNDED,
    UNPAUSED,
    Integers,
    Stack,
    Table,
    bounds,
    count_bits,
    lowest_bit,
    make_stack,
    pointer,
    prefetch,
    slot_and_tag,
    tighten,
)

FULL_COLUMN = -128  # in batches: the score of an illegal move
PAUSED = -1000  # returned instead of a bound once the limit of nodes is reached

# Chosen by node counts and times on the first positions of Pons's begin-medium and middle-medium sets.
TABLE_EMPTIES = 8  # with fewer empty cells, searching a position again is faster than a look-up
PROBE_EMPTIES = 8  # with more empty cells, all children are looked up before any is searched
THREAT_WEIGHT = 64
LASTING_THREAT_WEIGHT = 32  # additional, if the opponent cannot block the threat on its next move
CENTRE_WEIGHT = 8

_MIRROR_PLIES = 14  # with more stones, a search meets too few mirror images to pay for the mirroring


class Layout(NamedTuple):
    """Tables of a board that the search needs besides its masks. Build one with `make_layout`."""

    upper: np.uint64  # cells of `upper_of_pairs`
    cell_ranks: npt.NDArray[np.int64]  # [64] rank of each cell among moves with equal threats


def make_layout(board: Board) -> Layout:
    """Return the layout of a board; it ranks central cells first, and of equally central ones the higher first."""
    cell_ranks = np.zeros(64, np.int64)
    for column in range(board.columns):
        for row in range(board.rows):
            centrality = min(column, board.columns - 1 - column)
            cell_ranks[column * (board.rows + 1) + row] = CENTRE_WEIGHT * centrality + row
    return Layout(upper_of_pairs(board), cell_ranks)


@compiled
def table_key(board: Board, own: np.uint64, occupied: np.uint64, share_mirror: bool) -> np.uint64:
    """Return a position's key in the table; with ``share_mirror`` its mirror image has the same key."""
    return canonical_key(board, own, occupied) if share_mirror else position_key(own, occupied)


def upper_of_pairs(board: Board) -> np.uint64:
    """Return the upper cells of the pairs in each column, counted from its top: rows 2, 4 and 6 of a six-row board."""
    cells = 0
    for column in range(board.columns):
        for row in range(board.rows - 1, 0, -2):
            cells |= 1 << (column * (board.rows + 1) + row)
    return np.uint64(cells)


@compiled
def non_losing(legal: np.uint64, threats: np.uint64) -> np.uint64:
    """Return the legal cells after which an opponent with these threats does not win immediately; 0 if there are none.

    The side to move must not have an immediate win.
    """
    forced = legal & threats
    safe = legal & ~(threats >> U64_1)  # never play right below a cell that wins for the opponent
    if forced == U64_0:
        return safe
    if forced & (forced - U64_1) != U64_0:
        return U64_0  # only one of two wins can be blocked
    return safe & forced


@compiled
def follow_up_score(board: Board, upper: np.uint64, follower: np.uint64, leader: np.uint64, occupied: np.uint64) -> int:
    """Return the worst result of a follower that answers by the rule below: 1 win, 0 draw, -1 unknown.

    The leader is to move and the number of empty cells is even. So the number of columns with an odd number of empty
    cells is even. If the leader plays in one of these, the follower plays in another; otherwise the follower plays on
    top of the leader's stone. So the leader can only get the lower cell of each pair and the lowest empty cells of odd
    columns.
    """
    empty = board.playable & ~occupied
    legal = rules.legal_cells(board, occupied)
    if rules.has_run(board, leader | (empty & ~upper) | legal):
        return -1
    return 1 if rules.has_run(board, follower | (empty & upper & ~legal)) else 0


@compiled
def expand(
    board: Board, layout: Layout, stack: Stack, depth: int, own: np.uint64, occupied: np.uint64, moves: np.uint64
) -> int:
    """Push the children of a node, best first; return their number, or -1 if a move leaves only losing replies."""
    stack.nodes[0] += 1
    first = depth * board.columns
    ranks, found, answers = stack.ranks, stack.moves, stack.replies
    count = 0
    while moves != U64_0:
        move = moves & (~moves + U64_1)
        moves ^= move
        after = occupied | move
        threats = rules.winning_cells(board, own | move, after)
        legal = rules.legal_cells(board, after)
        replies = non_losing(legal, threats)
        if replies == U64_0:
            return -1
        rank = THREAT_WEIGHT * count_bits(threats) + LASTING_THREAT_WEIGHT * count_bits(threats & ~legal)
        rank += layout.cell_ranks[lowest_bit(move)]
        place = count
        while place > 0 and ranks[first + place - 1] < rank:
            ranks[first + place], found[first + place], answers[first + place] = (
                ranks[first + place - 1],
                found[first + place - 1],
                answers[first + place - 1],
            )
            place -= 1
        ranks[first + place], found[first + place], answers[first + place] = rank, move, replies
        count += 1
    return count


@compiled
def probe_children(
    board: Board,
    table: Table,
    stack: Stack,
    depth: int,
    opponent: np.uint64,
    occupied: np.uint64,
    share_mirror: bool,
    alpha: int,
) -> int:
    """Look up every child, drop those proven not to exceed ``alpha``, and return the best value that the table proves.

    A value above ``alpha`` allows a cutoff; ``-UNBOUNDED`` means that nothing is known.
    """
    first = depth * board.columns
    moves, replies = stack.moves, stack.replies
    for index in range(stack.children[depth]):  # start all loads before waiting for one
        slot, _ = slot_and_tag(table, table_key(board, opponent, occupied | moves[first + index], share_mirror))
        prefetch(table.entries, slot)
    best = -UNBOUNDED
    kept = 0
    for index in range(stack.children[depth]):
        lower, upper = bounds(table, table_key(board, opponent, occupied | moves[first + index], share_mirror))
        if -upper > alpha:
            return -upper
        if -lower <= alpha:
            best = max(best, -lower)
        else:
            moves[first + kept], replies[first + kept] = moves[first + index], replies[first + index]
            kept += 1
    stack.children[depth] = kept
    return best


@compiled
def claim_by_follow_up(
    board: Board, layout: Layout, stack: Stack, depth: int, own: np.uint64, occupied: np.uint64, alpha: int
) -> int:
    """Return a lower bound above ``alpha`` that `follow_up_score` proves for one of the moves; else ``-UNBOUNDED``."""
    opponent = own ^ occupied
    first = depth * board.columns
    for index in range(stack.children[depth]):
        move = stack.moves[first + index]
        claim = follow_up_score(board, layout.upper, own | move, opponent, occupied | move)
        if claim >= 0 and claim > alpha:
            return claim
    return -UNBOUNDED


@compiled
def apply_static_bounds(
    board: Board,
    layout: Layout,
    table: Table,
    stack: Stack,
    depth: int,
    own: np.uint64,
    occupied: np.uint64,
    empties: int,
    share_mirror: bool,
    alpha: int,
) -> int:
    """Apply the bounds that need no deeper search, and remove from the stack the children that need no search.

    Return the best value so far: a proven bound if it exceeds ``alpha`` or no child is left.
    """
    longest_win = (empties - 3) // 2  # the side to move wins neither with this stone nor with its next
    if empties <= 3 or longest_win <= alpha:
        stack.children[depth] = 0
        return max(0, longest_win)
    best = -UNBOUNDED
    if alpha < 1 and empties % 2 == 1:
        best = claim_by_follow_up(board, layout, stack, depth, own, occupied, alpha)
    if best <= alpha and empties > PROBE_EMPTIES and stack.children[depth] > 1:
        best = probe_children(board, table, stack, depth, own ^ occupied, occupied, share_mirror, alpha)
    return best


@compiled
def search_bound(
    board: Board,
    layout: Layout,
    table: Table,
    stack: Stack,
    own: np.uint64,
    occupied: np.uint64,
    moves: np.uint64,
    threshold: int,
    mirror_empties: int,
) -> int:
    """Return a bound on the score: a lower bound if it exceeds ``threshold``, else an upper bound.

    ``moves`` are the non-losing cells, at least one. The side to move has no immediate win, and at least three cells
    are empty. Positions with at least ``mirror_empties`` empty cells share their table entry with their mirror image.

    Once the stack's limit of nodes is reached, the search pauses and returns `PAUSED`. Call it again with the same
    arguments, the same stack and a higher limit to resume.
    """
    depth = 0
    alpha = threshold  # bound of the current node; negated for the other side
    if stack.paused[0] != UNPAUSED:
        depth = stack.paused[0]
        stack.paused[0] = UNPAUSED
        own, occupied = stack.own[depth], stack.occupied[depth]
        if depth > 0:
            moves = stack.replies[(depth - 1) * board.columns + stack.following[depth - 1] - 1]
        if depth % 2 == 1:
            alpha = -alpha - 1
    empties = board.cells - count_bits(occupied)
    while True:
        if stack.nodes[0] >= stack.limit[0]:
            stack.own[depth], stack.occupied[depth], stack.paused[0] = own, occupied, depth
            return PAUSED
        # Arrive at a node: push its children, or find its value immediately.
        count = expand(board, layout, stack, depth, own, occupied, moves)
        stack.following[depth] = 0
        stack.children[depth] = max(count, 0)
        if count < 0:
            best = (empties - 1) // 2
        else:
            best = apply_static_bounds(
                board, layout, table, stack, depth, own, occupied, empties, empties - 1 >= mirror_empties, alpha
            )
        known = best > alpha or stack.children[depth] == 0
        while True:
            if not known and stack.following[depth] < stack.children[depth]:
                # Descend to the next child.
                index = stack.following[depth]
                first = depth * board.columns
                stack.own[depth], stack.occupied[depth], stack.best[depth] = own, occupied, best
                stack.following[depth] = index + 1
                moves = stack.replies[first + index]
                own ^= occupied
                occupied |= stack.moves[first + index]
                depth += 1
                alpha = -alpha - 1
                empties -= 1
                if empties < TABLE_EMPTIES:
                    break
                lower, upper = bounds(table, table_key(board, own, occupied, empties >= mirror_empties))
                if lower <= alpha < upper:
                    break
                best = lower if lower > alpha else upper
            elif not known and empties >= TABLE_EMPTIES:  # no child exceeds alpha
                tighten(table, table_key(board, own, occupied, empties >= mirror_empties), -UNBOUNDED, best)
            # Return the node's value to its ancestors, as far as it cuts off.
            while True:
                if depth == 0:
                    return best
                depth -= 1
                alpha = -alpha - 1
                empties += 1
                own, occupied = stack.own[depth], stack.occupied[depth]
                best = max(stack.best[depth], -best)
                if best <= alpha:
                    break
                if empties >= TABLE_EMPTIES:
                    tighten(table, table_key(board, own, occupied, empties >= mirror_empties), best, UNBOUNDED)
            known = False


@compiled
def score_position(
    board: Board,
    layout: Layout,
    table: Table,
    known: KnownScores,
    stack: Stack,
    own: np.uint64,
    occupied: np.uint64,
    weak: bool,
) -> int:
    """Return the exact score for the side to move, or `PAUSED`; with ``weak`` only the sign of the score is exact.

    A finished position has the score of its last move: ``-((cells + 2 - plies) // 2)`` if that won, 0 if it filled the
    board.
    """
    cells = board.cells
    plies = count_bits(occupied)
    opponent = own ^ occupied
    if rules.has_run(board, opponent):
        return -((cells + 2 - plies) // 2)
    if rules.has_run(board, own):
        return (cells + 2 - plies) // 2
    if plies == cells:
        return 0
    legal = rules.legal_cells(board, occupied)
    if legal & rules.winning_cells(board, own, occupied) != U64_0:
        return (cells + 1 - plies) // 2
    moves = non_losing(legal, rules.winning_cells(board, opponent, occupied))
    if moves == U64_0:
        return -((cells - plies) // 2)
    if plies >= cells - 2:
        return 0
    if plies <= known.plies:
        found = look_up(known, canonical_key(board, own, occupied))
        if found != UNKNOWN_SCORE:
            return found
    # If two mirrored cells hold stones of different sides, no later position is the mirror image of another.
    mirrors = board.columns > 1 and own & rules.mirror(board, opponent) == U64_0
    mirror_empties = cells - _MIRROR_PLIES if mirrors else cells + 1
    # Bisect, but begin with who wins, and with long wins before short ones: those searches prove more (Pons, part 8).
    low, high = -((cells - 2 - plies) // 2), (cells - 1 - plies) // 2
    if weak:
        low, high = max(low, -1), min(high, 1)
    if stack.paused[0] != UNPAUSED:
        low, high = stack.window[0], stack.window[1]
    while low < high:
        threshold = low + (high - low) // 2
        if threshold <= 0 and low // 2 < threshold:
            threshold = -(-low // 2)
        elif threshold >= 0 and high // 2 > threshold:
            threshold = high // 2
        bound = search_bound(board, layout, table, stack, own, occupied, moves, threshold, mirror_empties)
        if bound == PAUSED:
            stack.window[0], stack.window[1] = low, high
            return PAUSED
        if bound > threshold:
            low = max(low, bound)
        else:
            high = min(high, bound)
    return low


@compiled
def score_batch(
    board: Board,
    layout: Layout,
    table: Table,
    known: KnownScores,
    words: Words,
    integers: Integers,
    own: Words,
    occupied: Words,
    weak: bool,
    scores: npt.NDArray[np.int8],
    start: int,
) -> int:
    """Write `score_position` of each position [B] from row ``start`` into ``scores`` [B]; return the rows done.

    A smaller number than B means that the search has paused: pass it as ``start`` to resume. ``words`` and
    ``integers`` are the working memory of `make_memory`.
    """
    stack = make_stack(board, words, integers)
    pointed_table = Table(pointer(table.entries), table.key_mask, table.half_key_bits, table.tag_bits)
    pointed_layout = Layout(layout.upper, pointer(layout.cell_ranks))
    for index in range(start, len(own)):
        score = score_position(board, pointed_layout, pointed_table, known, stack, own[index], occupied[index], weak)
        if score == PAUSED:
            return index
        scores[index] = score
    return len(own)


@allocating
def children(board: Board, own: Words, occupied: Words) -> tuple[npt.NDArray[np.bool_], Words, Words]:
    """Return the legal moves, bool [B, A], of B positions (none after a game's end), and the M positions after them."""
    playable = np.zeros((len(own), board.columns), np.bool_)
    after_own, after_occupied = np.empty(playable.size, np.uint64), np.empty(playable.size, np.uint64)
    count = 0
    for index in range(len(own)):
        mine, stones = own[index], occupied[index]
        if rules.has_run(board, mine) or rules.has_run(board, mine ^ stones):
            continue
        for column in range(board.columns):
            if rules.landing_cell(board, stones, column) != U64_0:
                playable[index, column] = True
                after_own[count], after_occupied[count] = rules.play(board, mine, stones, column)
                count += 1
    return playable, after_own[:count], after_occupied[:count]
