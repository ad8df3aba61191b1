"""`alphac4 search`: its report and drawing, and the board options of several commands."""

import dataclasses
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import alphac4
from alphac4.commands.arguments import read_arguments
from alphac4.commands.measure import ArenaCommand
from alphac4.commands.play import PlayCommand, SearchCommand, SolveCommand
from alphac4.game import Position, make_board
from alphac4.mcts.classic.search import UctSearch
from alphac4.mcts.drawing import CARD_HEIGHT, draw_tree
from alphac4.mcts.results import ColumnAnalysis, NodeView, SearchResult, SearchResults, describe_columns, root_wdl
from alphac4.mcts.search import Budget
from alphac4.mcts.tree import ILLEGAL, PROVEN_DRAW, PROVEN_WIN, UNPROVEN

SVG = "{http://www.w3.org/2000/svg}"


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
    # In a reused tree, the draws may be more than the value allows.
    np.testing.assert_allclose(root_wdl(np.array(0.6), np.array(0.8)), [0.6, 0.4, 0.0])
    text = SearchResult.of_result(positions[1], "uct", result, 1).table()
    assert "wins within 2 moves" in next(line for line in text.splitlines() if "*" in line)
    assert "win 100 %" in text


# A search with Yellow to move. The second column is full, the third one was not visited.
SMALL = Position.from_moves("22213", make_board(3, 4, 3))
RESULT = SearchResults(
    moves=np.array([3]),
    visits=np.array([[1, 0, 0, 31]]),
    values=np.array([[-0.5, np.nan, np.nan, 0.25]]),
    priors=np.array([[0.125, 0, 0.25, 0.625]]),
    scores=np.array([[0.125, np.nan, 0.7, -0.375]]),
    proofs=np.array([[2 - PROVEN_WIN, ILLEGAL, UNPROVEN, UNPROVEN]]),
    value=np.array([0.2]),
    wdl=np.array([[0.5, 0.2, 0.3]]),
    simulations=np.array([1234]),
    seconds=0.5,
    variations=[[3, 0, 2]],
)
TABLE = """\
column  visits   value  prior   score
     1       1  -0.500  0.125  +0.125  loses in 1 move
     3       0       -  0.250       -
     4      31  +0.250  0.625  -0.375  *

value +0.200: win 50 %, draw 20 %, loss 30 %
best line 4 1 3
1,234 simulations in 0.50 s, 2,468 per second"""


def test_table_of_a_search() -> None:
    assert SearchResult.of_result(SMALL, "player", RESULT).table() == TABLE


def test_prior_is_unknown_where_the_rules_decide_the_position() -> None:
    """The search wins at once without asking the network; its policy alone does ask it."""
    agent = alphac4.load("quick", backend="torch-fp32")
    won, raw = agent.search("112233", simulations=20), agent.search("112233", simulations=0)
    assert [item.prior for item in won.columns.values()] == [None] * 7
    assert "4 0 - - - * wins in 1 move" in " ".join(won.table().split())
    assert raw.columns[3].prior > 0.9
    alphac4.draw_board("112233", [item.prior for item in won.columns.values()])


def test_an_outcome_is_proven_by_a_winning_move_or_by_all_moves() -> None:
    loss, win = 2 - PROVEN_WIN, PROVEN_WIN - 3
    proofs = [
        [win, UNPROVEN, ILLEGAL, loss],
        [PROVEN_DRAW, UNPROVEN, ILLEGAL, loss],
        [PROVEN_DRAW, loss, ILLEGAL, loss],
        [loss, loss - 2, ILLEGAL, loss - 2],
    ]
    result = dataclasses.replace(RESULT, moves=np.zeros(4, np.int64), proofs=np.array(proofs))
    assert [result.root_proof(row) for row in range(4)] == [win, UNPROVEN, PROVEN_DRAW, loss]
    assert result.chosen_moves_win.tolist() == [True, False, False, False]


def find_node(path: Sequence[int]) -> NodeView:
    """Return a node of that search's tree; a move that was proven immediately has none."""
    if path == [3, 3]:
        first = describe_columns(vars(RESULT), 0)[:1]
        return NodeView(position=SMALL.play(3).play(3), value=0, visits=9, columns=first)
    if path == []:
        return NodeView(position=SMALL, value=0.2, visits=32, columns=describe_columns(vars(RESULT), 0))
    if path != [3]:
        raise ValueError(path)
    moves = ((0, 20, -0.1, "draws"), (2, 1, 0.9, ""), (3, 9, None, "wins within 3 moves"))
    columns = [
        ColumnAnalysis(column=c, visits=n, visit_share=n / 30, prior=0, value=value, score=None, proof=proof)
        for c, n, value, proof in moves
    ]
    return NodeView(position=SMALL.play(3), value=-0.25, visits=30, columns=tuple(columns))


def read_drawing(svg: str) -> list[tuple[str, str, str, str, str]]:
    """Return the cards from left to right: width of the edge to it, class, board, stone and texts."""
    cards, edges = dict[tuple[float, float], ElementTree.Element](), dict[tuple[float, float], str]()

    def walk(group: ElementTree.Element, x: float, y: float) -> None:
        for item in group:
            if item.tag == f"{SVG}path":
                right, down = map(float, item.get("d", "").split()[-2:])
                edges[x + right, y + down] = item.get("stroke-width", "")
            elif item.tag == f"{SVG}rect" and "card" in item.get("class", ""):
                cards[x, y + CARD_HEIGHT / 2] = group
            elif item.tag == f"{SVG}g":
                right, down = map(float, item.get("transform", "").removeprefix("translate(").rstrip(")").split())
                walk(item, x + right, y + down)

    walk(ElementTree.fromstring(svg), 0, 0)
    described = []
    for place, card in sorted(cards.items()):
        *cells, stone = card.iter(f"{SVG}circle")
        rows: dict[float, dict[float, str]] = {}
        for cell in cells:
            row = rows.setdefault(float(cell.get("cy", "")), {})
            row[float(cell.get("cx", ""))] = {"empty": ".", "x": "x", "o": "o"}[cell.get("class", "")]
        board = "/".join("".join(row[x] for x in sorted(row)) for _, row in sorted(rows.items()))
        texts = "; ".join(text.text for text in card.iter(f"{SVG}text") if text.text)
        described.append((edges.get(place, ""), card[0].get("class", ""), board, stone.get("class", ""), texts))
    return described


def test_drawing_of_a_search() -> None:
    """The widths of the edges are 1 + 7 times the shares of the visits: 1 / 32, 31 / 32, 20 / 30 and 9 / 30."""
    cards = [
        ("", "card", ".x../.o../oxx.", "o", "Yellow to move; 32 visits; +0.20 for Yellow"),
        ("1.2", "card", ".x../oo../oxx.", "o", "Yellow plays 1; 1 visit; -0.50 for Yellow; loses in 1 move"),
        ("7.8", "card best", ".x../.o../oxxo", "o", "Yellow plays 4; 31 visits; +0.25 for Yellow"),
        ("5.7", "card best", ".x../xo../oxxo", "x", "Red plays 1; 20 visits; -0.10 for Red; draws"),
        ("3.1", "card", ".x../.o.x/oxxo", "x", "Red plays 4; 9 visits; wins within 3 moves"),
    ]
    third = (
        "1.2",
        "card best",
        ".x../oo.x/oxxo",
        "o",
        "Yellow plays 1; 1 visit; -0.50 for Yellow; loses in 1 move",
    )
    assert read_drawing(draw_tree(find_node, depth=2, width=2)) == cards
    assert read_drawing(draw_tree(find_node, depth=3, width=2)) == [*cards, third]


def test_search_command_prints_and_draws(tmp_path: Path, run_command: Callable[..., str]) -> None:
    picture = tmp_path / "tree.svg"
    assert "best line" in run_command("search 44 --player uct:200 --svg", picture)
    ElementTree.parse(picture)
    actual = json.loads(run_command("search 44 --player uct:200 --json"))
    expected = alphac4.load("uct:200", seed=0).search("44")
    assert actual == {**expected.to_dict(), "seconds": actual["seconds"]}
    assert actual["move"] == str(expected.move + 1)
    assert actual["value"] == expected.value
    assert [actual["win"], actual["draw"], actual["loss"]] == list(expected.wdl)
    assert actual["pv"] == [str(column + 1) for column in expected.pv]
    assert {name: item["visits"] for name, item in actual["columns"].items()} == {
        str(column + 1): item.visits for column, item in expected.columns.items()
    }
    small = run_command("search 12 --rows 4 --columns 4 --run-length 3")
    assert "x to move, uct:10000" in small  # the package has no network for this board


@pytest.mark.parametrize("command", [ArenaCommand, PlayCommand, SearchCommand, SolveCommand])
def test_commands_accept_the_same_board_options(command: Any) -> None:
    words = ["--rows", "5", "--columns", "8", "--run-length", "3", "--no-diagonals"]
    options = read_arguments(command, words, "search")
    assert options.board.make() == make_board(5, 8, 3, False)
    assert read_arguments(command, [], "search").board.make() == make_board()
