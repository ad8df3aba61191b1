"""How strong the run has become, and signs that it is going wrong."""

import math
from collections import Counter
from collections.abc import Sequence

from alphac4.arena.ratings import NATS_PER_ELO, Z95, Rating, elo_of_score
from alphac4.training.reports import (
    EvaluationReport,
    ExactPlayFigures,
    IterationReport,
    MatchReport,
    SelfPlayReport,
)


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


def find_warnings(
    selfplay: SelfPlayReport,
    gate: MatchReport,
    history: Sequence[IterationReport],
    matches: Sequence[MatchReport] = (),
    evaluation: EvaluationReport | None = None,
) -> list[str]:
    """Signs of collapse or regression, in words; empty when all is well."""
    found = []
    common, games = max(selfplay.openings.values(), default=0), max(selfplay.games, 1)
    if games >= 50 and common > 0.6 * games:
        found.append(f"{common / games:.0%} of the games share one opening: exploration is collapsing")
    if selfplay.samples and selfplay.policy_entropy < 0.05:
        found.append(f"policy targets have an entropy of {selfplay.policy_entropy:.3f} nats: nothing is explored")
    recent = [*history[-7:]]
    if len(recent) == 7 and not gate.accepted and not any(r.gate and r.gate.accepted for r in recent):
        found.append("no candidate has been promoted for 8 iterations")
    if gate.score < 0.3:
        found.append(f"the candidate scored {gate.score:.2f} against the best network: it has got worse")
    for now in matches:
        before = [past.score for report in history for past in report.matches if past.opponent == now.opponent]
        if before and now.score < max(before) - 0.2:
            found.append(f"score against {now.opponent} fell from {max(before):.2f} to {now.score:.2f}")
    if gate.accepted and evaluation is not None:
        found += _risen_errors(evaluation, history)
    return found


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
