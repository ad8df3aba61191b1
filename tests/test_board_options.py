"""The board on the command line: the same options everywhere, and the names that they had before."""

from typing import Any

import pytest
import tyro

from alphac4.commands import arena, engine, play, search, solve
from alphac4.game import make_geometry

COMMANDS: dict[str, Any] = {
    "arena": arena.ArenaOptions,
    "engine": engine.EngineCommandOptions,
    "play": play.PlayOptions,
    "search": search.SearchOptions,
    "solve": solve.SolveOptions,
}


def parsed(options: Any, *arguments: str) -> Any:
    """The options that these arguments give."""
    return tyro.cli(options, args=list(arguments))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_the_board_alike(name: str) -> None:
    """Rows, columns, run length and diagonals, all of them with the standard board's as defaults."""
    given = parsed(COMMANDS[name], "--rows", "5", "--columns", "8", "--run-length", "3", "--no-diagonals")
    assert given.board.geometry() == make_geometry(5, 8, 3, False)
    assert parsed(COMMANDS[name]).board.geometry() == make_geometry()


def test_solve_still_takes_its_earlier_options(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """--width was the number of columns, and --columns asked for a score of each."""
    seen: list[solve.SolveOptions] = []
    monkeypatch.setattr(solve, "run", lambda options: seen.append(options) or 0)
    for arguments in (
        ["--rows", "4", "--width", "5"],
        ["--batch", "--columns"],
        ["--columns", "--batch", "--columns", "5"],
        ["--batch", "--column-scores"],
    ):
        assert solve.main(arguments) == 0
    assert [options.board.columns for options in seen] == [5, 7, 5, 7]
    assert [options.column_scores for options in seen] == [False, True, True, True]
    assert capsys.readouterr().err == ""


def test_search_still_takes_the_width_of_its_drawing() -> None:
    """--width was what --branches is."""
    assert parsed(search.SearchOptions, "--width", "2").branches == 2
    assert parsed(search.SearchOptions, "--branches", "4").branches == 4


def test_search_asks_the_shipped_network_where_it_knows_the_board(monkeypatch: Any) -> None:
    """As the other commands do; on other boards classic search."""
    asked: list[str] = []

    def refuse(specification: str, **_: object) -> None:
        asked.append(specification)
        raise ValueError("seen")

    monkeypatch.setattr(search, "parse_searching_player", refuse)
    for arguments in ([], ["--rows", "5"], ["--player", "fast@50"]):
        with pytest.raises(ValueError, match="seen"):
            search.main(arguments)
    assert asked == ["best@600", "uct:10000", "fast@50"]
