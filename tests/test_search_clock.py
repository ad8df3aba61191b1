"""Searches with time budgets, on a clock that advances by one second whenever it is read."""

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

# Column 2 soon is a proven draw; columns 3, 4 and 7 stay unproven.
DRAWN = Position.from_moves("15257261452643115367565214214636")
MAX_SIMULATIONS = 300_000  # ends a search that does not read the clock


class OneColumnEvaluator:
    """Evaluator with all prior on one column, for which every position is won by the side to move."""

    def __init__(self, column: int) -> None:
        self.column = column

    def evaluate(self, planes: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        logits = np.zeros((len(planes), 7), np.float32)
        logits[:, self.column] = 40.0
        return logits, np.tile(np.array([1, 0, 0], np.float32), (len(planes), 1))


def guided(column: int = 1, **options: object) -> NetworkSearch:
    """Return a search with all prior on one column."""
    return NetworkSearch(OneColumnEvaluator(column), rng=np.random.default_rng(0), **options)  # type: ignore[arg-type]


@pytest.fixture
def clock_reads(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the times at which the clock has been read."""
    times: list[float] = []

    def perf_counter() -> float:
        times.append(float(len(times)))
        return times[-1]

    for module in (search, network_search, classic_search):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=perf_counter))
    return times


@pytest.mark.parametrize("positions", [[DRAWN], [Position(), DRAWN, DRAWN]])
def test_search_with_proven_draws_only_reads_the_clock(positions: list[Position], clock_reads: list[float]) -> None:
    """The clock is read every few hundred simulations, even without calls of the network, for each position of a batch.

    This also holds for reused trees, in which all simulations end in proven draws from the start.
    """
    keeping = guided(reuse="trees")
    for _ in range(3):
        clock_reads.clear()
        result = keeping.search(positions, Budget(simulations=MAX_SIMULATIONS, seconds=400))
        for position, simulations in zip(positions, result.simulations, strict=True):
            if position is DRAWN:
                assert 20_000 < simulations <= 402 * MAX_SIMULATIONS_PER_STEP
        assert len(clock_reads) <= 402 * len(positions) + 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: UctSearch(rng=np.random.default_rng(0)),
        lambda: UctSearch(UctConfig(proofs=False, decisive_moves=False), rng=np.random.default_rng(0)),
        lambda: UctSearch(UctConfig(evaluation="chains", rollout_depth=0), rng=np.random.default_rng(0)),
        lambda: NetworkSearch(UniformEvaluator(), rng=np.random.default_rng(0)),
    ],
    ids=["uct", "plain uct", "evaluated uct", "puct"],
)
def test_time_budget_ends_the_search(make: Callable[[], TreeSearch], clock_reads: list[float]) -> None:
    positions = [Position(), Position.from_moves("44"), DRAWN]
    result = make().search(positions, Budget(simulations=MAX_SIMULATIONS, seconds=20))
    assert ((result.simulations > 0) & (result.simulations < MAX_SIMULATIONS)).all()
    assert result.seconds >= 2 * 20  # the first two positions use all of their time; the third may be proven earlier
    assert len(clock_reads) < 100


def test_search_without_time_for_a_visit_plays_the_highest_prior(clock_reads: list[float]) -> None:
    result = guided(4).search([Position()], Budget(seconds=0.5))
    assert result.visits.sum() == 0
    assert result.moves[0] == 4  # not the leftmost column
    assert result.variations == [[4]]
    assert len(clock_reads) <= 3


def test_drawn_selfplay_game_does_not_block_other_slots() -> None:
    """A slot runs a bounded number of simulations per call of the network, and its search still ends."""
    config = SelfPlayConfig(full_simulations=5000, fast_simulations=5000, dirichlet_fraction=0.0)
    actor = Actor(STANDARD, config, OneColumnEvaluator(1), 1, np.random.default_rng(0))
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
        logits, wdl = OneColumnEvaluator(1).evaluate(planes)
        advance(trees, games, parameters, plan, puct, logits, wdl, planes, actor._cache)
        most = max(most, int(games.simulations[0]) - done)
        done = int(games.simulations[0])
        if games.plies[0] > DRAWN.plies:
            break
    assert games.plies[0] > DRAWN.plies
    assert done >= 5000
    assert most <= MAX_SIMULATIONS_PER_STEP
