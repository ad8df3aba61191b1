"""Evaluation of the best network against exact play, for people only.

The result must not influence learning, the gate or the choice of the best network. So this is the only module of a run
that imports `alphac4.evaluation`, and its result goes only into the iteration's report and TensorBoard.
"""

from collections.abc import Sequence

from alphac4.arena.players import Player, backends_of
from alphac4.evaluation.metrics import collect_answers, judge_sets
from alphac4.evaluation.positions import ALL, packaged_positions
from alphac4.nn.network import Network
from alphac4.runs.reports import EvaluationReport, ExactPlayMetrics
from alphac4.training.matches import PlayerProvider

POSITIONS_PER_SET = 40  # there are six packaged sets
SIMULATIONS = 64  # per position, besides the raw network


def measure_network(network: Network, provider: PlayerProvider) -> EvaluationReport:
    """Return a network's mistakes on the standard board; ``provider`` makes the players that choose its moves."""
    players = provider.players(network, "judged", 0)
    raw, players = _figures(players), provider.players(network, "judged", SIMULATIONS)
    return EvaluationReport(
        positions=sum(map(len, packaged_positions(POSITIONS_PER_SET))),
        simulations=SIMULATIONS,
        raw=raw,
        search=_figures(players),
        backend=backends_of(players),
    )


def _figures(players: Sequence[Player]) -> ExactPlayMetrics:
    sets = packaged_positions(POSITIONS_PER_SET)
    figures = judge_sets(sets, *collect_answers(players, sets))
    whole = figures.pop(ALL)
    assert whole.value is not None
    return ExactPlayMetrics(
        mistake_rate_by_set={name: figure.mistakes.value for name, figure in figures.items()},
        mistake_rate=whole.mistakes.value,
        ci_low=whole.mistakes.low,
        ci_high=whole.mistakes.high,
        value_error=whole.value.absolute_error.value,
    )
