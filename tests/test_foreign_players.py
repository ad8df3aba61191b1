import sys
from pathlib import Path

import numpy as np
import pytest

from alphac4.arena.players import PlayerError, as_searching
from alphac4.arena.specifications import parse_player
from alphac4.game import STANDARD, Position, make_geometry
from alphac4.mcts import Budget

MODULE = '''
class Leftmost:
    """Plays the leftmost column, or another one."""

    def __init__(self, geometry, rng, shift=0, style="plain"):
        self.name = f"leftmost {shift} {style} {geometry.columns}"
        self.shift = shift
        rng.integers(2)

    def choose(self, positions):
        return [position.legal_columns()[self.shift] for position in positions]


def limited(budget):
    player = Leftmost.__new__(Leftmost)
    player.name, player.shift = str(budget), 0
    return player


def anything(**given):
    player = Leftmost.__new__(Leftmost)
    player.name, player.shift = ",".join(sorted(given)), 0
    return player


def broken():
    raise KeyError("no idea\\nat all")


def nobody():
    return 7
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder."""
    (tmp_path / "own_players").mkdir()
    (tmp_path / "own_players" / "left.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    for name in [name for name in sys.modules if name.startswith("own_players")]:
        monkeypatch.delitem(sys.modules, name)
    return "own_players.left"


def test_a_class_of_ones_own_is_a_player(module: str, rng: np.random.Generator) -> None:
    """It gets the arguments that it has parameters for: offered ones, and those written as Python or as text."""
    player = parse_player(f"{module}:Leftmost,shift=2,style=wild", rng=rng, geometry=make_geometry(5, 6))
    assert player.name == "leftmost 2 wild 6"
    assert player.choose([Position(geometry=make_geometry(5, 6))]) == [2]
    assert as_searching(player) is None


def test_a_function_may_take_a_budget_or_everything(module: str, rng: np.random.Generator) -> None:
    """The budget only where one is written."""
    assert parse_player(f"{module}:limited@0.5s", rng=rng).name == str(Budget(seconds=0.5))
    assert parse_player(f"{module}:anything", rng=rng).name == "geometry,rng,threads"
    assert parse_player(f"{module}:anything@9,depth=3", rng=rng).name == "budget,depth,geometry,rng,threads"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("{}:Missing", "has no Missing"),
        ("{}s:Leftmost", "cannot be imported: ModuleNotFoundError"),
        ("{}:broken", "broken failed: KeyError: 'no idea"),
        ("{}:nobody", "makes a int; a player has a name"),
        ("{}:Leftmost@600", "takes no budget"),
        ("{}:Leftmost@x", "'x' is no budget"),
        ("{}:Leftmost,speed=3", "takes geometry, rng, shift, style, not speed"),
        ("{}:Leftmost,3", "name=value, not '3'"),
        ("{}:__name__", "cannot be called"),
        ("random:Leftmost", "unknown player"),
    ],
)
def test_what_is_no_player_is_reported_in_one_line(
    module: str, written: str, told: str, rng: np.random.Generator
) -> None:
    """With the specification, and without a traceback of somebody else's code."""
    specification = written.format(module)
    with pytest.raises(PlayerError, match=told) as error:
        parse_player(specification, rng=rng, geometry=STANDARD)
    assert specification in str(error.value)
    assert "\n" not in str(error.value)
