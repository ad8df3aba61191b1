import importlib
import sys
from typing import Any

import numpy as np
import pytest

from alphac4.arena.players import PlayerError
from alphac4.arena.specifications import parse_player
from alphac4.game import Position, make_geometry

MODULE = "alphac4.integrations.openspiel"


@pytest.fixture
def pyspiel() -> Any:
    return pytest.importorskip("pyspiel")


@pytest.fixture
def adapter(pyspiel: Any) -> Any:  # noqa: ARG001 - which it imports
    return importlib.import_module(MODULE)


def play(game: Any, *actions: int) -> Any:
    state = game.new_initial_state()
    for action in actions:
        state.apply_action(action)
    return state


def test_a_state_is_read_with_its_moves_and_its_board(pyspiel: Any, adapter: Any) -> None:
    position = adapter.position_from_state(play(pyspiel.load_game("connect_four"), 3, 3, 0, 6))
    assert position == Position.from_moves("4417")
    assert position.moves == "4417"
    game = pyspiel.load_game("connect_four", {"rows": 5, "columns": 6, "x_in_row": 3})
    geometry = adapter.position_from_state(play(game)).geometry
    assert (geometry.rows, geometry.columns, geometry.run_length) == (5, 6, 3)


def test_takes_a_win(pyspiel: Any, adapter: Any, rng: np.random.Generator) -> None:
    ours = adapter.OpenSpielBot(parse_player("negamax:2", rng=rng), player_id=0)
    state = play(pyspiel.load_game("connect_four"), 0, 6, 1, 6, 2, 6, 6, 5, 5, 6, 4, 6)
    assert ours.step(state) == 3


def test_refuses_to_move_out_of_turn_or_in_another_game(pyspiel: Any, adapter: Any, rng: np.random.Generator) -> None:
    ours = adapter.OpenSpielBot(parse_player("random", rng=rng), player_id=1)
    with pytest.raises(ValueError, match="not to move"):
        ours.step(play(pyspiel.load_game("connect_four")))
    with pytest.raises(ValueError, match="connect_four, not tic_tac_toe"):
        ours.step(play(pyspiel.load_game("tic_tac_toe"), 3))


def test_a_missing_package_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    with pytest.raises(ImportError, match=r"setup\.sh openspiel"):
        importlib.import_module(MODULE)
    with pytest.raises(PlayerError, match=r"^openspiel needs .*setup.sh openspiel$"):
        parse_player("openspiel:100", rng=np.random.default_rng(0))


def test_wins_whole_games_among_openspiels_bots(pyspiel: Any, adapter: Any, rng: np.random.Generator) -> None:
    for rows, columns, run in ((6, 7, 4), (5, 5, 3)):
        game = pyspiel.load_game("connect_four", {"rows": rows, "columns": columns, "x_in_row": run})
        player = parse_player("uct:300", rng=rng, geometry=make_geometry(rows, columns, run), threads=1)
        for side in (0, 1):
            bots = [pyspiel.make_uniform_random_bot(number, 5) for number in (0, 1)]
            bots[side] = adapter.OpenSpielBot(player, side)
            assert pyspiel.evaluate_bots(game.new_initial_state(), bots, 3)[side] == 1.0
