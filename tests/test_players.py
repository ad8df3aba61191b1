import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from alphac4.arena import negamax
from alphac4.arena.negamax import NegamaxPlayer
from alphac4.arena.networks import load_network
from alphac4.arena.openspiel_player import OpenSpielPlayer
from alphac4.arena.players import (
    NetworkPlayer,
    Player,
    PlayerError,
    RandomPlayer,
    TreePlayer,
    UctPlayer,
    as_searching,
    raw_result,
)
from alphac4.arena.solver_player import SolverPlayer
from alphac4.arena.specifications import common_geometry, parse_player, parse_searching_player
from alphac4.checkpoint import Checkpoint, save_checkpoint
from alphac4.compute import choose
from alphac4.game import STANDARD, Geometry, Outcome, Position, make_geometry
from alphac4.mcts import Budget, NetworkSearch, PuctConfig
from alphac4.nn.evaluator import Evaluator, UniformEvaluator
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork
from alphac4.solver import analyze

Planes = npt.NDArray[np.float32]
RAW = Budget(simulations=0)
Make = Callable[[np.random.Generator], Player]


class FixedPolicy:
    """The same logits [A] for every position."""

    def __init__(self, *logits: float) -> None:
        self.logits = np.array(logits, np.float32)

    def evaluate(self, planes: Planes) -> tuple[Planes, Planes]:
        """See `Evaluate`."""
        return np.tile(self.logits, (len(planes), 1)), np.full((len(planes), 3), 1 / 3, np.float32)


def make_openspiel(rng: np.random.Generator) -> Player:
    """OpenSpiel's bot, if it is installed."""
    pytest.importorskip("pyspiel")
    return OpenSpielPlayer(300, rng)


BAD_NUMBERS = ("uct", "uct:", "uct:many", "uct:-3", "uct:nans", "uct:0s", "negamax:0", "negamax:x", "openspiel:1s")
THINKERS: dict[str, Make] = {
    "uct": lambda rng: UctPlayer(Budget(simulations=300), rng),
    "network": lambda rng: NetworkPlayer("network", UniformEvaluator(), Budget(simulations=100), rng),
    "sampling network": lambda rng: NetworkPlayer(
        "network", UniformEvaluator(), Budget(simulations=100), rng, temperature=1.0
    ),
    "negamax": lambda rng: NegamaxPlayer(2, rng),
    "solver": SolverPlayer,
    "solver:outcome": lambda rng: SolverPlayer(rng, fastest=False),
    "openspiel": make_openspiel,
}


def random_positions(rng: np.random.Generator, count: int, plies: int, geometry: Geometry = STANDARD) -> list[Position]:
    """Unfinished positions after random moves."""
    positions: list[Position] = []
    while len(positions) < count:
        position = Position(geometry=geometry)
        for _ in range(plies):
            legal = position.legal_columns()
            if legal:
                position = position.play(int(rng.choice(legal)))
        if position.outcome() is None:
            positions.append(position)
    return positions


@pytest.mark.parametrize("name", THINKERS)
def test_completes_and_blocks_an_open_three(name: str, rng: np.random.Generator) -> None:
    """In a batch of both: x wins in column 4; o must take it to survive; the same mirrored."""
    player = THINKERS[name](rng)
    wins, block = Position.from_moves("112233"), Position.from_moves("11223")
    assert player.choose([wins, block, wins.mirror(), block.mirror()]) == [3, 3, 3, 3]


@pytest.mark.parametrize("name", THINKERS)
def test_the_same_seed_plays_the_same_moves(name: str) -> None:
    """Every player draws on its generator alone."""
    positions = random_positions(np.random.default_rng(0), 8, 24)
    first, second = (THINKERS[name](np.random.default_rng(5)).choose(positions) for _ in range(2))
    assert first == second


def test_random_play_is_uniform_over_legal_columns(rng: np.random.Generator) -> None:
    """Column 1 is full; the other six come equally often."""
    moves = RandomPlayer(rng).choose([Position.from_moves("111111")] * 3000)
    counts = np.bincount(moves, minlength=7)
    assert counts[0] == 0
    assert np.abs(counts[1:] - 500).max() < 5 * np.sqrt(500)


def test_the_raw_policy_plays_the_best_legal_column(rng: np.random.Generator) -> None:
    """The network prefers column 1, then 5; once 1 is full, 5 it is."""
    player = NetworkPlayer("raw", FixedPolicy(9, 0, 0, 0, 5, 0, 0), RAW, rng)
    assert player.choose([Position(), Position.from_moves("111111")]) == [0, 4]


def test_temperature_samples_the_raw_policy(rng: np.random.Generator) -> None:
    """At temperature 2 a logit of 2 log 3 is played three times as often as one of 0."""
    player = NetworkPlayer("raw", FixedPolicy(2 * np.log(3), *[0] * 6), RAW, rng, temperature=2.0)
    share = np.mean(np.array(player.choose([Position()] * 4000)) == 0)
    assert share == pytest.approx(3 / 9, abs=0.03)


def test_temperature_samples_the_visits_of_a_search(rng: np.random.Generator) -> None:
    """All columns are equal to a network without opinion: several of them are played, at temperature 0 only one."""
    position = [Position()] * 40
    budget = Budget(simulations=70)
    sampled = NetworkPlayer("warm", UniformEvaluator(), budget, rng, temperature=1.0).choose(position)
    assert len(set(sampled)) >= 5
    assert len(set(NetworkPlayer("cold", UniformEvaluator(), budget, rng).choose(position))) == 1


@pytest.mark.parametrize("make", [THINKERS["uct"], THINKERS["network"]])
def test_limited_time_is_each_positions_own(make: Make, rng: np.random.Generator) -> None:
    """A batch of four positions takes four times as long, as a game against a clock would."""
    player = make(rng)
    assert isinstance(player, TreePlayer)
    searched: list[int] = []
    search = player._search.search
    player._search.search = lambda positions, budget: (  # type: ignore[method-assign, misc, assignment]
        searched.append(len(positions)) or search(positions, budget)  # type: ignore[func-returns-value]
    )
    result = player.search([Position()] * 4, Budget(seconds=0.05))
    assert searched == [1, 1, 1, 1]
    assert result.seconds >= 0.2
    assert result.visits.shape == (4, 7)
    with pytest.raises(ValueError, match="no tree 0"):  # they shared one, which is the last position's
        player.node(0, [])


@pytest.mark.parametrize("tree", ["keep", "new"])
def test_players_keep_trees_between_moves_limited_by_time(tree: str, rng: np.random.Generator) -> None:
    """Only where they were told to."""
    player = parse_player(f"uct:0.02s,tree={tree}", rng=rng, threads=1)
    assert isinstance(player, UctPlayer)
    player.choose([Position.from_moves(moves) for moves in ("44", "1", "27")])
    results: list[tuple[Any, ...]] = []
    result = player._search._result
    player._search._result = lambda *arguments: results.append(arguments) or result(*arguments)  # type: ignore
    player.choose([Position.from_moves(moves) for moves in ("2744", "4444")])
    before = np.concatenate([arguments[2] for arguments in results])
    assert (before > 0).tolist() == [tree == "keep"] * 2


def plain_negamax(position: Position, depth: int, ply: int) -> int:
    """Without pruning, on the friendly positions; shares only the evaluation with the code under test."""
    outcome = position.outcome()
    if outcome is not None:
        return 0 if outcome == Outcome.DRAW else -(negamax.WIN - ply)
    if depth == 0:
        return int(negamax.evaluate(position.geometry, position.own, position.occupied))
    return max(-plain_negamax(position.play(column), depth - 1, ply + 1) for column in position.legal_columns())


@pytest.mark.parametrize("geometry", [STANDARD, make_geometry(5, 4)])
def test_negamax_finds_what_a_search_without_pruning_finds(geometry: Geometry, rng: np.random.Generator) -> None:
    """The same best columns with the same score, from quiet positions to the last stones."""
    for plies in (0, 7, geometry.cells - 8, geometry.cells - 4):
        for position in random_positions(rng, 4, plies, geometry):
            scores = np.zeros(geometry.columns, np.int64)
            negamax.score_moves(geometry, position.own, position.occupied, 3, scores)
            expected = {column: -plain_negamax(position.play(column), 2, 1) for column in position.legal_columns()}
            best = max(expected.values())
            assert scores.max() == best
            assert set(np.flatnonzero(scores == best)) == {c for c, score in expected.items() if score == best}


def test_negamax_values_threats_and_the_middle() -> None:
    """O is to move: a threat of x counts 8 against it; closeness to the middle is 0 + 1 for o, 0 + 1 + 2 for x."""
    position = Position.from_moves("11223")
    assert negamax.evaluate(position.geometry, position.own, position.occupied) == -8 + 1 - 3


def test_the_solver_only_plays_best_moves_and_all_of_them(rng: np.random.Generator) -> None:
    """By score it takes the fastest win and the slowest loss; by outcome any move that keeps the result."""
    fastest, steady = SolverPlayer(rng), SolverPlayer(rng, fastest=False)
    for position in random_positions(rng, 6, 28):
        scores = {column: score for column, score in enumerate(analyze(position)) if score is not None}
        best = {column for column, score in scores.items() if score == max(scores.values())}
        keeping = {column for column, score in scores.items() if np.sign(score) == np.sign(max(scores.values()))}
        assert set(fastest.choose([position] * 60)) == best
        assert set(steady.choose([position] * 60)) == keeping


def test_openspiel_is_asked_for_by_name_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """One line that tells what to install."""
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(PlayerError, match=r"^openspiel needs .*pip install.*$"):
        parse_player("openspiel:100", rng=rng)


def test_openspiel_refuses_positions_without_moves(rng: np.random.Generator) -> None:
    """It replays games; a bare board has none."""
    player = make_openspiel(rng)
    with pytest.raises(PlayerError, match="moves are known"):
        player.choose([Position.from_kaggle(Position.from_moves("44").to_kaggle())])


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("random", RandomPlayer, "random"),
        ("uct:250", UctPlayer, "uct:250"),
        ("uct:0.5s", UctPlayer, "uct:0.5s"),
        ("negamax:5", NegamaxPlayer, "negamax:5"),
        ("solver", SolverPlayer, "solver"),
        ("solver:outcome", SolverPlayer, "solver:outcome"),
    ],
)
def test_specifications_make_players(text: str, kind: type, name: str, rng: np.random.Generator) -> None:
    """Of the right kind, under the name they were written by."""
    player = parse_player(text, rng=rng)
    assert type(player) is kind
    assert player.name == name


def test_checkpoints_play_by_simulations_time_or_raw_policy(
    tmp_path: Path, network: PolicyValueNetwork, rng: np.random.Generator
) -> None:
    """After the last @, 100 simulations by default; an @ in a folder's name does no harm."""
    path = tmp_path / "a@b" / "net.safetensors"
    save_checkpoint(path, Checkpoint(network=network))
    for limit, budget, name in [
        ("", Budget(simulations=100), "net@100"),
        ("@7", Budget(simulations=7), "net@7"),
        ("@0.01s", Budget(seconds=0.01), "net@0.01s"),
        ("@0", RAW, "net@0"),
    ]:
        player = parse_player(f"{path}{limit}", rng=rng, compute=choose("cpu", "torch-fp32"))
        assert isinstance(player, NetworkPlayer)
        assert (player.budget, player.name) == (budget, name)
        assert player.choose([Position.from_moves("444444")])[0] != 3


def test_the_raw_policy_is_asked_about_the_canonical_orientation(network: PolicyValueNetwork) -> None:
    """So that mirror images get mirrored answers from any network."""
    result = raw_result(
        Evaluator(network, backend="torch-fp32"), [Position.from_moves("1123"), Position.from_moves("7765")], STANDARD
    )
    np.testing.assert_array_equal(result.priors[0], result.priors[1, ::-1])
    assert result.value[0] == result.value[1]
    assert result.moves[0] == 6 - result.moves[1]


def test_a_checkpoint_decides_the_board(tmp_path: Path, rng: np.random.Generator) -> None:
    """And is refused on another."""
    small = make_geometry(5, 6, 4, diagonals=False)
    path = tmp_path / "small.safetensors"
    network = PolicyValueNetwork(NetworkConfig(rows=5, columns=6, channels=8, blocks=1)).eval()
    save_checkpoint(path, Checkpoint(network=network, geometry=small))
    assert common_geometry(("random", str(path))) == small
    with pytest.raises(PlayerError, match="5 x 6 with runs of 4 without diagonals"):
        parse_player(str(path), rng=rng)


@pytest.mark.parametrize(
    "text",
    [
        "nobody",
        "uct",
        "uct:",
        "uct:many",
        "uct:-3",
        "uct:nans",
        "uct:0s",
        "negamax:0",
        "negamax:x",
        "solver:slow",
        "openspiel:1s",
        "missing.safetensors",
        "missing.safetensors@5",
        "file.onnx@5",
    ],
)
def test_bad_specifications_are_reported_in_one_line(text: str, rng: np.random.Generator) -> None:
    """An error that names what was written."""
    with pytest.raises(PlayerError) as error:
        parse_player(text, rng=rng)
    assert text.split("@")[0] in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["engine:/nowhere --player {net}@600", "no_such_module:Own,path={net}"])
@pytest.mark.parametrize("net", ["net.safetensors", "net.onnx"])
def test_another_program_or_ones_own_player_may_be_given_a_file(text: str, net: str, rng: np.random.Generator) -> None:
    """That does not make it a network: what is missing is the program, or the module."""
    with pytest.raises(PlayerError) as error:
        parse_player(text.format(net=net), rng=rng)
    assert "/nowhere" in str(error.value) or "no_such_module cannot be imported" in str(error.value)
    assert f"{net}: no such file" not in str(error.value)


def test_a_player_that_decides_how_long_it_thinks_draws_no_moves(rng: np.random.Generator) -> None:
    """Where it is unsure it compares values, so a temperature would count in some positions only."""
    with pytest.raises(PlayerError, match=r"best@auto,temperature=1.*temperature"):
        parse_player("best@auto,temperature=1", rng=rng)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("c-init=0", "positive"),
        ("c-init=x", "c-init is a number, not 'x'"),
        ("speed=2", "c-init, c-base, fpu-reduction, root-fpu-reduction, prior-temperature, temperature"),
        ("temperature=-1", "negative"),
        ("c-init=1,c-init=2", "twice"),
        (",", "missing before or after a comma"),
        ("c-init=2,,", "missing before or after a comma"),
    ],
)
def test_bad_settings_of_a_networks_search_are_reported_in_one_line(
    text: str, told: str, rng: np.random.Generator
) -> None:
    """Naming the specification, what is wrong with it, and what there is."""
    with pytest.raises(PlayerError, match=told) as error:
        parse_player(f"best@600,{text}", rng=rng)
    assert f"best@600,{text}" in str(error.value)
    assert "\n" not in str(error.value)
    assert ",," not in str(error.value).replace(repr(f"best@600,{text}"), "")


def test_settings_of_a_networks_search_are_used_and_named(
    tmp_path: Path, network: PolicyValueNetwork, rng: np.random.Generator
) -> None:
    """The player's search is the one that these settings make, and its name tells what differs from the default."""
    path = tmp_path / "net.safetensors"
    save_checkpoint(path, Checkpoint(network=network))
    positions = [Position.from_moves(moves) for moves in ("", "44", "445")]
    written = f"{path}@60,prior-temperature=1.4,c-init=3,fpu-reduction=0.0625"
    player = parse_searching_player(written, rng=rng, compute=choose("cpu", "torch-fp32"))
    assert player.name == "net@60,c-init=3,fpu-reduction=0.0625"
    evaluator = Evaluator(network, backend="torch-fp32")
    search = NetworkSearch(evaluator, PuctConfig(c_init=3, fpu_reduction=0.0625), rng=rng)
    expected = search.search(positions, Budget(simulations=60))
    np.testing.assert_array_equal(player.search(positions).visits, expected.visits)
    usual = parse_searching_player(f"{path}@60", rng=rng, compute=choose("cpu", "torch-fp32")).search(positions)
    assert (usual.visits != expected.visits).any()


def test_a_network_without_simulations_says_what_it_thinks(rng: np.random.Generator) -> None:
    """Its policy over the legal columns as priors, its value, and no visits; so does any other budget of none."""
    position = Position.from_moves("111111")
    evaluator = FixedPolicy(9, 0, 0, 0, np.log(5), 0, 0)
    for player, budget in (
        (NetworkPlayer("raw", evaluator, RAW, rng), None),
        (NetworkPlayer("deep", evaluator, Budget(simulations=100), rng), RAW),
    ):
        result = player.search([position], budget)
        np.testing.assert_allclose(result.priors[0], [0, 0.1, 0.1, 0.1, 0.5, 0.1, 0.1])
        assert (result.moves[0], result.visits.sum(), result.value[0]) == (4, 0, 0)
        with pytest.raises(ValueError, match="no tree 0"):
            player.node(0, [])


def test_only_players_that_search_say_so(rng: np.random.Generator) -> None:
    """By what they can do, whatever their type is."""
    for text in ("uct:5", "best@5", "best@0"):
        assert as_searching(parse_player(text, rng=rng)) is not None
    for text in ("random", "solver", "negamax:2"):
        assert as_searching(parse_player(text, rng=rng)) is None
        with pytest.raises(PlayerError, match=f"'{text}' searches no tree"):
            parse_searching_player(text, rng=rng)


def test_a_shipped_network_is_not_a_file_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Whatever lies in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "best").write_text("no network")
    assert parse_player("best@5", rng=rng).name == "best@5"
    assert load_network("best")[1].network.config.channels > 0


def test_an_unknown_player_is_answered_with_all_forms(rng: np.random.Generator) -> None:
    """Those of the command's help."""
    with pytest.raises(PlayerError, match=r"FILE.safetensors@600.*uct:1000.*negamax:4.*solver.*random.*openspiel:1000"):
        parse_player("nobody", rng=rng)


def test_players_and_matches_do_not_load_the_solver() -> None:
    """Promotion plays matches, and must not be able to ask the judge by accident: only the specifications know it."""
    program = "import sys, alphac4.arena.players, alphac4.arena.match; print('alphac4.solver' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"False\n"
