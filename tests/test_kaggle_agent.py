import itertools
import random
from pathlib import Path

import numpy as np
import pytest
from kaggle_stub import Struct, play, random_agent

from alphac4.arena.players import PlayerError
from alphac4.checkpoint import Checkpoint, save_checkpoint
from alphac4.game import Position, make_geometry
from alphac4.integrations import kaggle
from alphac4.integrations.kaggle import agent, make_agent
from alphac4.mcts import search
from alphac4.nn.network import PolicyValueNetwork

BOARDS = {
    "the network's own": (6, 7, 4),
    "one where no network fits": (5, 5, 3),
    "one beyond 64 bits": (8, 9, 5),
    "one without any run": (3, 3, 4),
    "a single column": (4, 1, 2),
}


@pytest.fixture
def checkpoint(network: PolicyValueNetwork, tmp_path: Path) -> Path:
    """A checkpoint of the standard board."""
    path = tmp_path / "small.safetensors"
    save_checkpoint(path, Checkpoint(network=network))
    return path


def ask(player: kaggle.Agent, moves: str = "", timeout: float = 0.05) -> int:
    """What the agent plays on the standard board."""
    position = Position.from_moves(moves)
    obs = Struct(board=position.to_kaggle(), mark=len(moves) % 2 + 1)
    return player(obs, Struct(rows=6, columns=7, inarow=4, actTimeout=timeout))


def test_plays_whole_games_on_any_board(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On either side, with plain ints within the board, and better than random moves, on a clock that no load slows."""
    player = make_agent(checkpoint, seed=0, backend="torch-fp32")
    random.seed(0)
    ticks = itertools.count(0, 0.001)
    monkeypatch.setattr(search.time, "perf_counter", lambda: next(ticks))
    for board, side in itertools.product(BOARDS.values(), (1, 2)):
        agents = [player, player]
        agents[2 - side] = random_agent
        winner, _ = play(agents, *board, timeout=0.4)
        if board[:2] not in ((3, 3), (4, 1)):
            assert winner == side


@pytest.mark.parametrize("specification", ["uct:200", "uct:1s", "random"])
def test_takes_any_player_that_needs_only_the_board(specification: str) -> None:
    """Also on a board of another shape."""
    player = make_agent(specification, seed=0)
    for board in ((6, 7, 4), (4, 5, 3), (9, 9, 4)):
        winner, _ = play([player, random_agent], *board, timeout=0.02)
        assert winner in (0, 1, 2)


def test_takes_a_win_and_blocks(checkpoint: Path) -> None:
    """The board is read the right way up and for the right side."""
    player = make_agent(f"{checkpoint}@50", seed=0, backend="torch-fp32")
    assert ask(player, "112233") == 3
    assert ask(player, "1122337") == 3
    assert ask(player, "12121") == 0
    assert ask(player, "1212127") == 1


def test_stops_within_the_act_timeout(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that goes on 0.1 s whenever it is read, 2 s a move allow 17 looks at it; 5 simulations need few."""
    as_long_as_allowed = make_agent(checkpoint, backend="torch-fp32")
    five = make_agent(f"{checkpoint}@5", backend="torch-fp32")
    for player in (as_long_as_allowed, five):
        ticks = itertools.count(0, 0.1)
        monkeypatch.setattr(search.time, "perf_counter", lambda ticks=ticks: next(ticks))
        ask(player, timeout=2.0)
        spent = next(ticks)
        assert spent < 2.0
        assert (spent > 1.5) == (player is as_long_as_allowed)


def test_the_default_agent_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a shipped network, and without one."""
    assert ask(agent, "112233") == 3
    monkeypatch.setattr("alphac4.checkpoint.SHIPPED", {"best": "nowhere.safetensors"})
    assert ask(make_agent(), "112233") == 3


@pytest.mark.parametrize(
    ("specification", "message"),
    [
        ("nobody", "unknown player"),
        ("missing.safetensors", "no such file"),
        ("missing.safetensors@many", "no such file"),
        ("uct:0", "at least one simulation"),
    ],
)
def test_bad_players_are_refused_at_once(specification: str, message: str) -> None:
    """Before a game begins, in one line."""
    with pytest.raises(PlayerError, match=message):
        make_agent(specification)


def test_a_player_that_needs_the_moves_is_refused() -> None:
    """Kaggle shows the board alone."""
    pytest.importorskip("pyspiel")
    with pytest.raises(PlayerError, match="moves are known"):
        make_agent("openspiel:10")


def test_a_network_of_another_game_does_not_play_kaggles(network: PolicyValueNetwork, tmp_path: Path) -> None:
    """One without diagonals would not see those: classic search takes its place on the same board."""
    path = tmp_path / "straight.safetensors"
    save_checkpoint(path, Checkpoint(network=network, geometry=make_geometry(6, 7, 4, diagonals=False)))
    player = make_agent(f"{path}@50")
    for moves, win in (("52135763655614163", 3), ("24467413226344", 2), ("3447241375375714663", 4)):
        assert Position.from_moves(moves).play(win).outcome() is not None
        assert ask(player, moves) == win


def test_impossible_boards_are_refused() -> None:
    """A stone in the air."""
    player = make_agent("random")
    board = [0] * 42
    board[3] = 1
    with pytest.raises(ValueError, match="nothing below"):
        player(Struct(board=board, mark=2), Struct(rows=6, columns=7, inarow=4))


def test_the_same_seed_plays_the_same_game() -> None:
    """With a budget in simulations."""
    games = [
        play([make_agent("uct:100", seed=seed), make_agent("uct:100", seed=seed)], timeout=60)[1] for seed in (3, 3, 4)
    ]
    assert games[0] == games[1] != games[2]


def test_wins_in_kaggles_own_environment(checkpoint: Path) -> None:
    """Where it is installed: the actions are accepted, and random moves are beaten on either side."""
    environments = pytest.importorskip("kaggle_environments")
    player = make_agent(f"{checkpoint}@200", seed=0, backend="torch-fp32")
    random.seed(0)  # from which Kaggle's player draws its moves
    for side in (0, 1):
        agents = ["random", "random"]
        agents[side] = player  # type: ignore[call-overload]
        env = environments.make("connectx")
        env.run(agents)
        assert [state.status for state in env.state] == ["DONE", "DONE"]
        assert env.state[side].reward == 1
    assert np.shape(env.state[0].observation.board) == (42,)
