"""Errors of the best network by the solver's verdict: for people to see, and for nothing else.

What is said here must not reach learning, the gate or the choice of the best network, or the solver would teach. So
this is the only module of training that knows the solver or `alphac4.evaluation`, and its reports go nowhere but into
the report of an iteration.
"""

from collections.abc import Sequence

from alphac4.compute import Compute, Pool
from alphac4.evaluation.answers import Answers, ask_players, errors_by_set, judge_moves, judge_values, make_asker
from alphac4.evaluation.positions import PositionSet, packaged_positions
from alphac4.game.rules import STANDARD, Geometry
from alphac4.nn.network import PolicyValueNetwork
from alphac4.runs.reports import EvaluationReport, ExactPlayFigures
from alphac4.training.config import EvaluationConfig
from alphac4.training.matches import LocalSide, PoolSide

POSITIONS = 40  # of each of the six packaged sets
SIMULATIONS = 64  # a position; the raw network is judged as well
SIDE = 2  # the number of the judge's; matches have 0 and 1


class Judge:
    """Measures a run's best network from time to time, with the evaluator that it plays matches with, or in a pool."""

    def __init__(
        self,
        compute: Compute,
        side: LocalSide,
        geometry: Geometry,
        config: EvaluationConfig,
        pool: Pool | None = None,
    ) -> None:
        self._elsewhere = None if pool is None else PoolSide(pool, SIDE, side.backend, geometry, side.puct)
        self._evaluator = side.evaluator
        self._ask_here = make_asker(compute, side.evaluator, geometry, side.puct) if pool is None else None
        self._backend = side.backend
        self._geometry = geometry
        self._config = config

    def judge(self, network: PolicyValueNetwork, iteration: int) -> EvaluationReport | None:
        """The network's errors; None in iterations without a measurement, and on boards without exact scores."""
        config = self._config
        if not config.every or iteration % config.every or self._geometry != STANDARD:
            return None
        sets = packaged_positions(POSITIONS)
        raw, search = (measure_against_solver(sets, self._ask(network, sets, budget)) for budget in (0, SIMULATIONS))
        return EvaluationReport(
            positions=sum(map(len, sets)),
            simulations=SIMULATIONS,
            raw=raw,
            search=search,
            evaluator=self._backend,
        )

    def _ask(self, network: PolicyValueNetwork, sets: Sequence[PositionSet], simulations: int) -> Answers:
        """The network's answers with so many simulations, without search if there are none."""
        if self._elsewhere is not None:
            return ask_players(self._elsewhere.players(network, "judged", simulations), sets)
        assert self._ask_here is not None
        self._evaluator.update(network)
        return self._ask_here(sets, simulations)


def measure_against_solver(sets: Sequence[PositionSet], answers: Answers) -> ExactPlayFigures:
    """The errors of answers that have values."""
    assert answers.values is not None
    error = judge_moves(sets, answers.columns).error
    return ExactPlayFigures(
        errors=errors_by_set(sets, answers),
        error=error.value,
        low=error.low,
        high=error.high,
        value_error=judge_values(sets, answers.values).absolute.value,
    )
