"""Searches limited by time, with a clock that advances by one second whenever somebody looks at it."""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest

from alphac4.game import STANDARD, Position
from alphac4.mcts import network_search, search
from alphac4.mcts.classic import search as classic_search
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.classic.uct import UctConfig
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.search import Budget, TreeSearch
from alphac4.mcts.simulation import MAX_SIMULATIONS_PER_STEP
from alphac4.nn.evaluator import UniformEvaluator
from alphac4.selfplay.actor import Actor
from alphac4.selfplay.config import PRIOR_TEMPERATURE, SelfPlayConfig
from alphac4.selfplay.games import NEW_MOVE, advance, make_parameters, make_plan, restart_searches

DRAWN = Position.from_moves("15257261452643115367565214214636")  # column 2 soon is a proven draw, 3, 4 and 7 stay open
ENOUGH = 300_000  # simulations, so that a search that does not look at the clock ends as well


class Sure:
    """Puts everything on one column, and takes every position to be won by the side to move."""

    def __init__(self, column: int) -> None:
        self.column = column

    def evaluate(self, planes: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        logits = np.zeros((len(planes), 7), np.float32)
        logits[:, self.column] = 40.0
        return logits, np.tile(np.array([1, 0, 0], np.float32), (len(planes), 1))


def guided(column: int = 1, **options: object) -> NetworkSearch:
    """A search by somebody who is sure of a column."""
    return NetworkSearch(Sure(column), rng=np.random.default_rng(0), **options)  # type: ignore[arg-type]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times at which the clock was looked at so far."""
    times: list[float] = []

    def perf_counter() -> float:
        times.append(float(len(times)))
        return times[-1]

    for module in (search, network_search, classic_search):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=perf_counter))
    return times


@pytest.mark.parametrize("positions", [[DRAWN], [Position(), DRAWN, DRAWN]])
def test_a_search_whose_simulations_end_in_draws_looks_at_the_clock(
    positions: list[Position], looks: list[float]
) -> None:
    """Every few hundred simulations, and not only when the network is asked; so for each position of a batch.

    A kept tree is searched no longer, although it knows already that all of its simulations end in draws.
    """
    keeping = guided(reuse="trees")
    for _ in range(3):
        looks.clear()
        result = keeping.search(positions, Budget(simulations=ENOUGH, seconds=400))
        for position, simulations in zip(positions, result.simulations, strict=True):
            if position is DRAWN:
                assert 20_000 < simulations <= 402 * MAX_SIMULATIONS_PER_STEP
        assert len(looks) <= 402 * len(positions) + 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: UctSearch(rng=np.random.default_rng(0)),
        lambda: UctSearch(UctConfig(proofs=False, guards=False), rng=np.random.default_rng(0)),
        lambda: UctSearch(UctConfig(evaluation="chains", depth=0), rng=np.random.default_rng(0)),
        lambda: NetworkSearch(UniformEvaluator(), rng=np.random.default_rng(0)),
    ],
    ids=["uct", "plain uct", "evaluated uct", "puct"],
)
def test_a_time_budget_ends_the_search(make: Callable[[], TreeSearch], looks: list[float]) -> None:
    positions = [Position(), Position.from_moves("44"), DRAWN]
    result = make().search(positions, Budget(simulations=ENOUGH, seconds=20))
    assert ((result.simulations > 0) & (result.simulations < ENOUGH)).all()
    assert result.seconds >= 2 * 20  # all of the time for the first two; the third may be proven before
    assert len(looks) < 100


def test_without_time_for_a_single_visit_the_prior_decides(looks: list[float]) -> None:
    result = guided(4).search([Position()], Budget(seconds=0.5))
    assert result.visits.sum() == 0
    assert result.moves[0] == 4  # and not the leftmost one
    assert result.variations == [[4]]
    assert len(looks) <= 3


def test_a_drawn_game_of_selfplay_does_not_hold_up_the_others() -> None:
    """A slot walks a bounded number of simulations for each call to the network, and still ends its search."""
    config = SelfPlayConfig(full_simulations=5000, fast_simulations=5000, dirichlet_fraction=0.0)
    actor = Actor(STANDARD, config, Sure(1), 1, np.random.default_rng(0))
    trees, games = actor._trees, actor._games
    games.moves[0, : DRAWN.plies] = [int(name) - 1 for name in DRAWN.moves or ""]
    games.plies[0] = DRAWN.plies
    games.stage[0], games.left[0] = NEW_MOVE, 1
    trees.own[0], trees.occupied[0] = DRAWN.own, DRAWN.occupied
    planes = np.zeros((1, 2, 6, 7), np.float32)
    parameters, puct = make_parameters(config), config.puct(PRIOR_TEMPERATURE)
    plan = make_plan(STANDARD, config)
    restart_searches(trees, games, planes)
    done, most = 0, 0
    for _ in range(2000):
        logits, wdl = Sure(1).evaluate(planes)
        advance(trees, games, parameters, plan, puct, logits, wdl, planes, actor._cache)
        most = max(most, int(games.simulations[0]) - done)
        done = int(games.simulations[0])
        if games.plies[0] > DRAWN.plies:
            break
    assert games.plies[0] > DRAWN.plies
    assert done >= 5000
    assert most <= MAX_SIMULATIONS_PER_STEP
