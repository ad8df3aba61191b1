import numpy as np
import numpy.typing as npt
import pytest
from helpers import both_kinds, make_search, random_positions

from alphac4.game import Position
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.search import Budget
from alphac4.mcts.tree import PROVEN_DRAW, PROVEN_WIN, ROOT, UNPROVEN, advance_root
from alphac4.nn.evaluator import Evaluator, UniformEvaluator
from alphac4.nn.network import PolicyValueNetwork

Planes = npt.NDArray[np.float32]


@both_kinds
def test_a_kept_tree_holds_what_was_known_below_the_moves_played(kind: str) -> None:
    search = make_search(kind, reuse="trees")
    search.search([Position()], Budget(simulations=400))
    trees = search._kept.trees
    assert trees is not None
    child = int(trees.child[0, ROOT, 3])
    expected = trees.visits[0, trees.child[0, child, 2]].copy()
    advance_root(trees, 0, 3)
    advance_root(trees, 0, 2)
    assert trees.visits[0, ROOT].tolist() == expected.tolist()
    size = int(trees.size[0])
    for node in range(1, size):
        parent, action = trees.parent[0, node], trees.parent_action[0, node]
        assert trees.child[0, parent, action] == node
        assert trees.visits[0, parent, action] >= trees.visits[0, node].sum()
    assert (trees.child[0, :size] < size).all()


@both_kinds
def test_trees_are_kept_wherever_their_games_stand(kind: str) -> None:
    search = make_search(kind, reuse="trees")
    search.search([Position.from_moves(moves) for moves in ("44", "112", "27")], Budget(simulations=500))
    known = {moves: search.node(index, [3, 2]).visits for index, moves in ((0, "4443"), (2, "2743"))}
    assert known["4443"].tolist() != known["2743"].tolist()
    now = ["2743", "5", "4443"]  # the second game has ended, one begins, and the order is another
    for simulations in (1, 3000):  # the latter ask for more room
        after = search.search([Position.from_moves(moves) for moves in now], Budget(simulations=simulations))
        assert after.simulations.tolist() == [simulations] * 3
        for moves, visits in zip(now, after.visits, strict=True):
            assert visits.sum() == known.get(moves, np.zeros(7)).sum() + simulations
            known[moves] = visits


def test_equal_positions_have_trees_of_their_own() -> None:
    search = make_search("uct", reuse="trees")
    search.search([Position()], Budget(simulations=200))
    twice = search.search([Position.from_moves("44")] * 2, Budget(simulations=300))
    assert twice.visits[0].sum() > 300  # follows from the one tree that there was
    assert twice.visits[1].sum() == 300


def test_what_is_proven_is_played_out_without_another_simulation() -> None:
    chance = np.random.default_rng(4)
    played = 0
    while played < 8:
        position = random_positions(1, chance)[0]
        if not 8 <= position.plies < 26:
            continue
        search = make_search("puct", reuse="proofs")
        result = search.search([position], Budget(simulations=400))
        promised = int(result.proofs[0].max(initial=-127, where=result.proofs[0] != UNPROVEN))
        if promised <= PROVEN_DRAW or PROVEN_WIN - promised < 5:
            continue
        played += 1
        last = position.plies + PROVEN_WIN - promised
        while True:
            position = position.play(int(result.moves[0]))
            if position.outcome() is not None:
                break
            position = position.play(int(chance.choice(position.legal_columns())))
            result = search.search([position], Budget(simulations=400))
            assert result.simulations[0] == 0
        assert position.outcome() == -1
        assert position.plies <= last
        search.search([Position()], Budget(simulations=3))  # a new game begins afresh
        assert search.search([Position.from_moves("4")], Budget(simulations=3)).simulations[0] == 3


def test_a_game_that_leaves_a_proven_line_is_searched_anew() -> None:
    search, fresh = make_search("puct", reuse="proofs"), make_search("puct")
    won = Position.from_moves("232572656452153")
    left = 0
    for column in won.legal_columns():
        assert search.search([won], Budget(simulations=4000)).root_proof(0) != UNPROVEN
        after = won.play(column)
        expected, found = (s.search([after], Budget(simulations=50)) for s in (fresh, search))
        if found.root_proof(0) == UNPROVEN:  # although the tree of the proof has no room for these simulations
            left += 1
            assert found.simulations.tolist() == expected.simulations.tolist()
            assert found.visits.tolist() == expected.visits.tolist()
    assert left


def test_an_interrupted_search_leaves_no_half_made_tree() -> None:
    class Interrupted(UniformEvaluator):
        calls = 0

        def evaluate(self, planes: Planes) -> tuple[Planes, Planes]:
            self.calls += 1
            if self.calls == 40:
                raise KeyboardInterrupt
            return super().evaluate(planes)

    search = NetworkSearch(Interrupted(), rng=np.random.default_rng(0), reuse="trees")
    with pytest.raises(KeyboardInterrupt):
        search.search([Position.from_moves("4")], Budget(simulations=100))
    for moves in ("43", "41"):
        found, fresh = (
            each.search([Position.from_moves(moves)], Budget(simulations=50)) for each in (search, make_search("puct"))
        )
        assert (found.visits == fresh.visits).all()


class Counting:
    """An evaluator that counts what it is asked, and whose answers do not depend on the other rows of a batch."""

    def __init__(self, network: PolicyValueNetwork) -> None:
        self.rows = self.version = 0
        self._evaluator = Evaluator(network, batch_size=1, backend="torch-fp32")

    def evaluate(self, planes: Planes) -> tuple[Planes, Planes]:
        self.rows += len(planes)
        answers = [self._evaluator.evaluate(planes[row : row + 1]) for row in range(len(planes))]
        return np.concatenate([logits for logits, _ in answers]), np.concatenate([wdl for _, wdl in answers])


POSITIONS = [Position.from_moves(text) for text in ("", "4", "44", "443", "445", "43", "45", "1", "7", "4453", "4435")]


def test_a_cache_saves_evaluations_and_changes_nothing_else(network: PolicyValueNetwork) -> None:
    plain, cached = Counting(network), Counting(network)
    without = NetworkSearch(plain, rng=np.random.default_rng(0))
    with_cache = NetworkSearch(cached, rng=np.random.default_rng(0), cache=2**14)
    for simulations in (30, 60):  # the second search asks about much that is known by then
        expected = without.search(POSITIONS, Budget(simulations=simulations))
        found = with_cache.search(POSITIONS, Budget(simulations=simulations))
        np.testing.assert_array_equal(found.visits, expected.visits)
        np.testing.assert_array_equal(found.value, expected.value)
    assert cached.rows < 0.7 * plain.rows
