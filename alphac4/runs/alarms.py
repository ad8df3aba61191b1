"""Signs that a run goes wrong or no longer improves, in words, reported while there is time to stop it."""

from collections.abc import Callable, Sequence

from alphac4.runs.reports import EvaluationReport, ExactPlayFigures, IterationReport
from alphac4.training.reports import MatchReport

SPAN = 4  # iterations that are averaged: one alone is too noisy
SHARE_LEFT = 0.5  # of the entropy, below which it has collapsed
LOSS_FALLEN = 0.1  # by this share the policy loss must have fallen for flat errors to be an alarm
PATIENCE = 8  # iterations without a promotion


def find_warnings(report: IterationReport, history: Sequence[IterationReport]) -> list[str]:
    """What an iteration shows, after those of ``history``; empty when all is well."""
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
    if learning.went_back:
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
    """Networks that have become worse, or not better for long."""
    gate, found = report.gate, []
    recent = [*history, report][-PATIENCE:]
    if len(recent) == PATIENCE and not any(past.gate.accepted for past in recent):
        found.append(f"no candidate has been promoted for {PATIENCE} iterations")
    if gate.score < 0.3:
        found.append(f"the candidate scored {gate.score:.2f} against the best network: it has got worse")
    for now in report.matches:
        best = max((past.score for past in _matches(history) if past.opponent == now.opponent), default=0.0)
        if now.score < best - 0.2:
            found.append(f"score against {now.opponent} fell from {best:.2f} to {now.score:.2f}")
    if gate.accepted and report.evaluation is not None:
        found += _risen_errors(report.evaluation, history)
    return found


def _matches(history: Sequence[IterationReport]) -> list[MatchReport]:
    return [match for report in history for match in report.matches]


def _risen_errors(now: EvaluationReport, history: Sequence[IterationReport]) -> list[str]:
    """Errors against exact play clearly above the run's fewest: the 95 % intervals do not touch.

    That is stricter than a test at 5 %, as it should be: the fewest of many evaluations were lucky as well.
    """
    before = [
        (past.iteration, past.evaluation)
        for past in history
        if past.evaluation is not None
        and (past.evaluation.positions, past.evaluation.simulations) == (now.positions, now.simulations)
    ]
    found = []
    for name, budget in (("raw", "raw"), ("search", f"with {now.simulations} simulations")):
        figures: ExactPlayFigures = getattr(now, name)
        least = min(((getattr(past, name), n) for n, past in before), key=lambda pair: pair[0].error, default=None)
        if least is not None and figures.low > least[0].high:
            found.append(
                f"the gate has passed a network that errs more against exact play: {budget} in {figures.error:.1%} of "
                f"the positions, up from {least[0].error:.1%} after iteration {least[1]}"
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
    spans = [reports[start : start + SPAN] for start in range(SPAN // 2, len(reports) - SPAN)]
    entropy, most = _mean(reports[-SPAN:], _entropy), max(_mean(span, _entropy) for span in spans)
    if entropy < SHARE_LEFT * most:
        found["entropy"] = (
            f"the entropy of policy targets has fallen from {most:.2f} to {entropy:.2f} nats: self-play repeats itself"
        )
    judged = [report for report in reports if report.evaluation is not None]
    spans = [judged[start : start + SPAN] for start in range(len(judged) - 2 * SPAN + 1)]
    if spans:
        best, now = min(spans, key=lambda span: _mean(span, _error)), judged[-SPAN:]
        loss_then, loss_now = _mean(best, _loss), _mean(now, _loss)
        if loss_now < (1 - LOSS_FALLEN) * loss_then and _mean(now, _error) >= _mean(best, _error):
            found["errors"] = (
                f"the policy loss has fallen from {loss_then:.2f} to {loss_now:.2f}, but raw errors against exact play "
                f"stay at {_mean(now, _error):.1%}: the network learns its own games by heart"
            )
    return found


def _mean(reports: Sequence[IterationReport], value: Callable[[IterationReport], float]) -> float:
    return sum(map(value, reports)) / len(reports)


def _entropy(report: IterationReport) -> float:
    return report.selfplay.policy_entropy


def _loss(report: IterationReport) -> float:
    return report.learning.policy_loss


def _error(report: IterationReport) -> float:
    return 0.0 if report.evaluation is None else report.evaluation.raw.error
