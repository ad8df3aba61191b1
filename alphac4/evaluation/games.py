"""Games against a perfect player: what is given away, at which ply."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from alphac4.arena.alpha_beta import SolverPlayer
from alphac4.arena.players import Player
from alphac4.game import Geometry, Position
from alphac4.game.position import COLUMN_NAMES


@dataclass(frozen=True, kw_only=True)
class Slip:
    """A move of ours whose outcome was worse than the best move's."""

    ply: int  # which move of the game it was, 1 for the first
    before: int  # our outcome with best play: 1 win, 0 draw
    after: int  # the outcome it left: 0 draw, -1 loss


@dataclass(frozen=True, kw_only=True)
class PerfectGame:
    """One game against the perfect player, seen by our side."""

    moves: str  # from the empty board
    first: bool  # whether our side had the first move of the game
    outcome: int  # 1 won, 0 drawn, -1 lost
    slips: list[Slip]


@dataclass(frozen=True, kw_only=True)
class PerfectMatchReport:
    """Games against the perfect player."""

    simulations: int | None  # ours a move; 0 is the raw network, None whatever the player itself does
    games: list[PerfectGame] = field(default_factory=list)

    def count(self, outcome: int, first: bool) -> int:
        """Games with an outcome as one of the colours."""
        return sum(game.outcome == outcome and game.first == first for game in self.games)


def standard_starts(count: int, perfect: SolverPlayer, geometry: Geometry) -> list[tuple[Position, bool]]:
    """``count`` starts, each with whether our side has the first move of the game; half of them of each kind.

    With the first move we begin at the empty board. Without it that would be lost from the start on the standard
    board, and nothing could slip: the first stone is given, in turn each that leaves us a draw or a win.
    """
    empty = Position(geometry=geometry)
    given = [empty.play(column) for column in empty.legal_columns()]
    open_games = [start for start in given if _outcome(perfect, start, first=False) >= 0] or given
    return [(open_games[i // 2 % len(open_games)], False) if i % 2 else (empty, True) for i in range(count)]


def play_perfect(
    player: Player,
    perfect: SolverPlayer,
    starts: Sequence[tuple[Position, bool]],
    *,
    on_game_over: Callable[[], object] = lambda: None,
) -> list[PerfectGame]:
    """Play all games in lockstep from unfinished ``starts``, each with whether our side moves first in the game."""
    positions = [start for start, _ in starts]
    running = list(range(len(starts)))
    while running:
        for ours in (True, False):
            turn = [game for game in running if (positions[game].first_to_move == starts[game][1]) == ours]
            if not turn:
                continue
            moves = (player if ours else perfect).choose([positions[game] for game in turn])
            for game, column in zip(turn, moves, strict=True):
                positions[game] = positions[game].play(column)
                if positions[game].outcome() is not None:
                    running.remove(game)
                    on_game_over()
    return [
        _judge(end.moves or "", start, perfect, first) for end, (start, first) in zip(positions, starts, strict=True)
    ]


def _judge(moves: str, start: Position, perfect: SolverPlayer, first: bool) -> PerfectGame:
    """Our slips in a game: the moves after which our outcome with best play is worse than before."""
    position = start
    outcome = _outcome(perfect, start, first)
    slips = []
    for name in moves[start.plies :]:
        ours = position.first_to_move == first
        position = position.play(COLUMN_NAMES.index(name))
        if not ours:  # the solver keeps the outcome; asking again would cost a search
            continue
        after = _outcome(perfect, position, first)
        if after < outcome:
            slips.append(Slip(ply=position.plies, before=outcome, after=after))
        outcome = after
    return PerfectGame(moves=moves, first=first, outcome=_outcome(perfect, position, first), slips=slips)


def _outcome(perfect: SolverPlayer, position: Position, first: bool) -> int:
    """1 win, 0 draw, -1 loss with best play for one of the colours."""
    value = perfect.outcome(position)
    return value if position.first_to_move == first else -value
