"""Policies of one's own in place of what self-play has recorded."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import alphac4
from alphac4.game import Position
from alphac4.game.planes import stones
from alphac4.selfplay.replay import load_shard
from alphac4.selfplay.samples import Samples, retarget


def samples_of(moves: list[str], columns: list[int] | None = None) -> Samples:
    """Records of positions with targets that tell them apart; ``columns`` are those of their policies, by default 0."""
    own, occupied = stones([Position.from_moves(text) for text in moves])
    count = len(moves)
    return Samples(
        own=own,
        occupied=occupied,
        policy=np.eye(7, dtype=np.float16)[columns or [0] * count],
        full=np.ones(count, np.bool_),
        outcome=(np.arange(count) % 3 - 1).astype(np.int8),
        value=np.linspace(0, 1, count, dtype=np.float32),
        draw=np.zeros(count, np.float32),
        returns=np.tile(np.array([1, 0, 0], np.float16), (count, 1)),
        final_own=own,  # the game is over at the position itself
        final_occupied=occupied,
    )


@pytest.mark.usefixtures("no_pictures")
def test_a_run_records_what_a_target_of_ones_own_makes_of_its_searches(tmp_path: Path) -> None:
    def leftmost(samples: Samples) -> npt.NDArray[np.float32]:
        full = [(samples.occupied >> np.uint64(7 * column + 5)) & np.uint64(1) for column in range(7)]
        return np.eye(7, dtype=np.float32)[np.argmin(full, axis=0)]

    settings = {
        "iterations": 1,
        "samples": 100,
        "machine": {"backend": "torch-fp32"},
        "network": {"channels": 8, "blocks": 1},
        "selfplay": {"games": 8, "full_simulations": 8, "fast_simulations": 4},
        "learning": {"batch_size": 16, "passes": 1.0},
        "gate": {"pairs": 1, "simulations": 2, "classic_every": 0, "classic_rollouts": []},
        "evaluation": {"every": 0},
    }
    alphac4.train("quick", run=tmp_path, settings=settings, policy_target=leftmost)
    samples = load_shard(tmp_path / "replay" / "000001.safetensors")
    assert len(samples) >= 100
    np.testing.assert_array_equal(samples.policy, leftmost(samples))
    assert set(samples.outcome) <= {-1, 0, 1}


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (np.ones((2, 6)) / 6, "shape"),
        (np.ones((2, 7)), "summing to 1"),
        (np.full((2, 7), np.nan), "none negative"),
    ],
)
def test_what_is_no_policy_is_refused(policy: npt.NDArray[np.float64], told: str) -> None:
    samples = samples_of(["1", "2"])
    assert retarget(samples, None) is samples
    with pytest.raises(ValueError, match=told):
        retarget(samples, lambda _samples: policy)
