from collections.abc import Sequence

import numpy as np
import pytest

from alphac4.arena.auto_player import AutoPlayer, TimeManagement
from alphac4.arena.players import NetworkPlayer, as_searching
from alphac4.arena.specifications import parse_player
from alphac4.compute import choose
from alphac4.game import STANDARD, Position
from alphac4.mcts import Budget, NetworkSearch
from alphac4.mcts.kept_trees import Reuse
from alphac4.mcts.results import SearchResult
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.solver import Solver

MANAGEMENT = TimeManagement(simulations=10, sure=2.0, rounds=((64, 10), (3, 20), (2, 50)))


def auto_player(
    network: PolicyValueNetwork, management: TimeManagement = MANAGEMENT, reuse: Reuse = "trees"
) -> AutoPlayer:
    """With the untrained network of the tests, in full precision."""
    evaluator = Evaluator(network, batch_size=16, backend="torch-fp32")
    rng = np.random.default_rng(0)
    first = NetworkPlayer("net", evaluator, Budget(simulations=management.simulations), rng, reuse="nothing")
    return AutoPlayer("net@auto", first, NetworkSearch(evaluator, rng=rng, reuse=reuse), management)


def test_an_unsure_player_searches_every_move_and_the_best_ones_longer(network: PolicyValueNetwork) -> None:
    """Ten simulations, then ten for each of seven moves, twenty more for three and fifty for two."""
    result = auto_player(network).search([Position()])
    assert sorted(result.visits[0].tolist()) == [10, 10, 10, 10, 30, 80, 80]
    assert result.simulations[0] == 10 + 70 + 60 + 100
    assert result.visits[0, result.moves[0]] == 80
    assert result.value[0] == result.values[0, result.moves[0]] == np.nanmax(result.values[0, result.visits[0] == 80])
    assert result.wdl[0, 0] - result.wdl[0, 2] == pytest.approx(result.value[0])
    assert result.variations[0][0] == result.moves[0]


def test_a_sure_player_does_not_think_twice(network: PolicyValueNetwork) -> None:
    """Neither where its value is beyond the threshold, nor where its move is proven."""
    sure = TimeManagement(simulations=10, sure=0.0)
    assert auto_player(network, sure).search([Position()]).simulations.tolist() == [10]
    found = auto_player(network).search([Position.from_moves("112233")])  # 4 wins
    assert found.moves.tolist() == [3]
    assert found.proven_wins.tolist() == [True]
    assert found.simulations[0] <= 10


def test_a_budget_given_is_kept(network: PolicyValueNetwork) -> None:
    """As people give it on the page or the command line."""
    player = auto_player(network)
    assert as_searching(player) is player
    assert (
        player.search([Position(), Position.from_moves("44")], Budget(simulations=25)).simulations.tolist() == [25] * 2
    )


def test_it_answers_alike_in_any_batch_and_for_mirror_images(network: PolicyValueNetwork) -> None:
    """Whatever it was asked before; a move's mirror image for a mirror image."""
    texts = ["43", "45", "1", "7", "4443", "112", "776"]
    positions = [Position.from_moves(text) for text in texts]
    player = auto_player(network)
    together = player.search(positions)
    alone = [auto_player(network).search([position]) for position in positions]
    assert together.moves.tolist() == [int(result.moves[0]) for result in alone]
    assert player.search(positions).moves.tolist() == together.moves.tolist()
    for left, right in ((0, 1), (2, 3), (5, 6)):
        assert together.moves[left] == 6 - together.moves[right]
        np.testing.assert_allclose(together.values[left], together.values[right, ::-1], atol=1e-5)


def test_wins_that_only_the_longer_search_can_prove_are_proven(network: PolicyValueNetwork) -> None:
    """Against the exact solver: what it says is proven is so, in positions late enough for it."""
    rng = np.random.default_rng(1)
    solver, player = Solver(), auto_player(network, TimeManagement(simulations=5, sure=2.0, rounds=((64, 300),)))
    positions: list[Position] = []
    while len(positions) < 40:
        position = Position()
        while position.plies < 26 and position.outcome() is None:
            position = position.play(int(rng.choice(position.legal_columns())))
        if position.outcome() is None:
            positions.append(position)
    result = player.search(positions)
    proven = result.proven_wins & (result.simulations > 5)
    assert proven.sum() >= 3
    for row in np.flatnonzero(proven):
        assert solver.solve(positions[row].play(int(result.moves[row]))) < 0


class _Staged(NetworkSearch):
    """Values of the seven answers to a position; in the second round, those asked about have turned out to win."""

    def search(self, positions: Sequence[Position], budget: Budget, nodes: int = 200_000) -> SearchResult:
        """See `TreeSearch`; a move whose answer wins is lost."""
        found = super().search(positions, budget, nodes)
        for row, position in enumerate(positions):
            assert position.moves is not None
            found.value[row] = (0.1, 0.2, -0.5, -0.6, 0.3, 0.4, 0.5)[int(position.moves) - 1]
            if budget.simulations == 20:
                found.proofs[row] = 10
        return found


def test_a_move_that_is_not_proven_lost_is_preferred(network: PolicyValueNetwork) -> None:
    """Where all moves that were searched longest are lost, the best of those that were left out is played."""
    evaluator = Evaluator(network, batch_size=16, backend="torch-fp32")
    first = NetworkPlayer("net", evaluator, Budget(simulations=10), np.random.default_rng(0), reuse="nothing")
    management = TimeManagement(simulations=10, sure=0.99, rounds=((64, 10), (2, 20)))
    player = AutoPlayer("net@auto", first, _Staged(evaluator, reuse="trees"), management)
    result = player.search([Position()])
    assert [int(column) for column in np.flatnonzero(result.proofs[0] < 0)] == [2, 3]
    assert result.moves.tolist() == [0]  # the next by value
    assert result.value[0] == pytest.approx(-0.1)


def test_the_deeper_search_must_keep_its_trees(network: PolicyValueNetwork) -> None:
    """Or each round would begin anew."""
    with pytest.raises(ValueError, match="keep its trees"):
        auto_player(network, reuse="nothing")


@pytest.mark.slow
def test_the_best_network_finds_what_its_policy_has_never_heard_of() -> None:
    """After 4 3 only 6 and 7 win; the policy gives 6 less than a thousandth, and 600 simulations play 3."""
    player = parse_player("best@auto", rng=np.random.default_rng(0), compute=choose("cpu"), batch_size=16)
    assert isinstance(player, AutoPlayer)
    assert player.geometry == STANDARD
    assert player.choose([Position.from_moves("43"), Position.from_moves("45")]) == [5, 1]
