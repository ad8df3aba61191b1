"""`alphac4 search`: its report and drawing, and the board options of several commands."""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import alphac4
from alphac4.commands.arguments import read_arguments
from alphac4.commands.export import EngineCommand
from alphac4.commands.measure import ArenaCommand
from alphac4.commands.play import PlayCommand, SearchCommand, SolveCommand
from alphac4.game import Position, make_geometry
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.drawing import draw_tree
from alphac4.mcts.results import SearchedPosition
from alphac4.mcts.search import Budget


@pytest.fixture(scope="module")
def searched() -> UctSearch:
    search = UctSearch(rng=np.random.default_rng(0))
    search.search([Position.from_moves("44")], Budget(simulations=400))
    return search


def test_node_statistics_agree_with_the_edge_from_the_parent(searched: UctSearch) -> None:
    root = searched.node(0, [])
    edge = max(root.columns, key=lambda move: move.visits)
    child = searched.node(0, [edge.column])
    assert child.position.moves == f"44{edge.column + 1}"
    assert child.visits == edge.visits - 1  # the first visit evaluated the child itself
    edge_total = (edge.value or 0.0) * edge.visits
    below = sum((move.value or 0.0) * move.visits for move in child.columns)
    assert abs(edge_total + below) <= 1 + 1e-6  # the difference is that one rollout


def test_wdl_agrees_with_the_value() -> None:
    positions = [Position.from_moves("44"), Position.from_moves("4455")]  # the second is won in three plies
    result = UctSearch(rng=np.random.default_rng(0)).search(positions, Budget(simulations=400))
    np.testing.assert_allclose(result.wdl.sum(axis=1), 1)
    np.testing.assert_allclose(result.wdl[:, 0] - result.wdl[:, 2], result.value, atol=1e-9)
    assert result.wdl[1].tolist() == [1, 0, 0]
    text = SearchedPosition.of_result(positions[1], "uct", result, 1).table()
    assert "wins within 2 moves" in next(line for line in text.splitlines() if "*" in line)
    assert "win 100 %" in text


def test_table_shows_no_score_for_unvisited_columns() -> None:
    position = Position.from_moves("44")
    result = UctSearch(rng=np.random.default_rng(0)).search([position], Budget(simulations=3))
    table = SearchedPosition.of_result(position, "uct", result).table()
    for line, visits in zip(table.splitlines()[1:8], result.visits[0], strict=True):
        assert (line.split()[2] == "-", "-" in line.split()[4:5]) == (visits == 0, visits == 0)


def test_drawing_has_the_requested_depth_and_width(searched: UctSearch) -> None:
    root = ElementTree.fromstring(draw_tree(partial(searched.node, 0), depth=2, width=2))
    space = "{http://www.w3.org/2000/svg}"
    cards = [rect for rect in root.iter(f"{space}rect") if "card" in rect.get("class", "")]
    assert (len(cards), len(list(root.iter(f"{space}path")))) == (1 + 2 + 4, 2 + 4)


def test_drawing_names_the_side_of_each_move_and_value(searched: UctSearch) -> None:
    """Red, the first player, is to move after two moves."""
    root = ElementTree.fromstring(draw_tree(partial(searched.node, 0), depth=2, width=1))
    texts = [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]
    path: list[int] = []
    for _ in range(2):
        path.append(max(searched.node(0, path).columns, key=lambda move: move.visits).column)
    column, reply = (column + 1 for column in path)
    titles = [text for text in texts if " plays " in text or " to move" in text]
    assert sorted(titles) == sorted(["Red to move", f"Red plays {column}", f"Yellow plays {reply}"])
    assert sum(text.endswith(" for Red") for text in texts) == 2
    assert sum(text.endswith(" for Yellow") for text in texts) == 1


def test_search_command_prints_and_draws(tmp_path: Path, run_command: Callable[..., str]) -> None:
    picture = tmp_path / "tree.svg"
    assert "best line" in run_command("search 44 --player uct:200 --svg", picture)
    ElementTree.parse(picture)
    actual = json.loads(run_command("search 44 --player uct:200 --json"))
    expected = alphac4.load("uct:200", seed=0).search("44")
    assert actual["move"] == str(expected.move + 1)
    assert actual["value"] == expected.value
    assert [actual["win"], actual["draw"], actual["loss"]] == list(expected.wdl)
    assert actual["pv"] == [str(column + 1) for column in expected.pv]
    assert {name: item["visits"] for name, item in actual["columns"].items()} == {
        str(column + 1): item.visits for column, item in expected.columns.items()
    }
    small = run_command("search 12 --rows 4 --columns 4 --run-length 3")
    assert "x to move, uct:10000" in small  # the package has no network for this board


@pytest.mark.parametrize("command", [ArenaCommand, EngineCommand, PlayCommand, SearchCommand, SolveCommand])
def test_commands_accept_the_same_board_options(command: Any) -> None:
    words = ["--rows", "5", "--columns", "8", "--run-length", "3", "--no-diagonals"]
    options = read_arguments(command, words, "search")
    assert options.board.geometry() == make_geometry(5, 8, 3, False)
    assert read_arguments(command, [], "search").board.geometry() == make_geometry()
