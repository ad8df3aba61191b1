import copy
import math
import os
import subprocess
import sys
import types
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unittest.mock import Mock

import numpy as np
import numpy.typing as npt
import pytest
import torch
from campaigns.tiny_run import tiny_run
from helpers import Linear, as_if_trained
from torch import Tensor

import alphac4
from alphac4.compute import choose_compute
from alphac4.game import STANDARD, Board, Position, make_board
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.puct import Puct
from alphac4.mcts.search import Budget
from alphac4.mcts.tree import make_trees
from alphac4.nn.config import NetworkConfig
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.plugins.cuda import replay as replay_kernels
from alphac4.plugins.cuda import search as search_kernels
from alphac4.plugins.cuda import trees as kernels
from alphac4.plugins.cuda.device import (
    ONE,
    WARM_UP_STEPS,
    IoBuffers,
    allocate_with_backoff,
    is_simulated,
    kernel_view,
    make_device_trees,
)
from alphac4.plugins.cuda.learner import DeviceLearner
from alphac4.plugins.cuda.replay import DeviceReplay
from alphac4.plugins.cuda.search import DeviceSearch
from alphac4.plugins.cuda.trees import DeviceActor
from alphac4.runs.folder import RunFolder
from alphac4.runs.session import TrainingSession
from alphac4.selfplay.actor import Actor
from alphac4.selfplay.config import PRIOR_TEMPERATURE, SelfPlayConfig
from alphac4.selfplay.replay import Replay
from alphac4.selfplay.samples import Block, Samples, Target, concatenate, make_samples
from alphac4.training.config import LearningConfig, MachineConfig
from alphac4.training.extensions import Extensions
from alphac4.training.learner import Learner
from alphac4.training.optimizer import CosineSchedule

CONFIG = SelfPlayConfig(full_visits=8, fast_visits=4, full_search_prob=0.5)
BOARD = make_board(4, 5, 3)
GAMES = 4


@pytest.mark.slow(100)
def test_gpu_tests_pass_in_the_simulator() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", str(Path(__file__).parent)],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert "skipped" not in result.stdout
    assert int(result.stdout.split(" passed")[0].split()[-1]) >= 7


def small_network(board: Board) -> PolicyValueNetwork:
    return as_if_trained(NetworkConfig(rows=board.rows, columns=board.columns, channels=8, blocks=1), seed=1)


def games_of(blocks: list[Block]) -> Counter[bytes]:
    """Count finished games by their records as bytes; floats are rounded to three digits."""
    counts: Counter[bytes] = Counter()
    for block in blocks:
        games = block.games
        for row, plies in enumerate(games.plies):
            exact = (games.moves, games.own, games.occupied, games.is_full_search)
            rounded = (games.policy_target, games.value, games.draw, games.regret, games.surprise)
            parts = [array[row, :plies].tobytes() for array in exact]
            parts += [(np.round(array[row, :plies], 3) + 0.0).tobytes() for array in rounded]
            counts[b"".join([*parts, bytes([plies, games.opening_plies[row], games.outcome[row] + 1])])] += 1
    return counts


def finished(actor: Actor | DeviceActor, moves: int) -> Counter[bytes]:
    return games_of(list(actor.play(moves, lambda: False)))


def cpu_actor(config: SelfPlayConfig = CONFIG, games: int = GAMES) -> Actor:
    evaluator = Evaluator(small_network(BOARD), batch_size=games, device="cpu", backend="torch-fp32")
    return Actor(BOARD, config, evaluator, games, np.random.default_rng(7))


def device_actor(config: SelfPlayConfig = CONFIG, games: int = GAMES) -> DeviceActor:
    return DeviceActor(BOARD, config, small_network(BOARD), games, np.random.default_rng(7), torch.float32)


def same_games(ours: Counter[bytes], theirs: Counter[bytes]) -> bool:
    """Return whether the device, which may have played more games, has played all of ``ours``.

    On a GPU, one game, or one in fifty, may be missing: rounding may decide between nearly equal moves. On a core,
    relative noise of 2e-7 on the network's outputs changed none of these games.
    """
    missing = ours.total() - (ours & theirs).total()
    return missing == 0 if is_simulated() else missing <= max(1, ours.total() // 50)


@pytest.fixture(autouse=True)
def single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute in single precision on a GPU: by default, its convolutions round to ten bits."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(
        "alphac4.selfplay.actor.MAX_CACHED_EVALUATIONS", 0
    )  # as on the GPU, so that slots advance at the same pace
    if is_simulated():
        monkeypatch.setattr(
            "alphac4.plugins.cuda.search.THREADS_PER_BLOCK", 8
        )  # the simulator runs each in a Python thread


@pytest.mark.gpu
@pytest.mark.parametrize("policy_target", ["completed_q", "visits"])
def test_the_device_plays_the_same_games_as_a_core(policy_target: Literal["completed_q", "visits"]) -> None:
    config = replace(CONFIG, policy_target=policy_target)
    ours = finished(cpu_actor(config), 16)
    blocks = list(device_actor(config).play(28, lambda: False))
    assert ours.total() > 2
    assert same_games(ours, games_of(blocks))
    assert sum(block.stats.simulations for block in blocks) > 100


@pytest.mark.gpu
def test_no_game_is_lost_when_all_slots_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host checks so rarely that all slots have to wait."""
    monkeypatch.setattr("alphac4.plugins.cuda.trees.STEPS_PER_CHECK", 80)
    monkeypatch.setattr("alphac4.plugins.cuda.trees.BLOCK_INTERVAL_S", math.inf)
    config = replace(CONFIG, full_visits=2, fast_visits=1)
    ours = finished(cpu_actor(config, 2), 20)
    blocks = list(device_actor(config, 2).play(30, lambda: False))
    assert ours.total() > 1
    assert max(len(block.games.plies) for block in blocks) == 2 * 2
    assert same_games(ours, games_of(blocks))
    # At most the root of each search and one leaf per simulation are evaluated; slots that wait are not counted.
    searches, simulations = (sum(block.sample_count for block in blocks), sum(b.stats.simulations for b in blocks))
    assert searches < sum(block.stats.evaluations for block in blocks) <= searches + simulations


@pytest.mark.gpu
def test_games_in_progress_move_between_device_and_host() -> None:
    """Each resumes the games that the other has saved."""
    first = device_actor()
    list(first.play(12, lambda: False))
    state = first.state()
    host, again = cpu_actor(), device_actor()
    host.restore(state)
    again.restore(state)
    assert same_games(finished(host, 12), finished(again, 24))
    with pytest.raises(ValueError, match="do not fit"):
        again.restore({name: array[:2] for name, array in state.items()})


@pytest.mark.gpu
def test_an_update_or_a_reset_changes_the_games() -> None:
    plain = finished(device_actor(), 12)
    assert plain
    updated, reset = device_actor(), device_actor()
    network = small_network(BOARD)
    with torch.no_grad():
        network.policy.bias.copy_(torch.linspace(-3, 3, BOARD.columns))
    updated.update(network)
    reset.reset(np.random.default_rng(99))
    for other in (updated, reset):
        assert not plain & finished(other, 12)


@pytest.mark.parametrize("nodes", [10, 40_000])
def test_the_fields_of_a_node_do_not_overlap(nodes: int) -> None:
    """Indices have enough bits for the number of nodes."""
    trees = make_device_trees(make_trees(2, 1, STANDARD, np.random.default_rng(0)), nodes, torch.device("cpu"))
    fields = ("visits", "child", "parent", "priors", "value", "value_sum", "proof")
    for number, name in enumerate(fields, 1):
        field: npt.NDArray[np.generic] = getattr(trees.arrays, name)
        field[1, nodes - 1] = number
    trees.arrays.child[0, 0, 6] = nodes - 1
    for number, name in enumerate(fields, 1):
        assert (trees.read(name)[1, nodes - 1] == number).all()
        assert not trees.read(name)[1, : nodes - 1].any()
    assert trees.read("child")[0, 0, 6] == nodes - 1


@pytest.mark.parametrize(("dtype", "one"), ONE.items())
def test_kernels_write_the_number_one_in_every_precision(dtype: torch.dtype, one: np.generic) -> None:
    planes = torch.zeros(1, dtype=dtype)
    kernel_view(planes, one.dtype)[0] = one
    assert planes.item() == 1


def test_games_are_reduced_until_they_fit_the_memory(caplog: pytest.LogCaptureFixture) -> None:
    def make(games: int) -> str:
        if games > 300:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return f"{games} games"

    assert allocate_with_backoff(make, 1000, 100) == "250 games"
    assert "room for 250 concurrent games, not for 1000" in caplog.text
    with pytest.raises(RuntimeError, match="no room for 500 concurrent games"):
        allocate_with_backoff(make, 1000, 400)


@pytest.mark.slow
def test_kernels_compile_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba_cuda", reason="needs pip install 'alphac4[cuda]'")
    from numba import cuda, typeof
    from numba.cuda import dispatcher

    from alphac4.selfplay.games import make_games, make_plan

    hopper = types.SimpleNamespace(compute_capability=(9, 0))
    monkeypatch.setattr(dispatcher, "get_current_device", lambda: hopper)
    trees = make_device_trees(make_trees(4, 1, STANDARD, np.random.default_rng(0)), 100, torch.device("cpu")).arrays
    buffers = IoBuffers(
        np.zeros((4, 6, 7, 2), np.uint16).transpose(0, 3, 1, 2),
        np.uint16(0x3F80),
        np.zeros((4, 7), np.float32),
        np.zeros((4, 3), np.float32),
    )
    games, plan = make_games(4, STANDARD), make_plan(STANDARD, CONFIG)
    puct = Puct(prior_temperature=PRIOR_TEMPERATURE)
    stones, planes = np.zeros(4, np.uint64), np.zeros((4, 6, 7, 8), np.float32).transpose(0, 3, 1, 2)
    boards = replay_kernels.Boards(stones, stones, np.zeros(4, np.int8), planes, np.float32(1))
    for kernel, arguments in (
        (kernels.advance, (trees, games, plan, puct, buffers)),
        (kernels.restart, (trees, games)),
        (kernels.write_leaves, (trees, buffers)),
        (search_kernels.grow, (trees, puct, buffers, np.zeros(4, np.int8))),
        (replay_kernels.write_boards, (STANDARD, boards)),
    ):
        signature = tuple(typeof(argument) for argument in arguments)
        code, _ = cuda.compile(kernel.py_func, signature, cc=(9, 0), output="ptx", device=False, abi="numba", opt=False)
        assert ".entry" in code


LEARNING = LearningConfig(batch_size=16, learning_rate=0.01, weight_decay=0.1)
SCHEDULE = CosineSchedule(end_step=100)
NETWORK = NetworkConfig(rows=BOARD.rows, columns=BOARD.columns, planes="lines", channels=8, blocks=1, ownership=True)


@pytest.fixture(scope="module")
def samples() -> Samples:
    games = [block.games for block in cpu_actor().play(60, lambda: False)]
    recorded = concatenate([make_samples(BOARD, CONFIG, part) for part in games])
    targets = {
        "policy": Target(recorded.policy_target.astype(np.float32), per_column=True),
        "value": Target(recorded.value, False),
    }
    return replace(recorded, targets=targets)


def with_targets(outputs: Any, batch: Any) -> dict[str, Tensor]:
    """Return the default losses and one of a user's targets, one of which is mirrored."""
    own = alphac4.cross_entropy(outputs.policy, batch.targets["policy"]) * batch.targets["value"] ** 2
    return alphac4.default_losses(outputs, batch) | {"own": own}


def device_learner(capacity: int, extensions: Extensions | None = None) -> DeviceLearner:
    replay = DeviceReplay(BOARD, capacity, LEARNING.batch_size, NETWORK.input_planes, LEARNING.fast_search_weight)
    return DeviceLearner(NETWORK, LEARNING, BOARD, 3, replay, precision="fp32", extensions=extensions)


class Decaying(torch.optim.SGD):
    """A user's optimiser whose steps depend on a number in Python, and whose state is not 0 at first."""

    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["decay"] = group.get("decay", 1.0) * 0.8
            for parameter in group["params"]:
                first = self.state[parameter].setdefault("first", parameter.detach().clone())
                parameter.grad.add_(parameter.detach() - first).mul_(group["decay"])
        super().step()


@pytest.mark.gpu
@pytest.mark.parametrize(
    "optimizer",
    [
        None,
        lambda module: torch.optim.NAdam(module.parameters(), lr=2e-3),  # its state begins with a product of 1
        lambda module: torch.optim.Rprop(module.parameters(), lr=1e-4),  # and that of this with the learning rate
        lambda module: Decaying(module.parameters(), lr=0.05),
    ],
    ids=["muon", "nadam", "rprop", "user's"],
)
def test_device_learner_matches_the_host_learner(
    optimizer: Any, tmp_path: Path, samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the last of three iterations, the device's window wraps around, and the learner starts from a saved state."""
    if is_simulated():  # without a graph, run the warm-up steps all the same

        def warm_up(step: Callable[[], object], _device: torch.device) -> Callable[[], object]:
            for _ in range(WARM_UP_STEPS):
                step()
            return step

        monkeypatch.setattr("alphac4.plugins.cuda.learner.capture_graph", warm_up)
    replay, window = Replay(tmp_path), 70
    extensions = Extensions(optimizer=optimizer, loss=with_targets)
    host = Learner(NETWORK, LEARNING, BOARD, 3, precision="fp32", workers=1, extensions=extensions)
    device = device_learner(90, extensions)
    for iteration in range(3):
        replay.add(samples.take(slice(40 * iteration, 40 * (iteration + 1))), iteration + 1)
        if iteration == 2:
            saved, device = device.state(), device_learner(90, extensions)
            device.restore(saved)
        size = min(window, 40 * (iteration + 1))
        ours, theirs = (
            learner.learn(replay, size, steps=2 + iteration, schedule=SCHEDULE, rng=np.random.default_rng(iteration))
            for learner in (host, device)
        )
        assert theirs.losses == pytest.approx(ours.losses, rel=1e-3)
        for name in ("policy_entropy", "gradient_norm"):
            assert getattr(theirs, name) == pytest.approx(getattr(ours, name), rel=1e-3), name
        assert (theirs.steps, theirs.window, theirs.skipped_steps) == (ours.steps, ours.window, 0)
        assert theirs.learning_rate == pytest.approx(ours.learning_rate)
        assert device._window.count == min(90, 40 * (iteration + 1))  # each sample once
    expected, actual = host.state(), device.state()
    assert expected.keys() == actual.keys()
    for name, tensor in expected.items():
        if not name.endswith("num_batches_tracked"):
            torch.testing.assert_close(actual[name].to(tensor.dtype), tensor, rtol=2e-3, atol=2e-4, msg=name)


@pytest.mark.gpu
def test_device_learner_skips_non_finite_steps(tmp_path: Path, samples: Samples) -> None:
    replay, learner = Replay(tmp_path), device_learner(100)
    broken = replace(samples, value_target=np.full_like(samples.value_target, np.nan))
    replay.add(samples.take(slice(0, 40)), 1)
    learner.learn(replay, 40, steps=2, schedule=SCHEDULE, rng=np.random.default_rng(0))
    before = learner.state()
    replay.add(broken.take(slice(0, 40)), 2)
    report = learner.learn(replay, 40, steps=3, schedule=SCHEDULE, rng=np.random.default_rng(0))
    assert report.skipped_steps == report.steps == 3
    after = learner.state()
    for name, tensor in before.items():
        if name.startswith(("network.", "average.")) and not name.endswith("num_batches_tracked"):
            assert torch.equal(after[name], tensor), name


@pytest.mark.gpu
def test_device_search_matches_the_host_search() -> None:
    """Visits, proofs and variations are the same, for new and reused trees, and after an update of the weights."""
    evaluator = Evaluator(small_network(BOARD), batch_size=8, device="cpu", backend="torch-fp32")
    host = NetworkSearch(evaluator, board=BOARD, reuse="proofs")
    device = DeviceSearch(evaluator, board=BOARD, reuse="proofs", precision=torch.float32)
    starts = [Position.from_moves(moves, BOARD) for moves in ("", "3", "3321", "1122", "3142", "11")]
    follow = [position.play(position.legal_columns()[0]) for position in starts]
    other = small_network(BOARD)
    with torch.no_grad():
        other.policy.bias.copy_(torch.linspace(-1, 1, BOARD.columns))
    for positions, simulations, network in ((starts, 40, None), (follow, 40, None), (starts[:2], 9, other)):
        if network is not None:
            evaluator.update(network)
        ours, theirs = (search.search(positions, Budget(simulations=simulations)) for search in (host, device))
        close = np.abs(ours.visits - theirs.visits).max() <= (0 if is_simulated() else 2)
        assert close
        assert (ours.proofs == theirs.proofs).all()
        assert ours.variations == theirs.variations
        np.testing.assert_allclose(ours.value, theirs.value, atol=1e-4 if is_simulated() else 0.02)


@pytest.mark.gpu
def test_device_search_frees_the_memory_of_smaller_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each larger budget replaces the trees; the number of games does not matter."""
    allocated, copy = list[weakref.ref[object]](), search_kernels.copy_to_device

    def copy_to_device(*arguments: Any) -> Any:
        copied = copy(*arguments)
        allocated.append(weakref.ref(copied))
        return copied

    monkeypatch.setattr(search_kernels, "copy_to_device", copy_to_device)
    evaluator = Evaluator(small_network(BOARD), batch_size=8, device="cpu", backend="torch-fp32")
    search = DeviceSearch(evaluator, board=BOARD, precision=torch.float32)
    for simulations, count, alive in ((4, 2, 1), (8, 40, 1), (8, 2, 2), (12, 1, 1)):
        search.search([Position(board=BOARD)] * count, Budget(simulations=simulations))
        assert sum(reference() is not None for reference in allocated) == alive
    assert len(allocated) == 4


@pytest.mark.gpu
def test_a_run_on_the_device_resumes_on_cores(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A later session without a GPU also resumes the games in progress."""
    config = tiny_run(
        iterations=1,
        positions_per_iteration=40,
        machine={"device": "cuda", "backend": "cuda-trees"},
        board={"rows": 4, "columns": 5, "run_length": 3},
        selfplay={"parallel_games": 6, "full_visits": 6, "fast_visits": 3},
    )
    elsewhere = replace(config, iterations=3, machine=MachineConfig(device="cpu", backend="torch-fp32"))
    for count, later in enumerate((config, replace(config, iterations=2), elsewhere), 1):
        with TrainingSession(RunFolder(tmp_path / "run", later)) as session:
            history = session.train()
        assert [report.iteration for report in history] == list(range(1, count + 1))
        if later.machine.device == "cuda":
            assert history[-1].selfplay.backend == "cuda-trees"
        assert history[-1].samples_total >= 40 * count
        assert history[-1].learning.policy_loss > 0
    assert "new games begin" not in caplog.text


class LeastVisited(NamedTuple):
    prior_temperature: float = 1.0

    def score(self, trees: Any, t: int, node: int, action: int, totals: Any) -> float:  # noqa: ARG002
        return float(trees.priors[t, node, action] - trees.visits[t, node, action])


@pytest.mark.gpu
def test_functions_of_users_run_on_the_device(caplog: pytest.LogCaptureFixture) -> None:
    """A selection of the least visited move makes the targets nearly uniform."""
    config = tiny_run(
        iterations=2,
        positions_per_iteration=20,
        machine={"device": "cuda", "backend": "cuda-trees"},
        board={"rows": 4, "columns": 5, "run_length": 3},
        learning={"batch_size": 16, "replay_ratio": 1.0},
        selfplay={"parallel_games": 4, "full_visits": 8, "full_search_prob": 1.0, "policy_target": "visits"},
    )
    seen, visits = [], []

    def loss(outputs: Any, batch: Any) -> dict[str, Tensor]:
        seen.append(batch.planes.device)
        return {"policy": 3 * alphac4.default_losses(outputs, batch)["policy"]}

    def policy_target(games: Any, _rng: Any) -> Any:
        visits.append(games.visits.sum(axis=2).max())
        return games.policy_target

    *_, last = alphac4.iterate(
        config,
        network=Linear,
        loss=loss,
        optimizer=lambda network: torch.optim.SGD(network.parameters(), lr=0.01),
        schedule=lambda step, steps: 1 - step / steps,
        sample_weights=lambda window, _rng: window.is_full_search + 0.1,
        value_target=lambda games, _rng: np.broadcast_to([0.0, 1.0, 0.0], (*games.value.shape, 3)),
        selection_rule=LeastVisited(),
        policy_target=policy_target,
        visits=lambda iteration, _ply, _full: 9 + iteration,  # more than in the settings
        temperature=lambda iteration, _ply: 1.0 / iteration,
        noise=lambda _iteration, ply: 0.5 if ply < 4 else 0.0,
        start_positions=lambda _window, _rng: ["32"],
        gate=lambda _play: True,  # no matches, which use the cores
    )
    assert last.selfplay.backend == "cuda-trees"
    assert last.selfplay.games > 0
    assert last.selfplay.openings == {}  # all games begin at the start position
    assert max(visits) in (10, 11)  # the budgets; fewer visits prove most of these positions
    assert 1.4 < last.learning.policy_loss / 3 < 1.7  # of five moves, log 5 is 1.61
    assert last.learning.skipped_steps == 0
    assert seen
    assert not caplog.records


@pytest.mark.gpu
def test_gpu_searches_use_the_updated_weights(network: PolicyValueNetwork) -> None:
    evaluator = choose_compute("cuda", "auto").evaluator(network)
    positions = [Position.from_moves(moves) for moves in ("", "44")]
    searches = [NetworkSearch(evaluator, rng=np.random.default_rng(0)) for _ in range(2)]
    before = [search.search(positions, Budget(simulations=4)).priors for search in searches]
    other = copy.deepcopy(network)
    with torch.no_grad():
        other.policy.bias.copy_(torch.linspace(-9, 9, network.config.columns))
    evaluator.update(other)
    for search, priors in zip(searches, before, strict=True):
        after = search.search(positions, Budget(simulations=4)).priors
        assert after.argmax(axis=1).tolist() == [6, 6] != priors.argmax(axis=1).tolist()


def test_a_missing_compiler_for_the_gpu_is_an_error_only_for_its_own_backend(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("alphac4.compute.devices.self_test_error", lambda: "")
    missing = Mock(side_effect=RuntimeError("numba-cuda is missing"))
    monkeypatch.setattr("alphac4.plugins.cuda.compute.cuda_device", missing)
    assert choose_compute("cuda", "auto").learning_device.type == "cuda"
    assert caplog.messages == ["the trees stay on the cores, which is slower: numba-cuda is missing"]
    with pytest.raises(RuntimeError, match="numba-cuda is missing"):
        choose_compute("cuda", "cuda-trees")
