import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from alphac4.cli import main
from alphac4.game import Position
from alphac4.mcts.drawing import draw_tree
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.report import describe_search
from alphac4.mcts.search import Budget
from alphac4.mcts.uct_search import UctSearch
from alphac4.nn import UniformEvaluator


def searched(moves: str, simulations: int = 400) -> tuple[UctSearch, object]:
    """A classic search of one position."""
    search = UctSearch(rng=np.random.default_rng(0))
    return search, search.search([Position.from_moves(moves)], Budget(simulations=simulations))


def test_puct_scores_by_hand() -> None:
    """After one round with equal priors: Q + 1.25 (1/7) sqrt(N + 1) / (1 + n), from the shown visits and values."""
    search = NetworkSearch(UniformEvaluator(), rng=np.random.default_rng(0))
    result = search.search([Position()], Budget(simulations=50))
    visits = result.visits[0]
    weight = 1.25 + np.log((1 + visits.sum() + 19652) / 19652)
    expected = result.values[0] + weight / 7 * np.sqrt(visits.sum() + 1) / (1 + visits)
    np.testing.assert_allclose(result.scores[0], expected, rtol=1e-4)


def test_win_draw_loss_adds_up_and_carries_the_value() -> None:
    """Shares are probabilities whose difference is the value; a proven win is certain."""
    search = UctSearch(rng=np.random.default_rng(0))
    result = search.search([Position.from_moves("44"), Position.from_moves("4455")], Budget(simulations=400))
    np.testing.assert_allclose(result.wdl.sum(axis=1), 1)
    np.testing.assert_allclose(result.wdl[:, 0] - result.wdl[:, 2], result.value, atol=1e-9)
    assert result.wdl[1].tolist() == [1, 0, 0]


def test_a_node_is_what_its_parent_says_of_it() -> None:
    """Walking down the tree: the child's visits are one less than its edge's, its value the edge's turned round."""
    search, _ = searched("44")
    root = search.node(0, [])
    column = int(root.visits.argmax())
    child = search.node(0, [column])
    assert child.position.moves == "44" + str(column + 1)
    assert child.total_visits == root.visits[column] - 1  # the visit that made it was its own evaluation
    edge_total = root.values[column] * root.visits[column]
    below = np.nansum(child.values * child.visits)
    assert abs(edge_total + below) <= 1 + 1e-6  # they differ by that one rollout


def test_paths_beyond_the_tree_are_reported() -> None:
    """In notation, one line."""
    search, _ = searched("44", 10)
    with pytest.raises(ValueError, match="not looked beyond 1 1"):
        search.node(0, [0, 0, 0, 0, 0])
    with pytest.raises(ValueError, match="no tree 3"):
        search.node(3, [])
    with pytest.raises(ValueError, match=r"not looked beyond a$"):  # how column 10 is written
        search.node(0, [9])


def test_the_report_names_the_move_and_its_proof() -> None:
    """4455 is won in three plies."""
    search = UctSearch(rng=np.random.default_rng(0))
    text = describe_search(search.search([Position.from_moves("4455")], Budget(simulations=400)))
    best = next(line for line in text.splitlines() if "*" in line)
    assert best.split()[0] in ("3", "6")
    assert "wins in 2 moves" in best
    assert "win 100 %" in text


def test_the_drawing_holds_the_nodes_asked_for() -> None:
    """Valid XML; at depth 2 and width 2 there are 1 + 2 + 4 cards and an edge to each but the first."""
    search, _ = searched("44")
    root = ElementTree.fromstring(draw_tree(search, depth=2, width=2))
    space = "{http://www.w3.org/2000/svg}"
    cards = [rect for rect in root.iter(f"{space}rect") if "card" in rect.get("class", "")]
    assert len(cards) == 7
    edges = [float(path.get("stroke-width", "0")) for path in root.iter(f"{space}path")]
    assert len(edges) == 6
    assert all(1 <= width <= 10 for width in edges)
    with pytest.raises(ValueError, match="at least 1"):
        draw_tree(search, depth=0)


def test_the_command_prints_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table on the standard output, a picture in the file; players that search no tree are refused."""
    picture = tmp_path / "tree.svg"
    assert main(["search", "44", "--player", "uct:200", "--svg", str(picture)]) == 0
    assert "best line" in capsys.readouterr().out
    ElementTree.parse(picture)
    assert main(["search", "44", "--player", "random"]) == 2
    assert main(["search", "48", "--player", "uct:10"]) == 2
    assert main(["search", "", "--player", "uct:50", "--rows", "4", "--columns", "4", "--run-length", "3"]) == 0
