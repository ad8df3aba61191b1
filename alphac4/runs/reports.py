"""Reports of a run: records of its iterations and closing matches, in words, and signs that it goes wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alphac4.storage.journal import read_entries, read_entry
from alphac4.storage.records import read_record
from alphac4.training.config import TrainConfig
from alphac4.training.loop import Iteration
from alphac4.training.reports import LearningReport, MatchReport, SelfPlayReport

REPORTS_FILE = "reports.jsonl"  # in a run's folder, one line an iteration
CLOSING_FILE = "closing.json"

HEADINGS = """\
                       mistakes       points against             loss     answers              about
iteration  minutes    raw  searched  best  classic MCTS   policy  value  a second  promoted    left"""
"""Of the rows that iterations are: points of the candidate against the best network, and of that against classic
search; what the judge found; the network's answers to positions; the time left, which `row` knows."""

SPAN = 4  # iterations that are averaged: one alone is too noisy
SHARE_LEFT = 0.5  # of the entropy, below which it has collapsed
LOSS_FALLEN = 0.1  # by this share the policy loss must have fallen for flat errors to be an alarm
PATIENCE = 8  # iterations without a promotion


@dataclass(frozen=True, kw_only=True)
class ExactPlayFigures:
    """Errors of the best network in positions with exact scores."""

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
    best_iteration: int  # which iteration's network is the best; 0 is the untrained one
    memory_mb: float  # resident memory of the process
    time_shares: dict[str, float]  # share of the iteration's wall time by phase
    warnings: list[str]  # signs of collapse or regression, in words
    evaluation: EvaluationReport | None  # where there was one
    figures: dict[str, float] = field(default_factory=dict)  # added by callbacks

    def __str__(self) -> str:
        """The iteration as a row below `HEADINGS`."""
        judged, learned = self.evaluation, self.learning
        raw, searched = ("", "") if judged is None else (f"{judged.raw.error:.1%}", f"{judged.search.error:.1%}")
        classic = " ".join(f"{match.score:.0%} {match.opponent}" for match in self.matches)
        # Without games an earlier session had played them all.
        speed = f"{self.selfplay.evaluations_per_second:,.0f}" if self.selfplay.games else ""
        cells = [
            f"{self.iteration:>9}  {self.seconds_total / 60:>7.1f}  {raw:>5}  {searched:>8}  {self.gate.score_text:>4}",
            f"{classic:<13}  {learned.policy_loss:>6.3f}  {learned.value_loss:>5.3f}  {speed:>8}",
            "promoted" if self.gate.accepted else "",
        ]
        return "  ".join(cells).rstrip()

    def row(self, iterations: int, first: "IterationReport | None" = None) -> str:
        """The iteration as a row, with the time that is left where the run has so many.

        It is reckoned from what came after the ``first``, which compiles besides.
        """
        count, seconds = self.iteration, self.seconds_total
        if first is not None:
            count, seconds = count - first.iteration, seconds - first.seconds_total
        minutes = (iterations - self.iteration) * seconds / count / 60
        left = f"{minutes:.0f} min" if minutes >= 1 else "< 1 min" if minutes else ""
        return f"{self!s:<{len(HEADINGS.splitlines()[1]) - 8}}{left:>8}".rstrip()


@dataclass(frozen=True, kw_only=True)
class ClosingReport:
    """The matches that close a run."""

    iteration: int  # after which they were played
    matches: list[MatchReport]  # one for each number of rollouts of classic MCTS

    def closes(self, config: TrainConfig) -> bool:
        """Whether these are the matches that a run with such settings would play at its end, or has at a later one."""
        opponents = [f"uct:{rollouts}" for rollouts in config.gate.classic_rollouts]
        return self.iteration >= config.iterations and [match.opponent for match in self.matches] == opponents


def read_closing(folder: Path) -> ClosingReport | None:
    """The matches that have closed a run; None if there were none, or what was recorded is damaged."""
    try:
        return read_record(ClosingReport, read_entry((folder / CLOSING_FILE).read_text()))
    except (OSError, ValueError):
        return None


def read_reports(path: Path) -> list[IterationReport]:
    """The reports in a file, by iteration; a damaged line is left out with a warning.

    An iteration that was interrupted once its report was written has another one later, which counts.
    """
    reports = read_entries(path, lambda line: read_record(IterationReport, read_entry(line)))
    found = {report.iteration: report for report in reports}
    return [found[iteration] for iteration in sorted(found)]


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


def find_warnings(report: IterationReport, history: Sequence[IterationReport]) -> list[str]:
    """Warnings of an iteration after those of ``history``; empty when all is well."""
    return [
        *_learning_failed(report),
        *_collapsed(report),
        *_regressed(report, history),
        *_stalled(report, history),
    ]


def _learning_failed(report: IterationReport) -> list[str]:
    learning, found = report.learning, []
    if learning.skipped_steps:
        found.append(
            f"{learning.skipped_steps} of {learning.steps} gradient steps were skipped: "
            "their loss or gradient was not finite"
        )
    if learning.rolled_back:
        found.append("the weights were not finite after learning: the run went back to those before it")
    return found


def _collapsed(report: IterationReport) -> list[str]:
    """Self-play that repeats itself, within one iteration."""
    selfplay, found = report.selfplay, []
    common, games = max(selfplay.openings.values(), default=0), max(selfplay.games, 1)
    if games >= 50 and common > 0.6 * games:
        found.append(f"{common / games:.0%} of the games share one opening: exploration is collapsing")
    if selfplay.samples and selfplay.policy_entropy < 0.05:
        found.append(f"policy targets have an entropy of {selfplay.policy_entropy:.3f} nats: nothing is explored")
    return found


def _regressed(report: IterationReport, history: Sequence[IterationReport]) -> list[str]:
    """Networks that have become worse, or not better for long.

    Figures are compared with the best of many earlier ones, which was lucky as well. The 95 % intervals must not touch:
    with four matches of 20 pairs that raises a false alarm in 2 % of runs whose strength stays the same.
    """
    gate, found = report.gate, []
    recent = [*history, report][-PATIENCE:]
    if len(recent) == PATIENCE and not any(past.gate.accepted for past in recent):
        found.append(f"no candidate has been promoted for {PATIENCE} iterations")
    if gate.score_text and gate.score < 0.3:
        found.append(f"the candidate scored {gate.score:.2f} against the best network: it has got worse")
    for now in report.matches:
        earlier = [match for past in history for match in past.matches if match.opponent == now.opponent]
        best = max(earlier, key=lambda match: match.score, default=now)
        if now.high < best.low:
            found.append(f"score against {now.opponent} fell to {now.score:.2f}, from {best.score:.2f} at its highest")
    if gate.accepted and report.evaluation is not None:
        found += _risen_errors(report.evaluation, history)
    return found


def _risen_errors(now: EvaluationReport, history: Sequence[IterationReport]) -> list[str]:
    """Errors against exact play clearly above the run's fewest: the 95 % intervals do not touch."""
    before = [(past.iteration, past.evaluation) for past in history if past.evaluation is not None]
    found = []
    for name, budget in (("raw", "raw"), ("search", f"with {now.simulations} simulations")):
        figures: ExactPlayFigures = getattr(now, name)
        least = min(((getattr(past, name), n) for n, past in before), key=lambda pair: pair[0].error, default=None)
        if least is not None and figures.low > least[0].high:
            found.append(
                f"the gate has passed a network that makes more mistakes by exact play: {budget} in "
                f"{figures.error:.1%} of the positions, up from {least[0].error:.1%} after iteration {least[1]}"
            )
    return found


def _stalled(report: IterationReport, history: Sequence[IterationReport]) -> list[str]:
    """Signs over several iterations, each reported once, in the iteration in which it appears.

    Iterations whose self-play had ended before they were interrupted and resumed have no figures of it, and are left
    out.
    """
    if report.selfplay.games == 0:
        return []
    before = [past for past in history if past.selfplay.games]
    earlier = _signs(before)
    return [text for sign, text in _signs([*before, report]).items() if sign not in earlier]


def _signs(reports: Sequence[IterationReport]) -> dict[str, str]:
    """Every sign of stalling after the last of these iterations, by its name."""
    if len(reports) < 2 * SPAN:
        return {}
    found = {}
    entropies = _span_means([report.selfplay.policy_entropy for report in reports])
    entropy, most = entropies[-1], entropies[SPAN // 2 : -1].max()
    if entropy < SHARE_LEFT * most:
        found["entropy"] = (
            f"the entropy of policy targets has fallen from {most:.2f} to {entropy:.2f} nats: self-play repeats itself"
        )
    judged = [(report.evaluation.raw.error, report.learning.policy_loss) for report in reports if report.evaluation]
    if len(judged) >= 2 * SPAN:
        errors, losses = map(_span_means, zip(*judged, strict=True))
        best = int(errors[:-SPAN].argmin())
        if losses[-1] < (1 - LOSS_FALLEN) * losses[best] and errors[-1] >= errors[best]:
            found["errors"] = (
                f"the policy loss has fallen from {losses[best]:.2f} to {losses[-1]:.2f}, but the raw network's "
                f"mistakes stay at {errors[-1]:.1%}: the network learns its own games by heart"
            )
    return found


def _span_means(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """The mean of each `SPAN` values one after another."""
    return np.convolve(values, np.full(SPAN, 1 / SPAN), "valid")
