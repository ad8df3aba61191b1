import importlib
import random
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from alphac4.arena.players import NetworkPlayer
from alphac4.arena.specifications import parse_player
from alphac4.game import Position, make_geometry
from alphac4.game.planes import make_planes
from alphac4.mcts import Budget
from alphac4.nn.evaluator import UniformEvaluator

MODULE = "alphac4.integrations.openspiel"


class StubState:
    """A state of OpenSpiel's ``connect_four`` as far as a bot sees it."""

    def __init__(self, actions: Sequence[int] = (), game: str = "connect_four", **parameters: int) -> None:
        self.actions = list(actions)
        self.game = SimpleNamespace(
            get_type=lambda: SimpleNamespace(short_name=game), get_parameters=lambda: dict(parameters)
        )

    def get_game(self) -> Any:
        """The game."""
        return self.game

    def history(self) -> list[int]:
        """All actions so far."""
        return self.actions

    def current_player(self) -> int:
        """Who is to move."""
        return len(self.actions) % 2

    def legal_actions(self) -> list[int]:
        """Columns that are not full."""
        return [action for action in range(7) if self.actions.count(action) < 6]


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The adapter on a stub of pyspiel."""
    stub = ModuleType("pyspiel")
    stub.Bot = type("Bot", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspiel", stub)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield importlib.import_module(MODULE)
    sys.modules.pop(MODULE, None)


@pytest.fixture
def pyspiel() -> Any:
    """The real package."""
    return pytest.importorskip("pyspiel")


def test_reads_the_moves_of_a_state(stubbed: Any) -> None:
    """OpenSpiel's actions are our 0-based columns; the history gives the position its moves."""
    position = stubbed.position_from_state(StubState([3, 3, 0, 6]))
    assert position == Position.from_moves("4417")
    assert position.moves == "4417"


def test_plays_on_the_states_board(stubbed: Any) -> None:
    """Rows, columns and run length are the game's parameters."""
    geometry = stubbed.position_from_state(StubState(rows=5, columns=6, x_in_row=3)).geometry
    assert (geometry.rows, geometry.columns, geometry.run_length) == (5, 6, 3)


def test_takes_a_win_and_says_so_in_its_policy(stubbed: Any, rng: np.random.Generator) -> None:
    """The chosen action has all the probability; full columns are not among the legal actions."""
    ours = stubbed.OpenSpielBot(parse_player("negamax:2", rng=rng), player_id=0)
    state = StubState([0, 6, 1, 6, 2, 6, 6, 5, 5, 6, 4, 6])
    policy, action = ours.step_with_policy(state)
    assert ours.step(state) == action == 3
    assert policy == ours.get_policy(state) == [(column, float(column == 3)) for column in range(6)]
    assert ours.player_id() == 0
    assert ours.provides_policy()


def test_refuses_to_move_out_of_turn_or_in_another_game(stubbed: Any, rng: np.random.Generator) -> None:
    """A bot for player 1 at player 0's turn; any other game."""
    ours = stubbed.OpenSpielBot(parse_player("random", rng=rng), player_id=1)
    with pytest.raises(ValueError, match="not to move"):
        ours.step(StubState())
    with pytest.raises(ValueError, match="connect_four, not othello"):
        ours.step(StubState([3], game="othello"))


def test_a_missing_package_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that says what to install."""
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    with pytest.raises(ImportError, match=r"pip install 'alphac4\[openspiel\]'"):
        importlib.import_module(MODULE)


def test_wins_whole_games_among_openspiels_bots(pyspiel: Any, rng: np.random.Generator) -> None:
    """Against random moves, on either side, and on another board."""
    for rows, columns, run in ((6, 7, 4), (5, 5, 3)):
        game = pyspiel.load_game("connect_four", {"rows": rows, "columns": columns, "x_in_row": run})
        player = parse_player("uct:300", rng=rng, geometry=make_geometry(rows, columns, run), threads=1)
        for side in (0, 1):
            bots = [pyspiel.make_uniform_random_bot(number, 5) for number in (0, 1)]
            bots[side] = importlib.import_module(MODULE).OpenSpielBot(player, side)
            assert pyspiel.evaluate_bots(game.new_initial_state(), bots, 3)[side] == 1.0


def test_openspiels_search_can_play_through_our_bot(pyspiel: Any, rng: np.random.Generator) -> None:
    """The position keeps its moves, which OpenSpiel's search needs to replay them."""
    make = importlib.import_module(MODULE).OpenSpielBot
    bots = [make(parse_player(name, rng=rng), side) for side, name in enumerate(("openspiel:50", "random"))]
    assert pyspiel.evaluate_bots(pyspiel.load_game("connect_four").new_initial_state(), bots, 0)[0] == 1.0


def test_both_sides_are_played_by_one_player(pyspiel: Any, rng: np.random.Generator) -> None:
    """A game against itself ends, and its result is one for both."""
    player = NetworkPlayer("uniform", UniformEvaluator(), Budget(simulations=50), rng)
    make = importlib.import_module(MODULE).OpenSpielBot
    state = pyspiel.load_game("connect_four").new_initial_state()
    assert sum(pyspiel.evaluate_bots(state, [make(player, 0), make(player, 1)], 0)) == 0.0


def test_its_observation_tensor_holds_our_planes(pyspiel: Any) -> None:
    """Bottom row first as ours, by player instead of by side to move, with the empty cells in a third plane."""
    game, draws = pyspiel.load_game("connect_four"), random.Random(1)
    position_from_state = importlib.import_module(MODULE).position_from_state
    state = game.new_initial_state()
    while not state.is_terminal():
        tensor = np.array(state.observation_tensor(0), np.float32).reshape(game.observation_tensor_shape())
        position = position_from_state(state)
        ours = make_planes(position.geometry, np.array([position.own]), np.array([position.occupied]))[0]
        by_player = ours if state.current_player() == 0 else ours[::-1]
        np.testing.assert_array_equal(tensor[:2], by_player)
        np.testing.assert_array_equal(tensor[2], 1 - ours.sum(axis=0))
        state.apply_action(draws.choice(state.legal_actions()))
