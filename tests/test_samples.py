"""What becomes of recorded positions: merging, orientation, and policies of one's own."""

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import alphac4
from alphac4.game import Position
from alphac4.game.planes import stones
from alphac4.game.rules import STANDARD
from alphac4.runs.session import Stopped
from alphac4.selfplay.merging import merge_duplicates, orient
from alphac4.selfplay.shards import Samples, load_shard
from alphac4.selfplay.targets import retarget


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


def test_mirror_images_become_one_sample_with_mirrored_policies_averaged() -> None:
    merged = merge_duplicates(samples_of(["1", "44", "7"]), STANDARD)
    assert merged.value == pytest.approx([0.5, 0.5])  # of 44: the middle record; of 1 and 7: the mean of 0 and 1
    alone, both = merged.policy.astype(float)
    assert sorted(alone) == [0, 0, 0, 0, 0, 0, 1]
    assert both[0] == both[6] == 0.5
    assert merged.outcome.tolist() == [0, 1], "in the order of the last records, with what those say"
    assert merged.final_own.tolist() == merged.own.tolist(), "final stones are turned as the position is"


def test_only_policies_of_full_searches_are_averaged() -> None:
    recorded = samples_of(["4", "4", "3", "3"], [0, 1, 2, 3])
    merged = merge_duplicates(replace(recorded, full=np.array([False, True, False, False])), STANDARD)
    assert merged.full.tolist() == [True, False]
    assert merged.policy[0].tolist() == [0, 1, 0, 0, 0, 0, 0]
    assert sorted(merged.policy[1]) == [0, 0, 0, 0, 0, 0.5, 0.5]  # where there is no full search


def test_oriented_samples_of_mirror_images_are_the_same() -> None:
    recorded = samples_of(["112", "1", "445"], [0, 3, 4])
    left = orient(recorded, STANDARD)
    right = orient(samples_of(["776", "7", "443"], [6, 3, 2]), STANDARD)
    for name in ("own", "occupied", "final_own", "final_occupied", "policy", "value", "returns"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)
    assert left.value.tolist() == recorded.value.tolist()


def test_a_run_records_what_a_target_of_ones_own_makes_of_its_searches(tmp_path: Path) -> None:
    stop = threading.Event()

    def leftmost(samples: Samples) -> npt.NDArray[np.float32]:
        stop.set()  # the rest of the run says nothing about policies
        full = [(samples.occupied >> np.uint64(7 * column + 5)) & np.uint64(1) for column in range(7)]
        return np.eye(7, dtype=np.float32)[np.argmin(full, axis=0)]

    settings = {
        "samples": 100,
        "backend": "torch-fp32",
        "network": {"channels": 8, "blocks": 1},
        "selfplay": {"games": 8, "full_simulations": 8, "fast_simulations": 4},
    }
    with pytest.raises(Stopped):
        alphac4.train("quick", run=tmp_path, settings=settings, policy_target=leftmost, stop=stop)
    shards = [load_shard(path) for path in (tmp_path / "replay").glob("*.safetensors")]
    assert sum(map(len, shards)) > 0
    for samples in shards:
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
