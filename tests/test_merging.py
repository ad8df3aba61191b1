from dataclasses import replace

import numpy as np
import pytest

from alphac4.game import Position
from alphac4.game.planes import stones
from alphac4.game.rules import STANDARD
from alphac4.selfplay.merging import merge_duplicates, orient
from alphac4.selfplay.shards import Samples


def samples_of(moves: list[str]) -> Samples:
    """Records of positions with targets that tell them apart; the game is over at the position itself."""
    own, occupied = stones([Position.from_moves(text) for text in moves])
    count = len(moves)
    policy = np.zeros((count, 7), np.float16)
    policy[:, 0] = 1
    return Samples(
        own=own,
        occupied=occupied,
        policy=policy,
        full=np.ones(count, np.bool_),
        outcome=(np.arange(count) % 3 - 1).astype(np.int8),
        value=np.linspace(0, 1, count, dtype=np.float32),
        draw=np.zeros(count, np.float32),
        returns=np.tile(np.array([1, 0, 0], np.float16), (count, 1)),
        final_own=own,
        final_occupied=occupied,
    )


def test_mirror_images_become_one_sample_with_mirrored_policies_averaged() -> None:
    """After 1 and after 7: one position, whose policy is half on a column and half on its mirror image's."""
    merged = merge_duplicates(samples_of(["1", "44", "7"]), STANDARD)
    assert len(merged) == 2
    assert merged.value == pytest.approx([0.5, 0.5])  # of 44: the middle record; of 1 and 7: the mean of 0 and 1
    alone, both = merged.policy.astype(float)
    assert sorted(alone) == [0, 0, 0, 0, 0, 0, 1]
    assert both[0] == both[6] == 0.5
    assert merged.outcome.tolist() == [0, 1], "in the order of the last records, with what those say"
    assert merged.final_own.tolist() == merged.own.tolist(), "final stones are turned as the position is"


def test_only_policies_of_full_searches_are_averaged() -> None:
    """A fast search's policy counts for nothing beside a full one, and stays where there is no other."""
    recorded = samples_of(["4", "4", "3", "3"])
    policy = np.eye(7, dtype=np.float16)[[0, 1, 2, 3]]
    merged = merge_duplicates(replace(recorded, policy=policy, full=np.array([False, True, False, False])), STANDARD)
    assert merged.full.tolist() == [True, False]
    assert merged.policy[0].tolist() == [0, 1, 0, 0, 0, 0, 0]
    assert merged.policy[1].sum() == 1
    assert (merged.policy[1] > 0).sum() == 2


def test_distinct_positions_stay_as_they_are() -> None:
    """Apart from their orientation; nothing is lost and nothing reordered."""
    recorded = samples_of(["1", "12", "123", "1234"])
    merged = merge_duplicates(recorded, STANDARD)
    assert merged.value == pytest.approx(recorded.value)
    assert merged.outcome.tolist() == recorded.outcome.tolist()


def test_oriented_samples_of_mirror_images_are_the_same() -> None:
    """Stones, final stones and policies are turned together, and nothing else changes."""
    recorded = samples_of(["112", "1", "445"])
    mirrored = samples_of(["776", "7", "443"])
    left = orient(replace(recorded, policy=np.eye(7, dtype=np.float16)[[0, 3, 4]]), STANDARD)
    right = orient(replace(mirrored, policy=np.eye(7, dtype=np.float16)[[6, 3, 2]]), STANDARD)
    for name in ("own", "occupied", "final_own", "final_occupied", "policy", "value", "returns"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)
    assert left.value.tolist() == recorded.value.tolist()
