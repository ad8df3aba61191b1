"""What a run reports: a record of each iteration, on disk and in words, and of the matches that close the run."""

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alphac4.arena.ratings import NATS_PER_ELO, Z95, Rating, elo_of_score
from alphac4.storage.journal import read_entries, read_entry, sign_line
from alphac4.storage.records import read_record
from alphac4.training.config import TrainConfig
from alphac4.training.loop import Iteration
from alphac4.training.reports import LearningReport, MatchReport, SelfPlayReport

REPORTS_FILE = "reports.jsonl"  # in a run's folder, one line an iteration
CLOSING_FILE = "closing.json"


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
    evaluator: str = ""  # how the network ran


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
    gate: MatchReport
    matches: list[MatchReport]  # against classic MCTS
    elo: float  # of the best network; the untrained one is 0
    elo_error: float  # half-width of the 95 % interval
    best_iteration: int  # which iteration's network is the best; 0 is the untrained one
    memory_mb: float  # resident memory of the process
    time_shares: dict[str, float]  # share of the iteration's wall time by phase
    warnings: list[str]  # signs of collapse or regression, in words
    evaluation: EvaluationReport | None  # where there was one

    def to_json(self) -> str:
        """One line of JSON with a checksum."""
        return sign_line(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, line: str) -> "IterationReport":
        """Read `to_json`'s line back.

        Raises:
            ValueError: in one line, if it was altered or is no report.
        """
        return read_record(cls, read_entry(line))

    def __str__(self) -> str:
        """The iteration in one line."""
        parts = [
            f"{'promoted' if self.gate.accepted else 'not promoted'} ({self.gate.score:.0%} against the best)",
        ]
        judged = self.evaluation
        if judged is not None:
            parts.append(
                f"wrong moves {judged.raw.error:.1%} raw, {judged.search.error:.1%} "
                f"with {judged.simulations} simulations"
            )
        parts += [f"{match.score:.0%} against {match.opponent}" for match in self.matches]
        parts.append(f"loss {self.learning.policy_loss:.3f} + {self.learning.value_loss:.3f}")
        if self.selfplay.games:  # or else an earlier session had played them all
            parts.append(f"{self.selfplay.evaluations_per_second:,.0f} evaluations/s")
        return f"iteration {self.iteration} after {self.seconds_total / 60:.1f} min: {', '.join(parts)}"


@dataclass(frozen=True, kw_only=True)
class ClosingReport:
    """The matches that close a run."""

    iteration: int  # after which they were played
    settings: dict[str, Any]  # of gate and matches
    matches: list[MatchReport]

    @classmethod
    def of_run(cls, iteration: int, config: TrainConfig, matches: Sequence[MatchReport]) -> "ClosingReport":
        """The report of matches that have just been played."""
        return cls(iteration=iteration, settings=_match_settings(config), matches=list(matches))

    def closes(self, config: TrainConfig) -> bool:
        """Whether these are the matches that a run with such settings would play at its end."""
        return self.iteration == config.iterations and self.settings == _match_settings(config)


def _match_settings(config: TrainConfig) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config.gate)))  # tuples as lists
    return settings


def read_closing(folder: Path) -> ClosingReport | None:
    """The matches that have closed a run; None if there were none, or what was recorded is damaged."""
    try:
        return read_record(ClosingReport, read_entry((folder / CLOSING_FILE).read_text()))
    except (OSError, ValueError):
        return None


def read_reports(path: Path) -> list[IterationReport]:
    """The reports in a file, in the order of their lines; a damaged one is left out with a warning."""
    return list(read_entries(path, IterationReport.from_json))


def elo_over_run(gates: Sequence[MatchReport], best_iteration: int, history: Sequence[IterationReport] = ()) -> Rating:
    """The best network's rating by maximum likelihood from all gates so far; the untrained network is 0.

    In its gate every network meets one earlier network, so who has met whom is a tree. In a tree the most likely
    difference between two players who met depends on their games alone: along the path from the untrained network to
    the best one differences add up, and so do the squares of their errors. This is what `fit_ratings` finds for all
    networks together, but that takes the cube of the number of iterations, in every iteration anew.

    Where a gate on the path is not known, because its line among the reports was damaged, the path goes on from what
    the latest report of ``history`` says of the network there.
    """
    gate_of = {gate.player: gate for gate in gates}
    rated = {f"iteration {report.best_iteration}": report for report in history}
    met = Counter(name for gate in gate_of.values() for name in (gate.player, gate.opponent))
    elo, variance = 0.0, 0.0
    name = f"iteration {best_iteration}"
    while (gate := gate_of.pop(name, None)) is not None:
        prior = 0.5 / met[gate.player] + 0.5 / met[gate.opponent]  # drawn games, as in `fit_ratings`
        played = gate.wins + gate.draws + gate.losses + prior
        score = (gate.wins + 0.5 * gate.draws + 0.5 * prior) / played
        elo += elo_of_score(score)
        variance += 1.0 / (played * score * (1.0 - score))  # in nats
        name = gate.opponent
    if name in rated:
        elo += rated[name].elo
        variance += (rated[name].elo_error * NATS_PER_ELO / Z95) ** 2
    return Rating(elo=elo, error=Z95 * math.sqrt(variance) / NATS_PER_ELO)


def time_shares(iteration: Iteration, measuring: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Shares of an iteration's wall time, self-play split into network and tree, unless it runs elsewhere."""
    selfplay = iteration.selfplay
    if selfplay.cluster is None:
        played = {
            "self-play: network": selfplay.seconds * selfplay.network_share,
            "self-play: tree": selfplay.seconds * selfplay.tree_share,
        }
    else:
        played = {"self-play: waiting for the cluster": selfplay.cluster.seconds_waited}
    spent = {**played, "learning": iteration.learning.seconds, "gate": iteration.gate.seconds, **measuring}
    spent["other"] = max(0.0, seconds - sum(spent.values()))
    return {name: value / seconds for name, value in spent.items()}
