"""Matches and their balanced openings. All games advance in lockstep, so that networks get large batches."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from alphac4.arena.players import Player, backends_of, checked_moves
from alphac4.arena.ratings import Interval, score_interval
from alphac4.game import Board, Outcome, Position
from alphac4.game.rules import STANDARD
from alphac4.machine import check_block, run_in_threads
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.network_search import NotFiniteError
from alphac4.mcts.search import Budget
from alphac4.mcts.tree import UNPROVEN

logger = logging.getLogger(__name__)

MAX_IMBALANCE = 0.4  # largest |value|, in [0, 1], of a balanced opening
OPENING_SIMULATIONS = 400  # simulations of the search that judges an opening
MAX_FAILED_TRIES = 200  # consecutive tries that find no new, unfinished opening; after that, the search ends
MOVER_POINTS = {Outcome.LOSS: 1.0, Outcome.DRAW: 0.5, Outcome.WIN: 0.0}  # of the mover, by the opponent's outcome


@dataclass(frozen=True, kw_only=True)
class MatchResult:
    """Result of a match for ``player``; games ``2 i`` and ``2 i + 1`` are a colour-swapped pair."""

    player: str = ""
    opponent: str = ""
    wins: int = 0
    draws: int = 0
    losses: int = 0
    pair_points: tuple[float, ...] = field(default=(), repr=False)  # points of the two games of each pair, in [0, 2]
    games: tuple[str, ...] = field(default=(), repr=False)  # move strings, openings included
    seconds: float = field(default=0.0, compare=False)
    promoted: bool | None = None  # whether a gate promoted the candidate; None for other matches
    backend: str = ""  # of the player's network; several, separated by commas, if they differ in a pool
    opponent_backend: str = ""  # "" without a network

    @property
    def game_count(self) -> int:
        """The number of games."""
        return self.wins + self.draws + self.losses

    @property
    def points(self) -> float:
        """Number of wins plus half the number of draws."""
        return self.wins + 0.5 * self.draws

    @property
    def score(self) -> float:
        """Points per game, in [0, 1]."""
        return self.points / max(self.game_count, 1)

    @property
    def interval(self) -> Interval:
        """The score with its 95 % interval."""
        return score_interval(self.pair_points)

    def __str__(self) -> str:
        score = self.interval
        return (
            f"{self.wins} won, {self.draws} drawn, {self.losses} lost, "
            f"{score.value:.1%} [{score.low:.1%}, {score.high:.1%}]"
        )

    def __add__(self, other: "MatchResult") -> "MatchResult":
        """Return the result of both parts of a match."""
        sums = ("wins", "draws", "losses", "pair_points", "games", "seconds")
        return replace(other, **{name: getattr(self, name) + getattr(other, name) for name in sums})


def play_match(
    challengers: Sequence[Player],
    opponents: Sequence[Player],
    openings: Sequence[Position],
    on_games: Callable[[int], object] = lambda _count: None,
) -> MatchResult:
    """Play a match; several copies of the players play in threads, the i-th copies the i-th part of the ``openings``.

    Each opening is played twice, with colours swapped. If the players use no random numbers and their networks are
    batch-invariant, the result does not depend on the number of copies. A player loses every game if it returns NaN or
    its network returns numbers that are not finite; the recorded games are then only the openings. ``on_games`` is
    called in the calling thread several times per second, or after each turn of a single copy, with the number of games
    that have ended since its last call; it may raise to end the match.
    """
    started = time.perf_counter()
    indices = np.array_split(np.arange(len(openings)), len(challengers))
    works = [
        partial(_play, challenger, opponent, [openings[index] for index in part])
        for challenger, opponent, part in zip(challengers, opponents, indices, strict=True)
    ]
    # A single copy plays in the calling thread, where Ctrl-C interrupts any player.
    parts = [works[0](on_games)] if len(works) == 1 else run_in_threads(works, on_games, partial(on_games, 0))
    result = sum((part for part in parts if isinstance(part, MatchResult)), start=MatchResult())
    forfeit = min((part for part in parts if isinstance(part, _Forfeit)), default=None)  # the earliest one decides
    if forfeit is not None:
        logger.warning("%s", forfeit.reason)
        games = tuple(opening.moves or "" for opening in openings for _ in range(2))
        wins = len(games) if forfeit.turn % 2 else 0  # it was the opponent's turn
        points = (2.0 if wins else 0.0,) * len(openings)
        result = MatchResult(wins=wins, losses=len(games) - wins, pair_points=points, games=games)
    return replace(
        result,
        player=challengers[0].name,
        opponent=opponents[0].name,
        seconds=time.perf_counter() - started,
        backend=backends_of(challengers),
        opponent_backend=backends_of(opponents),
    )


@dataclass(frozen=True, order=True)
class _Forfeit:
    """Loss of a match by a move or an evaluation that is not finite."""

    turn: int  # turn of the match; the challenger moves at even turns
    reason: str = field(compare=False)


def _play(
    challenger: Player,
    opponent: Player,
    openings: Sequence[Position],
    on_turn: Callable[[int], object],
) -> MatchResult | _Forfeit:
    """Play a part of a match to its end. After each turn, call ``on_turn`` with the number of games that it ended."""
    positions = [opening for opening in openings for _ in range(2)]
    ours = [True, False] * len(openings)  # whether the challenger is to move
    points = [0.0] * len(positions)  # the challenger's
    running = list(range(len(positions)))
    turns = 0
    while running:
        check_block()
        for player, turn in ((challenger, True), (opponent, False)):
            games = [game for game in running if ours[game] == turn]
            try:
                columns = checked_moves(player, [positions[game] for game in games])
            except NotFiniteError as error:
                return _Forfeit(turns, f"{player.name} loses every game of the match: {error}")
            turns += 1
            before = len(running)
            for game, column in zip(games, columns, strict=True):
                positions[game], ours[game] = positions[game].play(column), not turn
                outcome = positions[game].outcome()
                if outcome is not None:
                    points[game] = MOVER_POINTS[outcome] if turn else 1.0 - MOVER_POINTS[outcome]
                    running.remove(game)
            on_turn(before - len(running))
    return MatchResult(
        wins=points.count(1.0),
        draws=points.count(0.5),
        losses=points.count(0.0),
        pair_points=tuple(points[game] + points[game + 1] for game in range(0, len(points), 2)),
        games=tuple(end.moves or "" for end in positions),
    )


def balanced_openings(
    count: int, rng: np.random.Generator, board: Board = STANDARD, plies: tuple[int, int] = (2, 5)
) -> list[Position]:
    """Return ``count`` random openings that a short rollout search finds balanced, without mirror images of each other.

    An opening has a random number of moves in the range ``plies``, both ends included. It is balanced if its outcome is
    not proven and its |value| is at most `MAX_IMBALANCE`. If a board has too few balanced openings, the others that are
    closest to balance are added; if these are too few as well, openings repeat. The exact solver is not used, because
    training uses these openings in its gate.
    """
    search = UctSearch(board=board, rng=rng)
    found: list[tuple[float, Position]] = []  # imbalance and position; all balanced ones have `MAX_IMBALANCE`
    seen: set[tuple[int, int]] = set()
    while (balanced := sum(imbalance == MAX_IMBALANCE for imbalance, _ in found)) < count:
        fresh = _fresh_openings(count, seen, plies, rng, board)
        if not fresh or len(found) - balanced >= 20 * count + 200:
            break
        found += zip(np.maximum(_imbalance(search, fresh), MAX_IMBALANCE).tolist(), fresh, strict=True)
    found.sort(key=lambda opening: opening[0])
    distinct = [position for _, position in found[:count]] or [Position(board=board)]
    return [distinct[index % len(distinct)] for index in range(count)]


def match_openings(pairs: int, seed: int, board: Board = STANDARD) -> list[Position]:
    """Return ``pairs`` openings, longer ones for a long match; on a small board some may repeat, with a warning."""
    plies = (2, 5) if pairs <= 500 else (2, 8)
    openings = balanced_openings(pairs, np.random.default_rng([seed, 1]), board, plies)
    distinct = len(set(openings))
    if distinct < pairs:
        logger.warning(
            "found only %d distinct openings for %d pairs of games on this board, so openings repeat. Intervals, Elo "
            "and sequential tests count all pairs as independent, which they are not if players repeat their moves: "
            "play fewer games",
            distinct,
            pairs,
        )
    return openings


def _fresh_openings(
    count: int, seen: set[tuple[int, int]], plies: tuple[int, int], rng: np.random.Generator, board: Board
) -> list[Position]:
    """Return up to ``count`` random unfinished positions that are not in ``seen``, and add them there."""
    fresh: list[Position] = []
    tries = 0
    while len(fresh) < count and tries < MAX_FAILED_TRIES:
        tries += 1
        position = Position(board=board)
        for _ in range(int(rng.integers(plies[0], plies[1] + 1))):
            legal = position.legal_columns()
            if legal:
                position = position.play(int(rng.choice(legal)))
        key = min((int(p.own), int(p.occupied)) for p in (position, position.mirror()))
        if key not in seen and position.outcome() is None:
            seen.add(key)
            fresh.append(position)
            tries = 0
    return fresh


def _imbalance(search: UctSearch, positions: list[Position]) -> npt.NDArray[np.float64]:
    """Return |value| [B] of each position by rollouts; 1 if the outcome is proven, even a draw."""
    result = search.search(positions, Budget(simulations=OPENING_SIMULATIONS))
    unproven = (result.proofs == UNPROVEN).any(axis=1)
    return np.where(unproven, np.abs(result.value), 1.0)
