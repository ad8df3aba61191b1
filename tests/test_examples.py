import runpy
import sys
from pathlib import Path

import pytest

from alphac4.cli import main

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
EXPECTED = {
    "ten_lines": "the exact score of the position is 18",
    "own_player": "cautious against random: 4 won",
    "own_evaluator": "lines, 100 simulations, against random: 2 won",
    "own_puct": "fast@10,AlphaGoZero against the usual rule: ",
    "own_policy_target": "Trained 1 iterations in",
}


def test_every_example_is_run_here() -> None:
    """None is left out."""
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize(
    "name", ["own_player", *(pytest.param(name, marks=pytest.mark.slow) for name in EXPECTED if name != "own_player")]
)
def test_examples_do_what_they_say(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From any folder, with settings that take seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--fast"])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert EXPECTED[name] in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_the_own_player_plays_on_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its file says, from the folder of the examples' folder."""
    monkeypatch.chdir(EXAMPLES.parent)
    players = ["examples.own_player:Cautious", "random"]
    assert main(["arena", *players, "--games", "4", "--processes", "1"]) == 0
    assert "examples.own_player:Cautious v. random: 4 won" in capsys.readouterr().out
