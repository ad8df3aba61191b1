"""Targets of the user in place of what self-play has recorded."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import alphac4
from alphac4.selfplay.games import Games
from alphac4.selfplay.replay import load_shard
from alphac4.selfplay.samples import Samples


@pytest.mark.usefixtures("no_pictures")
def test_a_run_records_what_a_target_of_ones_own_makes_of_its_searches(tmp_path: Path) -> None:
    def leftmost(recorded: Games | Samples) -> npt.NDArray[np.float32]:
        full = [(recorded.occupied >> np.uint64(7 * column + 5)) & np.uint64(1) for column in range(7)]
        return np.eye(7, dtype=np.float32)[np.argmin(full, axis=0)]

    def drawn(games: Games) -> npt.NDArray[np.float32]:
        return np.broadcast_to(np.array([0, 1, 0], np.float32), (*games.value.shape, 3))

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
    alphac4.train("quick", run=tmp_path, settings=settings, policy_target=leftmost, value_target=drawn)
    samples = load_shard(tmp_path / "replay" / "000001.safetensors")
    assert len(samples) >= 100
    np.testing.assert_array_equal(samples.policy, leftmost(samples))
    assert (samples.returns == [0, 1, 0]).all()
    assert set(samples.outcome) <= {-1, 0, 1}
