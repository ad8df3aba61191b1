"""An iteration's report, from what its phases returned."""

from collections.abc import Sequence

from alphac4.machine import resident_memory_mb
from alphac4.training.alarms import find_stalls
from alphac4.training.progress import elo_over_run, find_warnings
from alphac4.training.reports import (
    EvaluationReport,
    IterationReport,
    LearningReport,
    MatchReport,
    SelfPlayReport,
    time_shares,
)
from alphac4.training.run_state import RunState
from alphac4.training.stopwatch import Stopwatch


def describe_iteration(
    state: RunState,
    selfplay: SelfPlayReport,
    learning: LearningReport,
    gate: MatchReport,
    matches: Sequence[MatchReport],
    verdict: EvaluationReport | None,
    history: Sequence[IterationReport],
    watch: Stopwatch,
) -> IterationReport:
    """The report of the iteration that ``state`` has just counted; ``history`` holds those before it."""
    rating = elo_over_run([*(r.gate for r in history if r.gate), gate], state.best_iteration, history)
    return IterationReport(
        iteration=state.iteration,
        seconds_total=state.seconds,
        games_total=state.games,
        samples_total=state.samples,
        evaluations_total=state.evaluations,
        selfplay=selfplay,
        learning=learning,
        gate=gate,
        matches=list(matches),
        elo=rating.elo,
        elo_error=rating.error,
        best_iteration=state.best_iteration,
        memory_mb=resident_memory_mb(),
        time_shares=time_shares(selfplay, learning, gate, watch.phases, watch.seconds),
        warnings=[
            *learning.warnings,
            *find_warnings(selfplay, gate, history, matches, verdict),
            *find_stalls(selfplay, learning, verdict, history),
        ],
        evaluation=verdict,
    )
