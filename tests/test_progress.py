import time
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from alphac4.arena.ratings import Rating, fit_ratings
from alphac4.training.progress import elo_over_run
from alphac4.training.reports import IterationReport, MatchReport


def some_gates(count: int, accept: float, rng: np.random.Generator) -> tuple[list[MatchReport], int]:
    """The gates of a run in which a share of the candidates is promoted, and the best iteration at its end."""
    gates, best = [], 0
    for iteration in range(1, count + 1):
        wins, draws, losses = (int(number) for number in rng.multinomial(40, [0.5, 0.2, 0.3]))
        accepted = bool(rng.random() < accept)
        gates.append(
            MatchReport(
                player=f"iteration {iteration}",
                opponent=f"iteration {best}",
                wins=wins,
                draws=draws,
                losses=losses,
                seconds=1.0,
                accepted=accepted,
            )
        )
        best = iteration if accepted else best
    return gates, best


@pytest.mark.parametrize("accept", [0.1, 0.5, 1.0])
def test_the_rating_over_a_run_is_that_of_all_networks_together(accept: float, rng: np.random.Generator) -> None:
    """Also of networks that have lost or won every game; errors come from the whole matrix there."""
    gates, best = some_gates(40, accept, rng)
    gates[3] = replace(gates[3], wins=40, draws=0, losses=0)
    gates[5] = replace(gates[5], wins=0, draws=0, losses=40)
    results = {
        (gate.player, gate.opponent): (gate.wins + gate.draws / 2, gate.wins + gate.draws + gate.losses)
        for gate in gates
    }
    expected = fit_ratings(results, "iteration 0")[f"iteration {best}"]
    found = elo_over_run(gates, best)
    assert found.elo == pytest.approx(expected.elo, rel=1e-6)
    assert found.error == pytest.approx(expected.error, rel=1e-4)
    assert elo_over_run(gates, 0) == elo_over_run([], 0) == Rating(elo=0.0, error=0.0)


def test_a_missing_gate_does_not_change_the_rating(rng: np.random.Generator) -> None:
    """Where its line among the reports is damaged, a later report tells how strong the same network was.

    It does so less exactly: the prior is shared by all who met a network, and they become more.
    """
    gates, _ = some_gates(12, 0.5, rng)
    history, best = [], 0
    for number, gate in enumerate(gates, start=1):
        best = number if gate.accepted else best
        rating = elo_over_run(gates[:number], best)
        facts = SimpleNamespace(gate=gate, best_iteration=best, elo=rating.elo, elo_error=rating.error)
        history.append(cast(IterationReport, facts))
    expected = elo_over_run(gates, best)
    kept = {report.best_iteration for report, gate in zip(history, gates, strict=True) if not gate.accepted} - {0, best}
    assert kept  # networks of which two reports tell
    for lost in kept:
        left = [report for number, report in enumerate(history, start=1) if number != lost]
        found = elo_over_run([report.gate for report in left if report.gate], best, left)
        assert found.elo == pytest.approx(expected.elo, abs=2)
        assert found.error == pytest.approx(expected.error, rel=0.05)


def test_a_run_of_thousands_of_iterations_is_rated_at_once(rng: np.random.Generator) -> None:
    """In each of them anew: all networks together would take hours."""
    gates, best = some_gates(5000, 0.5, rng)
    started = time.process_time()
    assert elo_over_run(gates, best).elo > 100
    assert time.process_time() - started < 2
