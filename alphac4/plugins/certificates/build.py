"""Build a certificate: a walk over all games requests a network's moves until every game has the claimed result.

A move after which a game can miss this result is rejected. The answers are stored in `KnownMoves`, from which an
interrupted walk resumes.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from alphac4.arena.players import NetworkPlayer
from alphac4.evaluation.walks import KnownMoves, LevelReport, MoveKind, Moves, OnMoves
from alphac4.game import Board, Outcome
from alphac4.game.walk import NO_MOVE, Columns, Keys, Walk, position_of
from alphac4.machine import worker_threads
from alphac4.mcts.tree import ILLEGAL, PROVEN_DRAW, UNPROVEN, proof_value
from alphac4.plugins.certificates.file import LOST, Claim, forced_moves, has_reply_in

BATCH = 4096  # positions whose moves are requested together; few need long searches, and these should fill a batch
MIN_PROMISING_VALUE = 0.5  # minimum value of a second choice for a claimed win; -0.5 for a claimed draw


def build(
    players: Sequence[NetworkPlayer],
    known: KnownMoves,
    claim: Claim,
    *,
    max_stones: int = 64,
    cells: np.uint64 | None = None,
    on_moves: OnMoves = lambda _stones, _done, _total: None,
) -> Iterator[LevelReport]:
    """Search for moves that show a claim, level by level from its start; yield a report per level.

    A move after which a line is not won (or is lost, for a claimed draw) is rejected, and the player searches again.
    If no other move is promising, the move that led to the position is rejected. The walk then returns to earlier
    levels and reports them again. Only the rules of the game and the player's own values decide this.

    Args:
        players: copies of one player, one per core, without tree reuse.
        known: the answers so far; new ones are added.
        claim: the claim to show.
        max_stones: maximum number of stones in the positions.
        cells: cells in which the opponent may drop stones, by default all; see `Walk`.
        on_moves: called with a level's stones, how many of its unknown moves are done, and how many there are.

    Raises:
        ValueError: if the opponent's first move refutes the claim.
    """
    walk = Walk(claim, cells=cells)
    if walk.worst_reply_outcome < claim.min_outcome:
        raise ValueError(f"it is not true that {claim}: the opponent's first move ends the game")
    with worker_threads(len(players)) as pool:
        while True:
            keys = walk.keys
            to_ask = keys[forced_moves(walk.board, keys) == NO_MOVE]
            unknown = to_ask[known.find(walk.stones, to_ask)[0] == NO_MOVE]
            for done in range(0, len(unknown), BATCH):
                on_moves(walk.stones, done, len(unknown))
                _ask(players, pool, known, claim, unknown[done : done + BATCH])
            moves, kinds = _known_moves(known, walk)
            refuted, lost = walk.play(moves) < claim.min_outcome, moves == LOST
            if refuted.any():
                known.take_back(keys[refuted], moves[refuted])
                continue
            if lost.any() and walk.depth:
                walk.go_back()
                moves, _ = _known_moves(known, walk)
                leading = has_reply_in(walk.board, walk.keys, moves, keys[lost])
                known.take_back(walk.keys[leading], moves[leading])
                continue
            yield LevelReport(
                stones=walk.stones,
                keys=keys,
                kinds=kinds,
                failures=[position_of(walk.board, key) for key in keys[lost]],
                taken_back=int((known.is_taken_back(keys) & (moves >= 0)).sum()),
                is_last=walk.is_last,
            )
            if lost.any() or walk.is_last or walk.stones + 2 > max_stones:
                return
            walk.advance()


def moves_in_order(known: KnownMoves, claim: Claim) -> Columns:
    """Return the moves of a claim's certificate in the order of its walk; all must be known."""
    parts: list[Columns] = []
    walk = Walk(claim)
    while len(walk.keys):
        moves, _ = _known_moves(known, walk)
        parts.append(moves[forced_moves(walk.board, walk.keys) == NO_MOVE])
        walk.play(moves)
        walk.advance()
    return np.concatenate(parts)


def _known_moves(known: KnownMoves, walk: Walk) -> tuple[Columns, Columns]:
    """Return the forced or known moves [B], LOST where all are rejected; and the kinds [B] of the known ones."""
    moves = forced_moves(walk.board, walk.keys)
    kinds = np.full(len(walk.keys), NO_MOVE, np.int8)
    to_name = moves == NO_MOVE
    moves[to_name], kinds[to_name] = known.find(walk.stones, walk.keys[to_name])
    for row in np.flatnonzero(known.is_taken_back(walk.keys)):
        if moves[row] in (*known.taken_back[int(walk.keys[row])], NO_MOVE):
            moves[row] = LOST
    return moves, kinds


def _ask(
    players: Sequence[NetworkPlayer], pool: ThreadPoolExecutor, known: KnownMoves, claim: Claim, keys: Keys
) -> None:
    """Add the answers in positions [B] and the moves of proofs; reject all moves where a proof refutes the claim."""

    def think(player: NetworkPlayer, part: Keys) -> tuple[list[Moves], Keys]:
        result = player.search([position_of(claim.board, int(key)) for key in part])
        best = np.where(result.proofs == UNPROVEN, ILLEGAL, result.proofs).max(axis=1)
        least = PROVEN_DRAW + claim.min_outcome
        proofs = [
            Moves.of_kind(MoveKind.PROOF, *player.proven_moves(int(row), least))
            for row in np.flatnonzero(best >= least)
        ]
        root_proofs = [result.root_proof(row) for row in range(len(part))]
        hopeless = np.array([p != UNPROVEN and proof_value(p) < claim.min_outcome for p in root_proofs], np.bool_)
        answers = Moves.of_kind(MoveKind.ANSWER, part[~hopeless], result.moves[~hopeless])
        return [answers, *proofs], part[hopeless]

    again = known.is_taken_back(keys)
    parts = [part for part in np.array_split(keys[~again], len(players)) if len(part)]
    for found, hopeless in pool.map(think, players, parts):
        known.add(found)
        for key in hopeless:
            _give_up(known, claim.board, key)
    for key in keys[again]:
        _ask_again(players[0], known, claim, key)


def _ask_again(player: NetworkPlayer, known: KnownMoves, claim: Claim, key: np.uint64) -> None:
    """Add the remaining move with the highest value, or reject all moves if none is promising."""
    position = position_of(claim.board, int(key))
    left = [column for column in position.legal_columns() if column not in known.taken_back[int(key)]]
    after = [position.play(column) for column in left]
    # A full board is a draw. No move here completes a run, because the rules decide such positions.
    values = {column: 0.0 for column, then in zip(left, after, strict=True) if then.outcome() == Outcome.DRAW}
    open_columns = [column for column in left if column not in values]
    if open_columns:
        found = player.search([then for then in after if then.outcome() is None]).value
        values |= zip(open_columns, (-found).tolist(), strict=True)
    if values:
        best = max(values, key=lambda column: values[column])
        if values[best] > (MIN_PROMISING_VALUE if claim.min_outcome == 1 else -MIN_PROMISING_VALUE):
            known.add([Moves.of_kind(MoveKind.ANSWER, np.array([key], np.uint64), np.array([best]))])
            return
    _give_up(known, claim.board, key)


def _give_up(known: KnownMoves, board: Board, key: np.uint64) -> None:
    """Reject every move of a position in which the player does not expect the claimed result."""
    columns = position_of(board, int(key)).legal_columns()
    known.take_back(np.full(len(columns), key, np.uint64), np.array(columns, np.int8))
