"""Mistakes of the best network by the solver's verdict, for people only.

The verdict must not reach learning, the gate or the choice of the best network, or the solver would teach. So this is
the only module of a run that imports `alphac4.evaluation`, and its result is stored in the iteration's report only.
"""

from alphac4.evaluation.answers import ask_players, judge_sets
from alphac4.evaluation.positions import ALL, packaged_positions
from alphac4.nn.network import Network
from alphac4.runs.reports import EvaluationReport, ExactPlayMetrics
from alphac4.training.matches import Side

POSITIONS = 40  # of each of the six packaged sets
SIMULATIONS = 64  # per position; the raw network is judged as well


def judge(network: Network, side: Side) -> EvaluationReport:
    """Return a network's mistakes on the standard board, played by a side of a run's matches."""
    return EvaluationReport(
        positions=sum(map(len, packaged_positions(POSITIONS))),
        simulations=SIMULATIONS,
        raw=_figures(network, side, 0),
        search=_figures(network, side, SIMULATIONS),
        evaluator=side.backend,
    )


def _figures(network: Network, side: Side, simulations: int) -> ExactPlayMetrics:
    sets = packaged_positions(POSITIONS)
    figures = judge_sets(sets, *ask_players(side.players(network, "judged", simulations), sets))
    whole = figures.pop(ALL)
    assert whole.value is not None
    return ExactPlayMetrics(
        errors={name: found.mistakes.value for name, found in figures.items()},
        error=whole.mistakes.value,
        low=whole.mistakes.low,
        high=whole.mistakes.high,
        value_error=whole.value.error.value,
    )
