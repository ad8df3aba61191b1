"""Reports of a run: records of its iterations, their text, and signs that a run goes wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alphac4.storage.journal import read_entries
from alphac4.storage.records import parse_json, read_record
from alphac4.training.config import TrainConfig
from alphac4.training.loop import Iteration
from alphac4.training.matches import BASELINE_MATCH_SIMULATIONS
from alphac4.training.reports import LearningReport, MatchReport, SelfPlayReport

REPORTS_FILE = "reports.jsonl"  # in a run's folder, a line per iteration

HEADINGS = """\
                       mistakes       points against             loss     answers              about
iteration  minutes    raw  searched  best  classic MCTS   policy  value  a second  promoted    left"""
"""Headings of the table of iterations: points of the candidate against the best network, and of the best network
against classic MCTS; the judge's figures; network evaluations in self-play; time left."""

SPAN = 4  # iterations that are averaged, because one is too noisy
COLLAPSED_ENTROPY = 0.5  # of the highest entropy
MIN_LOSS_DROP = 0.1  # share by which the policy loss must have fallen before constant errors are an alarm
STALL_ITERATIONS = 8  # iterations without a promotion before a warning


@dataclass(frozen=True, kw_only=True)
class ExactPlayMetrics:
    """Errors of the best network in positions with exact scores."""

    errors: dict[str, float]  # share of moves whose outcome is worse than the best move's, by set
    error: float  # over all sets
    low: float  # 95 % interval
    high: float
    value_error: float  # mean distance of the predicted value from the exact outcome


@dataclass(frozen=True, kw_only=True)
class EvaluationReport:
    """The best network against exact play, for people only."""

    positions: int  # in all sets
    simulations: int  # a position, of the search
    raw: ExactPlayMetrics  # the network's policy and value
    search: ExactPlayMetrics
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

    def row(self, iterations: int, first: "IterationReport | None" = None) -> str:
        """Return the iteration as a row below `HEADINGS`, in a run of so many ``iterations``.

        The time left is estimated from the iterations after the ``first``, which also compiles.
        """
        judged, learned = self.evaluation, self.learning
        raw, searched = ("", "") if judged is None else (f"{judged.raw.error:.1%}", f"{judged.search.error:.1%}")
        classic = " ".join(f"{match.score:.0%} {match.opponent}" for match in self.matches)
        count, seconds = self.iteration, self.seconds_total
        if first is not None:
            count, seconds = count - first.iteration, seconds - first.seconds_total
        minutes = (iterations - self.iteration) * seconds / count / 60
        left = f"{minutes:.0f} min" if minutes >= 1 else "< 1 min" if minutes else ""
        cells = [
            f"{self.iteration:>9}  {self.seconds_total / 60:>7.1f}  {raw:>5}  {searched:>8}  {self.gate.score_text:>4}",
            f"{classic:<13}  {learned.policy_loss:>6.3f}  {learned.value_loss:>5.3f}",
            f"{self.selfplay.evaluations_per_second:>8,.0f}  {'promoted' if self.gate.accepted else '':<8}",
        ]
        row = "  ".join(cells)
        return f"{row:<{len(HEADINGS.splitlines()[1]) - 8}}{left:>8}".rstrip()


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """A run in a folder."""

    folder: Path
    best: Path  # the best network
    config: TrainConfig
    history: Sequence[IterationReport]  # a report for each iteration
    closing: Sequence[MatchReport]  # the best network against classic MCTS

    def __str__(self) -> str:
        if not self.history:  # its file was lost or damaged
            return f"The best network: {self.best}"
        last = self.history[-1]
        spent = f"{last.games_total:,} games, {last.samples_total:,} positions, {last.evaluations_total:,} evaluations"
        lines = [f"Trained {last.iteration} iterations in {last.seconds_total / 60:.1f} minutes: {spent}."]
        report = next((report for report in reversed(self.history) if report.evaluation), None)
        if report is not None and report.evaluation is not None:
            judged, is_best = report.evaluation, report.best_iteration == last.best_iteration
            lines.append(
                f"Mistakes by the exact solver{'' if is_best else f' after iteration {report.iteration}'}: "
                f"{judged.raw.error:.1%} raw, {judged.search.error:.1%} with {judged.simulations} simulations, in "
                f"{judged.positions} positions."
            )
        lines += [
            f"At {BASELINE_MATCH_SIMULATIONS} simulations a move against {match.opponent}: {match.summary}."
            for match in self.closing
        ]
        promoted = sum(bool(report.gate.accepted) for report in self.history)
        lines.append(f"{promoted} of {len(self.history)} candidates were promoted.")
        return "\n".join([*lines, f"The best network: {self.best}"])

    __repr__ = __str__


def read_reports(path: Path) -> list[IterationReport]:
    """Return the reports in a file, by iteration; a damaged line is left out with a warning.

    An iteration that was interrupted after its report was written is repeated; its last report counts.
    """
    reports = read_entries(path, lambda line: read_record(IterationReport, parse_json(line)))
    latest = {report.iteration: report for report in reports}
    return [latest[iteration] for iteration in sorted(latest)]


def time_shares(iteration: Iteration, measuring: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Return shares of an iteration's wall time, with self-play split into network and tree unless on a cluster."""
    selfplay = iteration.selfplay
    spent = {
        "self-play: network": selfplay.seconds * selfplay.network_share,
        "self-play: tree": selfplay.seconds * selfplay.tree_share,
    }
    if selfplay.cluster is not None:
        spent = {"self-play: waiting for the cluster": selfplay.cluster.seconds_waited}
    spent |= {"learning": iteration.learning.seconds, "gate": iteration.gate.seconds, **measuring}
    spent["other"] = max(0.0, seconds - sum(spent.values()))
    return {name: value / seconds for name, value in spent.items()}


def find_warnings(report: IterationReport, history: Sequence[IterationReport]) -> list[str]:
    """Return warnings of an iteration after those of ``history``; empty when all is well."""
    signs, earlier = _stalling_signs([*history, report]), _stalling_signs(history)
    stalled = [text for sign, text in signs.items() if sign not in earlier]  # each is reported once
    return [*_failures(report), *_regressions(report, history), *stalled]


def _failures(report: IterationReport) -> list[str]:
    """Failed learning, and self-play that repeats itself, within one iteration."""
    learning, selfplay, found = report.learning, report.selfplay, []
    if learning.skipped_steps:
        found.append(
            f"{learning.skipped_steps} of {learning.steps} gradient steps were skipped: "
            "their loss or gradient was not finite"
        )
    if learning.rolled_back:
        found.append("the weights were not finite after learning: the run went back to those before it")
    common = max(selfplay.openings.values(), default=0)
    if selfplay.games >= 50 and common > 0.6 * selfplay.games:
        found.append(f"{common / selfplay.games:.0%} of the games share one opening: exploration is collapsing")
    if selfplay.policy_entropy < 0.05:
        found.append(f"policy targets have an entropy of {selfplay.policy_entropy:.3f} nats: nothing is explored")
    return found


def _regressions(report: IterationReport, history: Sequence[IterationReport]) -> list[str]:
    """Networks that got worse, or no better for long.

    Figures are compared with the best of many earlier ones, which was also lucky. The 95 % intervals must not touch:
    with four matches of 20 pairs that raises a false alarm in 2 % of runs of constant strength.
    """
    gate, now, found = report.gate, report.evaluation, []
    recent = [*history, report][-STALL_ITERATIONS:]
    if len(recent) == STALL_ITERATIONS and not any(past.gate.accepted for past in recent):
        found.append(f"no candidate has been promoted for {STALL_ITERATIONS} iterations")
    if gate.score_text and gate.score < 0.3:
        found.append(f"the candidate scored {gate.score:.2f} against the best network: it has got worse")
    for match in report.matches:
        earlier = [other for past in history for other in past.matches if other.opponent == match.opponent]
        best = max(earlier, key=lambda other: other.score, default=match)
        if match.high < best.low:
            found.append(
                f"score against {match.opponent} fell to {match.score:.2f}, from {best.score:.2f} at its highest"
            )
    judged = [(past.evaluation, past.iteration) for past in history if past.evaluation is not None]
    if now is None or not gate.accepted or not judged:
        return found
    for name, budget in (("raw", "raw"), ("search", f"with {now.simulations} simulations")):
        figures: ExactPlayMetrics = getattr(now, name)
        error, high, iteration = min((getattr(past, name).error, getattr(past, name).high, n) for past, n in judged)
        if figures.low > high:
            found.append(
                f"the gate has passed a network that makes more mistakes by exact play: {budget} in "
                f"{figures.error:.1%} of the positions, up from {error:.1%} after iteration {iteration}"
            )
    return found


def _stalling_signs(reports: Sequence[IterationReport]) -> dict[str, str]:
    """Return every sign of stalling over several iterations after the last of them, by name."""
    if len(reports) < 2 * SPAN:
        return {}
    found = {}
    entropies = _span_means([report.selfplay.policy_entropy for report in reports])
    entropy, most = entropies[-1], entropies[SPAN // 2 : -1].max()
    if entropy < COLLAPSED_ENTROPY * most:
        found["entropy"] = (
            f"the entropy of policy targets has fallen from {most:.2f} to {entropy:.2f} nats: self-play repeats itself"
        )
    judged = [(report.evaluation.raw.error, report.learning.policy_loss) for report in reports if report.evaluation]
    if len(judged) >= 2 * SPAN:
        errors, losses = map(_span_means, zip(*judged, strict=True))
        best = int(errors[:-SPAN].argmin())
        if losses[-1] < (1 - MIN_LOSS_DROP) * losses[best] and errors[-1] >= errors[best]:
            found["errors"] = (
                f"the policy loss has fallen from {losses[best]:.2f} to {losses[-1]:.2f}, but the raw network's "
                f"mistakes stay at {errors[-1]:.1%}: the network learns its own games by heart"
            )
    return found


def _span_means(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return the mean of each `SPAN` consecutive values."""
    return np.convolve(values, np.full(SPAN, 1 / SPAN), "valid")
