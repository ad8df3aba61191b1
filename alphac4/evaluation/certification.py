"""Ask a player for its move wherever an opponent can bring it, until every line is won."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from alphac4.arena.players import SearchingPlayer
from alphac4.certificate.moves import PROOF, KnownMoves, Moves, answers, proof_moves
from alphac4.certificate.walk import (
    ASK,
    LOST,
    Columns,
    Keys,
    after_moves,
    follow,
    leading_to,
    rule_moves,
    stones_of,
    unpack_key,
)
from alphac4.game import Geometry, Position
from alphac4.machine import worker_threads
from alphac4.mcts.tree import PROVEN_DRAW
from alphac4.solver import Solver

BATCH = 4096  # positions asked about at once: of the few that need long searches there must be many
PROMISING = 0.5  # a value: where a move was taken back, one that promises less is not tried


class ProvingPlayer(SearchingPlayer, Protocol):
    """A player whose proofs can be taken down."""

    def winning_moves(self, index: int) -> tuple[Keys, Columns]:
        """See `alphac4.mcts.search.TreeSearch.winning_moves`."""


@dataclass(kw_only=True)
class LevelReport:
    """The positions with one number of stones in which the first player is to move; mirror images are one."""

    stones: int
    positions: int
    decided: int  # the first player wins at once, must block, or cannot
    proven: int  # the player's search has proven the win, there or from an earlier position
    mended: int  # the player's first answer was taken back
    errors: list[int] = field(default_factory=list)  # canonical keys of those from which the player does not win
    last: bool = False  # no line goes on

    @property
    def answered(self) -> int:
        """Positions in which the move is the player's, and its search has not proven that it wins."""
        return self.positions - self.decided - self.proven


def build(
    players: Sequence[ProvingPlayer],
    known: KnownMoves,
    geometry: Geometry,
    *,
    judge: Solver | None = None,
    start: int = 0,
    most_stones: int = 64,
    on_moves: Callable[[int, int, int], object] = lambda _stones, _done, _total: None,
) -> Iterator[LevelReport]:
    """Walk level by level from the empty board, and ask the ``players``, which share the work, for unknown moves.

    A move after which some line is not won is taken back, and the player is asked again. If it sees no other promising
    move, the one that led to the position is taken back. So the walk returns to earlier levels, and reports them once
    more; nothing but the rules of the game and the player's own values tells it to.

    A ``judge`` makes it a measurement instead: moves that do not win are errors, found at once. They are not taken
    back, and not followed.

    Args:
        players: the same player several times, each for a core of its own; they must not keep trees.
        known: what was answered before, and is now.
        geometry: of the board.
        judge: the exact solver.
        start: the canonical key of the position to begin from, of as many stones of either side.
        most_stones: look no further than positions with so many.
        on_moves: hears, for a number of stones, how many positions are done and how many were unknown.
    """
    path = [np.array([start], np.uint64)]
    first = int(stones_of(geometry, path[0])[0])
    with worker_threads(len(players)) as pool:
        while True:
            keys, stones = path[-1], first + 2 * (len(path) - 1)
            to_name = np.flatnonzero(rule_moves(geometry, keys) == ASK)
            unknown = keys[to_name[known.find(stones, keys[to_name])[0] == ASK]]
            for done in range(0, len(unknown), BATCH):
                on_moves(stones, done, len(unknown))
                _ask(players, pool, known, geometry, unknown[done : done + BATCH])
            moves, kinds = _moves(known, geometry, stones, keys)
            if judge is not None:
                moves[to_name[_errs(judge, geometry, keys[to_name], moves[to_name])]] = LOST
            following, not_won = follow(geometry, keys, moves)
            lost = moves == LOST
            if judge is None and not_won.any():
                known.take_back(keys[not_won], moves[not_won])
                continue
            if judge is None and lost.any() and len(path) > 1:
                path.pop()
                moves, _ = _moves(known, geometry, stones - 2, path[-1])
                leading = leading_to(geometry, path[-1], moves, keys[lost])
                known.take_back(path[-1][leading], moves[leading])
                continue
            yield LevelReport(
                stones=stones,
                positions=len(keys),
                decided=len(keys) - len(to_name),
                proven=int((kinds == PROOF).sum()),
                mended=int((known.is_taken_back(keys) & (moves >= 0)).sum()),
                errors=keys[lost | not_won].tolist(),
                last=len(following) == 0,
            )
            if len(following) == 0 or stones + 2 > most_stones:
                return
            path.append(following)


def moves_in_order(known: KnownMoves, geometry: Geometry, start: int = 0) -> Columns:
    """The moves that a certificate holds, in the order of its walk; all of them must be known."""
    parts: list[Columns] = []
    keys = np.array([start], np.uint64)
    stones = int(stones_of(geometry, keys)[0])
    while len(keys):
        moves, _ = _moves(known, geometry, stones, keys)
        parts.append(moves[rule_moves(geometry, keys) == ASK])
        keys, stones = follow(geometry, keys, moves)[0], stones + 2
    return np.concatenate(parts)


def position_of(geometry: Geometry, key: int) -> Position:
    """The position of a canonical key; how it came about is not known."""
    own, occupied = unpack_key(geometry, np.uint64(key))
    return Position(np.uint64(own), np.uint64(occupied), geometry)


def _moves(known: KnownMoves, geometry: Geometry, stones: int, keys: Keys) -> tuple[Columns, Columns]:
    """The moves [B], by the rules or as known, and the kinds [B] of the known ones; LOST where all were taken back."""
    moves = rule_moves(geometry, keys)
    kinds = np.full(len(keys), ASK, np.int8)
    to_name = moves == ASK
    moves[to_name], kinds[to_name] = known.find(stones, keys[to_name])
    for row in np.flatnonzero(known.is_taken_back(keys)):
        if moves[row] in (*known.taken_back[int(keys[row])], ASK):
            moves[row] = LOST
    return moves, kinds


def _ask(
    players: Sequence[ProvingPlayer], pool: ThreadPoolExecutor, known: KnownMoves, geometry: Geometry, keys: Keys
) -> None:
    """Take down the players' answers in positions [B], and the moves of what they have proven."""

    def think(player: ProvingPlayer, part: Keys) -> tuple[list[Moves], Keys]:
        result = player.search([position_of(geometry, int(key)) for key in part])
        proofs = [player.winning_moves(int(row)) for row in np.flatnonzero(result.proven_wins)]
        hopeless = np.array([result.root_proof(row) <= PROVEN_DRAW for row in range(len(part))], np.bool_)
        return [answers(part[~hopeless], result.moves[~hopeless]), *proof_moves(proofs)], part[hopeless]

    again = known.is_taken_back(keys)
    parts = [part for part in np.array_split(keys[~again], len(players)) if len(part)]
    for found, hopeless in pool.map(think, players, parts):
        known.add(found)
        for key in hopeless:
            _give_up(known, geometry, key)
    for key in keys[again]:
        _ask_again(players[0], known, geometry, key)


def _ask_again(player: ProvingPlayer, known: KnownMoves, geometry: Geometry, key: np.uint64) -> None:
    """Take down the move, of those left, after which the opponent is worst off, or that none is promising."""
    position = position_of(geometry, int(key))
    left = [column for column in position.legal_columns() if column not in known.taken_back[int(key)]]
    left = [column for column in left if position.play(column).outcome() is None]  # a full board is not won
    if left:
        values = -player.search([position.play(column) for column in left]).value
        if values.max() > PROMISING:
            known.add([answers(np.array([key], np.uint64), np.array([left[int(np.argmax(values))]]))])
            return
    _give_up(known, geometry, key)


def _give_up(known: KnownMoves, geometry: Geometry, key: np.uint64) -> None:
    """Take back every move of a position that the player does not see how to win."""
    columns = position_of(geometry, int(key)).legal_columns()
    known.take_back(np.full(len(columns), key, np.uint64), np.array(columns, np.int8))


def _errs(judge: Solver, geometry: Geometry, keys: Keys, moves: Columns) -> npt.NDArray[np.bool_]:
    """Whether each move does not win [B]."""
    own, occupied = after_moves(geometry, keys, moves)
    errs = np.ones(len(keys), np.bool_)
    going_on = occupied != geometry.board
    errs[going_on] = judge.solve_outcome_batch(own[going_on], occupied[going_on]) > -1
    return errs
