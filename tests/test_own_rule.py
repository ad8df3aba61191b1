"""Rules of selection that come from outside the package."""

import math
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from alphac4.game import Position
from alphac4.mcts import Budget, NetworkSearch, NodeTotals, PuctConfig, scores_actions
from alphac4.mcts.tree import Trees

POSITIONS = [Position.from_moves(moves) for moves in ("", "44", "4455", "112233")]


class Opinionated:
    """Other logits for every column, and an even value."""

    def evaluate(self, planes: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """See `alphac4.mcts.network_search.Evaluate`."""
        count = len(planes)
        return np.tile(np.arange(7, dtype=np.float32) / 3, (count, 1)), np.full((count, 3), 1 / 3, np.float32)


class FollowsPrior(NamedTuple):
    """Tries whatever falls furthest behind its prior, without a look at values."""

    prior_temperature: float = 1.0


@scores_actions(FollowsPrior)
def deficit(trees: Trees, t: int, node: int, action: int, totals: NodeTotals, _parameters: FollowsPrior) -> float:
    """The visits that the prior allots, less those that the action has."""
    allotted = np.full(1, trees.prior[t, node, action] * (totals.visits + 1))  # a rule may make arrays
    return allotted[0] - trees.visits[t, node, action]  # type: ignore[no-any-return]


class PuctAgain(NamedTuple):
    """The package's own rule, written down once more."""

    c_init: float = 1.25
    prior_temperature: float = 1.4


@scores_actions(PuctAgain)
def again(trees: Trees, t: int, node: int, action: int, totals: NodeTotals, parameters: PuctAgain) -> float:
    """PUCT with the default numbers."""
    visits = trees.visits[t, node, action]
    value = totals.value_sum / (1.0 + totals.visits) - (0.25 if node > 0 else 0.0) * math.sqrt(totals.visited_prior)
    if visits > 0:
        value = trees.value_sum[t, node, action] / visits
    if trees.proof[t, node, action] == 0:
        value = 0.0
    weight = parameters.c_init + math.log((1.0 + totals.visits + 19652.0) / 19652.0)
    return value + weight * math.sqrt(totals.visits + 1.0) * trees.prior[t, node, action] / (1.0 + visits)


@pytest.mark.slow
def test_a_rule_of_ones_own_decides_what_is_tried() -> None:
    """Visits follow the priors to within one, and the scores shown are those of the rule."""
    search = NetworkSearch(Opinionated(), FollowsPrior(), rng=np.random.default_rng(0))
    result = search.search([Position()], Budget(simulations=300))
    np.testing.assert_allclose(result.visits[0], 300 * result.priors[0], atol=1.0)
    np.testing.assert_allclose(result.scores[0], 301 * result.priors[0] - result.visits[0], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_puct_written_down_again_makes_the_same_visits() -> None:
    """The hook costs a rule nothing of what the package's own can do."""
    for kind in (PuctConfig(), PuctAgain()):
        search = NetworkSearch(Opinionated(), kind, rng=np.random.default_rng(0))
        result = search.search(POSITIONS, Budget(simulations=200))
        if isinstance(kind, PuctConfig):
            expected = result
    np.testing.assert_array_equal(result.visits, expected.visits)
    np.testing.assert_allclose(result.scores, expected.scores, rtol=1e-6)


class WithoutRule(NamedTuple):
    """Forgot to register a score."""

    prior_temperature: float = 1.0


def test_parameters_without_a_rule_are_refused_in_one_line() -> None:
    """Not in the words of the compiler, in the middle of a search."""
    with pytest.raises(ValueError, match="no rule of selection is registered for WithoutRule"):
        NetworkSearch(Opinionated(), WithoutRule(), rng=np.random.default_rng(0))


PROGRAM = """
from typing import NamedTuple
import numpy as np
from alphac4.game import Position
from alphac4.mcts import Budget, NetworkSearch, scores_actions
from alphac4.nn import UniformEvaluator

class Favourite(NamedTuple):
    column: int
    prior_temperature: float = 1.0

@scores_actions(Favourite)
def score(trees, t, node, action, totals, parameters):
    return SCORE

search = NetworkSearch(UniformEvaluator(), Favourite(5), rng=np.random.default_rng(0))
print(search.search([Position()], Budget(simulations=20)).moves[0])
"""


@pytest.mark.slow
def test_an_edited_rule_is_compiled_anew(tmp_path: Path) -> None:
    """What Numba keeps on disk is neither used for a program's own rule nor spoilt by it for other programs."""
    script = tmp_path / "own.py"
    answers = []
    for score in ("1.0 if action == parameters.column else 0.0", "-1.0 if action == parameters.column else -action"):
        script.write_text(PROGRAM.replace("SCORE", score))
        ran = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert ran.returncode == 0, ran.stderr
        answers.append(int(ran.stdout))
    assert answers == [5, 0]
    ordinary = NetworkSearch(Opinionated(), rng=np.random.default_rng(0)).search(POSITIONS[:1], Budget(simulations=20))
    assert ordinary.simulations[0] == 20
