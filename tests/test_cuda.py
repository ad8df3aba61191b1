import itertools
import os
import subprocess
import sys
import types
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from alphac4.checkpoint import Checkpoint, save_checkpoint
from alphac4.cli import main
from alphac4.cuda import actor as device_actor
from alphac4.cuda import kernels
from alphac4.cuda import search as device_search
from alphac4.cuda.actor import DeviceActor
from alphac4.cuda.arrays import share_trees
from alphac4.cuda.device import largest_that_fits, simulated
from alphac4.cuda.search import DeviceSearch
from alphac4.evaluation.answers import ask_network
from alphac4.evaluation.positions import packaged_positions
from alphac4.game import STANDARD, Geometry, Position, make_geometry
from alphac4.mcts import Budget, NetworkSearch
from alphac4.mcts import search as host_search
from alphac4.mcts.tree import NO_NODE, make_trees
from alphac4.nn import Evaluator
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork
from alphac4.selfplay.actor import Actor
from alphac4.selfplay.blocks import Block
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.training.config import from_dict
from alphac4.training.loop import TrainingLoop

pytestmark = pytest.mark.beside
CONFIG = SelfPlayConfig(full_simulations=12, fast_simulations=6, full_share=0.5)
GEOMETRY = make_geometry(4, 5, 3)
GAMES = 5


@pytest.mark.slow
def test_in_the_simulator() -> None:
    """The tests marked gpu pass in Numba's simulator: no GPU is needed to check what kernels do."""
    files = [path for path in Path(__file__).parent.glob("test_*.py") if "pytest.mark.gpu" in path.read_text("utf-8")]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", *map(str, files)],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert "skipped" not in result.stdout
    assert int(result.stdout.split(" passed")[0].split()[-1]) >= 8


def small_network(geometry: Geometry) -> PolicyValueNetwork:
    """An untrained network with opinions."""
    torch.manual_seed(1)
    network = PolicyValueNetwork(NetworkConfig(rows=geometry.rows, columns=geometry.columns, channels=8, blocks=1))
    with torch.no_grad():
        for parameter in (network.policy.weight, network.value.weight):
            parameter.mul_(5.0)
    return network.eval()


def games_of(blocks: list[Block]) -> Counter[bytes]:
    """Every finished game with all that was recorded of it, as bytes; numbers rounded to float order."""
    found: Counter[bytes] = Counter()
    for block in blocks:
        games = block.games
        for row, plies in enumerate(games.plies):
            exact = (games.moves, games.own, games.occupied, games.full_searches)
            rounded = (games.policy, games.value, games.draw, games.regret, games.surprise)
            parts = [array[row, :plies].tobytes() for array in exact]
            parts += [(np.round(array[row, :plies], 3) + 0.0).tobytes() for array in rounded]
            found[b"".join([*parts, bytes([plies, games.opening[row], games.outcome[row] + 1])])] += 1
    return found


def play_on_cpu(actor: Actor, samples: int) -> Counter[bytes]:
    """The games that an actor finishes."""
    return games_of(list(actor.play(samples, lambda: False)))


def cpu_actor(config: SelfPlayConfig = CONFIG) -> Actor:
    """The one to be compared with."""
    evaluator = Evaluator(small_network(GEOMETRY), batch_size=GAMES, device="cpu", backend="torch-fp32")
    return Actor(GEOMETRY, config, evaluator, GAMES, np.random.default_rng(7))


def on_the_device(config: SelfPlayConfig = CONFIG) -> DeviceActor:
    """The same on the device."""
    return DeviceActor(GEOMETRY, config, small_network(GEOMETRY), GAMES, np.random.default_rng(7), torch.float32)


def same_games(ours: Counter[bytes], theirs: Counter[bytes]) -> bool:
    """Whether the device, which may have gone on longer, has played the same games.

    On a GPU but for one, or one in fifty: rounding may decide between moves that are as good as tied, although noise
    of two parts in ten million on a network's answers has changed none of these games on a core.
    """
    missing = ours.total() - (ours & theirs).total()
    return missing == 0 if simulated() else missing <= max(1, ours.total() // 50)


@pytest.fixture(autouse=True)
def single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole single precision on a GPU, whose convolutions would otherwise keep ten bits."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        SelfPlayConfig(full_simulations=12, fast_simulations=4, gumbel_actions=4, record_fast=False),
        SelfPlayConfig(full_simulations=12, fast_simulations=4, fork_share=0.6, fork_plies=8, fork_by="regret"),
    ],
    ids=["puct", "gumbel", "forks"],
)
def test_the_device_plays_the_same_games(config: SelfPlayConfig) -> None:
    """As an actor on the CPU with the same seed: moves, targets, values."""
    ours = play_on_cpu(cpu_actor(config), 100)
    blocks = list(on_the_device(config).play(180, lambda: False))
    assert ours.total() > 8
    assert same_games(ours, games_of(blocks))
    assert sum(block.work.simulations for block in blocks) > 100
    assert sum(block.work.evaluations for block in blocks) % GAMES == 0


@pytest.mark.gpu
def test_no_game_is_lost_when_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking so seldom that all rows fill up and slots have to wait."""
    monkeypatch.setattr(device_actor, "STEPS_BETWEEN_LOOKS", 150)
    config = replace(CONFIG, full_simulations=4, fast_simulations=2)
    ours = play_on_cpu(cpu_actor(config), 250)
    blocks = list(on_the_device(config).play(400, lambda: False))
    assert max(len(block.games.plies) for block in blocks) == 4 * GAMES
    assert same_games(ours, games_of(blocks))


@pytest.mark.gpu
def test_games_under_way_move_between_device_and_host() -> None:
    """What one saves, the other takes up, and goes on with the same games."""
    first = on_the_device()
    list(first.play(40, lambda: False))
    state = first.state()
    host, again = cpu_actor(), on_the_device()
    host.restore(state)
    again.restore(state)
    assert same_games(play_on_cpu(host, 60), games_of(list(again.play(150, lambda: False))))
    with pytest.raises(ValueError, match="do not fit"):
        again.restore({name: array[:2] for name, array in state.items()})


@pytest.mark.gpu
def test_other_weights_and_other_games() -> None:
    """After an update or a reset the games differ from those that would have been."""
    plain = games_of(list(on_the_device().play(40, lambda: False)))
    updated, reset = on_the_device(), on_the_device()
    network = small_network(GEOMETRY)
    with torch.no_grad():
        network.policy.bias.copy_(torch.linspace(-3, 3, GEOMETRY.columns))
    updated.update(network)
    reset.reset(np.random.default_rng(99))
    for other in (updated, reset):
        assert not plain & games_of(list(other.play(40, lambda: False)))


@pytest.mark.gpu
@pytest.mark.parametrize("simulations", [1, 60])
def test_search_on_the_device_finds_the_same(simulations: int) -> None:
    """Visits, values, proofs and variations of a batch, and of a smaller and a larger one after it."""
    network = small_network(STANDARD)
    evaluator = Evaluator(network, device="cpu", backend="torch-fp32")
    ours = NetworkSearch(evaluator, rng=np.random.default_rng(0))
    theirs = DeviceSearch(evaluator, rng=np.random.default_rng(0), precision=torch.float32)
    moves = ["", "44", "112233", "4455", "1212124"]
    for batch in (moves, moves[1:3], [*moves, "7"]):
        positions = [Position.from_moves(line) for line in batch]
        expected, found = (search.search(positions, Budget(simulations=simulations)) for search in (ours, theirs))
        assert found.visits.tolist() == expected.visits.tolist()
        assert found.proofs.tolist() == expected.proofs.tolist()
        assert found.variations == expected.variations
        np.testing.assert_allclose(found.wdl, expected.wdl, atol=1e-4)
        np.testing.assert_allclose(found.values, expected.values, atol=1e-4)


@pytest.mark.gpu
def test_evaluation_by_search_on_the_device_is_the_same() -> None:
    """Answers to a set of positions."""
    network = small_network(STANDARD)
    sets = packaged_positions(12)
    evaluator = Evaluator(network, device="cpu", backend="torch-fp32")
    ours = NetworkSearch(evaluator, rng=np.random.default_rng(0))
    theirs = DeviceSearch(evaluator, rng=np.random.default_rng(0), precision=torch.float32)
    expected, found = (ask_network(evaluator, sets, 20, [search]) for search in (ours, theirs))
    same = [(a == b).mean() for a, b in zip(expected.columns, found.columns, strict=True)]
    assert np.mean(same) == 1.0 if simulated() else np.mean(same) > 0.9


@pytest.mark.gpu
def test_search_on_the_device_ends_in_time_and_takes_other_weights() -> None:
    """A clock is looked at now and then; an update changes the opinion."""
    network = small_network(STANDARD)
    evaluator = Evaluator(network, device="cpu", backend="torch-fp32")
    search = DeviceSearch(evaluator, rng=np.random.default_rng(0), precision=torch.float32)
    before = search.search([Position()], Budget(seconds=0.01))
    assert 0 < before.simulations[0] < 10_000
    with torch.no_grad():
        network.policy.bias.copy_(torch.linspace(-3, 3, 7))
    evaluator.update(network)
    after = search.search([Position()], Budget(simulations=8))
    assert after.priors[0].argmax() == 6 != before.priors[0].argmax()


@pytest.mark.gpu
def test_simulations_that_end_in_draws_do_not_keep_the_device_from_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step ends after some of them, although no leaf waits; the clock advances by a second at every look."""
    network = small_network(STANDARD)
    with torch.no_grad():  # sure of the second column, which soon is a proven draw, and that whoever moves will win
        for parameter in (network.policy.weight, network.value.weight):
            parameter.zero_()
        network.policy.bias.copy_(torch.tensor([0.0, 40, 0, 0, 0, 0, 0]))
        network.value.bias.copy_(torch.tensor([40.0, 0, 0]))
    evaluator = Evaluator(network, device="cpu", backend="torch-fp32")
    search = DeviceSearch(evaluator, rng=np.random.default_rng(0), precision=torch.float32)
    ticks = itertools.count()
    clock = types.SimpleNamespace(perf_counter=lambda: float(next(ticks)))
    for module in (host_search, device_search):
        monkeypatch.setattr(module, "time", clock)
    drawn = Position.from_moves("15257261452643115367565214214636")
    result = search.search([drawn], Budget(simulations=200_000, seconds=60))
    assert 3_000 < result.simulations[0] <= 61 * device_search.STEPS_BETWEEN_LOOKS * kernels.SIMULATIONS_A_STEP


@pytest.mark.parametrize("nodes", [10, 40_000])
def test_a_node_is_one_record(nodes: int) -> None:
    """Fields lie within a multiple of 32 bytes, none over another, with room for indices and counts up to the size."""
    trees = share_trees(make_trees(2, 1, STANDARD, np.random.default_rng(0)), nodes, torch.device("cpu"))
    record = trees.tensors["visits"].stride(1) * trees.tensors["visits"].element_size()
    assert record == (128 if nodes == 10 else 160)
    assert trees.tensors["leaf"].tolist() == [NO_NODE, NO_NODE]
    for index, name in enumerate(("visits", "child", "parent", "prior", "value", "value_sum", "proof")):
        field: npt.NDArray[np.generic] = getattr(trees.arrays, name)
        field[1, nodes - 1] = index + 1
    assert trees.arrays.parent.dtype == (np.int16 if nodes == 10 else np.int32)
    trees.arrays.child[0, 0, 6] = nodes - 1
    for index, name in enumerate(("visits", "child", "parent", "prior", "value", "value_sum", "proof")):
        assert (trees.read(name)[1, nodes - 1] == index + 1).all()
        assert not trees.read(name)[1, : nodes - 1].any()
    assert trees.read("child")[0, 0, 6] == nodes - 1


def test_too_many_games_for_the_memory_become_fewer(caplog: pytest.LogCaptureFixture) -> None:
    """At the start, with a line that says so; down to a least number."""

    def make(games: int) -> str:
        if games > 300:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return f"{games} games"

    assert largest_that_fits(make, 1000, 100) == ("250 games", 250)
    assert caplog.messages == ["the GPU's memory has room for 250 games at once, not for 1000"]
    with pytest.raises(RuntimeError, match="no room for 500 games"):
        largest_that_fits(make, 1000, 400)


def test_without_a_gpu_commands_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    network = tmp_path / "net.safetensors"
    save_checkpoint(network, Checkpoint(network=small_network(STANDARD)))
    for command in (
        ["train", "--device", "cuda", "--run", str(tmp_path / "run")],
        ["benchmark", "--device", "cuda"],
        ["selfplay", str(network), "--device", "cuda"],
    ):
        assert main(command) == 2
        message = capsys.readouterr().err.strip()
        assert "no CUDA device" in message
        assert len(message.splitlines()) == 1


@pytest.mark.slow
def test_kernels_compile_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where numba-cuda and its compiler are installed, with or without a GPU: to machine-independent code."""
    pytest.importorskip("numba_cuda", reason="needs pip install 'alphac4[cuda]'")
    from numba import cuda, typeof
    from numba.cuda import dispatcher

    from alphac4.cuda import kernels
    from alphac4.cuda.network import Exchange
    from alphac4.selfplay.game_arrays import make_finished, make_games, make_parameters

    hopper = types.SimpleNamespace(compute_capability=(9, 0))
    monkeypatch.setattr(dispatcher, "get_current_device", lambda: hopper)
    trees = share_trees(make_trees(4, 1, STANDARD, np.random.default_rng(0)), 100, torch.device("cpu")).arrays
    exchange = Exchange(
        np.zeros((4, 6, 7, 2), np.uint16).transpose(0, 3, 1, 2),
        np.uint16(0x3F80),
        np.zeros((4, 7), np.float32),
        np.zeros((4, 3), np.float32),
    )
    games, finished = make_games(4, STANDARD), make_finished(16, STANDARD)
    puct = CONFIG.puct.parameters()
    for kernel, arguments in (
        (kernels.advance, (STANDARD, trees, games, finished, make_parameters(CONFIG), puct, exchange)),
        (kernels.restart, (STANDARD, trees, games)),
        (kernels.write_leaves, (STANDARD, trees, exchange)),
        (kernels.search_step, (STANDARD, trees, np.zeros(4, np.int64), puct, exchange, np.zeros(4, np.bool_))),
    ):
        signature = tuple(typeof(argument) for argument in arguments)
        code, _ = cuda.compile(kernel.py_func, signature, cc=(9, 0), output="ptx", device=False, abi="numba")
        assert ".entry" in code


@pytest.mark.gpu
def test_a_run_trains_on_the_device_and_goes_on_elsewhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Self-play, learning and matches; a later session without a GPU takes the run up, and its games."""
    config = from_dict(
        {
            "iterations": 2,
            "samples": 60,
            "device": "cuda",
            "board": {"rows": 4, "columns": 5, "run_length": 3},
            "network": {"channels": 8, "blocks": 1},
            "selfplay": {"device_games": 6, "full_simulations": 8, "fast_simulations": 4},
            "learning": {"batch_size": 32},
            "gate": {"pairs": 2, "simulations": 4, "classic_every": 0, "closing_pairs": 1, "classic_rollouts": [10]},
        }
    )
    history = TrainingLoop.open(tmp_path / "run", config).run()
    assert [report.iteration for report in history] == [1, 2]
    assert history[-1].selfplay.evaluator == ("device-float32" if simulated() else "device-bfloat16")
    assert history[-1].selfplay.samples >= 60
    assert history[-1].learning.policy_loss > 0
    assert len(TrainingLoop.open(tmp_path / "run", replace(config, iterations=3)).run()) == 3
    assert not caplog.messages or "new ones begin" not in caplog.text
    elsewhere = replace(config, iterations=4, device="cpu", backend="torch-fp32")
    assert len(TrainingLoop.open(tmp_path / "run", elsewhere).run()) == 4
    assert "new ones begin" not in caplog.text
