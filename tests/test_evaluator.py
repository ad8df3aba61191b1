import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch

from alphac4.checkpoint import load_checkpoint
from alphac4.checkpoint_header import shipped_checkpoint
from alphac4.game import Position
from alphac4.game.planes import make_planes
from alphac4.game.rules import STANDARD
from alphac4.nn import Evaluator, NetworkConfig, PolicyValueNetwork, UniformEvaluator
from alphac4.nn.backends import INT8, Array, TorchBackend, available_backends
from alphac4.nn.evaluator import measure_backends, softmax
from alphac4.nn.network import fold_batch_norm
from alphac4.nn.quantization import input_ranges, random_boards

needs_8_bits = pytest.mark.skipif(INT8 not in available_backends("cpu", 8, 1, 1), reason="needs openvino")


class BrokenBackend:
    """Correct answers, spoilt: ``scale`` 0 answers zeros, NaN spoils the value alone."""

    def __init__(self, network: PolicyValueNetwork, policy_scale: float, value_scale: float) -> None:
        self._run = TorchBackend(network, "cpu", torch.float32, 1)
        self._scales = policy_scale, value_scale

    def __call__(self, planes: Array) -> tuple[Array, Array]:
        """See `Backend`."""
        policy, value = self._run(planes)
        return policy * np.float32(self._scales[0]), value * np.float32(self._scales[1])


def fresh_network() -> PolicyValueNetwork:
    """An untrained network, whose probabilities are near uniform whatever its tower computes."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return PolicyValueNetwork(NetworkConfig(channels=16, blocks=2)).eval()


@pytest.mark.parametrize("scales", [(0.0, 1.0), (1.0, 0.0), (1.0, float("nan")), (float("nan"), 1.0), (1.5, 1.0)])
@pytest.mark.parametrize("trained", [False, True])
def test_a_backend_that_answers_otherwise_is_never_chosen(
    network: PolicyValueNetwork, scales: tuple[float, float], trained: bool
) -> None:
    """Also for a new network, where wrong and right answers are both near uniform, and for a NaN in one output."""
    rates = measure_backends(
        network if trained else fresh_network(),
        {
            "right": lambda network: TorchBackend(network, "cpu", torch.float32, 1),
            "broken": lambda network: BrokenBackend(network, *scales),
        },
        batch_size=16,
        streams=1,
        seconds=0.01,
        rounds=1,
    )
    assert list(rates) == ["right"]


@pytest.mark.parametrize("trained", [False, True])
def test_no_backend_of_this_machine_is_refused(network: PolicyValueNetwork, trained: bool) -> None:
    """The tolerance leaves room for bf16, and for 8 bits."""
    available = available_backends("cpu", 32, 1, 1)
    chosen_from = measure_backends(network if trained else fresh_network(), available, 32, 1, 0.01, 1)
    assert set(chosen_from) == set(available)


def test_backends_are_compared_on_boards_that_can_arise(network: PolicyValueNetwork) -> None:
    """Boards of all kinds, not one again and again."""
    seen: list[Array] = []

    def watched(network: PolicyValueNetwork) -> Callable[[Array], tuple[Array, Array]]:
        run = TorchBackend(network, "cpu", torch.float32, 1)

        def answer(planes: Array) -> tuple[Array, Array]:
            seen.append(planes)
            return run(planes)

        return answer

    measure_backends(network, {"watched": watched}, 64, 1, 0.01, 1)
    check_boards(seen[0])
    assert len({planes.tobytes() for planes in seen[0]}) > 32


@needs_8_bits
@pytest.mark.parametrize("name", ["quick", "standard", "former-standard", "grown"])
def test_the_shipped_networks_may_run_on_8_bits(name: str) -> None:
    """What they learned does not make the rounding worse than what a backend is refused for."""
    available = {INT8: available_backends("cpu", 512, 1, 1)[INT8]}
    network = load_checkpoint(shipped_checkpoint(name)).network
    assert list(measure_backends(network, available, 512, 1, 0.01, 1)) == [INT8]


def test_a_backend_that_cannot_start_is_passed_over(network: PolicyValueNetwork) -> None:
    """An optional library that fails must not end the program."""

    def fail(_network: PolicyValueNetwork) -> TorchBackend:
        raise OSError("cannot load shared object")

    working = {"good": lambda network: TorchBackend(network, "cpu", torch.float32, 1), "bad": fail}
    assert list(measure_backends(network, working, 8, 1, 0.01, 1)) == ["good"]
    with pytest.raises(RuntimeError, match="no inference backend"):
        measure_backends(network, {"bad": fail}, 8, 1, 0.01, 1)


def test_a_backend_that_fails_in_one_thread_is_passed_over(network: PolicyValueNetwork) -> None:
    """The other threads do not wait for it without end."""
    calls = 0

    class FailsLater(TorchBackend):
        def __call__(self, planes: Array) -> tuple[Array, Array]:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise MemoryError
            return super().__call__(planes)

    backends = {
        "good": lambda network: TorchBackend(network, "cpu", torch.float32, 1),
        "bad": lambda network: FailsLater(network, "cpu", torch.float32, 1),
    }
    assert list(measure_backends(network, backends, 8, 2, 0.01, 1)) == ["good"]
    assert calls >= 2


def test_the_automatic_choice_is_the_fastest_measured(network: PolicyValueNetwork) -> None:
    """With a rate for every backend that was tried."""
    evaluator = Evaluator(network, batch_size=8, device="cpu", threads=1)
    assert evaluator.backend == max(evaluator.rates, key=lambda name: evaluator.rates[name])


@pytest.mark.parametrize("name", list(available_backends("cpu", 16, 1, 1)))
def test_an_update_changes_the_answers_of_threads_that_have_called_before(
    network: PolicyValueNetwork, name: str
) -> None:
    """A backend that keeps compiled requests a thread must not answer for the old weights."""
    planes = random_boards(6, 7, 16, np.random.default_rng(2))  # 8 bits answer for boards that can arise
    evaluator = Evaluator(fresh_network(), batch_size=16, backend=name)
    before = evaluator.evaluate(planes)[0]
    evaluator.update(network)
    after = evaluator.evaluate(planes)[0]
    with torch.inference_mode():
        expected = network(torch.from_numpy(planes))[0].numpy()
    assert np.abs(after - expected).max() < 0.05 * np.abs(expected).max()
    assert np.abs(after - before).max() > 0.5 * np.abs(expected).max()


def test_folding_leaves_the_callers_random_numbers_and_network_alone(network: PolicyValueNetwork) -> None:
    """Loading weights in the middle of a run must not change what is drawn afterwards."""
    network.train()
    state = torch.random.get_rng_state()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    fold_batch_norm(network)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert network.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


@pytest.mark.parametrize("argument", ["batch_size", "streams", "threads"])
def test_an_impossible_size_is_refused_by_name(network: PolicyValueNetwork, argument: str) -> None:
    """Not by a division by zero at the first call."""
    with pytest.raises(ValueError, match=f"{argument} must be at least 1"):
        Evaluator(network, backend="torch-fp32", device="cpu", **{argument: 0})


def test_an_unknown_device_is_refused_by_name(network: PolicyValueNetwork) -> None:
    """It must not silently run on the CPU."""
    with pytest.raises(ValueError, match="no device 'tpu'"):
        Evaluator(network, device="tpu")


def test_the_uniform_evaluator_has_no_opinion() -> None:
    """Equal shares of every move and every outcome, which add up to one."""
    policy, wdl = UniformEvaluator().evaluate(np.zeros((3, 2, 5, 6), np.float32))
    np.testing.assert_array_equal(policy, np.zeros((3, 6)))
    np.testing.assert_allclose(wdl, 1 / 3)


@pytest.mark.slow
@needs_8_bits
def test_eight_bits_are_taken_only_where_they_are_allowed(network: PolicyValueNetwork) -> None:
    """Strength is measured without rounding; self-play may choose the faster one."""
    assert "openvino-int8" not in Evaluator(network, batch_size=8, threads=1).rates
    assert "openvino-int8" in Evaluator(network, batch_size=8, threads=1, int8=True).rates


@needs_8_bits
def test_eight_bits_answer_nearly_as_fp32(network: PolicyValueNetwork) -> None:
    """On real positions of random games, and not exactly the same, or nothing would have been quantised."""
    rng = np.random.default_rng(3)
    positions = [random_position(rng) for _ in range(128)]
    own = np.array([position.own for position in positions], np.uint64)
    occupied = np.array([position.occupied for position in positions], np.uint64)
    planes = make_planes(STANDARD, own, occupied)
    exact = Evaluator(network, batch_size=128, backend="torch-fp32", threads=1).evaluate(planes)
    rounded = Evaluator(network, batch_size=128, backend="openvino-int8", threads=1).evaluate(planes)
    off = np.abs(softmax(rounded[0]) - softmax(exact[0]))
    assert 0 < off.mean() < 0.01
    assert 0 < np.abs(rounded[1] - exact[1]).mean() < 0.01


def random_position(rng: np.random.Generator) -> Position:
    """After up to 30 random moves, unfinished."""
    while True:
        position = Position()
        for _ in range(int(rng.integers(0, 31))):
            position = position.play(int(rng.choice(position.legal_columns())))
            if position.outcome() is not None:
                break
        if position.outcome() is None:
            return position


def check_boards(planes: Array) -> None:
    """Fail unless all of these can arise."""
    stones = planes.sum(axis=1)
    assert stones.max() == 1
    assert (np.diff(stones, axis=1) <= 0).all()  # rows from the bottom
    own, other = planes.sum(axis=(2, 3)).T
    assert set(np.unique(other - own)) == {0.0, 1.0}


def test_random_boards_obey_gravity_and_alternate(rng: np.random.Generator) -> None:
    """No stone hangs or shares its cell, and the side to move has as many stones as the other or one less."""
    planes = random_boards(6, 7, 200, rng)
    check_boards(planes)
    assert planes.sum(axis=(1, 2, 3)).max() > 35


def test_input_ranges_are_the_largest_inputs(network: PolicyValueNetwork, rng: np.random.Generator) -> None:
    """Of the stem the planes' 1; of the first block what the stem leaves, computed by hand."""
    folded = fold_batch_norm(network)
    planes = random_boards(6, 7, 32, rng)
    ranges = input_ranges(folded, planes)
    assert ranges["stem"] == 1.0
    with torch.inference_mode():
        stem = torch.relu(folded.stem(torch.from_numpy(planes)))
    assert ranges["tower.0.first"] == pytest.approx(float(stem.max()))


@pytest.mark.slow
@needs_8_bits
def test_ctrl_c_survives_openvino() -> None:
    """In a process of its own, several times: its plugin's signal stack was too small for Python's handler."""
    program = """
import os, signal, threading, time
import torch
from alphac4.nn import Evaluator, NetworkConfig, PolicyValueNetwork
network = PolicyValueNetwork(NetworkConfig(channels=4, blocks=1)).eval()
Evaluator(network, batch_size=1, threads=1, backend="openvino-fp32")
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started this in the background
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    time.sleep(20)
except KeyboardInterrupt:
    print("caught")
"""
    for _ in range(3):
        result = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
        )
        assert (result.returncode, result.stdout.strip()) == (0, "caught"), result.stderr
