import ast
import dataclasses
import itertools
import json
import random
import subprocess
import sys
from pathlib import Path

import kaggle_stub
import naive
import numpy as np
import numpy.typing as npt
import pytest
import torch

from alphac4.checkpoint import Checkpoint
from alphac4.export.kaggle import PLACEHOLDER, export_kaggle, joined_modules, submission_text
from alphac4.export.submission import agent, tree
from alphac4.export.submission import network as network_module
from alphac4.export.submission.board import Board
from alphac4.export.submission.network import Network
from alphac4.export.submission.player import SubmissionPlayer
from alphac4.export.submission.rollouts import Rollouts
from alphac4.export.submission.tree import Node
from alphac4.game import Position, make_geometry
from alphac4.game.planes import make_planes
from alphac4.mcts import Budget, NetworkSearch, PuctConfig
from alphac4.mcts.tree import PROVEN_WIN, UNPROVEN, make_trees, plant
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork

STUB = Path(kaggle_stub.__file__)


def bits_of(board: naive.Board, rows: int) -> tuple[int, int]:
    """The bits of x's and o's stones: ``rows + 1`` bits a column, lowest cell first."""
    stones = {"x": 0, "o": 0}
    for column, stack in enumerate(board):
        for row, side in enumerate(stack):
            stones[side] |= 1 << column * (rows + 1) + row
    return stones["x"], stones["o"]


@pytest.mark.parametrize(("rows", "columns", "run"), [(6, 7, 4), (5, 5, 3), (4, 9, 5), (9, 11, 4), (1, 6, 3)])
def test_runs_and_winning_cells_agree_with_a_scan_of_the_grid(rows: int, columns: int, run: int) -> None:
    """On boards of all sizes, also beyond 64 bits, and for reachable as well as for hanging cells."""
    board = Board(rows, columns, run)
    draws = random.Random(1)
    for _ in range(60):
        stacks, _ = naive.random_board(draws, rows, columns, draws.randrange(rows * columns))
        x, o = bits_of(stacks, rows)
        assert board.has_run(x) == naive.wins(stacks, "x", rows, run)
        landing = board.legal(x | o)
        completing = board.winning_cells(x, x | o) & landing
        for column in range(columns):
            full = len(stacks[column]) == rows
            assert bool(landing & board.column_cells[column]) != full
            if not full and not board.has_run(x):
                completes = naive.wins(naive.drop(stacks, column, "x"), "x", rows, run)
                assert bool(completing & board.column_cells[column]) == completes


def test_reads_the_board_from_the_top_row() -> None:
    """The flat board's first cell is the top left one, whoever's mark it holds."""
    board = Board(2, 3, 2)
    cells = [0, 0, 1, 2, 0, 1]  # column 2 holds two stones of player 1, column 0 one of player 2
    bottom_left, bottom_right, top_right = 1, 1 << 6, 1 << 7
    assert board.read(cells, 1) == (bottom_right | top_right, bottom_left | bottom_right | top_right)
    assert board.read(cells, 2) == (bottom_left, bottom_left | bottom_right | top_right)


def test_takes_a_win_before_it_blocks_an_open_three() -> None:
    """Both are proven by the look-ahead of the first node, without any search."""
    board = Board(6, 7, 4)
    player = SubmissionPlayer(board, Rollouts(board, random.Random(0)))
    for moves, expected in (("112233", 3), ("1122335", 3), ("12121", 0), ("1212127", 1)):
        position = Position.from_moves(moves)
        assert player.choose(int(position.own), int(position.occupied), deadline=0.0) == expected


def test_search_proves_what_minimax_finds() -> None:
    """Whoever wins a 4 x 4 game with runs of three under perfect play, the tree comes to prove it."""
    rows, columns, run = 4, 4, 3
    board, draws = Board(rows, columns, run), random.Random(5)
    outcomes = []
    while len(outcomes) < 25:
        stacks, _ = naive.random_board(draws, rows, columns, draws.randrange(2, 10))
        if naive.wins(stacks, "x", rows, run) or naive.wins(stacks, "o", rows, run):
            continue
        x, o = bits_of(stacks, rows)
        own = x if x.bit_count() == o.bit_count() else o
        player = SubmissionPlayer(board, Rollouts(board, random.Random(0)))
        player.choose(own, x | o, deadline=float("inf"))
        assert player.root is not None
        expected, _ = naive.minimax(stacks, rows, run)
        if len(player.root.actions) == 1:  # forced, so not searched
            continue
        proven = player.root.outcome()
        assert proven is not None
        assert np.sign(proven) == expected
        outcomes.append(expected)
    assert {-1, 1} <= set(outcomes)


def test_a_node_proves_the_same_as_the_compiled_trees() -> None:
    """Wins in one, draws, and losses in two are those of `alphac4.mcts`."""
    geometry, board, draws = make_geometry(), Board(6, 7, 4), random.Random(2)
    trees = make_trees(1, 2, geometry, np.random.default_rng(0))
    for _ in range(100):
        _, moves = naive.random_board(draws, 6, 7, draws.randrange(42))
        try:
            position = Position.from_moves(moves)
        except ValueError:  # the random game went on after a win
            continue
        if position.outcome() is not None:
            continue
        plant(geometry, trees, 0, position.own, position.occupied)
        node = Node(board, int(position.own), int(position.occupied))
        assert node.actions == position.legal_columns()
        for action, proof in zip(node.actions, node.proofs, strict=True):
            compiled = int(trees.proof[0, 0, action])
            if compiled == UNPROVEN:
                assert proof is None
            elif compiled == 0:
                assert proof == 0
            else:
                distance = PROVEN_WIN - abs(compiled)
                assert proof == np.sign(compiled) * (tree.PROVEN_WIN - distance)


class ExactNetwork(Network):
    """Answers that every computer computes alike, for the package's search and for the submission's."""

    def __init__(self, board: Board) -> None:
        super().__init__(board, {})
        rng = np.random.default_rng(3)
        self.policy = rng.integers(-8, 9, (2 * board.rows * board.columns, board.columns)) / 8
        self.lead = rng.integers(-4, 5, 2 * board.rows * board.columns)

    def answer(self, planes: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """See `alphac4.mcts.network_search.Evaluate`; sums of eighths and sixteenths."""
        flat = planes.reshape(len(planes), -1)
        lead = (flat @ self.lead) % 11 - 5
        wdl = np.stack([(6 + lead) / 16, np.full(len(flat), 4 / 16), (6 - lead) / 16], axis=1)
        return (flat @ self.policy).astype(np.float32), wdl.astype(np.float32)

    def predict(self, own: int, occupied: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """See `Network.predict`."""
        theirs = own ^ occupied
        planes = np.array([[side >> bit & 1 for bit in self.bits] for side in (own, theirs)], np.float32)
        logits, wdl = self.answer(planes[None])
        return logits[0], wdl[0]


class AsEvaluator:
    """The same answers for the package's search."""

    def __init__(self, network: ExactNetwork) -> None:
        self.evaluate = network.answer


@pytest.mark.parametrize("board", [(6, 7, 4), (4, 5, 3), (5, 8, 4)])
def test_the_submissions_search_is_ours(board: tuple[int, int, int]) -> None:
    """The same visits and the same move with the same evaluator, from the opening to positions that it proves."""
    geometry, rng = make_geometry(*board), np.random.default_rng(8)
    network = ExactNetwork(Board(*board))
    ours = NetworkSearch(AsEvaluator(network), geometry=geometry, rng=rng)
    compared = 0
    while compared < 40:
        position = Position.from_moves("", geometry)
        for _ in range(int(rng.integers(0, geometry.cells - 3))):
            if position.outcome() is None:
                position = position.play(int(rng.choice(position.legal_columns())))
        if position.outcome() is not None:
            continue
        simulations = (1, 2, 7, 40, 150)[compared % 5]
        expected = ours.search([position], Budget(simulations=simulations))
        theirs = SubmissionPlayer(Board(*board), network)
        root = theirs._new_node(int(position.own), int(position.occupied))
        for _ in range(simulations):
            if root.outcome() is None:
                theirs.simulate(root)
        visits = np.zeros(geometry.columns, int)
        visits[root.actions] = root.visits
        assert visits.tolist() == expected.visits[0].tolist(), position.moves
        assert root.best_action() == expected.moves[0], position.moves
        compared += 1


def test_without_a_visit_the_submission_plays_the_priors_best_move() -> None:
    """As our own search does when there is no time."""
    network = ExactNetwork(Board(6, 7, 4))
    position = Position.from_moves("4435")
    root = SubmissionPlayer(Board(6, 7, 4), network)._new_node(int(position.own), int(position.occupied))
    assert root.best_action() == int(np.argmax(root.priors)) != 0


def test_the_settings_of_the_search_are_written_into_the_submission(network: PolicyValueNetwork) -> None:
    """Whatever PuctConfig holds; the template's own numbers are its defaults."""
    puct = PuctConfig(c_init=2.5, c_base=1000.0, fpu_reduction=0.4, root_fpu_reduction=0.1, prior_temperature=1.1)
    namespace = load(submission_text(Checkpoint(network=network), puct))
    for name, value in dataclasses.asdict(puct).items():
        assert namespace[name.upper()] == value
    for name, value in dataclasses.asdict(PuctConfig()).items():
        assert getattr(network_module, name.upper()) == value


def load(text: str) -> dict[str, object]:
    """The namespace of a submission."""
    namespace: dict[str, object] = {}
    exec(text, namespace)
    return namespace


@pytest.mark.parametrize(("rows", "columns", "channels", "blocks"), [(6, 7, 16, 2), (4, 5, 8, 0)])
def test_its_forward_pass_is_the_networks(
    network: PolicyValueNetwork, rows: int, columns: int, channels: int, blocks: int
) -> None:
    """Logits in numpy from half-precision weights agree with PyTorch in fp32."""
    geometry = make_geometry(rows, columns, 4)
    if (rows, columns) != (6, 7):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            config = NetworkConfig(rows=rows, columns=columns, channels=channels, blocks=blocks)
            network = PolicyValueNetwork(config).eval()
    namespace = load(submission_text(Checkpoint(network=network, geometry=geometry)))
    guide = namespace["player_for"](rows, columns, 4).guide  # type: ignore[operator]
    rng = np.random.default_rng(4)
    for plies in range(0, rows * columns - 1, 3):
        position = Position(geometry=geometry)
        for _ in range(plies):
            following = position.play(int(rng.choice(position.legal_columns())))
            position = position if following.outcome() is not None else following
        planes = make_planes(geometry, np.array([position.own]), np.array([position.occupied]))
        with torch.inference_mode():
            expected = [output[0].numpy() for output in network(torch.from_numpy(planes))]
        for got, wanted in zip(guide.forward(int(position.own), int(position.occupied)), expected, strict=True):
            np.testing.assert_allclose(got, wanted, atol=0.02 * max(1.0, float(np.abs(wanted).max())))


def test_stops_at_its_share_of_the_act_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that goes on 0.1 s whenever it is read, 2 s a move allow 17 looks at it."""
    ticks = itertools.count(0, 0.1)
    monkeypatch.setattr(agent.time, "perf_counter", lambda: next(ticks))
    config = kaggle_stub.Struct(rows=6, columns=7, inarow=4, actTimeout=2.0)
    agent.player_for.cache_clear()
    agent.agent(kaggle_stub.Struct(board=[0] * 42, mark=1), config)
    root = agent.player_for(6, 7, 4).root
    assert root is not None
    assert 15 <= sum(root.visits) <= 18
    assert next(ticks) < 2.0


def test_keeps_what_it_knows_of_the_position_two_moves_on() -> None:
    """The next search begins with the visits of the last one."""
    board = Board(6, 7, 4)
    player = SubmissionPlayer(board, Rollouts(board, random.Random(0)))
    first = Position()
    root = Node(board, 0, 0)
    player.root = root
    for _ in range(2000):
        player.simulate(root)
    second = first.play(3).play(3)
    player.choose(int(second.own), int(second.occupied), deadline=0.0)
    assert player.root is not None
    assert sum(player.root.visits) > 10


def test_one_file_with_no_other_imports_and_the_agent_last(network: PolicyValueNetwork, tmp_path: Path) -> None:
    """It imports numpy and the standard library, never asks where it lies, and is the same at every export."""
    path = tmp_path / "main.py"
    export_kaggle(Checkpoint(network=network), path)
    text = path.read_text()
    assert text == submission_text(Checkpoint(network=network))
    assert "__file__" not in text
    assert max(map(len, text.splitlines())) <= 120
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).partition(".")[0])
    assert imported <= {*sys.stdlib_module_names, "numpy"}
    assert kaggle_stub.last_callable(text).__name__ == "agent"
    assert joined_modules().count(PLACEHOLDER) == 1


@pytest.mark.parametrize(
    ("board", "side"), [((6, 7, 4), 1), ((6, 7, 4), 2), ((5, 5, 3), 1), ((8, 9, 5), 2), ((3, 3, 4), 1), ((2, 1, 1), 1)]
)
def test_plays_where_only_numpy_can_be_imported(
    network: PolicyValueNetwork, tmp_path: Path, board: tuple[int, int, int], side: int
) -> None:
    """It beats random moves wherever a win can be had: on its board, a small one, one beyond 64 bits."""
    export_kaggle(Checkpoint(network=network), tmp_path / "main.py")
    command = [sys.executable, "-I", str(STUB), "main.py", *map(str, board), str(side), "0.1"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["winner"] == (0 if board == (3, 3, 4) else side)


def test_the_stub_lets_nothing_else_be_imported(tmp_path: Path) -> None:
    """Otherwise the test before would prove nothing."""
    (tmp_path / "main.py").write_text("import alphac4\ndef agent(obs, config): return 0\n")
    command = [sys.executable, "-I", str(STUB), "main.py", "6", "7", "4", "1", "1"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert "No module named 'alphac4'" in run.stderr


def test_refuses_a_network_of_another_game(network: PolicyValueNetwork) -> None:
    """Diagonal runs count on Kaggle."""
    with pytest.raises(ValueError, match="diagonal"):
        submission_text(Checkpoint(network=network, geometry=make_geometry(diagonals=False)))


def test_refuses_weights_beyond_half_precision(network: PolicyValueNetwork) -> None:
    """An overflow would make the submission play nonsense."""
    with torch.no_grad():
        network.value.bias[0] = 1e6
    with pytest.raises(ValueError, match="half precision"):
        submission_text(Checkpoint(network=network))
