"""A tree whose nodes know what is proven: wins in one, losses in two, and what follows from them."""

from alphac4.export.submission.board import Board

# A win in d plies is PROVEN_WIN - d, a loss in d plies d - PROVEN_WIN: the order of integers is that of preference.
PROVEN_WIN = 1_000_000


class Node:
    """An unfinished position with what is known of its legal moves; all lists are in the order of ``actions``."""

    __slots__ = ("actions", "children", "occupied", "own", "priors", "proofs", "value", "value_sums", "visits")

    def __init__(self, board: Board, own: int, occupied: int) -> None:
        self.own = own
        self.occupied = occupied
        self.value = 0.0  # the evaluation, or the proven outcome
        self.actions: list[int] = []
        self.proofs: list[int | None] = []
        legal = board.legal(occupied)
        wins = board.winning_cells(own, occupied)
        threats = board.winning_cells(own ^ occupied, occupied)
        for action, cells in enumerate(board.column_cells):
            cell = legal & cells
            if not cell:
                continue
            self.actions.append(action)
            if wins & cell:
                self.proofs.append(PROVEN_WIN - 1)
            elif occupied | cell == board.cells:
                self.proofs.append(0)
            elif threats & (legal & ~cell | cell << 1):  # the opponent's run is left open, or made possible
                self.proofs.append(2 - PROVEN_WIN)
            else:
                self.proofs.append(None)
        self.priors = [0.0] * len(self.actions)
        self.visits = [0] * len(self.actions)
        self.value_sums = [0.0] * len(self.actions)
        self.children: list[Node | None] = [None] * len(self.actions)

    def outcome(self) -> int | None:
        """The proven outcome for the side to move, if there is one (MCTS-Solver, Winands et al. 2008)."""
        best = max((proof for proof in self.proofs if proof is not None), default=-PROVEN_WIN)
        return None if best <= 0 and None in self.proofs else best

    def open_moves(self) -> list[int]:
        """The indices of the moves that are not proven to lose."""
        return [i for i, proof in enumerate(self.proofs) if proof is None or proof >= 0]

    def mean(self, i: int) -> float:
        """The mean value of a visited move."""
        return 0.0 if self.proofs[i] == 0 else self.value_sums[i] / self.visits[i]

    def best_action(self) -> int:
        """The proven best move, else the most visited one that is not proven to lose, else the one of the best value.

        Before the first visit, the move with the highest prior.
        """
        outcome = self.outcome()
        moves = self.open_moves()
        if outcome is not None:
            moves = [i for i, proof in enumerate(self.proofs) if proof == outcome]

        def rank(i: int) -> tuple[int, float]:
            visits = self.visits[i]
            if visits == 0:
                return 0, self.priors[i] if outcome is None else 0.0
            return visits, self.value_sums[i] / visits

        return self.actions[max(moves, key=rank)]


def as_value(outcome: int) -> float:
    """A proven outcome as +1, 0 or -1."""
    return float((outcome > 0) - (outcome < 0))
