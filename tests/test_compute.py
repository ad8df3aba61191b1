import contextlib
import copy
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from alphac4.compute import choose, choose_for_run
from alphac4.compute.gpu.device import TREES
from alphac4.compute.gpu.self_test import evaluate_and_learn, self_test_error
from alphac4.game import Position, make_geometry
from alphac4.machine import BlockEndedError, adapt_process, cores, worker_threads
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.search import Budget, Reuse
from alphac4.nn.backends import INT8, make_backend
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.config import SelfPlayConfig

OF_WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
POSITIONS = [Position.from_moves(moves) for moves in ("", "44")]


@pytest.mark.gpu
def test_searches_on_a_gpu_follow_their_evaluator(network: PolicyValueNetwork) -> None:
    evaluator = choose("cuda", "auto").evaluator(network)
    searches = [NetworkSearch(evaluator, rng=np.random.default_rng(0)) for _ in range(2)]
    before = [search.search(POSITIONS, Budget(simulations=4)).priors for search in searches]
    other = copy.deepcopy(network)
    with torch.no_grad():
        other.policy.bias.copy_(torch.linspace(-9, 9, network.config.columns))
    evaluator.update(other)
    for search, priors in zip(searches, before, strict=True):
        after = search.search(POSITIONS, Budget(simulations=4)).priors
        assert after.argmax(axis=1).tolist() == [6, 6] != priors.argmax(axis=1).tolist()


@pytest.mark.parametrize("reuse", ["nothing", "proofs", "trees"])
@pytest.mark.parametrize("moves", ["44", "414141"], ids=["open", "nearly won"])
def test_a_search_after_an_update_is_like_a_new_one(network: PolicyValueNetwork, reuse: Reuse, moves: str) -> None:
    """Neither its cache nor the trees that it keeps hold answers of the weights before."""
    evaluator, positions = choose("cpu", "torch-fp32").evaluator(network), [Position.from_moves(moves)]
    search = NetworkSearch(evaluator, rng=np.random.default_rng(0), reuse=reuse, cache=2**10)
    search.search(positions, Budget(simulations=30))
    if reuse == "proofs" and moves == "414141":
        assert search.search(positions, Budget(simulations=30)).simulations.sum() == 0  # proven, so kept
    other = copy.deepcopy(network)
    with torch.no_grad():
        other.policy.weight.neg_()
        other.value.weight.neg_()
    evaluator.update(other)
    fresh = NetworkSearch(evaluator, rng=np.random.default_rng(0), reuse=reuse)
    actual, expected = (each.search(positions, Budget(simulations=30)) for each in (search, fresh))
    for name in ("priors", "visits", "value"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name))


def test_the_first_evaluator_settles_the_backend(network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = iter([["torch-fp32"], ["torch-bf16"]])
    monkeypatch.setattr("alphac4.nn.evaluator.backend_order", lambda *_args, **_options: next(orders))
    compute = choose("cpu")
    assert [compute.evaluator(network).backend for _ in range(2)] == ["torch-fp32", "torch-fp32"]
    assert compute.backend == "torch-fp32"


def test_only_self_play_may_use_8_bits(network: PolicyValueNetwork) -> None:
    pytest.importorskip("openvino")
    config, geometry = SelfPlayConfig(games=4), make_geometry()
    for backend in ("auto", INT8):
        compute = choose_for_run("cpu", backend)
        assert compute.actors(network, geometry, config, np.random.default_rng).backend == INT8
        assert compute.evaluator(network).backend != INT8
    assert choose("cpu").evaluator(network).backend != INT8


def test_a_runs_backends_are_those_asked_for() -> None:
    assert [choose_for_run("cpu", name).backend for name in ("auto", "torch-fp32")] == ["auto", "torch-fp32"]


def test_actors_report_the_backend_of_their_latest_network(
    network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(["torch-bf16", "torch-fp32"])

    def chosen(_order: object, network: PolicyValueNetwork, batch: int, threads: int, _warned: object) -> Any:
        name = next(names)
        return name, make_backend(name, network, batch, threads)

    monkeypatch.setattr("alphac4.nn.evaluator.select_backend", chosen)
    compute = choose_for_run("cpu", "auto")
    actors = compute.actors(network, make_geometry(), SelfPlayConfig(games=4), np.random.default_rng)
    assert actors.backend == "torch-bf16"
    actors.update(network)
    assert actors.backend == "torch-fp32"


def lying(network: PolicyValueNetwork, planes: torch.Tensor, device: str) -> list[torch.Tensor]:
    answers = evaluate_and_learn(network, planes, "cpu")
    return answers if device == "cpu" else [*answers[:-1], answers[-1] * 1.05 + 0.01]


def without_a_block(network: PolicyValueNetwork, planes: torch.Tensor, device: str) -> list[torch.Tensor]:
    """What a GPU computes that leaves out half of the tower, although it has learned what it should."""
    expected = evaluate_and_learn(network, planes, "cpu")
    if device == "cuda":
        network = copy.deepcopy(network)
        network.tower = network.tower[:1]
        with torch.inference_mode():
            expected[:2] = network(planes)
    return expected


def without_learning(network: PolicyValueNetwork, planes: torch.Tensor, device: str) -> list[torch.Tensor]:
    """What a GPU computes whose gradients are zero."""
    policy, value, loss, *weights = evaluate_and_learn(network, planes, "cpu")
    before = [tensor.float() for tensor in network.state_dict().values()]
    return [policy, value, loss, *(before if device == "cuda" else weights)]


def swapping(network: PolicyValueNetwork, planes: torch.Tensor, device: str) -> list[torch.Tensor]:
    """Two classes of the value in each other's place."""
    policy, value, *rest = evaluate_and_learn(network, planes, "cpu")
    return [policy, value[:, [1, 0, 2]] if device == "cuda" else value, *rest]


def broken(network: PolicyValueNetwork, planes: torch.Tensor, device: str) -> list[torch.Tensor]:
    if device == "cuda":
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nand twenty more lines")
    return evaluate_and_learn(network, planes, "cpu")


def hanging(network: PolicyValueNetwork, planes: torch.Tensor, device: str) -> list[torch.Tensor]:
    if device == "cuda":
        threading.Event().wait(5)
    return evaluate_and_learn(network, planes, "cpu")


def sound(network: PolicyValueNetwork, planes: torch.Tensor, device: str) -> list[torch.Tensor]:
    noise = 1 + 1e-3 * (device == "cuda")  # of ten bits
    return [noise * tensor for tensor in evaluate_and_learn(network, planes, "cpu")]


@pytest.mark.parametrize(
    ("probe_network", "told"),
    [
        (sound, ""),
        (lying, "the GPU is not used: its self-test differs by "),
        (without_a_block, "the GPU is not used: its self-test differs by "),
        (without_learning, "the GPU is not used: its self-test differs by "),
        (swapping, "the GPU is not used: its self-test differs by "),
        (broken, "the GPU is not used: its self-test failed: CUDA error: an illegal memory access was encountered"),
        (hanging, "the GPU is not used: its self-test has not ended in 1 seconds"),
    ],
)
def test_a_gpu_that_lies_fails_or_hangs_is_not_used(
    probe_network: Callable[..., list[torch.Tensor]],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Networks run and learn on the cores then, and one line says why."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("alphac4.compute.gpu.self_test.evaluate_and_learn", probe_network)
    monkeypatch.setattr("alphac4.compute.gpu.self_test.MAX_SECONDS", 1.0 if probe_network is hanging else 300.0)
    monkeypatch.setattr("alphac4.compute.choice.self_test_error", self_test_error.__wrapped__)
    for compute, backend in ((choose("cuda", "auto"), "auto"), (choose_for_run("auto", "cuda-bf16"), "cuda-bf16")):
        assert compute.learning_device.type == ("cpu" if told else "cuda")
        assert compute.backend == ("auto" if told else backend)
    assert [message[: len(told)] for message in caplog.messages] == ([told, told] if told else [])


LOADED = """
import sys
from pathlib import Path
from alphac4.cli import main
sys.argv = ["alphac4", "--version"]
assert main() == 0  # as the command's own process
import alphac4.runs.session
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.compute import choose
choose("cpu", "torch-fp32").evaluator(load_checkpoint(Path("fast")).network)
unwanted = ("torch._dynamo", "numba.cuda.", "alphac4.compute.gpu.trees", "ray.", "alphac4.compute.cluster")
print([name for name in sys.modules if name.startswith(unwanted)])
"""


@pytest.mark.slow
def test_a_network_on_the_cores_loads_no_compiler_no_cuda_and_no_ray_and_waits_asleep() -> None:
    """They take seconds to load; a thread that spins for long takes the core that others wait for."""
    environment = {name: value for name, value in os.environ.items() if name not in OF_WAITING}
    environment["OMP_DISPLAY_ENV"] = "verbose"  # GNU's OpenMP then prints what it runs by
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.splitlines()[1:] == ["[]"]
    found = [line.split("'")[1] for line in done.stderr.splitlines() if "GOMP_SPINCOUNT" in line]
    assert found == ["10000"] or "GOMP" not in done.stderr  # where PyTorch is built with another OpenMP


def test_what_the_user_says_of_waiting_threads_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in OF_WAITING:
        monkeypatch.setattr("os.environ", users := {variable: "77"})
        adapt_process()
        assert users == {variable: "77"}


@pytest.mark.parametrize("asked", ["1", "64"])
def test_a_user_says_how_many_cores_are_used(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also more than there are: for tests of what they change, or where a container hides some."""
    monkeypatch.setenv("ALPHAC4_CORES", asked)
    assert cores() == choose("cpu").streams == int(asked)
    config = SelfPlayConfig(games=100, full_simulations=2, fast_simulations=2)
    network = PolicyValueNetwork(NetworkConfig(channels=8, blocks=1)).eval()
    actors = choose("cpu", "torch-fp32").actors(network, make_geometry(), config, np.random.default_rng)
    assert (len(actors), actors.slots) == (min(int(asked), 100 // 32), 100)


@pytest.mark.parametrize("asked", ["0", "-2", "two", "1.5", "9" * 9])
def test_no_number_of_cores_is_refused(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPHAC4_CORES", asked)
    with pytest.raises(ValueError, match="ALPHAC4_CORES must be a number of cores"):
        cores()


def test_a_missing_gpu_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for backend in ("auto", "cuda-bf16", TREES):
        with pytest.raises(RuntimeError, match="no CUDA device"):
            choose_for_run("cuda", backend)


def test_what_threads_do_ends_after_an_interrupted_block() -> None:
    asked = threading.Event()

    class Endless:
        def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            asked.set()
            time.sleep(0.01)
            return np.zeros((len(planes), 7), np.float32), np.full((len(planes), 3), 1 / 3, np.float32)

    search = NetworkSearch(Endless(), rng=np.random.default_rng(0))
    with contextlib.suppress(KeyboardInterrupt), worker_threads(1) as pool:
        found = pool.submit(search.search, [Position()], Budget(simulations=100_000))
        assert asked.wait(60)
        raise KeyboardInterrupt
    assert isinstance(found.exception(60), BlockEndedError)
