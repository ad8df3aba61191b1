from types import SimpleNamespace
from typing import Any

import pytest

from alphac4.training.alarms import find_stalls


def iterations(
    entropy: list[float], openings: list[int], wins: list[float], loss: list[float], error: list[float | None]
) -> list[Any]:
    """Iterations with these figures, of 1,000 games each."""
    return [
        SimpleNamespace(
            selfplay=SimpleNamespace(policy_entropy=e, distinct_openings=o, games=1000, first_player_wins=w),
            learning=SimpleNamespace(policy_loss=p),
            evaluation=None if r is None else SimpleNamespace(raw=SimpleNamespace(error=r)),
        )
        for e, o, w, p, r in zip(entropy, openings, wins, loss, error, strict=True)
    ]


def told(run: list[Any]) -> list[list[str]]:
    """What is told after each iteration."""
    return [find_stalls(now.selfplay, now.learning, now.evaluation, run[:index]) for index, now in enumerate(run)]


def falling(start: float, end: float, count: int = 36) -> list[float]:
    """A straight line."""
    return [start + (end - start) * index / (count - 1) for index in range(count)]


HEALTHY = {
    "entropy": falling(1.2, 0.9),
    "openings": [700] * 36,
    "wins": [0.5] * 36,
    "loss": falling(1.5, 1.1),
    "error": falling(0.2, 0.05),
}


def test_a_run_that_gets_better_is_left_alone() -> None:
    """Entropy and loss fall a little, errors too."""
    assert not any(told(iterations(**HEALTHY)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "figures", "words"),
    [
        ("entropy", falling(1.2, 0.4), "entropy of policy targets"),
        ("openings", [int(count) for count in falling(700, 250)], "opening of their own"),
        ("wins", falling(0.49, 0.28), "first player wins"),
        ("error", [0.1] * 36, "by heart"),
    ],
)
def test_each_sign_of_stalling_is_reported_once(name: str, figures: list[float], words: str) -> None:
    """With the other figures as they should be, exactly one line in the whole run."""
    lines = [line for lines in told(iterations(**HEALTHY | {name: figures})) for line in lines]  # type: ignore[arg-type]
    assert len(lines) == 1
    assert words in lines[0]


def test_an_iteration_resumed_after_its_self_play_is_no_sign() -> None:
    """It reports no games, of which the first player has won none."""
    run = iterations(**HEALTHY | {"wins": [0.66] * 36})  # type: ignore[arg-type]
    for iteration in (12, 13, 14, 35):
        run[iteration].selfplay = SimpleNamespace(
            policy_entropy=0.0, distinct_openings=0, games=0, first_player_wins=0.0
        )
    assert not any(told(run))


def test_runs_that_are_not_judged_are_not_called_flat() -> None:
    """Without evaluations nothing is known of errors."""
    assert not any(told(iterations(**HEALTHY | {"error": [None] * 36})))  # type: ignore[arg-type]
