"""What one iteration of training did, as records: JSON lines on disk, curves and pictures in TensorBoard."""

import dataclasses
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from alphac4.arena.match import MatchResult
from alphac4.compute import ClusterReport
from alphac4.selfplay.statistics import GameRecord, SelfPlayStatistics
from alphac4.storage.files import read_lines
from alphac4.storage.records import read_record, read_signed_line, sign_line

logger = logging.getLogger(__name__)

REPORTS_FILE = "reports.jsonl"  # in a run's folder, one line an iteration


@dataclass(frozen=True, kw_only=True)
class SelfPlayReport:
    """Figures of one iteration's self-play."""

    games: int
    samples: int  # recorded positions
    simulations: int
    evaluations: int  # positions given to the network
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
    cached_evaluations: int = 0  # evaluations that a cache knew already and the network was not asked for
    cluster: ClusterReport | None = None  # where the actors were on one

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

    @property
    def warnings(self) -> list[str]:
        """What went wrong, in words; empty when all is well."""
        found = []
        if self.skipped_steps:
            found.append(
                f"{self.skipped_steps} of {self.steps} gradient steps were skipped: "
                "their loss or gradient was not finite"
            )
        if self.went_back:
            found.append("the weights were not finite after learning: the run went back to those before it")
        return found


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
    rule: str = ""  # for a gate: the decision in words
    games: list[str] = field(default_factory=list)  # move strings
    low: float = 0.0  # 95 % interval of the score
    high: float = 1.0
    evaluator: str = ""  # how the networks ran; empty in reports from before it was recorded

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


@dataclass(frozen=True, kw_only=True)
class ExactPlayFigures:
    """What the best network did in positions with exact scores."""

    errors: dict[str, float]  # share of moves whose outcome is worse than the best move's, by set
    error: float  # over all sets
    low: float  # 95 % interval
    high: float
    value_error: float  # mean distance of the predicted value from the exact outcome


@dataclass(frozen=True, kw_only=True)
class EvaluationReport:
    """The best network against exact play: for people to see, and for nothing else."""

    positions: int  # in all sets
    simulations: int  # a position, of the search
    raw: ExactPlayFigures  # the network's policy and value
    search: ExactPlayFigures
    evaluator: str = ""  # how the network ran; empty in reports from before it was recorded


@dataclass(frozen=True, kw_only=True)
class IterationReport:
    """Everything about one iteration."""

    iteration: int  # 1 for the first
    seconds_total: float  # since the run began, over all its sessions
    games_total: int
    samples_total: int
    evaluations_total: int
    selfplay: SelfPlayReport
    learning: LearningReport
    gate: MatchReport | None
    matches: list[MatchReport]  # against classic MCTS and others
    elo: float  # of the best network; the untrained one is 0
    elo_error: float  # half-width of the 95 % interval
    best_iteration: int  # which iteration's network is the best; 0 is the untrained one
    memory_mb: float  # resident memory of the process
    time_shares: dict[str, float]  # share of the iteration's wall time by phase
    warnings: list[str]  # signs of collapse or regression, in words
    evaluation: EvaluationReport | None = None  # where there was one

    def to_json(self) -> str:
        """One line of JSON with a checksum."""
        return sign_line(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, line: str) -> "IterationReport":
        """Read `to_json`'s line back.

        Raises:
            ValueError: in one line, if it was altered or is no report.
        """
        return read_record(cls, read_signed_line(line)[0])


def read_reports(path: Path) -> list[IterationReport]:
    """The reports in a file, in the order of their lines; a damaged one is left out with a warning."""
    found = []
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            try:
                found.append(IterationReport.from_json(line))
            except ValueError as error:
                logger.warning("%s: line %d is damaged and left out: %s", path, number, error)
    return found


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
        cached_evaluations=statistics.work.cached,
        cluster=cluster,
    )


def summarise(report: IterationReport) -> str:
    """An iteration in one line."""
    gate = report.gate
    promoted = "" if gate is None else f", gate {gate.score:.2f} {'promoted' if gate.accepted else 'kept the old one'}"
    matches = "".join(f", {match.score:.2f} against {match.opponent}" for match in report.matches)
    judged, errors = report.evaluation, ""
    if judged is not None:
        errors = f", errs {judged.raw.error:.1%} raw, {judged.search.error:.1%} at {judged.simulations}"
    return (
        f"iteration {report.iteration} after {report.seconds_total / 60:.1f} min: "
        f"{report.selfplay.evaluations_per_second:,.0f} evaluations/s, "
        f"loss {report.learning.policy_loss:.3f} + {report.learning.value_loss:.3f}{promoted}, "
        f"Elo {report.elo:+.0f} ± {report.elo_error:.0f}{errors}{matches}"
    )


def match_report(
    player: str,
    opponent: str,
    result: MatchResult,
    started: float,
    *,
    accepted: bool | None = None,
    rule: str = "",
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
        rule=rule,
        games=list(result.games),
        low=result.interval.low,
        high=result.interval.high,
        evaluator=evaluator,
    )


def time_shares(
    selfplay: SelfPlayReport, learning: LearningReport, gate: MatchReport, others: Mapping[str, float], seconds: float
) -> dict[str, float]:
    """Shares of an iteration's wall time, self-play split into network and tree, unless it runs elsewhere."""
    if selfplay.cluster is None:
        played = {
            "self-play: network": selfplay.seconds * selfplay.network_share,
            "self-play: tree": selfplay.seconds * selfplay.tree_share,
        }
    else:
        played = {"self-play: waiting for the cluster": selfplay.cluster.seconds_waited}
    spent = {
        **played,
        "learning": learning.seconds,
        "gate": gate.seconds,
        **others,
    }
    spent["other"] = max(0.0, seconds - sum(spent.values()))
    return {name: value / seconds for name, value in spent.items()}
