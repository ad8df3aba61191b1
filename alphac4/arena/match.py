"""Matches in lockstep: all games of a match advance together, so that networks see full batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tqdm import tqdm

from alphac4.arena.players import Player
from alphac4.arena.ratings import Interval, score_interval
from alphac4.game import IllegalMove, Outcome, Position


@dataclass(frozen=True, kw_only=True)
class MatchResult:
    """A match seen by the first-named side; games 2 i and 2 i + 1 are a colour-swapped pair."""

    wins: int
    draws: int
    losses: int
    pair_scores: tuple[float, ...]  # points of the two games of each pair, in [0, 2]
    games: tuple[str, ...]  # move strings, openings included

    @property
    def score(self) -> float:
        """Share of points, a draw counting half."""
        return (self.wins + 0.5 * self.draws) / max(self.wins + self.draws + self.losses, 1)

    @property
    def interval(self) -> Interval:
        """The score with its 95 % interval."""
        return score_interval(self.pair_scores)

    def __add__(self, other: "MatchResult") -> "MatchResult":
        return MatchResult(
            wins=self.wins + other.wins,
            draws=self.draws + other.draws,
            losses=self.losses + other.losses,
            pair_scores=self.pair_scores + other.pair_scores,
            games=self.games + other.games,
        )


def play_match(
    challenger: Player,
    opponent: Player,
    openings: Sequence[Position],
    *,
    check: Callable[[], None] = lambda: None,
    progress: bool = True,
) -> MatchResult:
    """Play every opening twice, once with each side to move first; ``check`` is called at every ply and may raise.

    Raises:
        IllegalMove: naming the player that made it.
    """
    positions = [position for opening in openings for position in (opening, opening)]
    points: list[float | None] = [None] * len(positions)  # the challenger's
    label = f"{challenger.name} v. {opponent.name}"
    with tqdm(total=len(positions), desc=label, unit="game", disable=None if progress else True, leave=False) as bar:
        while any(point is None for point in points):
            check()
            for player, parity in ((challenger, 0), (opponent, 1)):
                turn = [
                    i
                    for i, position in enumerate(positions)
                    if points[i] is None and (i + position.plies - openings[i // 2].plies) % 2 == parity
                ]
                if not turn:
                    continue
                for i, column in zip(turn, player.choose([positions[i] for i in turn]), strict=True):
                    try:
                        positions[i] = positions[i].play(column)
                    except IllegalMove as error:
                        raise IllegalMove(column, error.moves, f"{error.reason} (player {player.name})") from error
                    outcome = positions[i].outcome()
                    if outcome is not None:
                        mover_points = {Outcome.LOSS: 1.0, Outcome.DRAW: 0.5, Outcome.WIN: 0.0}[outcome]
                        points[i] = mover_points if parity == 0 else 1.0 - mover_points
                        bar.update()
    scored = [point for point in points if point is not None]
    return MatchResult(
        wins=scored.count(1.0),
        draws=scored.count(0.5),
        losses=scored.count(0.0),
        pair_scores=tuple(scored[i] + scored[i + 1] for i in range(0, len(scored), 2)),
        games=tuple(position.moves or "" for position in positions),
    )
