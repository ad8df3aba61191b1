from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from helpers import ConstantEvaluator, random_positions, run_python, save_untrained

import alphac4
from alphac4.arena import PlayerError, alpha_beta
from alphac4.arena.alpha_beta import NegamaxPlayer, SolverPlayer
from alphac4.arena.players import (
    AutoPlayer,
    NetworkPlayer,
    Player,
    RandomPlayer,
    SearchingPlayer,
    TimeManagement,
    TreePlayer,
    UctPlayer,
    raw_result,
)
from alphac4.arena.registry import common_board, find_network, parse_player, parse_searching_player
from alphac4.compute import choose_compute
from alphac4.evaluation.positions import join_sets, packaged_positions
from alphac4.game import STANDARD, Board, Outcome, Position, make_board
from alphac4.mcts.network_search import NetworkSearch, UniformEvaluator
from alphac4.mcts.puct import Puct
from alphac4.mcts.results import SearchResults
from alphac4.mcts.search import Budget
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.foreign import FunctionEvaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.solver import Solver, moves_to_end, shared_solver
from alphac4.storage.checkpoints import Checkpoint, save_checkpoint
from alphac4.storage.networks import SHIPPED

Make = Callable[[np.random.Generator], Player]
RAW = Budget(simulations=0)
COMPUTE = choose_compute("cpu", "torch-fp32")


def uniform(rng: np.random.Generator, temperature: float = 0.0) -> NetworkPlayer:
    search = NetworkSearch(UniformEvaluator(), reuse="proofs")
    return NetworkPlayer("network", search, Budget(simulations=100), rng, temperature=temperature)


THINKERS: dict[str, Make] = {
    "uct": lambda rng: UctPlayer(Budget(simulations=300), rng),
    "network": uniform,
    "sampling network": lambda rng: uniform(rng, temperature=1.0),
    "negamax": lambda rng: NegamaxPlayer(2, rng),
    "solver": SolverPlayer,
    "solver:outcome": lambda rng: SolverPlayer(rng, fastest=False),
}


@pytest.mark.parametrize("name", THINKERS)
def test_a_player_completes_and_blocks_three_in_a_column(name: str, rng: np.random.Generator) -> None:
    wins, block = Position.from_moves("131415"), Position.from_moves("13141")
    batch = [wins, block, wins.mirror(), block.mirror()]
    assert THINKERS[name](rng).choose(batch) == [0, 0, 6, 6]


@pytest.mark.parametrize("name", THINKERS)
def test_players_of_one_seed_play_the_same_moves(name: str) -> None:
    found = random_positions(60, np.random.default_rng(0))
    positions = [position for position in found if position.plies >= 18][
        :8
    ]  # earlier positions take the solver seconds
    assert len(positions) == 8
    first, second = (THINKERS[name](np.random.default_rng(5)).choose(positions) for _ in range(2))
    assert first == second


def test_random_player_is_uniform_over_legal_columns(rng: np.random.Generator) -> None:
    moves = RandomPlayer(rng).choose([Position.from_moves("111111")] * 3000)
    counts = np.bincount(moves, minlength=7)
    assert counts[0] == 0
    assert np.abs(counts[1:] - 500).max() < 5 * np.sqrt(500)


def test_temperature_samples_the_raw_policy_and_the_visits_of_a_search(rng: np.random.Generator) -> None:
    # At temperature 2 a logit of 2 log 3 is played three times as often as one of 0.
    search = NetworkSearch(ConstantEvaluator([2 * np.log(3), *[0] * 6]))
    player = NetworkPlayer("raw", search, RAW, rng, temperature=2.0)
    share = np.mean(np.array(player.choose([Position()] * 4000)) == 0)
    assert share == pytest.approx(3 / 9, abs=0.03)
    assert len(set(uniform(rng, temperature=1.0).choose([Position()] * 40))) >= 5
    assert len(set(uniform(rng).choose([Position()] * 40))) == 1


def plain_negamax(position: Position, depth: int, ply: int) -> int:
    """Search without pruning; it shares only the evaluation with the code under test."""
    outcome = position.outcome()
    if outcome is not None:
        return 0 if outcome == Outcome.DRAW else -(alpha_beta.WIN_SCORE - ply)
    if depth == 0:
        return int(alpha_beta.static_value(position.board, position.own, position.occupied))
    return max(-plain_negamax(position.play(column), depth - 1, ply + 1) for column in position.legal_columns())


def test_negamax_values_threats_and_the_middle() -> None:
    # O is to move: a threat of x counts 8 against it; closeness to the middle is 0 + 1 for o, 0 + 1 + 2 for x.
    position = Position.from_moves("11223")
    assert alpha_beta.static_value(position.board, position.own, position.occupied) == -8 + 1 - 3


def test_raw_policies_of_mirror_images_are_mirror_images(network: PolicyValueNetwork) -> None:
    result = raw_result(
        Evaluator(network, backend="torch-fp32"), [Position.from_moves("1123"), Position.from_moves("7765")], STANDARD
    )
    np.testing.assert_array_equal(result.priors[0], result.priors[1, ::-1])
    assert result.value[0] == result.value[1]
    assert result.moves[0] == 6 - result.moves[1]


@pytest.mark.parametrize("simulations", [0, 1])
def test_without_mirror_a_network_evaluates_every_position_as_it_is(simulations: int) -> None:
    seen = []

    def evaluate(planes: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        seen.append(planes.copy())
        return planes[:, 1, 0], np.zeros(len(planes), np.float32)  # the opponent's stones in the bottom row

    for mirror, orientations in (True, 1), (False, 2):
        results = alphac4.load(evaluate, mirror=mirror).search(["1", "7"], simulations=simulations)
        assert [max(result.columns.values(), key=lambda move: move.prior).column for result in results] == [0, 6]
        assert len(np.unique(seen[-1 - simulations][:2], axis=0)) == orientations


def test_a_checkpoint_determines_the_board(tmp_path: Path, rng: np.random.Generator) -> None:
    small = make_board(5, 6, 4, diagonals=False)
    path = save_untrained(tmp_path / "small.safetensors", small)
    assert common_board(("random", str(path))) == small
    with pytest.raises(PlayerError, match="not on 4 x 4"):
        common_board((str(path),), make_board(4, 4, 3))
    with pytest.raises(PlayerError, match="5 x 6 with runs of 4 without diagonals"):
        parse_player(str(path), rng=rng)


def test_options_change_the_search_and_appear_in_the_players_name(
    checkpoint: Path, network: PolicyValueNetwork, rng: np.random.Generator
) -> None:
    positions = [Position.from_moves(moves) for moves in ("", "44", "445")]
    written = f"{checkpoint}@60,prior-temperature=1.4,c-init=3,fpu-reduction=0.0625,proofs=off,mirror=off"
    player = parse_searching_player(written, rng=rng, compute=COMPUTE)
    # Only the options that differ from the defaults.
    assert player.name == "small@60,c-init=3,fpu-reduction=0.0625,proofs=off,mirror=off"
    rule = Puct(c_init=3, fpu_reduction=0.0625)
    evaluator, others = Evaluator(network, backend="torch-fp32"), {"proofs": False, "mirror": False}
    search = NetworkSearch(evaluator, rule, rng=rng, **others)
    expected = search.search(positions, Budget(simulations=60))
    assert alphac4.load(f"{checkpoint}@60,c-init=3,fpu-reduction=0.0625", **others).name == player.name
    assert parse_searching_player("uct:1e3", rng=rng).name == "uct:1000"
    np.testing.assert_array_equal(player.search(positions).visits, expected.visits)
    usual = parse_searching_player(f"{checkpoint}@60", rng=rng, compute=COMPUTE).search(positions)
    assert (usual.visits != expected.visits).any()


@pytest.mark.parametrize("board", [STANDARD, make_board(5, 4)])
def test_negamax_agrees_with_a_search_without_pruning(board: Board, rng: np.random.Generator) -> None:
    for position in random_positions(16, rng, board):
        expected = {column: -plain_negamax(position.play(column), 2, 1) for column in position.legal_columns()}
        best, window = max(expected.values()), (-alpha_beta.WIN_SCORE, alpha_beta.WIN_SCORE)
        assert alpha_beta.negamax(board, position.own, position.occupied, 3, 0, *window) == best
        found = NegamaxPlayer(3, rng).best_moves(position)
        assert found == [column for column, score in expected.items() if score == best]


def test_solver_player_draws_among_exactly_the_best_moves(rng: np.random.Generator) -> None:
    # By score it takes the fastest win and the slowest loss; by outcome any move that keeps the result.
    for position in [position for position in random_positions(100, rng) if position.plies >= 24][:6]:
        scores = {column: score for column, score in enumerate(shared_solver().analyze(position)) if score is not None}
        best = max(scores.values())
        for fastest, equal in ((True, lambda score: score), (False, np.sign)):
            played = SolverPlayer(rng, fastest=fastest).choose([position] * 60)
            assert set(played) == {c for c, score in scores.items() if equal(score) == equal(best)}


def test_classic_player_reuses_its_tree_only_with_tree_keep(rng: np.random.Generator) -> None:
    for tree in ("keep", "new"):
        player = parse_searching_player(f"uct:100,tree={tree}", rng=rng, threads=1)
        player.search([Position.from_moves("44")])
        assert (player.search([Position.from_moves("4443")]).visits.sum() > 100) == (tree == "keep")


@pytest.mark.parametrize("make", [THINKERS["uct"], THINKERS["network"]])
def test_a_time_limit_applies_to_each_position(make: Make, rng: np.random.Generator) -> None:
    player = make(rng)
    assert isinstance(player, TreePlayer)
    assert player.search([Position()] * 4, Budget(seconds=0.05)).seconds >= 0.2
    with pytest.raises(ValueError, match="no tree of position 0"):  # the positions shared one tree in turn
        player.node(0, [])


def test_specifications_create_players_of_the_right_type(rng: np.random.Generator) -> None:
    for text, kind in {
        "random": RandomPlayer,
        "uct:0.5s": UctPlayer,
        "negamax:5": NegamaxPlayer,
        "solver:outcome": SolverPlayer,
        **{f"{name}@1": NetworkPlayer for name in SHIPPED},
        "best@auto": AutoPlayer,
    }.items():
        player = parse_player(text, rng=rng, compute=COMPUTE)
        assert (type(player), player.name) == (kind, text)
        assert isinstance(player, SearchingPlayer) == (kind in (UctPlayer, NetworkPlayer, AutoPlayer))
        if kind is NetworkPlayer:
            assert player.choose([Position()])[0] in range(7)
    with pytest.raises(PlayerError, match="'random' searches no tree"):
        parse_searching_player("random", rng=rng)


def test_the_limit_of_a_checkpoint_sets_its_budget_and_name(
    tmp_path: Path, network: PolicyValueNetwork, rng: np.random.Generator
) -> None:
    path = tmp_path / "net.safetensors"
    save_checkpoint(path, Checkpoint(network=network))
    for limit, budget, name in (
        ("", Budget(simulations=100), "net@100"),
        ("@0.01s", Budget(seconds=0.01), "net@0.01s"),
        ("@0.010s", Budget(seconds=0.01), "net@0.01s"),
        ("@0", RAW, "net@0"),
        ("@007", Budget(simulations=7), "net@7"),
    ):
        player = parse_player(f"{path}{limit}", rng=rng, compute=COMPUTE)
        assert isinstance(player, NetworkPlayer)
        assert (player.budget, player.name) == (budget, name)
        assert player.choose([Position.from_moves("444444")])[0] != 3


def test_an_existing_file_is_a_network_whatever_its_path_contains(
    tmp_path: Path, network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("a@b", "best@home", "lr=0.1, c-init=2", "uct:5", "my:Class", "best@auto,x"):
        path = f"{folder}/net.safetensors"
        save_checkpoint(Path(path), Checkpoint(network=network))
        for text, temperature in (path, 0.0), (f"{path}@600,temperature=2", 2.0):
            found = find_network(text)
            assert found is not None
            assert (str(found.path), found.temperature, found.name) == (path, temperature, "net")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nobody", "unknown player 'nobody'; `alphac4 players` lists them"),
        ("uct:many", "'many' is not a budget; write 1000"),
        ("best@atuo", r"'atuo' is not a budget \(is it auto\?\)"),
        ("best@", "a limit is missing after @"),
        # `int` and `float` accept these.
        ("best@1_000", "'1_000' is not a budget"),
        ("best@\u0661\u0660\u0660", "is not a budget"),
        ("uct:infs", "'infs' is not a budget"),
        ("negamax:0", "negamax:0"),
        ("negamax:" + 5000 * "9", "is not a number from 1 to"),
        ("solver:Outcome", r"unknown player 'solver:Outcome' \(is it solver:outcome\?\)"),
        ("missing.safetensors@5", "no such file"),
        # A temperature would only apply where the first search is sure.
        ("best@auto,temperature=1", "temperature"),
        ("best@600,c-init=0", "at least"),
        ("best@600,c-init=1,c-init=2", "twice"),
        ("best@600,", "missing before or after a comma"),
        ("best@600,speed=2", "c-init, c-base, fpu-reduction"),
    ],
)
def test_an_invalid_specification_raises_an_error_of_one_line(
    text: str, message: str, rng: np.random.Generator
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        parse_player(text, rng=rng)
    assert "\n" not in str(error.value)


MANAGEMENT = TimeManagement(simulations=10, decided_value=2.0, rounds=((64, 10), (3, 20), (2, 50)))


WEIGHTS = np.random.default_rng(3).integers(-(2**20), 2**20, (84, 8)) / 2**22  # sums of these are exact in any order


def opinion(planes: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    out = planes.reshape(len(planes), -1) @ WEIGHTS
    return out[:, :7], np.tanh(out[:, 7])


def auto_player(
    management: TimeManagement = MANAGEMENT,
    evaluator: FunctionEvaluator | None = None,
    search: type[NetworkSearch] = NetworkSearch,
) -> AutoPlayer:
    evaluator, rng = evaluator or FunctionEvaluator(opinion), np.random.default_rng(0)
    first = NetworkSearch(evaluator, rng=rng, reuse="nothing")
    return AutoPlayer("net@auto", first, search(evaluator, rng=rng, reuse="trees"), management)


def test_an_unsure_player_searches_every_move_and_the_best_ones_longer() -> None:
    result = auto_player().search([Position()])
    assert sorted(result.visits[0].tolist()) == [10, 10, 10, 10, 30, 80, 80]
    assert result.simulations[0] == 10 + 70 + 60 + 100
    assert result.visits[0, result.moves[0]] == 80
    assert result.value[0] == result.values[0, result.moves[0]] == np.nanmax(result.values[0, result.visits[0] == 80])
    assert result.wdl[0, 0] - result.wdl[0, 2] == pytest.approx(result.value[0])
    assert result.variations[0][0] == result.moves[0]


def test_a_sure_player_makes_no_second_search() -> None:
    sure = TimeManagement(simulations=10, decided_value=0.0)
    assert auto_player(sure).search([Position()]).simulations.tolist() == [10]
    found = auto_player().search([Position.from_moves("112233")])  # 4 wins
    assert found.moves.tolist() == [3]
    assert found.chosen_moves_win.tolist() == [True]
    assert found.simulations[0] <= 10


def test_a_given_budget_limits_the_search() -> None:
    player = auto_player()
    assert isinstance(player, SearchingPlayer)
    result = player.search([Position(), Position.from_moves("44")], Budget(simulations=25))
    assert result.simulations.tolist() == [25, 25]


def test_results_do_not_depend_on_the_batch_or_on_mirroring() -> None:
    texts = ["43", "45", "1", "7", "4443", "112", "776"]
    positions = [Position.from_moves(text) for text in texts]
    player = auto_player()
    together = player.search(positions)
    alone = [auto_player().search([position]) for position in positions]
    assert together.moves.tolist() == [int(result.moves[0]) for result in alone]
    assert player.search(positions).moves.tolist() == together.moves.tolist()
    for left, right in ((0, 1), (2, 3), (5, 6)):
        assert together.moves[left] == 6 - together.moves[right]
        np.testing.assert_allclose(together.values[left], together.values[right, ::-1], atol=1e-5)


def test_the_longer_search_proves_further_wins_correctly() -> None:
    # The exact solver confirms them, in positions late enough for it.
    solver, player = Solver(), auto_player(TimeManagement(simulations=5, decided_value=2.0, rounds=((64, 300),)))
    positions = [position for position in random_positions(1500, np.random.default_rng(1)) if position.plies >= 22]
    result = player.search(positions)
    proven = result.chosen_moves_win & (result.simulations > 5)
    assert proven.sum() >= 3
    for row in np.flatnonzero(proven):
        assert solver.solve(positions[row].play(int(result.moves[row]))) < 0


class _Staged(NetworkSearch):
    """Search with fixed values of the seven replies; in the second round, it proves that every searched reply wins."""

    def search(self, positions: Sequence[Position], budget: Budget) -> SearchResults:
        found = super().search(positions, budget)
        for row, position in enumerate(positions):
            assert position.moves is not None
            found.value[row] = (0.1, 0.2, -0.5, -0.6, 0.3, 0.4, 0.5)[int(position.moves) - 1]
            if budget.simulations == 20:
                found.proofs[row] = 10
        return found


def test_a_move_proven_lost_is_not_played() -> None:
    management = TimeManagement(simulations=10, decided_value=0.99, rounds=((64, 10), (2, 20)))
    result = auto_player(management, search=_Staged).search([Position()])
    assert [int(column) for column in np.flatnonzero(result.proofs[0] < 0)] == [2, 3]
    assert result.moves.tolist() == [0]  # the next by value
    assert result.value[0] == pytest.approx(-0.1)


def test_moves_with_negligible_priors_are_found() -> None:
    sets = join_sets(packaged_positions())
    only_wins = [
        (position, int(scores.argmax()))
        for position, scores in zip(sets.positions, sets.scores, strict=True)
        if (scores > 0).sum() == 1 and moves_to_end(STANDARD, position.plies, scores.max()) in (2, 3)
    ]
    assert len(only_wins) > 20
    found = found_by_as_many = 0
    for position, column in only_wins:  # its prior is below 0.00001
        logits = np.where(np.arange(7) == column, -12, 0)
        evaluator = FunctionEvaluator(lambda planes, logits=logits: ([logits] * len(planes), [0] * len(planes)))
        result = auto_player(TimeManagement(), evaluator).search([position])
        found += result.moves.tolist() == [column]
        plain = NetworkSearch(evaluator).search([position], Budget(simulations=int(result.simulations[0])))
        found_by_as_many += plain.moves.tolist() == [column]
    assert found >= len(only_wins) - 2 > found_by_as_many + 5


def test_players_of_the_core_are_listed_first() -> None:
    """The command line loads plugins first."""
    listed = run_python("from alphac4.cli import main; main(['players'])").stdout
    assert listed.lstrip().startswith("FILE.safetensors@600 ")
