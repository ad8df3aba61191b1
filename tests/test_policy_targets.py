from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import alphac4
from alphac4.selfplay.shards import Samples, load_shard
from alphac4.selfplay.targets import retarget


def leftmost(samples: Samples) -> npt.NDArray[np.float32]:
    """All on the leftmost column that is open."""
    top = np.uint64(1 << 5)
    full = np.stack([(samples.occupied >> np.uint64(7 * column)) & top != 0 for column in range(7)], axis=1)
    return np.eye(7, dtype=np.float32)[np.argmin(full, axis=1)]


@pytest.mark.slow
def test_a_run_records_what_the_target_makes_of_its_searches(tmp_path: Path) -> None:
    """Every recorded policy is the target's; positions and outcomes are as they were."""
    settings = {
        "iterations": 1,
        "samples": 100,
        "backend": "torch-fp32",
        "network": {"channels": 8, "blocks": 1},
        "selfplay": {"games": 8, "full_simulations": 8, "fast_simulations": 4},
        "learning": {"batch_size": 64},
        "gate": {"pairs": 1, "simulations": 2, "classic_every": 0, "closing_pairs": 1, "classic_rollouts": [5]},
        "evaluation": {"every": 0},
    }
    alphac4.train("quick", run=tmp_path, settings=settings, policy_target=leftmost)
    shards = [load_shard(path) for path in (tmp_path / "replay").glob("*.safetensors")]
    assert sum(map(len, shards)) >= 100
    for samples in shards:
        np.testing.assert_array_equal(samples.policy, leftmost(samples))
        assert set(samples.outcome) <= {-1, 0, 1}


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (np.ones((2, 6)) / 6, r"has shape \(2, 6\), expected \(2, 7\)"),
        (np.ones((2, 7)), "each row summing to 1"),
        (np.array([[2, -1, 0, 0, 0, 0, 0]] * 2), "none negative"),
        (np.full((2, 7), np.nan), "none negative"),
    ],
)
def test_what_is_no_policy_is_refused(policy: npt.NDArray[np.float64], told: str) -> None:
    """Before anything is recorded, in one line."""
    rows = {name: np.zeros(2) for name in Samples.__dataclass_fields__}
    samples = Samples(**(rows | {"policy": np.full((2, 7), 1 / 7, np.float16)}))  # type: ignore[arg-type]
    assert retarget(samples, None) is samples
    with pytest.raises(ValueError, match=told):
        retarget(samples, lambda _samples: policy)
