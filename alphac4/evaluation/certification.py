"""Ask a player for its move wherever an opponent can bring it, until every line ends as a claim says."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from alphac4.arena.players import SearchingPlayer
from alphac4.certificate.walk import (
    ASK,
    LOST,
    Claim,
    Columns,
    Keys,
    Walk,
    leading_to,
    play_moves,
    position_of,
    rule_moves,
)
from alphac4.evaluation.known_moves import Kind, KnownMoves, Moves, answers, proof_moves
from alphac4.game import Geometry, Outcome
from alphac4.machine import worker_threads
from alphac4.mcts.tree import UNPROVEN, proof_value
from alphac4.solver import Solver

BATCH = 4096  # positions asked about at once: of the few that need long searches there must be many
PROMISING = 0.5  # of a claimed win: where a move was taken back, one of a lesser value is not tried; -0.5 of a draw


class ProvingPlayer(SearchingPlayer, Protocol):
    """A player whose proofs can be taken down."""

    def winning_moves(self, index: int) -> tuple[Keys, Columns]:
        """See `alphac4.mcts.search.TreeSearch.winning_moves`."""


@dataclass(kw_only=True)
class LevelReport:
    """The positions with one number of stones in which the player is to move; mirror images are one."""

    stones: int
    positions: int
    decided: int  # the player wins at once, must block, or cannot
    proven: int  # the player's search has proven the win, there or from an earlier position
    mended: int  # the player's first answer was taken back
    errors: list[int] = field(default_factory=list)  # canonical keys of those in which the claim does not hold
    last: bool = False  # no line goes on

    @property
    def answered(self) -> int:
        """Positions in which the move is the player's, and its search has not proven that it wins."""
        return self.positions - self.decided - self.proven


def build(
    players: Sequence[ProvingPlayer],
    known: KnownMoves,
    claim: Claim,
    *,
    judge: Solver | None = None,
    max_stones: int = 64,
    on_moves: Callable[[int, int, int], object] = lambda _stones, _done, _total: None,
) -> Iterator[LevelReport]:
    """Walk level by level from where a claim begins, and ask the ``players``, which share the work, for unknown moves.

    A move after which some line is not won (or drawn, if that is enough) is taken back, and the player is asked again.
    If it sees no other promising move, the one that led to the position is taken back. So the walk returns to earlier
    levels, and reports them once more; nothing but the rules of the game and the player's own values tells it to.

    A ``judge`` makes it a measurement instead: moves that give the claim away are errors, found at once. They are not
    taken back, and not followed.

    Args:
        players: the same player several times, each for a core of its own; they must not keep trees.
        known: what was answered before, and is now.
        claim: what is to be shown.
        judge: the exact solver.
        max_stones: look no further than positions with so many.
        on_moves: hears, for a number of stones, how many positions are done and how many were unknown.

    Raises:
        ValueError: if the opponent's first move refutes the claim.
    """
    walk = Walk(claim)
    if walk.worst < claim.least:
        raise ValueError(f"it is not true that {claim}: the opponent's first move ends the game")
    with worker_threads(len(players)) as pool:
        while True:
            keys = walk.keys
            to_name = np.flatnonzero(rule_moves(walk.geometry, keys) == ASK)
            unknown = keys[to_name[known.find(walk.stones, keys[to_name])[0] == ASK]]
            for done in range(0, len(unknown), BATCH):
                on_moves(walk.stones, done, len(unknown))
                _ask(players, pool, known, claim, unknown[done : done + BATCH])
            moves, kinds = _moves(known, walk)
            if judge is not None:
                moves[to_name[_errs(judge, claim, keys[to_name], moves[to_name])]] = LOST
            refuted = walk.play(moves) < claim.least
            lost = moves == LOST
            if judge is None and refuted.any():
                known.take_back(keys[refuted], moves[refuted])
                continue
            if judge is None and lost.any() and walk.depth:
                walk.back()
                moves, _ = _moves(known, walk)
                leading = leading_to(walk.geometry, walk.keys, moves, keys[lost])
                known.take_back(walk.keys[leading], moves[leading])
                continue
            yield LevelReport(
                stones=walk.stones,
                positions=len(keys),
                decided=len(keys) - len(to_name),
                proven=int((kinds == Kind.PROOF).sum()),
                mended=int((known.is_taken_back(keys) & (moves >= 0)).sum()),
                errors=keys[lost | refuted].tolist(),
                last=walk.is_last,
            )
            if walk.is_last or walk.stones + 2 > max_stones:
                return
            walk.go_on()


def moves_in_order(known: KnownMoves, claim: Claim) -> Columns:
    """The moves that a claim's certificate holds, in the order of its walk; all of them must be known."""
    parts: list[Columns] = []
    walk = Walk(claim)
    while len(walk.keys):
        moves, _ = _moves(known, walk)
        parts.append(moves[rule_moves(walk.geometry, walk.keys) == ASK])
        walk.play(moves)
        walk.go_on()
    return np.concatenate(parts)


def _moves(known: KnownMoves, walk: Walk) -> tuple[Columns, Columns]:
    """The moves [B], by the rules or as known, and the kinds [B] of the known ones; LOST where all were taken back."""
    moves = rule_moves(walk.geometry, walk.keys)
    kinds = np.full(len(walk.keys), ASK, np.int8)
    to_name = moves == ASK
    moves[to_name], kinds[to_name] = known.find(walk.stones, walk.keys[to_name])
    for row in np.flatnonzero(known.is_taken_back(walk.keys)):
        if moves[row] in (*known.taken_back[int(walk.keys[row])], ASK):
            moves[row] = LOST
    return moves, kinds


def _ask(
    players: Sequence[ProvingPlayer], pool: ThreadPoolExecutor, known: KnownMoves, claim: Claim, keys: Keys
) -> None:
    """Take down the players' answers in positions [B], and the moves of what they have proven."""

    def think(player: ProvingPlayer, part: Keys) -> tuple[list[Moves], Keys]:
        result = player.search([position_of(claim.geometry, int(key)) for key in part])
        proofs = [player.winning_moves(int(row)) for row in np.flatnonzero(result.proven_wins)]
        found = [result.root_proof(row) for row in range(len(part))]
        hopeless = np.array([proof != UNPROVEN and proof_value(proof) < claim.least for proof in found], np.bool_)
        return [answers(part[~hopeless], result.moves[~hopeless]), *proof_moves(proofs)], part[hopeless]

    again = known.is_taken_back(keys)
    parts = [part for part in np.array_split(keys[~again], len(players)) if len(part)]
    for found, hopeless in pool.map(think, players, parts):
        known.add(found)
        for key in hopeless:
            _give_up(known, claim.geometry, key)
    for key in keys[again]:
        _ask_again(players[0], known, claim, key)


def _ask_again(player: ProvingPlayer, known: KnownMoves, claim: Claim, key: np.uint64) -> None:
    """Take down the move, of those left, after which the opponent is worst off, or that none is promising."""
    position = position_of(claim.geometry, int(key))
    left = [column for column in position.legal_columns() if column not in known.taken_back[int(key)]]
    after = [position.play(column) for column in left]
    # A full board is a draw; who could complete a run at once is not asked.
    values = {column: 0.0 for column, then in zip(left, after, strict=True) if then.outcome() == Outcome.DRAW}
    open_columns = [column for column in left if column not in values]
    if open_columns:
        found = player.search([then for then in after if then.outcome() is None]).value
        values |= zip(open_columns, (-found).tolist(), strict=True)
    if values:
        best = max(values, key=lambda column: values[column])
        if values[best] > (PROMISING if claim.least == 1 else -PROMISING):
            known.add([answers(np.array([key], np.uint64), np.array([best]))])
            return
    _give_up(known, claim.geometry, key)


def _give_up(known: KnownMoves, geometry: Geometry, key: np.uint64) -> None:
    """Take back every move of a position in which the player does not see how the claim could hold."""
    columns = position_of(geometry, int(key)).legal_columns()
    known.take_back(np.full(len(columns), key, np.uint64), np.array(columns, np.int8))


def _errs(judge: Solver, claim: Claim, keys: Keys, moves: Columns) -> npt.NDArray[np.bool_]:
    """Whether each move gives the claim away [B]."""
    own, occupied, ends = play_moves(claim.geometry, keys, moves)
    going_on = occupied != claim.geometry.board
    ends[going_on] = -judge.solve_outcome_batch(own[going_on], occupied[going_on])
    return ends < claim.least
