"""Reviews of games: every move judged by the exact solver, with a player's evaluation of each position.

The positions of the game are solved from last to first, because results of later positions speed up earlier ones. If
time runs out, the earlier moves are not judged, except those in the opening book. Moves that were not played are solved
only where a mistake was made.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice
from typing import Any

from alphac4.arena.players import SearchingPlayer
from alphac4.game import Board, Position, column_name
from alphac4.game.position import COLUMN_NAMES, count_of
from alphac4.game.rules import STANDARD, board_settings
from alphac4.mcts.results import prior_of
from alphac4.solver.solver import Solver, TimeIsUp, Verdict, best_play, columns_from_centre, deadline, shared_solver

DEFAULT_SECONDS = 120.0  # time for the solver, per game
LINE_PLIES = 10  # maximum length of a line of best play
LINE_TIME_SHARE = 0.5  # time for better moves and their lines, relative to that for the positions

OUTCOME_CREDIT = (1.0, 0.3, 0.0)  # credit of a move that gives away nothing, half a point, a whole point
CREDIT_PER_MOVE = 0.05  # deducted for each move by which a win is delayed, or a loss comes sooner
MIN_KEEPING_CREDIT = 0.7  # minimum credit of a move that keeps the outcome

OnPoll = Callable[[], None]
OnStep = Callable[[int, int, "Review"], None]  # called with the steps done, their total, and the review so far


class Grade(Enum):
    """Effect of a move on the outcome."""

    BEST = "best"
    KEEPS = "keeps the outcome"  # but wins later, or loses sooner
    LOSES_WIN = "gives the win away"  # draws
    LOSES_DRAW = "gives the draw away"  # loses
    WIN_TO_LOSS = "turns a win into a loss"
    UNKNOWN = "not judged"

    @property
    def is_mistake(self) -> bool:
        """Whether the move is a mistake: its outcome is worse than the best move's."""
        return self in (Grade.LOSES_WIN, Grade.LOSES_DRAW, Grade.WIN_TO_LOSS)

    @property
    def mark(self) -> str:
        """Annotation symbol, such as "??"; empty for the best move."""
        return {Grade.WIN_TO_LOSS: "??", Grade.LOSES_WIN: "?", Grade.LOSES_DRAW: "?", Grade.KEEPS: "~"}.get(self, "")


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """A player's evaluation of the position before a move, for the side to move."""

    value: float  # in [-1, 1]
    column: int  # 0-based column that the player would have played
    played_prior: float | None  # its policy's probability of the played move; None without an evaluation


@dataclass(frozen=True, kw_only=True)
class ReviewedMove:
    """One move; verdicts and opinion are for the side that makes it."""

    ply: int  # 1 for the first move
    column: int  # 0-based
    best: Verdict | None  # with the best move; None if time ran out
    played: Verdict | None  # with this move; None if time ran out
    columns: dict[int, Verdict] = field(default_factory=dict)
    """Verdicts of the legal 0-based columns, the most central first, if the move is a mistake; without those for which
    time ran out."""
    line: tuple[int, ...] = ()  # best play from the position before a mistake
    opinion: Opinion | None = None

    @property
    def side(self) -> int:
        """0 for the first player, 1 for the second."""
        return (self.ply - 1) % 2

    @property
    def better(self) -> tuple[int, ...]:
        """The best 0-based columns, if the move is a mistake."""
        return tuple(column for column, verdict in self.columns.items() if verdict == self.best)

    @property
    def grade(self) -> Grade:
        if self.best is None or self.played is None:
            return Grade.UNKNOWN
        if self.played.score == self.best.score:
            return Grade.BEST
        if self.played.outcome == self.best.outcome:
            return Grade.KEEPS
        if self.best.outcome == 0:
            return Grade.LOSES_DRAW
        return Grade.LOSES_WIN if self.played.outcome == 0 else Grade.WIN_TO_LOSS

    @property
    def delay(self) -> int:
        """Own moves by which the win comes later, or the loss sooner, than necessary; 0 for a mistake."""
        if self.grade is not Grade.KEEPS or self.best is None or self.played is None:
            return 0
        return abs(self.played.moves - self.best.moves)

    @property
    def credit(self) -> float | None:
        """Credit in [0, 1] for `SideSummary.accuracy`; None if the move was not judged."""
        if self.best is None or self.played is None:
            return None
        given_away = self.best.outcome - self.played.outcome
        if given_away:
            return OUTCOME_CREDIT[given_away]
        return max(MIN_KEEPING_CREDIT, 1.0 - CREDIT_PER_MOVE * self.delay)

    @property
    def comment(self) -> str:
        """The grade in words, with the delay."""
        if self.grade is Grade.KEEPS and self.best is not None:
            moves = count_of(self.delay, "move")
            return f"still wins, {moves} later" if self.best.outcome > 0 else f"loses {moves} sooner"
        return self.grade.value

    @property
    def first_player_outcome(self) -> int | None:
        """The outcome after the move for the first player: 1 win, 0 draw, -1 loss; None if time ran out."""
        return None if self.played is None else self.played.outcome * (1 if self.side == 0 else -1)


@dataclass(frozen=True, kw_only=True)
class SideSummary:
    """Quality of one side's play."""

    judged: int
    best: int
    mistakes: int

    accuracy: float | None
    """Mean credit of the judged moves in percent; None without judged moves. A best move has credit 1. A move that
    keeps the outcome loses 0.05 for each move by which the win comes later or the loss sooner, down to 0.7. Giving away
    half a point has credit 0.3, turning a win into a loss 0."""


@dataclass(frozen=True, kw_only=True)
class Review:
    """Review of a game, move by move."""

    moves: str  # the game, as a move string
    board: Board
    player: str  # the player that evaluated the positions; empty for none
    reviewed: tuple[ReviewedMove, ...]
    seconds: float  # wall time, the player's included

    values: tuple[float, ...] = ()
    """[moves + 1] the player's value at the start and after each move, in [-1, 1], +1 = the first player wins; at the
    end of the game its outcome. Empty without a player."""

    @property
    def outcome(self) -> int | None:
        """Outcome for the first player: 1 win, 0 draw, -1 loss; None if the game is unfinished."""
        position = Position.from_moves(self.moves, self.board)
        outcome = position.outcome()
        return None if outcome is None else int(outcome) * (1 if position.first_to_move else -1)

    def position(self, move: ReviewedMove) -> Position:
        """The position before a move."""
        return Position.from_moves(self.moves[: move.ply - 1], self.board)

    @property
    def mistakes(self) -> tuple[ReviewedMove, ...]:
        return tuple(move for move in self.reviewed if move.grade.is_mistake)

    @property
    def unjudged(self) -> int:
        """Number of moves that were not judged, because time ran out."""
        return sum(move.grade is Grade.UNKNOWN for move in self.reviewed)

    @property
    def mistakes_without_better(self) -> int:
        """Number of mistakes without better moves, because time ran out."""
        return sum(not move.better for move in self.mistakes)

    def summary(self, index: int) -> SideSummary:
        """Summarize the moves of the first (0) or second (1) player."""
        own = [move for move in self.reviewed if move.side == index]
        earned = [move.credit for move in own if move.credit is not None]
        return SideSummary(
            judged=len(earned),
            best=sum(move.grade is Grade.BEST for move in own),
            mistakes=sum(move.grade.is_mistake for move in own),
            accuracy=100 * sum(earned) / len(earned) if earned else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; columns are written as in move strings, such as "4"."""
        return {
            "moves": self.moves,
            **board_settings(self.board),
            "outcome": self.outcome,
            "player": self.player,
            "seconds": round(self.seconds, 2),
            "unjudged": self.unjudged,
            "mistakes_without_better": self.mistakes_without_better,
            "sides": [vars(self.summary(index)) for index in (0, 1)],
            "mistakes": [move.ply for move in self.mistakes],
            "values": [_rounded(value) for value in self.values],
            "reviewed": [_describe(move) for move in self.reviewed],
        }


def _describe(move: ReviewedMove) -> dict[str, Any]:
    def as_dict(verdict: Verdict | None) -> dict[str, Any] | None:
        return None if verdict is None else {**vars(verdict), "text": verdict.text}

    opinion = move.opinion
    return {
        "ply": move.ply,
        "side": move.side,
        "move": column_name(move.column),
        "grade": move.grade.name.lower().replace("_", "-"),
        "mark": move.grade.mark,
        "comment": move.comment,
        "best": as_dict(move.best),
        "played": as_dict(move.played),
        "better": [column_name(column) for column in move.better],
        "columns": {column_name(column): as_dict(verdict) for column, verdict in move.columns.items()},
        "line": [column_name(column) for column in move.line],
        "opinion": opinion
        and {
            "value": _rounded(opinion.value),
            "move": column_name(opinion.column),
            "prior": opinion.played_prior if opinion.played_prior is None else round(opinion.played_prior, 3),
        },
    }


def _rounded(value: float) -> float:
    """Round to three digits; -0.0 becomes 0.0."""
    return round(value, 3) + 0.0


def review_game(
    moves: str,
    board: Board = STANDARD,
    *,
    player: SearchingPlayer | None = None,  # evaluates each position; None for no evaluations
    solver: Solver | None = None,  # by default the shared solver of the process
    seconds: float = DEFAULT_SECONDS,  # of the solver to judge the positions; better moves may take half as long again
    on_poll: OnPoll = lambda: None,  # called some dozens of times per second; its exceptions end the review
    on_step: OnStep = lambda _done, _total, _review: None,
) -> Review:
    """Review a game, finished or not."""
    positions = [Position(board=board)]
    columns = [COLUMN_NAMES.index(name) for name in Position.from_moves(moves, board).moves or ""]
    for column in columns:
        positions.append(positions[-1].play(column))
    solver = solver or shared_solver(board)
    started, steps = time.monotonic(), 2 * len(columns)
    opinions, values = _evaluate(player, positions, columns)
    reviewed = [
        ReviewedMove(ply=index + 1, column=column, best=None, played=None, opinion=opinions[index])
        for index, column in enumerate(columns)
    ]

    def review() -> Review:
        return Review(
            moves=positions[-1].moves or "",
            board=board,
            player="" if player is None else player.name,
            reviewed=tuple(reviewed),
            seconds=time.monotonic() - started,
            values=values,
        )

    score_of = _timed(solver, seconds, on_poll)
    after: int | None = None  # score of the position after the move
    for index in reversed(range(len(positions))):
        score = score_of(positions[index])
        if index < len(columns):
            best = None if score is None else Verdict.of(positions[index], score)
            played = None if after is None else Verdict.of(positions[index], -after)
            reviewed[index] = replace(reviewed[index], best=best, played=played)
        on_step(len(columns) - index, steps, review())
        after = score
    score_of = _timed(solver, LINE_TIME_SHARE * seconds, on_poll)  # a new limit
    for index in reversed(range(len(columns))):  # easy positions first
        move, before = reviewed[index], positions[index]
        if move.grade.is_mistake and move.best is not None:
            line = tuple(islice(best_play(before, move.best.score, score_of), LINE_PLIES))
            reviewed[index] = replace(move, columns=_judge_columns(before, score_of), line=line)
        on_step(steps - index, steps, review())
    return review()


def _evaluate(
    player: SearchingPlayer | None, positions: list[Position], columns: list[int]
) -> tuple[list[Opinion | None], tuple[float, ...]]:
    """Return the player's opinion before each move, and `Review.values`; there is one more position than columns."""
    if player is None:
        return [None] * len(columns), ()
    outcome = positions[-1].outcome()
    result = player.search(positions if outcome is None else positions[:-1])
    values_to_move = [float(value) for value in result.value] + ([] if outcome is None else [float(outcome)])
    opinions: list[Opinion | None] = [
        Opinion(
            value=values_to_move[index],
            column=int(result.moves[index]),
            played_prior=prior_of(result.priors[index], column),
        )
        for index, column in enumerate(columns)
    ]
    values = zip(values_to_move, positions, strict=True)
    return opinions, tuple(value if position.first_to_move else -value for value, position in values)


def _judge_columns(position: Position, score_of: Callable[[Position], int | None]) -> dict[int, Verdict]:
    scores = {column: score_of(position.play(column)) for column in columns_from_centre(position)}
    return {column: Verdict.of(position, -score) for column, score in scores.items() if score is not None}


def _timed(solver: Solver, seconds: float, on_poll: OnPoll) -> Callable[[Position], int | None]:
    """Return a function from positions to exact scores for the side to move, or None after the time limit."""
    check_time = deadline(seconds, on_poll)

    def score(position: Position) -> int | None:
        is_in_book = position.plies <= solver.book.plies  # then scored without a time limit
        try:
            return solver.solve(position, on_poll if is_in_book else check_time)
        except TimeIsUp:
            return None

    return score
