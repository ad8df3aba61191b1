import numpy as np

from alphac4.game import Position
from alphac4.mcts import Budget, NetworkSearch
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork

POSITIONS = [Position.from_moves(text) for text in ("", "4", "44", "443", "445", "43", "45", "1", "7", "4453", "4435")]


class Counting:
    """An evaluator that counts what it is asked."""

    def __init__(self, network: PolicyValueNetwork) -> None:
        self.rows = 0
        self._evaluator = Evaluator(network, batch_size=1, backend="torch-fp32")

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One row at a time, so that a row's answer does not depend on the others in the batch."""
        self.rows += len(planes)
        answers = [self._evaluator.evaluate(planes[row : row + 1]) for row in range(len(planes))]
        return np.concatenate([logits for logits, _ in answers]), np.concatenate([wdl for _, wdl in answers])


def test_a_cache_saves_evaluations_and_changes_nothing_else(network: PolicyValueNetwork) -> None:
    """Visit for visit, in a first search and a second one, which is asked about much that is known by then."""
    plain, cached = Counting(network), Counting(network)
    without = NetworkSearch(plain, rng=np.random.default_rng(0))
    with_cache = NetworkSearch(cached, rng=np.random.default_rng(0), cache=2**14)
    for simulations in (30, 60):
        expected = without.search(POSITIONS, Budget(simulations=simulations))
        found = with_cache.search(POSITIONS, Budget(simulations=simulations))
        np.testing.assert_array_equal(found.visits, expected.visits)
        np.testing.assert_array_equal(found.value, expected.value)
    assert cached.rows < 0.7 * plain.rows


def test_other_weights_are_asked_anew(network: PolicyValueNetwork) -> None:
    """After `forget` nothing of the old ones is left; trees alone can be dropped as well."""
    counting = Counting(network)
    search = NetworkSearch(counting, rng=np.random.default_rng(0), reuse="trees", cache=2**14)
    search.search(POSITIONS, Budget(simulations=20))
    once = counting.rows
    search.drop_trees()
    search.search(POSITIONS, Budget(simulations=20))
    assert counting.rows - once < once // 2  # but for those that others took the place of
    before = counting.rows
    search.forget()
    search.search(POSITIONS, Budget(simulations=20))
    assert counting.rows - before == once
