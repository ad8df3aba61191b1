"""Reports of a run: records of its iterations, their text, and warnings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alphac4.arena.match import MatchResult
from alphac4.game.position import count_of
from alphac4.storage.journal import read_entries
from alphac4.storage.records import parse_json, read_record
from alphac4.training.config import TrainConfig
from alphac4.training.loop import Iteration
from alphac4.training.matches import BASELINE_MATCH_SIMULATIONS
from alphac4.training.reports import LearningReport, SelfPlayReport

REPORTS_FILE = "reports.jsonl"  # in a run's folder, one line per iteration

HEADINGS = """\
                 mistakes points against          loss    evals            time
iter    min    raw search  best  classic  policy value    per s  gate      left"""
"""Headings of the table of iterations: mistakes of the best network against exact play; points of the candidate
against the best network, and of the best network against classic MCTS; network evaluations in self-play;
whether the candidate passed the gate; time left. The table fits a terminal of 80 columns."""

SMOOTHING_ITERATIONS = 4  # iterations to average before values are compared
COLLAPSED_ENTROPY = 0.5  # share of the highest entropy below which self-play repeats itself
MIN_LOSS_DROP = 0.2
"""Share by which the policy loss must have fallen for a warning that mistakes stay constant. In runs of `quick` whose
mistakes fell later, it had fallen by up to 0.15."""
STALL_ITERATIONS = 8  # iterations without a promotion before a warning


@dataclass(frozen=True, kw_only=True)
class ExactPlayMetrics:
    """Mistakes and value errors of the best network in positions with exact scores."""

    mistake_rate_by_set: dict[str, float]  # share of mistakes by set: moves whose outcome is worse than the best move's
    mistake_rate: float  # share of mistakes over all sets
    ci_low: float  # 95 % interval of `mistake_rate`
    ci_high: float
    value_error: float  # mean absolute difference between the predicted value and the exact outcome


@dataclass(frozen=True, kw_only=True)
class EvaluationReport:
    """Evaluation of the best network against exact play, for people only."""

    positions: int  # in all sets
    simulations: int  # per position, of the search
    raw: ExactPlayMetrics  # metrics of the network's policy and value
    search: ExactPlayMetrics
    backend: str = ""  # of the network


@dataclass(frozen=True, kw_only=True)
class IterationReport:
    """Report of one iteration."""

    iteration: int  # 1 for the first
    seconds_total: float  # duration of the run so far, including interrupted attempts
    games_total: int
    samples_total: int
    evaluations_total: int
    selfplay: SelfPlayReport
    learning: LearningReport
    gate: MatchResult
    matches: list[MatchResult]  # against classic MCTS
    best_iteration: int  # iteration of the best network; 0 is the initial one
    memory_mb: float  # resident memory of the process
    time_shares: dict[str, float]  # share of the iteration's wall time by phase
    warnings: list[str]  # as returned by `find_warnings`
    evaluation: EvaluationReport | None  # None if the iteration had none
    metrics: dict[str, float] = field(default_factory=dict)  # added by callbacks

    def row(self, iterations: int, first: "IterationReport | None" = None) -> str:
        """Return the iteration as a row of the table with `HEADINGS`, with the time left of the run.

        ``first`` is the report of this process's first iteration. The estimate starts at the end of that iteration,
        which also compiled. Without ``first``, as in the row of that iteration, the time is left out.
        """
        judged, learned = self.evaluation, self.learning
        raw, searched = (
            ("", "") if judged is None else (f"{judged.raw.mistake_rate:.1%}", f"{judged.search.mistake_rate:.1%}")
        )
        score = f"{self.gate.score:.0%}" if self.gate.game_count else ""
        classic = " ".join(f"{match.score:.0%}" for match in self.matches)
        left = ""
        if first is not None and self.iteration < iterations:
            rate = (self.seconds_total - first.seconds_total) / (self.iteration - first.iteration)
            minutes = (iterations - self.iteration) * rate / 60
            left = f"{minutes:.0f} min" if minutes >= 1 else "< 1 min"
        cells = [
            f"{self.iteration:>4} {self.seconds_total / 60:>6.1f}  {raw:>5} {searched:>6}",
            f"{score:>4} {classic:>8}  {learned.policy_loss:>6.3f} {learned.value_loss:>5.3f}",
            f"{self.selfplay.evaluations_per_second:>7,.0f}  {'pass' if self.gate.promoted else '':<4}  {left:>8}",
        ]
        return "  ".join(cells).rstrip()


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """A finished or stopped run in a folder."""

    folder: Path
    best_checkpoint: Path  # the best network
    config: TrainConfig
    iterations: int  # finished ones
    history: Sequence[IterationReport]  # one report per iteration, except those that were lost
    closing_matches: Sequence[MatchResult]  # matches of the best network against classic MCTS

    def __str__(self) -> str:
        iterations = count_of(self.iterations, "iteration")
        if not self.history or self.history[-1].iteration < self.iterations:
            lost = f"Trained {iterations}; the report of the last one is missing.\n" if self.iterations else ""
            return f"{lost}The best network: {self.best_checkpoint}"
        last = self.history[-1]
        work = {"game": last.games_total, "position": last.samples_total, "evaluation": last.evaluations_total}
        spent = ", ".join(count_of(number, noun) for noun, number in work.items())
        lines = [f"Trained {iterations} in {last.seconds_total / 60:.1f} minutes: {spent}."]
        report = next((report for report in reversed(self.history) if report.evaluation), None)
        if report is not None and report.evaluation is not None:
            judged, is_best = report.evaluation, report.best_iteration == last.best_iteration
            lines.append(
                f"Mistakes by the exact solver{'' if is_best else f' after iteration {report.iteration}'}: "
                f"{judged.raw.mistake_rate:.1%} raw, {judged.search.mistake_rate:.1%} with "
                f"{count_of(judged.simulations, 'simulation')}, in {count_of(judged.positions, 'position')}."
            )
        lines += [
            f"At {BASELINE_MATCH_SIMULATIONS} simulations per move against {match.opponent}: {match}."
            for match in self.closing_matches
        ]
        if len(self.history) == self.iterations:
            promoted = sum(bool(report.gate.promoted) for report in self.history)
            lines.append(f"{promoted} of {count_of(len(self.history), 'candidate')} promoted.")
        return "\n".join([*lines, f"The best network: {self.best_checkpoint}"])

    __repr__ = __str__


def read_reports(path: Path) -> list[IterationReport]:
    """Return the reports in a file, in the order of iterations; damaged lines are skipped with a warning.

    If a run was interrupted after it wrote a report, the iteration is repeated and its last report is returned.
    """
    reports = read_entries(path, lambda line: read_record(IterationReport, parse_json(line)))
    latest = {report.iteration: report for report in reports}
    return [latest[iteration] for iteration in sorted(latest)]


def time_shares(
    iteration: Iteration,
    measuring: Mapping[str, float],  # seconds of further phases
    seconds: float,
) -> dict[str, float]:
    """Return the shares of an iteration's wall time by phase.

    Self-play is two phases, the network's time and the rest. If actors elsewhere also play between the calls of
    `Actors.play`, it is one phase, the time spent waiting for them.
    """
    selfplay = iteration.selfplay
    spent = {
        "self-play: network": selfplay.seconds * selfplay.network_share,
        "self-play: tree": selfplay.seconds * selfplay.tree_share,
    }
    if selfplay.seconds_waited is not None:
        spent = {"self-play: waiting": selfplay.seconds_waited}
    spent |= {"learning": iteration.learning.seconds, "gate": iteration.gate.seconds, **measuring}
    spent["other"] = max(0.0, seconds - sum(spent.values()))
    return {name: value / seconds for name, value in spent.items()}


def checked_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics that callbacks added, as numbers; raise TypeError for one that is not a number."""
    numbers = {}
    for name, value in metrics.items():
        try:
            if not isinstance(name, str) or isinstance(value, str):
                raise TypeError
            name.encode()
            numbers[name] = float(value)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            raise TypeError(f"a callback set iteration.metrics[{name!r:.40}] to {value!r:.60}; set a number") from None
    return numbers


def find_warnings(report: IterationReport, history: Sequence[IterationReport]) -> list[str]:
    """Return the warnings of an iteration, given the reports of earlier ones; none if all is well."""
    signs, earlier = _stalling_signs([*history, report]), _stalling_signs(history)
    stalled = [text for sign, text in signs.items() if sign not in earlier]  # each sign is reported once
    return [*_failures(report), *_regressions(report, history), *stalled]


def _failures(report: IterationReport) -> list[str]:
    """Return warnings of failed learning and collapsed exploration in one iteration."""
    learning, selfplay, warnings = report.learning, report.selfplay, []
    if learning.skipped_steps:
        warnings.append(
            f"{learning.skipped_steps} of {learning.steps} gradient steps were skipped: "
            "their loss or gradient was not finite"
        )
    if learning.rolled_back:
        warnings.append("the weights were not finite after learning: they were rolled back to the earlier ones")
    common = max(selfplay.openings.values(), default=0)
    if selfplay.games >= 50 and common > 0.6 * selfplay.games:
        warnings.append(f"{common / selfplay.games:.0%} of the games share one opening: exploration is collapsing")
    if selfplay.target_entropy < 0.05:
        warnings.append(f"policy targets have an entropy of {selfplay.target_entropy:.3f} nats: nothing is explored")
    return warnings


def _regressions(report: IterationReport, history: Sequence[IterationReport]) -> list[str]:
    """Return warnings of networks that became worse, or did not become better for many iterations.

    A candidate is worse if its score is below 0.3, and the 95 % interval of the score below one half. Other scores are
    compared with the best of many earlier ones, which is biased upwards. So a warning needs 95 % intervals that do not
    overlap. With four matches of 20 pairs, 2 % of runs of constant strength get a false warning.
    """
    gate, now, warnings = report.gate, report.evaluation, []
    recent = [*history, report][-STALL_ITERATIONS:]
    if len(recent) == STALL_ITERATIONS and not any(past.gate.promoted for past in recent):
        warnings.append(f"no candidate has been promoted for {STALL_ITERATIONS} iterations")
    if gate.game_count and gate.score < 0.3 and gate.interval.high < 0.5:
        warnings.append(f"the candidate scored {gate.score:.2f} against the best network: it has become worse")
    for match in report.matches:
        earlier = [other for past in history for other in past.matches if other.opponent == match.opponent]
        best = max(earlier, key=lambda other: other.score, default=match)
        if match.interval.high < best.interval.low:
            warnings.append(
                f"score against {match.opponent} fell to {match.score:.2f}, from {best.score:.2f} at its highest"
            )
    judged = [(past.evaluation, past.iteration) for past in history if past.evaluation is not None]
    if now is None or not gate.promoted or not judged:
        return warnings
    for name, budget in (("raw", "raw"), ("search", f"with {count_of(now.simulations, 'simulation')}")):
        metrics: ExactPlayMetrics = getattr(now, name)
        error, high, iteration = min(
            (getattr(past, name).mistake_rate, getattr(past, name).ci_high, n) for past, n in judged
        )
        if metrics.ci_low > high:
            warnings.append(
                f"the promoted network makes more mistakes: {budget}, in "
                f"{metrics.mistake_rate:.1%} of the positions, up from {error:.1%} after iteration {iteration}"
            )
    return warnings


def _stalling_signs(reports: Sequence[IterationReport]) -> dict[str, str]:
    """Return the signs of stalling at the end of a sequence of iterations, by name."""
    if len(reports) < 2 * SMOOTHING_ITERATIONS:
        return {}
    signs = {}
    entropies = _span_means([report.selfplay.target_entropy for report in reports])
    entropy, most = entropies[-1], entropies[SMOOTHING_ITERATIONS // 2 : -1].max()
    if entropy < COLLAPSED_ENTROPY * most:
        signs["entropy"] = (
            f"the entropy of policy targets has fallen from {most:.2f} to {entropy:.2f} nats: self-play repeats itself"
        )
    judged = [
        (report.evaluation.raw.mistake_rate, report.learning.policy_loss) for report in reports if report.evaluation
    ]
    if len(judged) >= 2 * SMOOTHING_ITERATIONS:
        errors, losses = map(_span_means, zip(*judged, strict=True))
        best = int(errors[:-SMOOTHING_ITERATIONS].argmin())
        if losses[-1] < (1 - MIN_LOSS_DROP) * losses[best] and errors[-1] >= errors[best]:
            signs["errors"] = (
                f"the policy loss has fallen from {losses[best]:.2f} to {losses[-1]:.2f}, but the raw network's "
                f"mistakes stay at {errors[-1]:.1%}: the network may overfit its own games"
            )
    return signs


def _span_means(values: Sequence[float]) -> npt.NDArray[np.float64]:
    return np.convolve(values, np.full(SMOOTHING_ITERATIONS, 1 / SMOOTHING_ITERATIONS), "valid")
