from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from helpers import random_positions

from alphac4.arena.players import AutoPlayer, SearchingPlayer, TimeManagement
from alphac4.game import Position
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.results import SearchResult
from alphac4.mcts.search import Budget
from alphac4.nn.foreign import FunctionEvaluator
from alphac4.puzzles import packaged_puzzles
from alphac4.solver import Solver

MANAGEMENT = TimeManagement(simulations=10, decided_value=2.0, rounds=((64, 10), (3, 20), (2, 50)))


WEIGHTS = np.random.default_rng(3).integers(-(2**20), 2**20, (84, 8)) / 2**22  # sums of these are exact in any order


def opinion(planes: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    out = planes.reshape(len(planes), -1) @ WEIGHTS
    return out[:, :7], np.tanh(out[:, 7])


def auto_player(
    management: TimeManagement = MANAGEMENT,
    evaluator: FunctionEvaluator | None = None,
    search: type[NetworkSearch] = NetworkSearch,
) -> AutoPlayer:
    evaluator, rng = evaluator or FunctionEvaluator(opinion), np.random.default_rng(0)
    first = NetworkSearch(evaluator, rng=rng, reuse="nothing")
    return AutoPlayer("net@auto", evaluator, first, search(evaluator, rng=rng, reuse="trees"), management)


def test_an_unsure_player_searches_every_move_and_the_best_ones_longer() -> None:
    result = auto_player().search([Position()])
    assert sorted(result.visits[0].tolist()) == [10, 10, 10, 10, 30, 80, 80]
    assert result.simulations[0] == 10 + 70 + 60 + 100
    assert result.visits[0, result.moves[0]] == 80
    assert result.value[0] == result.values[0, result.moves[0]] == np.nanmax(result.values[0, result.visits[0] == 80])
    assert result.wdl[0, 0] - result.wdl[0, 2] == pytest.approx(result.value[0])
    assert result.variations[0][0] == result.moves[0]


def test_a_sure_player_makes_no_second_search() -> None:
    sure = TimeManagement(simulations=10, decided_value=0.0)
    assert auto_player(sure).search([Position()]).simulations.tolist() == [10]
    found = auto_player().search([Position.from_moves("112233")])  # 4 wins
    assert found.moves.tolist() == [3]
    assert found.proven_wins.tolist() == [True]
    assert found.simulations[0] <= 10


def test_a_given_budget_limits_the_search() -> None:
    player = auto_player()
    assert isinstance(player, SearchingPlayer)
    result = player.search([Position(), Position.from_moves("44")], Budget(simulations=25))
    assert result.simulations.tolist() == [25, 25]


def test_results_do_not_depend_on_the_batch_or_on_mirroring() -> None:
    texts = ["43", "45", "1", "7", "4443", "112", "776"]
    positions = [Position.from_moves(text) for text in texts]
    player = auto_player()
    together = player.search(positions)
    alone = [auto_player().search([position]) for position in positions]
    assert together.moves.tolist() == [int(result.moves[0]) for result in alone]
    assert player.search(positions).moves.tolist() == together.moves.tolist()
    for left, right in ((0, 1), (2, 3), (5, 6)):
        assert together.moves[left] == 6 - together.moves[right]
        np.testing.assert_allclose(together.values[left], together.values[right, ::-1], atol=1e-5)


def test_the_longer_search_proves_further_wins_correctly() -> None:
    # The exact solver confirms them, in positions late enough for it.
    solver, player = Solver(), auto_player(TimeManagement(simulations=5, decided_value=2.0, rounds=((64, 300),)))
    positions = [position for position in random_positions(1500, np.random.default_rng(1)) if position.plies >= 22]
    result = player.search(positions)
    proven = result.proven_wins & (result.simulations > 5)
    assert proven.sum() >= 3
    for row in np.flatnonzero(proven):
        assert solver.solve(positions[row].play(int(result.moves[row]))) < 0


class _Staged(NetworkSearch):
    """Search with fixed values of the seven replies; in the second round, it proves that every searched reply wins."""

    def search(self, positions: Sequence[Position], budget: Budget, nodes: int = 200_000) -> SearchResult:
        found = super().search(positions, budget, nodes)
        for row, position in enumerate(positions):
            assert position.moves is not None
            found.value[row] = (0.1, 0.2, -0.5, -0.6, 0.3, 0.4, 0.5)[int(position.moves) - 1]
            if budget.simulations == 20:
                found.proofs[row] = 10
        return found


def test_a_move_proven_lost_is_not_played() -> None:
    management = TimeManagement(simulations=10, decided_value=0.99, rounds=((64, 10), (2, 20)))
    result = auto_player(management, search=_Staged).search([Position()])
    assert [int(column) for column in np.flatnonzero(result.proofs[0] < 0)] == [2, 3]
    assert result.moves.tolist() == [0]  # the next by value
    assert result.value[0] == pytest.approx(-0.1)


def test_moves_with_negligible_priors_are_found() -> None:
    puzzles = [puzzle for puzzle in packaged_puzzles() if puzzle.distance == 3]
    found = found_by_as_many = 0
    for puzzle in puzzles:  # only one move wins, and its prior is below 0.00001
        logits = np.where(np.arange(7) == puzzle.solution, -12, 0)
        evaluator = FunctionEvaluator(lambda planes, logits=logits: ([logits] * len(planes), [0] * len(planes)))
        result = auto_player(TimeManagement(), evaluator).search([puzzle.position])
        found += result.moves.tolist() == [puzzle.solution]
        plain = NetworkSearch(evaluator).search([puzzle.position], Budget(simulations=int(result.simulations[0])))
        found_by_as_many += plain.moves.tolist() == [puzzle.solution]
    assert found >= len(puzzles) - 2 > found_by_as_many + 5
