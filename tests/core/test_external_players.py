import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import run_python

import alphac4
from alphac4.arena import PlayerError
from alphac4.arena.players import SearchingPlayer
from alphac4.arena.registry import parse_player
from alphac4.arena.tournament import PAIRS_PER_PART, Tournament, play_round_robin
from alphac4.cli import main
from alphac4.game import STANDARD, Position, make_board

MODULE = """
class Leftmost:
    def __init__(self, board, rng, shift=0, style="plain"):
        self.name = f"leftmost {shift} {style} {board.columns}"
        self.shift = shift
        rng.integers(2)

    def choose(self, positions):
        return [position.legal_columns()[self.shift] for position in positions]


def anything(**given):
    player = Leftmost.__new__(Leftmost)
    player.name = ",".join(sorted(given))
    return player


class Unpicklable(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} of {second}")


class Failing:
    name = "failing"

    def choose(self, positions):
        raise Unpicklable("the end", "the world")


def broken():
    raise KeyError("no idea\\nat all")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_players").mkdir()
    (tmp_path / "own_players" / "left.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.startswith("own_players")]:
        monkeypatch.delitem(sys.modules, name)
    return "own_players.left"


def test_a_users_class_or_function_creates_a_player(module: str, rng: np.random.Generator) -> None:
    # The class gets the offered arguments that it has parameters for, and those of the specification: literals or text.
    small = make_board(5, 6)
    player = parse_player(f"{module}:Leftmost,shift=2,style=wild", rng=rng, board=small)
    assert player.name == "leftmost 2 wild 6"
    assert player.choose([Position(board=small)]) == [2]
    assert not isinstance(player, SearchingPlayer)
    for written, name in (("", "board,rng,threads"), ("@0.5s,depth=3", "board,budget,depth,rng,threads")):
        assert parse_player(f"{module}:anything{written}", rng=rng).name == name


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("MODULE:Missing", "has no attribute 'Missing'"),
        ("MODULE:broken", "cannot be created: KeyError: 'no idea"),
        ("MODULE:Leftmost@600", "takes no budget"),
        # An argument that names a network file does not make it a network.
        ("no_such_module:Own,path=net.safetensors", "No module named 'no_such_module'"),
    ],
)
def test_a_player_that_cannot_be_created_raises_an_error_of_one_line(
    module: str, written: str, message: str, rng: np.random.Generator
) -> None:
    specification = written.replace("MODULE", module)
    with pytest.raises(PlayerError, match=message) as error:
        parse_player(specification, rng=rng, board=STANDARD)
    assert specification in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_errors_of_a_player_in_a_process_are_reported(module: str) -> None:
    tournament = Tournament(players=(f"{module}:Failing", "random"), pairs=2 * PAIRS_PER_PART)
    with pytest.raises(RuntimeError, match="Unpicklable: the end of the world"):
        play_round_robin(tournament, processes=2)


def test_json_does_not_contain_the_output_of_a_player(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odd.py").write_text(
        "class Talking:\n"
        "    name = 'talking'\n"
        "    def choose(self, positions):\n"
        "        print('thinking')\n"
        "        return [position.legal_columns()[0] for position in positions]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["arena", "odd:Talking", "random", "--games", "2", "--processes", "1", "--json"]) == 0
    output = capsys.readouterr()
    json.loads(output.out)
    assert "thinking" in output.err


def test_the_arena_imports_modules_from_the_current_folder(module: str, tmp_path: Path) -> None:
    """Python does not search that folder by itself for the installed command."""
    code = f"import sys; sys.path.remove(''); sys.argv[1:] = ['arena', '{module}:Leftmost', 'random', '--games', '2']"
    code += "; from alphac4.cli import main; raise SystemExit(main())"
    environment = os.environ | {"PYTHONPATH": str(Path(alphac4.__file__).parents[1])}
    printed = run_python(code, cwd=tmp_path, env=environment).stdout
    assert "leftmost 0 plain 7" in printed or "Leftmost" in printed
