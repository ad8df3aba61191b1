"""What self-play, learning and matches have done, as records."""

import time
from dataclasses import dataclass, field

from alphac4.arena.match import MatchResult
from alphac4.compute import ClusterReport
from alphac4.selfplay.statistics import GameRecord, SelfPlayStatistics


@dataclass(frozen=True, kw_only=True)
class SelfPlayReport:
    """Figures of one iteration's self-play."""

    games: int
    samples: int  # recorded positions
    simulations: int
    evaluations: int  # positions given to the network
    cached_evaluations: int  # that a cache knew already, and the network was not asked for
    seconds: float  # wall time in which it was played; on a cluster that goes on during the rest of the iteration
    network_share: float  # share of the actors' time inside the evaluator
    tree_share: float  # share in compiled search and game code
    mean_plies: float
    first_player_wins: float  # shares of games
    draws: float
    first_moves: list[int]  # [A] games by their first column after the empty board, random openings aside
    openings: dict[str, int]  # games by their first four moves, the 200 most frequent
    distinct_openings: int  # how many different ones there were
    policy_entropy: float  # nats, mean over recorded policy targets
    root_surprise: float  # nats, mean KL(policy target || network policy)
    value_calibration: list[tuple[float, float, int]]  # (mean root value, mean outcome, samples) by bin of root value
    evaluator: str  # backend in use
    sample_games: list[GameRecord]
    cluster: ClusterReport | None  # where the actors were on one

    @property
    def cache_hits(self) -> float:
        """Share of the evaluations that searches needed which a cache knew already."""
        return self.cached_evaluations / max(self.cached_evaluations + self.evaluations, 1)

    @property
    def calibration_error(self) -> float:
        """Mean distance of the root values from the outcomes, over bins of positions with similar values."""
        positions = sum(count for _, _, count in self.value_calibration)
        gaps = sum(count * abs(value - outcome) for value, outcome, count in self.value_calibration)
        return gaps / max(positions, 1)

    @property
    def simulations_per_second(self) -> float:
        """Simulations a second of wall time."""
        return self.simulations / max(self.seconds, 1e-9)

    @property
    def evaluations_per_second(self) -> float:
        """Network evaluations a second of wall time."""
        return self.evaluations / max(self.seconds, 1e-9)


@dataclass(frozen=True, kw_only=True)
class LearningReport:
    """Figures of one iteration's gradient steps, means over the iteration."""

    steps: int
    policy_loss: float  # cross-entropy, nats
    value_loss: float  # cross-entropy of win/draw/loss, nats
    policy_entropy: float  # nats, of the network's policy on training positions
    gradient_norm: float
    learning_rate: float
    window: int  # positions in the replay window
    seconds: float
    ownership_loss: float = 0.0  # cross-entropy of each empty cell's end, nats
    skipped_steps: int = 0  # whose loss or gradient was not finite
    went_back: bool = False  # whether the weights were not finite after it, so that those before it were taken up again


@dataclass(frozen=True, kw_only=True)
class MatchReport:
    """Wins, draws and losses of the first-named side."""

    player: str
    opponent: str
    wins: int
    draws: int
    losses: int
    seconds: float
    accepted: bool | None = None  # for a gate: whether the candidate was promoted
    games: list[str] = field(default_factory=list)  # move strings
    low: float = 0.0  # 95 % interval of the score
    high: float = 1.0
    evaluator: str = ""  # how the networks ran

    @property
    def score(self) -> float:
        """Share of points, a draw counting half."""
        return (self.wins + 0.5 * self.draws) / max(self.wins + self.draws + self.losses, 1)

    @property
    def in_words(self) -> str:
        """The score with its 95 % interval, and the games behind it."""
        return (
            f"{self.score:.1%} of the points [{self.low:.1%}, {self.high:.1%}] in "
            f"{self.wins + self.draws + self.losses} colour-swapped games "
            f"({self.wins} won, {self.draws} drawn, {self.losses} lost)"
        )


def selfplay_report(
    statistics: SelfPlayStatistics, actors: int, evaluator: str, cluster: ClusterReport | None = None
) -> SelfPlayReport:
    """The figures of self-play that has just ended."""
    seconds = time.perf_counter() - statistics.started if cluster is None else cluster.seconds
    games, samples = max(statistics.games, 1), max(statistics.samples, 1)
    return SelfPlayReport(
        games=statistics.games,
        samples=statistics.samples,
        simulations=statistics.work.simulations,
        evaluations=statistics.work.evaluations,
        cached_evaluations=statistics.work.cached,
        seconds=seconds,
        network_share=statistics.work.network_seconds / actors / seconds,
        tree_share=statistics.work.tree_seconds / actors / seconds,
        mean_plies=statistics.plies / games,
        first_player_wins=statistics.first_wins / games,
        draws=statistics.draws / games,
        first_moves=[int(count) for count in statistics.first_moves],
        openings=dict(statistics.openings.most_common(200)),
        distinct_openings=len(statistics.openings),
        policy_entropy=statistics.entropy / samples,
        root_surprise=statistics.surprise / max(statistics.surprise_count, 1),
        value_calibration=statistics.calibration(),
        evaluator=evaluator,
        sample_games=statistics.examples,
        cluster=cluster,
    )


def match_report(
    player: str,
    opponent: str,
    result: MatchResult,
    started: float,
    *,
    accepted: bool | None = None,
    evaluator: str = "",
) -> MatchReport:
    """The report of a match that ``started`` at that reading of `time.perf_counter`."""
    return MatchReport(
        player=player,
        opponent=opponent,
        wins=result.wins,
        draws=result.draws,
        losses=result.losses,
        seconds=time.perf_counter() - started,
        accepted=accepted,
        games=list(result.games),
        low=result.interval.low,
        high=result.interval.high,
        evaluator=evaluator,
    )
