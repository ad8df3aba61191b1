"""Signs that a run no longer improves, reported while there is time to stop it."""

from collections.abc import Callable, Sequence

from alphac4.training.reports import EvaluationReport, IterationReport, LearningReport, SelfPlayReport

SPAN = 4  # iterations that are averaged: one alone is too noisy
SHARE_LEFT = 0.5  # of entropy or distinct openings, below which they have collapsed
LOSS_FALLEN = 0.1  # by this share the policy loss must have fallen for flat errors to be an alarm
WINS_FALLEN = 0.15  # of all games


def find_stalls(
    selfplay: SelfPlayReport,
    learning: LearningReport,
    evaluation: EvaluationReport | None,
    history: Sequence[IterationReport],
) -> list[str]:
    """What says that learning stalls, in words; empty when all is well.

    Each sign is reported once, in the iteration in which it appears. Iterations whose self-play had ended before they
    were interrupted and resumed have no figures of it, and are left out.
    """
    before = [_Figures(past.selfplay, past.learning, past.evaluation) for past in history if past.selfplay.games]
    if selfplay.games == 0:
        return []
    earlier = _signs(before)
    latest = _signs([*before, _Figures(selfplay, learning, evaluation)])
    return [text for sign, text in latest.items() if sign not in earlier]


class _Figures:
    """One iteration's figures that alarms look at."""

    def __init__(self, selfplay: SelfPlayReport, learning: LearningReport, evaluation: EvaluationReport | None) -> None:
        self.entropy = selfplay.policy_entropy
        self.openings = selfplay.distinct_openings / max(selfplay.games, 1)
        self.first_wins = selfplay.first_player_wins
        self.loss = learning.policy_loss
        self.error = None if evaluation is None else evaluation.raw.error


def _error(figures: _Figures) -> float:
    return figures.error or 0.0


def _mean(figures: Sequence[_Figures], value: Callable[[_Figures], float]) -> float:
    return sum(map(value, figures)) / len(figures)


def _signs(figures: Sequence[_Figures]) -> dict[str, str]:
    """Every sign of stalling after the last of these iterations, by its name."""
    if len(figures) < 2 * SPAN:
        return {}
    found = {}
    now = figures[-SPAN:]
    spans = [figures[start : start + SPAN] for start in range(SPAN // 2, len(figures) - SPAN)]
    entropy, most_entropy = _mean(now, lambda f: f.entropy), max(_mean(s, lambda f: f.entropy) for s in spans)
    if entropy < SHARE_LEFT * most_entropy:
        found["entropy"] = (
            f"the entropy of policy targets has fallen from {most_entropy:.2f} to {entropy:.2f} nats: "
            "self-play repeats itself"
        )
    openings, most_openings = _mean(now, lambda f: f.openings), max(_mean(s, lambda f: f.openings) for s in spans)
    if openings < SHARE_LEFT * most_openings:
        found["openings"] = (
            f"of 100 games {100 * openings:.0f} have an opening of their own, "
            f"{100 * most_openings:.0f} at best before: self-play repeats itself"
        )
    wins, most_wins = _mean(now, lambda f: f.first_wins), max(_mean(s, lambda f: f.first_wins) for s in spans)
    if wins < most_wins - WINS_FALLEN:
        found["wins"] = (
            f"the first player wins {wins:.0%} of the games, {most_wins:.0%} at best before: "
            "won games may no longer be converted"
        )
    judged = [f for f in figures if f.error is not None]
    spans = [judged[start : start + SPAN] for start in range(len(judged) - 2 * SPAN + 1)]
    if spans:
        best, now = min(spans, key=lambda s: _mean(s, _error)), judged[-SPAN:]
        loss_then, loss_now = _mean(best, lambda f: f.loss), _mean(now, lambda f: f.loss)
        if loss_now < (1 - LOSS_FALLEN) * loss_then and _mean(now, _error) >= _mean(best, _error):
            found["errors"] = (
                f"the policy loss has fallen from {loss_then:.2f} to {loss_now:.2f}, but raw errors against exact play "
                f"stay at {_mean(now, _error):.1%}: the network learns its own games by heart"
            )
    return found
