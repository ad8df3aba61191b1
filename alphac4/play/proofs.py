"""Proven results of positions, from a source that a plugin registers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from alphac4.discovery import load_plugins

if TYPE_CHECKING:  # plugins import this module before any command runs
    from alphac4.arena.players import Player, SearchingPlayer
    from alphac4.game import Board, Position
    from alphac4.solver.solver import Verdict


@dataclass(frozen=True, kw_only=True)
class ProvenResult:
    """Proven result: a player wins, or does not lose."""

    first: bool  # whether this player is the first player
    plies: int | None  # upper bound on the plies to the win; None if no win is proven
    column: int | None  # 0-based move of that player; None if unknown or the opponent is to move


class Bounds:
    """Proven wins, and what follows from them later, so that the announced distance to a win never grows."""

    def __init__(self) -> None:
        self._known: dict[Position, ProvenResult] = {}

    def find(self, position: "Position") -> ProvenResult | None:
        """Return the proven win with the fewest plies; None without one."""
        return self._known.get(position)

    def add(self, position: "Position", result: ProvenResult) -> None:
        """Store a win, and what follows for the next positions: after any reply, and after the winner's known move.

        A result without ``plies`` is not stored.
        """
        if result.plies is None:
            return
        known = self._known.get(position)
        if known is None or known.plies is None or result.plies < known.plies:
            self._known[position] = result
        following = [] if result.column is None else [result.column]
        if position.first_to_move != result.first:
            following = position.legal_columns()
        for column in following:
            self.add(position.play(column), replace(result, plies=result.plies - 1, column=None))

    def add_verdict(self, position: "Position", column: int, verdict: "Verdict") -> None:
        """Store the win or loss that exact play shows for a move; a draw is not stored."""
        if verdict.score > 0:
            win = ProvenResult(first=position.first_to_move, plies=2 * verdict.moves - 1, column=column)
            self.add(position, win)
        elif verdict.score < 0:
            loss = ProvenResult(first=not position.first_to_move, plies=2 * verdict.moves - 1, column=None)
            self.add(position.play(column), loss)


class Proofs(Protocol):
    """Proven results on one board. A method may take seconds; it raises PlayerError if it finds a proof to be wrong."""

    def proven_move(self, position: "Position") -> int | None:
        """Return a 0-based column that keeps a proven result of the side to move; None without one."""

    def proven_result(self, position: "Position") -> ProvenResult | None:
        """Return the proven result of an unfinished position; None without one."""

    def player(self, make_other: "Callable[[], SearchingPlayer]") -> "Player":
        """Return a player of proven moves; elsewhere it plays as ``make_other()``, which is called at its first use."""

    def early_wins(self, max_stones: int) -> Sequence[tuple[int, int, int]]:
        """Return the positions with up to ``max_stones`` that are proven wins for the side to move.

        Each is (canonical key, 0-based column, most plies to the win). The column is in the canonical orientation, and
        -1 where the side to move wins immediately.
        """


LoadProofs = Callable[["Board", Callable[[], object]], Proofs | None]
"""Function that returns the proofs on a board; None without any.

The proofs call its second argument between the steps of their computation, each of which takes up to a few seconds;
that call may raise to stop them.
"""

_sources: list[LoadProofs] = []


def register_proofs(load: LoadProofs) -> LoadProofs:
    """Add a source of proven results, as a decorator."""
    _sources.append(load)
    return load


def load_proofs(board: "Board", on_poll: Callable[[], object] = lambda: None) -> Proofs | None:
    """Return the proofs of the first source that has any on a board; see `LoadProofs`."""
    load_plugins()
    return next((proofs for load in _sources if (proofs := load(board, on_poll)) is not None), None)
