"""The exact score of a position, by null-window alpha-beta: does it exceed a threshold?

Built on Pascal Pons, "Solving Connect 4" (http://blog.gamesolver.org): bitboards, non-losing moves, threats first,
null windows. Beyond that: a child's replies are generated with the child, so that wins two plies ahead
cost no node; fail-soft bounds of both kinds in the table; enhanced transposition cutoffs (Schaeffer and
Plaat 1996); Allis's claimeven as a static bound; mirror images are one position where both can be reached.
A history heuristic, as in Tromp's Fhourstones, searched more nodes here.

The tree is searched by a loop over an explicit stack, because recursive calls are slow in Numba. Every value below
is for the side to move at its own node. Functions share the ``geometry``, its ``layout``, the transposition ``table``
and the ``stack``; ``either_side`` says whether a position and its mirror image are one.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.compiled import allocating, compiled
from alphac4.game import rules
from alphac4.game.rules import U64_0, U64_1, Geometry, Words, canonical_key, position_key
from alphac4.solver.book import UNKNOWN, KnownScores, look_up
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

FULL_COLUMN = -128  # in batches: the score of a move that cannot be made
PAUSED = -1000  # returned by `exceeds` in place of a bound when the nodes it may search are used up

# Chosen by node counts and times on the first positions of Pons's begin-medium and middle-medium sets.
TABLE_EMPTIES = 8  # positions with fewer empty cells are searched again sooner than found in memory
PROBE_EMPTIES = 8  # from here on every child is looked up before any is searched
THREAT_WEIGHT = 64
LASTING_THREAT_WEIGHT = 32  # for a threat that the opponent cannot block on its next move
CENTRE_WEIGHT = 8

_MIRROR_PLIES = 14  # from here on mirror images met in one search are too few to pay for the mirroring


class Layout(NamedTuple):
    """Facts about a geometry that the search needs beyond its masks. Build one with `make_layout`."""

    upper: np.uint64  # `upper_of_pairs`
    cell_ranks: npt.NDArray[np.int64]  # [64] preference for a cell when threats are equal


def make_layout(geometry: Geometry) -> Layout:
    """Central cells first, and of these the higher ones."""
    cell_ranks = np.zeros(64, np.int64)
    for column in range(geometry.columns):
        for row in range(geometry.rows):
            centrality = min(column, geometry.columns - 1 - column)
            cell_ranks[column * (geometry.rows + 1) + row] = CENTRE_WEIGHT * centrality + row
    return Layout(upper_of_pairs(geometry), cell_ranks)


@compiled
def table_key(geometry: Geometry, own: np.uint64, occupied: np.uint64, either_side: bool) -> np.uint64:
    """A position's key in the table; with ``either_side`` the same for its mirror image."""
    return canonical_key(geometry, own, occupied) if either_side else position_key(own, occupied)


def upper_of_pairs(geometry: Geometry) -> np.uint64:
    """The upper cells when each column is divided into pairs from its top: even rows (1-based) of a six-row board."""
    cells = 0
    for column in range(geometry.columns):
        for row in range(geometry.rows - 1, 0, -2):
            cells |= 1 << (column * (geometry.rows + 1) + row)
    return np.uint64(cells)


@compiled
def non_losing(legal: np.uint64, threats: np.uint64) -> np.uint64:
    """The legal cells after which an opponent with these threats does not win at once; 0 if there are none.

    The side to move must have no win on the move itself.
    """
    forced = legal & threats
    safe = legal & ~(threats >> U64_1)  # never play right below a cell that wins for the opponent
    if forced == U64_0:
        return safe
    if forced & (forced - U64_1) != U64_0:
        return U64_0  # two wins at once: only one can be blocked
    return safe & forced


@compiled
def follow_up_score(
    geometry: Geometry, upper: np.uint64, follower: np.uint64, leader: np.uint64, occupied: np.uint64
) -> int:
    """The least that the follower gets by always answering in the leader's column: 1 win, 0 draw, -1 unknown.

    The leader is to move and the number of empty cells is even. The follower answers on top of the leader's stone,
    or, if that was the first in a column with an odd number of empty cells, by the lowest cell of another such column:
    their number is even. So the leader can get the lower cell of each pair and perhaps the lowest cells of odd
    columns, and nothing else.
    """
    empty = geometry.board & ~occupied
    legal = rules.legal_cells(geometry, occupied)
    if rules.has_run(geometry, leader | (empty & ~upper) | legal):
        return -1
    return 1 if rules.has_run(geometry, follower | (empty & upper & ~legal)) else 0


@compiled
def expand(
    geometry: Geometry, layout: Layout, stack: Stack, depth: int, own: np.uint64, occupied: np.uint64, moves: np.uint64
) -> int:
    """Write the children of a node onto the stack, best first; their number, or -1 if a move wins in two plies."""
    stack.nodes[0] += 1
    first = depth * geometry.columns
    ranks, found, answers = stack.ranks, stack.moves, stack.replies
    count = 0
    while moves != U64_0:
        move = moves & (~moves + U64_1)
        moves ^= move
        after = occupied | move
        threats = rules.winning_cells(geometry, own | move, after)
        legal = rules.legal_cells(geometry, after)
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
    geometry: Geometry,
    table: Table,
    stack: Stack,
    depth: int,
    opponent: np.uint64,
    occupied: np.uint64,
    either_side: bool,
    alpha: int,
) -> int:
    """Look up every child, dropping those proven not to exceed ``alpha``; the best value the table proves.

    A value above ``alpha`` means that a child suffices for a cutoff; ``-UNBOUNDED`` that nothing is known.
    """
    first = depth * geometry.columns
    moves, replies = stack.moves, stack.replies
    for index in range(stack.children[depth]):  # all loads start before any is waited for
        slot, _ = slot_and_tag(table, table_key(geometry, opponent, occupied | moves[first + index], either_side))
        prefetch(table.entries, slot)
    best = -UNBOUNDED
    kept = 0
    for index in range(stack.children[depth]):
        lower, upper = bounds(table, table_key(geometry, opponent, occupied | moves[first + index], either_side))
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
    geometry: Geometry, layout: Layout, stack: Stack, depth: int, own: np.uint64, occupied: np.uint64, alpha: int
) -> int:
    """The least score that following up after one of the moves proves, if above ``alpha``; else ``-UNBOUNDED``."""
    opponent = own ^ occupied
    first = depth * geometry.columns
    for index in range(stack.children[depth]):
        move = stack.moves[first + index]
        claim = follow_up_score(geometry, layout.upper, own | move, opponent, occupied | move)
        if claim >= 0 and claim > alpha:
            return claim
    return -UNBOUNDED


@compiled
def settle(
    geometry: Geometry,
    layout: Layout,
    table: Table,
    stack: Stack,
    depth: int,
    own: np.uint64,
    occupied: np.uint64,
    empties: int,
    either_side: bool,
    alpha: int,
) -> int:
    """Bounds that need no deeper search; children stay on the stack only where they are still to be searched.

    Returns the best value so far: a proven bound if it exceeds ``alpha`` or no child is left.
    """
    longest_win = (empties - 3) // 2  # no win within two plies: the next chance comes two plies later
    if empties <= 3 or longest_win <= alpha:
        stack.children[depth] = 0
        return max(0, longest_win)
    best = -UNBOUNDED
    if alpha < 1 and empties % 2 == 1:
        best = claim_by_follow_up(geometry, layout, stack, depth, own, occupied, alpha)
    if best <= alpha and empties > PROBE_EMPTIES and stack.children[depth] > 1:
        best = probe_children(geometry, table, stack, depth, own ^ occupied, occupied, either_side, alpha)
    return best


@compiled
def exceeds(
    geometry: Geometry,
    layout: Layout,
    table: Table,
    stack: Stack,
    own: np.uint64,
    occupied: np.uint64,
    moves: np.uint64,
    threshold: int,
    mirror_empties: int,
) -> int:
    """A bound on the score: a lower one if the value returned exceeds ``threshold``, else an upper one.

    ``moves``: the non-losing cells, at least one. The side to move cannot win at once; three cells or more are empty.
    Positions with at least ``mirror_empties`` empty cells share their table entry with their mirror image.

    Once the stack's limit of nodes is reached the search pauses and returns `PAUSED`: called again with the same
    arguments, the same stack and a higher limit it goes on as if it had not paused.
    """
    depth = 0
    alpha = threshold  # of the node at hand: it flips with the side to move
    if stack.paused[0] != UNPAUSED:
        depth = stack.paused[0]
        stack.paused[0] = UNPAUSED
        own, occupied = stack.own[depth], stack.occupied[depth]
        if depth > 0:
            moves = stack.replies[(depth - 1) * geometry.columns + stack.following[depth - 1] - 1]
        if depth % 2 == 1:
            alpha = -alpha - 1
    empties = geometry.cells - count_bits(occupied)
    while True:
        if stack.nodes[0] >= stack.limit[0]:
            stack.own[depth], stack.occupied[depth], stack.paused[0] = own, occupied, depth
            return PAUSED
        # Arrive at a node: its children, or a value at once.
        count = expand(geometry, layout, stack, depth, own, occupied, moves)
        stack.following[depth] = 0
        stack.children[depth] = max(count, 0)
        if count < 0:
            best = (empties - 1) // 2
        else:
            best = settle(
                geometry, layout, table, stack, depth, own, occupied, empties, empties - 1 >= mirror_empties, alpha
            )
        known = best > alpha or stack.children[depth] == 0
        while True:
            if not known and stack.following[depth] < stack.children[depth]:
                # Go down to the next child.
                index = stack.following[depth]
                first = depth * geometry.columns
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
                lower, upper = bounds(table, table_key(geometry, own, occupied, empties >= mirror_empties))
                if lower <= alpha < upper:
                    break
                best = lower if lower > alpha else upper
            elif not known and empties >= TABLE_EMPTIES:  # no child exceeds alpha
                tighten(table, table_key(geometry, own, occupied, empties >= mirror_empties), -UNBOUNDED, best)
            # Go back up with the node's value, as far as it cuts off.
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
                    tighten(table, table_key(geometry, own, occupied, empties >= mirror_empties), best, UNBOUNDED)
            known = False


@compiled
def score_position(
    geometry: Geometry,
    layout: Layout,
    table: Table,
    known: KnownScores,
    stack: Stack,
    own: np.uint64,
    occupied: np.uint64,
    weak: bool,
) -> int:
    """The exact score for the side to move, with ``weak`` only its sign is right; `PAUSED` if the search has paused.

    A finished position scores as its last move did: ``-((cells + 2 - plies) // 2)`` if that won, 0 for a full board.
    """
    cells = geometry.cells
    plies = count_bits(occupied)
    opponent = own ^ occupied
    if rules.has_run(geometry, opponent):
        return -((cells + 2 - plies) // 2)
    if rules.has_run(geometry, own):
        return (cells + 2 - plies) // 2
    if plies == cells:
        return 0
    legal = rules.legal_cells(geometry, occupied)
    if legal & rules.winning_cells(geometry, own, occupied) != U64_0:
        return (cells + 1 - plies) // 2
    moves = non_losing(legal, rules.winning_cells(geometry, opponent, occupied))
    if moves == U64_0:
        return -((cells - plies) // 2)
    if plies >= cells - 2:
        return 0
    if plies <= known.plies:
        found = look_up(known, canonical_key(geometry, own, occupied))
        if found != UNKNOWN:
            return found
    # No game can pass through both a position and its mirror image once a pair of opposite cells differs in colour.
    mirrors = geometry.columns > 1 and own & rules.mirror(geometry, opponent) == U64_0
    mirror_empties = cells - _MIRROR_PLIES if mirrors else cells + 1
    # Bisect, but who wins is asked first and long wins before short ones: those searches prove more (Pons, part 8).
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
        bound = exceeds(geometry, layout, table, stack, own, occupied, moves, threshold, mirror_empties)
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
    geometry: Geometry,
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
    """`score_position` of each position [B] from ``start`` on into ``scores`` [B]; how many are done.

    Those are fewer than all if the search has paused; with ``start`` set to their number, it goes on.
    ``words`` and ``integers`` are the working memory as `make_memory` makes it.
    """
    stack = make_stack(geometry, words, integers)
    pointed_table = Table(pointer(table.entries), table.key_mask, table.half_key_bits, table.tag_bits)
    pointed_layout = Layout(layout.upper, pointer(layout.cell_ranks))
    for index in range(start, len(own)):
        score = score_position(geometry, pointed_layout, pointed_table, known, stack, own[index], occupied[index], weak)
        if score == PAUSED:
            return index
        scores[index] = score
    return len(own)


@allocating
def children(geometry: Geometry, own: Words, occupied: Words) -> tuple[npt.NDArray[np.bool_], Words, Words]:
    """The moves that can be made in B positions [B, A], none once a game is over, and the positions [M] after them."""
    playable = np.zeros((len(own), geometry.columns), np.bool_)
    after_own, after_occupied = np.empty(playable.size, np.uint64), np.empty(playable.size, np.uint64)
    count = 0
    for index in range(len(own)):
        mine, stones = own[index], occupied[index]
        if rules.has_run(geometry, mine) or rules.has_run(geometry, mine ^ stones):
            continue
        for column in range(geometry.columns):
            if rules.landing_cell(geometry, stones, column) != U64_0:
                playable[index, column] = True
                after_own[count], after_occupied[count] = rules.play(geometry, mine, stones, column)
                count += 1
    return playable, after_own[:count], after_occupied[:count]
