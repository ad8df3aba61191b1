"""What a review says of a game; renderers need nothing else."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from alphac4.game import Geometry, Position, column_name
from alphac4.game.wording import count_of, describe_end

OUTCOME_CREDIT = (1.0, 0.3, 0.0)  # of a move by how much of the outcome it gives away: nothing, half a point, a whole
CREDIT_A_MOVE = 0.05  # taken off for each move by which a win comes later, or a loss sooner
LEAST_KEEPING_CREDIT = 0.7  # of a move that keeps the outcome


class Grade(Enum):
    """What a move does to the outcome."""

    BEST = "best"  # nothing is better
    KEEPS = "keeps the outcome"  # but wins later, or loses sooner
    SLIPS_WIN = "slips a win"  # only draws
    SLIPS_DRAW = "slips a draw"  # loses
    THROWS_WIN = "turns a win into a loss"
    UNKNOWN = "not judged"

    @property
    def slips(self) -> bool:
        """Whether the outcome is worse than it could have been."""
        return self in (Grade.SLIPS_WIN, Grade.SLIPS_DRAW, Grade.THROWS_WIN)

    @property
    def mark(self) -> str:
        """As annotators of games write it."""
        return {Grade.THROWS_WIN: "??", Grade.SLIPS_WIN: "?", Grade.SLIPS_DRAW: "?", Grade.KEEPS: "~"}.get(self, "")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The truth about a position, for one side."""

    score: int  # the solver's exact score
    moves: int  # how many the winner still makes, its last included; 0 for a draw

    @property
    def outcome(self) -> int:
        """1 win, 0 draw, -1 loss."""
        return (self.score > 0) - (self.score < 0)

    @property
    def text(self) -> str:
        """Such as "wins in 5 moves" or "draw"."""
        return describe_end(self.score, self.moves) if self.score else "draw"


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """What a player thought of the position before a move, for the side to move."""

    value: float  # in [-1, 1]
    column: int  # 0-based, that it would have played
    prior: float | None  # how likely it held the move that was played before it searched, in [0, 1]


@dataclass(frozen=True, kw_only=True)
class ReviewedMove:
    """One move; verdicts and opinion are for the side that makes it."""

    ply: int  # 1 for the first
    column: int  # 0-based
    best: Verdict | None  # with the best move; None if there was no time to solve it
    played: Verdict | None  # with this move
    better: tuple[int, ...] = ()  # 0-based columns that would have been best, where the outcome slipped
    line: tuple[int, ...] = ()  # best play from there, the first better move included
    opinion: Opinion | None = None

    @property
    def side(self) -> int:
        """0 for the player who began, 1 for the other."""
        return (self.ply - 1) % 2

    @property
    def grade(self) -> Grade:
        """What the move does to the outcome."""
        if self.best is None or self.played is None:
            return Grade.UNKNOWN
        if self.played.score == self.best.score:
            return Grade.BEST
        if self.played.outcome == self.best.outcome:
            return Grade.KEEPS
        if self.best.outcome == 0:
            return Grade.SLIPS_DRAW
        return Grade.SLIPS_WIN if self.played.outcome == 0 else Grade.THROWS_WIN

    @property
    def delay(self) -> int:
        """Own moves by which the win comes later, or the loss sooner, than it had to; 0 where the outcome slips."""
        if self.grade is not Grade.KEEPS or self.best is None or self.played is None:
            return 0
        return abs(self.played.moves - self.best.moves)

    @property
    def credit(self) -> float | None:
        """In [0, 1], for `SideSummary.accuracy`; None if the move was not judged."""
        if self.best is None or self.played is None:
            return None
        given_away = self.best.outcome - self.played.outcome
        if given_away:
            return OUTCOME_CREDIT[given_away]
        return max(LEAST_KEEPING_CREDIT, 1.0 - CREDIT_A_MOVE * self.delay)

    @property
    def comment(self) -> str:
        """The grade in words, with what it costs."""
        if self.grade is Grade.KEEPS and self.best is not None:
            moves = count_of(self.delay, "move")
            return f"still wins, {moves} later" if self.best.outcome > 0 else f"loses {moves} sooner"
        return self.grade.value

    @property
    def first_player_outcome(self) -> int | None:
        """The outcome after the move for the player who began: 1 win, 0 draw, -1 loss."""
        return None if self.played is None else self.played.outcome * (1 if self.side == 0 else -1)


@dataclass(frozen=True, kw_only=True)
class SideSummary:
    """How well one side has played."""

    moves: int
    judged: int
    best: int
    slips: int

    accuracy: float | None
    """The mean credit of its judged moves, in percent. A best move gets 1; one that keeps the outcome loses 0.05 for
    each move by which the win comes later or the loss sooner, down to 0.7; one that gives half a point away gets 0.3, a
    win turned into a loss 0. None if no move was judged."""


@dataclass(frozen=True, kw_only=True)
class Review:
    """A game move by move."""

    moves: str  # the game, as a move string
    geometry: Geometry
    player: str  # whose opinion it shows; empty if nobody's
    reviewed: tuple[ReviewedMove, ...]
    seconds: float  # that the solver took

    values: tuple[float, ...] = ()
    """[moves + 1] what the player expects after so many moves, in [-1, 1], +1 = the player who began wins. After the
    end of the game it is the outcome. Empty if nobody was asked."""

    @property
    def outcome(self) -> int | None:
        """1 if the player who began has won, 0 for a draw, -1; None if the game is unfinished."""
        position = Position.from_moves(self.moves, self.geometry)
        outcome = position.outcome()
        return None if outcome is None else int(outcome) * (1 if position.first_to_move else -1)

    @property
    def turning_points(self) -> tuple[ReviewedMove, ...]:
        """The moves that made the outcome worse."""
        return tuple(move for move in self.reviewed if move.grade.slips)

    @property
    def unjudged(self) -> int:
        """Moves for which there was no time."""
        return sum(move.grade is Grade.UNKNOWN for move in self.reviewed)

    @property
    def unmended(self) -> int:
        """Slips for whose better moves there was no time."""
        return sum(not move.better for move in self.turning_points)

    def side(self, index: int) -> SideSummary:
        """How well the player who began (0) or the other (1) has played."""
        own = [move for move in self.reviewed if move.side == index]
        earned = [move.credit for move in own if move.credit is not None]
        return SideSummary(
            moves=len(own),
            judged=len(earned),
            best=sum(move.grade is Grade.BEST for move in own),
            slips=sum(move.grade.slips for move in own),
            accuracy=100 * sum(earned) / len(earned) if earned else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON; columns in notation, such as "4"."""
        return {
            "moves": self.moves,
            "rows": self.geometry.rows,
            "columns": self.geometry.columns,
            "run_length": self.geometry.run_length,
            "diagonals": self.geometry.diagonals,
            "outcome": self.outcome,
            "player": self.player,
            "seconds": round(self.seconds, 2),
            "unjudged": self.unjudged,
            "unmended": self.unmended,
            "sides": [vars(self.side(index)) for index in (0, 1)],
            "turning_points": [move.ply for move in self.turning_points],
            "values": [_rounded(value) for value in self.values],
            "reviewed": [_describe(move) for move in self.reviewed],
        }


def _describe(move: ReviewedMove) -> dict[str, Any]:
    def verdict(found: Verdict | None) -> dict[str, Any] | None:
        return None if found is None else {"score": found.score, "moves": found.moves, "text": found.text}

    opinion = move.opinion
    return {
        "ply": move.ply,
        "side": move.side,
        "move": column_name(move.column),
        "grade": move.grade.name.lower().replace("_", "-"),
        "mark": move.grade.mark,
        "comment": move.comment,
        "best": verdict(move.best),
        "played": verdict(move.played),
        "better": [column_name(column) for column in move.better],
        "line": [column_name(column) for column in move.line],
        "opinion": None
        if opinion is None
        else {
            "value": _rounded(opinion.value),
            "move": column_name(opinion.column),
            "prior": None if opinion.prior is None else round(opinion.prior, 3),
        },
    }


def _rounded(value: float) -> float:
    """To three places; a zero without a sign."""
    return round(value, 3) + 0.0
