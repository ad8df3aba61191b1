import contextlib
import copy
import math
import os
import re
import signal
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from helpers import run_python

from alphac4.compute import choose_compute
from alphac4.compute.cores import MIN_GAMES
from alphac4.compute.devices import evaluate_and_learn, self_test_error
from alphac4.game import Position, make_board
from alphac4.game.rules import STANDARD
from alphac4.machine import (
    WorkerThreadsEndedError,
    adapt_process,
    check_block,
    check_memory,
    cores,
    cpu_quota,
    describe_cores,
    has_block_ended,
    memory_limit,
    run_in_threads,
    worker_threads,
)
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.search import Budget, Reuse
from alphac4.mcts.tree import make_trees
from alphac4.nn.backends import INT8, make_backend
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.actor import bytes_per_game
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import make_games
from alphac4.selfplay.replay import replay_bytes, window_size
from alphac4.training.config import TrainConfig
from alphac4.training.loop import iterate

OPENMP_VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def test_new_games_of_all_actors_have_random_numbers_of_their_own(
    network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPHAC4_CORES", "2")
    compute = choose_compute("cpu", "torch-fp32", for_run=True)
    actors = compute.actors(network, make_board(), SelfPlayConfig(parallel_games=64), np.random.default_rng)
    assert len(actors) == 2
    for _ in range(2):
        assert len(set(actors.state()["trees.rng"].tolist())) == 64
        assert not actors.restore({"trees.rng": np.zeros(1)}, np.random.default_rng)  # so new games begin


@pytest.mark.parametrize("reuse", ["nothing", "proofs", "trees"])
@pytest.mark.parametrize("moves", ["44", "414141"], ids=["open", "nearly won"])
def test_a_search_after_an_update_equals_a_new_search(network: PolicyValueNetwork, reuse: Reuse, moves: str) -> None:
    """Neither its cache nor its reused trees have outputs of the old weights."""
    evaluator, positions = choose_compute("cpu", "torch-fp32").evaluator(network), [Position.from_moves(moves)]
    search = NetworkSearch(evaluator, rng=np.random.default_rng(0), reuse=reuse, cache=2**10)
    search.search(positions, Budget(simulations=30))
    if reuse == "proofs" and moves == "414141":
        assert search.search(positions, Budget(simulations=30)).simulations.sum() == 0  # the proof is reused
    other = copy.deepcopy(network)
    with torch.no_grad():
        other.policy.weight.neg_()
        other.value.weight.neg_()
    evaluator.update(other)
    fresh = NetworkSearch(evaluator, rng=np.random.default_rng(0), reuse=reuse)
    actual, expected = (each.search(positions, Budget(simulations=30)) for each in (search, fresh))
    for name in ("priors", "visits", "value"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name))


def test_each_network_has_its_own_backend_unless_one_is_named(
    network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = iter([["torch-fp32"], ["torch-bf16"]])
    monkeypatch.setattr("alphac4.nn.evaluator.backend_order", lambda *_args, **_options: next(orders))
    for name, expected in (("auto", ["torch-fp32", "torch-bf16"]), ("torch-fp32", ["torch-fp32", "torch-fp32"])):
        compute = choose_compute("cpu", name)
        assert [compute.evaluator(network).backend for _ in range(2)] == expected


def test_only_self_play_uses_int8(network: PolicyValueNetwork) -> None:
    pytest.importorskip("openvino")
    config, board = SelfPlayConfig(parallel_games=4), make_board()
    for backend in ("auto", INT8):
        compute = choose_compute("cpu", backend, for_run=True)
        assert compute.actors(network, board, config, np.random.default_rng).backend == INT8
        assert compute.evaluator(network).backend != INT8
    assert choose_compute("cpu").evaluator(network).backend != INT8


def test_actors_report_the_backend_of_their_latest_network(
    network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(["torch-bf16", "torch-fp32"])

    def select(_order: object, network: PolicyValueNetwork, batch: int, threads: int, *_: object) -> Any:
        name = next(names)
        return name, make_backend(name, network, batch, threads)

    monkeypatch.setattr("alphac4.nn.evaluator.select_backend", select)
    compute = choose_compute("cpu", for_run=True)
    actors = compute.actors(network, make_board(), SelfPlayConfig(parallel_games=4), np.random.default_rng)
    assert actors.backend == "torch-bf16"
    actors.update(network)
    assert actors.backend == "torch-fp32"


def accurate(network: PolicyValueNetwork, planes: torch.Tensor) -> list[torch.Tensor]:
    return [1.001 * tensor for tensor in evaluate_and_learn(network, planes, "cpu")]  # as from rounding to ten bits


def inexact(network: PolicyValueNetwork, planes: torch.Tensor) -> list[torch.Tensor]:
    *tensors, last = evaluate_and_learn(network, planes, "cpu")
    return [*tensors, last * 1.05 + 0.01]


def without_numbers(network: PolicyValueNetwork, planes: torch.Tensor) -> list[torch.Tensor]:
    policy, *rest = evaluate_and_learn(network, planes, "cpu")
    return [policy * math.nan, *rest]


def with_inexact_outputs(network: PolicyValueNetwork, planes: torch.Tensor) -> list[torch.Tensor]:
    policy, *rest = evaluate_and_learn(network, planes, "cpu")
    return [policy * 1.05, *rest]


def without_a_block(network: PolicyValueNetwork, planes: torch.Tensor) -> list[torch.Tensor]:
    """Skip half of the tower in inference, but not in learning."""
    outputs = evaluate_and_learn(network, planes, "cpu")
    network = copy.deepcopy(network)
    network.tower = network.tower[:1]
    with torch.inference_mode():
        outputs[:2] = network(planes)
    return outputs


def without_learning(network: PolicyValueNetwork, planes: torch.Tensor) -> list[torch.Tensor]:
    policy, value, loss, *_ = evaluate_and_learn(network, planes, "cpu")
    return [policy, value, loss, *(tensor.float() for tensor in network.state_dict().values())]


def swapping(network: PolicyValueNetwork, planes: torch.Tensor) -> list[torch.Tensor]:
    """Swap two classes of the value."""
    policy, value, *rest = evaluate_and_learn(network, planes, "cpu")
    return [policy, value[:, [1, 0, 2]], *rest]


def broken(*_: object) -> list[torch.Tensor]:
    raise RuntimeError("CUDA error: an illegal memory access was encountered\nand twenty more lines")


def hanging(network: PolicyValueNetwork, planes: torch.Tensor) -> list[torch.Tensor]:
    threading.Event().wait(5)
    return evaluate_and_learn(network, planes, "cpu")


@pytest.mark.parametrize(
    ("gpu", "message"),
    [
        (accurate, ""),
        (inexact, "the GPU is not used: its self-test differs by "),
        (without_numbers, "the GPU is not used: its self-test differs by nan from the cores"),
        (with_inexact_outputs, "the GPU is not used: its self-test differs by "),
        (without_a_block, "the GPU is not used: its self-test differs by "),
        (without_learning, "the GPU is not used: its self-test differs by "),
        (swapping, "the GPU is not used: its self-test differs by "),
        (broken, "the GPU is not used: its self-test failed: CUDA error: an illegal memory access was encountered"),
        (hanging, "the GPU is not used: its self-test did not end in 1 seconds"),
    ],
)
def test_a_gpu_that_fails_its_self_test_is_not_used(
    gpu: Callable[..., list[torch.Tensor]],
    message: str,
    network: PolicyValueNetwork,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Networks are evaluated and trained on the cores then, and a warning gives the reason."""

    def on_device(network: PolicyValueNetwork, planes: torch.Tensor, device: str) -> list[torch.Tensor]:
        return gpu(network, planes) if device == "cuda" else evaluate_and_learn(network, planes, device)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("alphac4.compute.devices.evaluate_and_learn", on_device)
    monkeypatch.setattr("alphac4.compute.devices.TIMEOUT_S", 1.0 if gpu is hanging else 300.0)
    monkeypatch.setattr("alphac4.compute.devices.self_test_error", self_test_error.__wrapped__)
    for compute in (choose_compute("cuda", "auto"), choose_compute("auto", "cuda-bf16", for_run=True)):
        assert compute.learning_device.type == ("cpu" if message else "cuda")
        if message:
            assert not compute.evaluator(network).backend.startswith("cuda")
    logged = [line for line in caplog.messages if not line.endswith("setup.sh cuda")]  # numba-cuda is missing
    assert [line[: len(message)] for line in logged] == ([message, message] if message else [])


LOADED = r"""
import os, re, sys
from pathlib import Path
from alphac4.cli import main
affinity = getattr(os, "sched_getaffinity", int)
before = affinity(0)
sys.argv = ["alphac4", "--version"]
assert main() == 0  # as the command's own process
import alphac4.runs.session
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.compute import choose_compute
choose_compute("cpu", "torch-fp32").evaluator(load_checkpoint(Path("quick")).network)
unwanted = re.compile(r"torch\._dynamo|numba\.cuda\.|ray\.|alphac4\.plugins\.\w+\.")
print([name for name in sys.modules if unwanted.match(name)], affinity(0) == before)
"""


@pytest.mark.slow
def test_inference_on_cores_imports_no_compiler_cuda_or_ray_and_limits_openmp() -> None:
    """Importing them takes seconds, threads that spin for long slow down others, and bound ones share one core."""
    environment = {name: value for name, value in os.environ.items() if name not in OPENMP_VARIABLES}
    environment["OMP_PROC_BIND"] = "true"
    environment["OMP_DISPLAY_ENV"] = "verbose"  # GNU's OpenMP then prints its settings
    done = run_python(LOADED, env=environment)
    assert done.stdout.splitlines()[1:] == ["[] True"]
    counts = [line.split("'")[1] for line in done.stderr.splitlines() if "GOMP_SPINCOUNT" in line]
    assert counts == ["10000"] or "GOMP" not in done.stderr  # with another OpenMP than GNU's


def test_the_users_openmp_settings_have_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in OPENMP_VARIABLES:
        monkeypatch.setattr("os.environ", users := {variable: "77"})
        adapt_process()
        assert users == {variable: "77", "OMP_PROC_BIND": "false"}


NESTED = "0::/slice/job"
OLD = "9:name=systemd:/\n4:memory:/docker/f00\n1:cpu,cpuacct:/docker/f00"
OLD_CPU = "cpu/docker/f00/cpu.cfs_{}_us"


@pytest.mark.parametrize(
    ("groups", "files", "quota", "limit"),
    [
        (NESTED, {"slice/cpu.max": "50000 100000", "slice/job/cpu.max": "max 100000"}, 0.5, math.inf),
        (NESTED, {"slice/cpu.max": "400000 100000", "slice/job/cpu.max": "30000 20000"}, 1.5, math.inf),
        (NESTED, {"slice/memory.max": "2000", "slice/job/memory.max": "3000", "memory.max": "max"}, math.inf, 2000),
        ("0::/", {"cpu.max": "200000 100000", "memory.max": "734003200"}, 2, 734003200),  # as a container sees itself
        ("0::/../other", {}, math.inf, math.inf),
        (OLD, {OLD_CPU.format("quota"): "-1", OLD_CPU.format("period"): "100000"}, math.inf, math.inf),
        (OLD, {"cpu/cpu.cfs_quota_us": "25000", "cpu/cpu.cfs_period_us": "50000"}, 0.5, math.inf),
        (OLD, {"memory/docker/f00/memory.limit_in_bytes": "5", "memory.max": "4"}, math.inf, 5),
    ],
)
def test_control_groups_and_their_parents_limit_cores_and_memory(
    groups: str, files: dict[str, str], quota: float, limit: float, tmp_path: Path
) -> None:
    for name, text in {"../../../proc/self/cgroup": groups, **files}.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    assert (cpu_quota(tmp_path), memory_limit(tmp_path)) == (quota, limit)
    assert cpu_quota(tmp_path / "another system") == memory_limit(tmp_path / "another system") == math.inf


@pytest.mark.parametrize(
    ("quota", "affinity", "variables", "expected"),
    [
        (math.inf, 8, {}, "8 cores"),
        (0.5, 8, {}, "1 of 8 cores (a CPU quota of 0.5)"),
        (1.5, 2, {"ALPHAC4_CORES": ""}, "2 of 8 cores (a CPU quota of 1.5)"),
        (9.5, 8, {"OMP_PROC_BIND": "close"}, "8 cores"),
        (4, 2, {}, "2 of 8 cores (CPU affinity)"),
        (4, 1, {"OMP_PROC_BIND": "true"}, "1 of 8 cores (CPU affinity, perhaps because OMP_PROC_BIND is set)"),
        (0.5, 8, {"ALPHAC4_CORES": "3"}, "3 of 8 cores (ALPHAC4_CORES)"),
    ],
)
def test_the_least_limit_of_cores_is_used_and_described(
    quota: float, affinity: int, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", variables)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: set(range(affinity)), raising=False)
    monkeypatch.setattr("alphac4.machine.cpu_quota", lambda: quota)
    assert describe_cores() == expected
    assert cores() == int(expected.split()[0])


def test_memory_is_counted_before_it_is_allocated() -> None:
    board, config = make_board(5, 6), SelfPlayConfig(full_visits=200)
    expected = 1000 * bytes_per_game(board, config, 300)  # first, because annotations are evaluated once and kept
    tracemalloc.start()
    made = [make_trees(1000, 302, board, np.random.default_rng(0)), *(make_games(1000, board) for _ in range(4))]
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(made) == 5
    assert used == pytest.approx(expected, rel=0.01)
    # A sample has 66 bytes on the standard board. Two windows of samples are kept, and one is copied to learn from it.
    assert replay_bytes(STANDARD, 900, 1000) == 66 * (900 + 900)
    assert replay_bytes(STANDARD, 5000, 1000) == 66 * 3 * window_size(5000, 1000)


def test_memory_that_does_not_exist_is_refused_and_that_of_others_only_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = psutil.virtual_memory()
    monkeypatch.setattr("psutil.virtual_memory", lambda: machine._replace(total=2**40, available=2**33))
    check_memory("they need", 2**32, "games")
    assert not caplog.messages
    check_memory("they need", 2**34, "games")
    assert caplog.messages == ["they need 17.18 GB, but other programs leave 8.59 GB: lower games"]
    with pytest.raises(MemoryError, match=r"they need 9,000\.00 GB, but this machine leaves 1,[\d.]+ GB: lower"):
        check_memory("they need", 9 * 10**12, "games")
    monkeypatch.setattr("alphac4.machine.memory_limit", lambda: 0)
    with pytest.raises(MemoryError, match="but the limit of this container or job leaves "):
        check_memory("they need", 2**50, "games")


def test_run_that_does_not_fit_the_memory_does_not_start(caplog: pytest.LogCaptureFixture) -> None:
    """A run may be stopped before its window is too large, so that is only a warning."""
    large = {"parallel_games": 2**20, "full_visits": 10**6}
    config = TrainConfig.preset("quick", positions_per_iteration=10**12, selfplay=large, machine={"device": "cpu"})
    with pytest.raises(MemoryError, match=r"^the games of self-play need .+ leaves .+: lower games or simulations"):
        next(iterate(config))
    (warning,) = caplog.messages
    assert re.fullmatch(
        "the last replay window needs .+ leaves .+: lower positions_per_iteration or learning.base_window", warning
    )


LIMITED = """
import resource
import psutil
from alphac4.machine import check_memory
limit = psutil.Process().memory_info().vms + 2**29
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
check_memory("they need", 2**28, "games")
try:
    check_memory("they need", 2**30, "games")
except MemoryError as error:
    print(error)
"""


@pytest.mark.skipif(not hasattr(psutil, "RLIMIT_AS"), reason="needs a system that limits a process's memory")
def test_ulimit_limits_the_memory() -> None:
    expected = r"they need 1\.07 GB, but ulimit -v leaves 0\.\d\d GB: lower games\n"
    assert re.fullmatch(expected, run_python(LIMITED).stdout)


@pytest.mark.parametrize("count", [1, 64])
def test_the_number_of_cores_can_be_set(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may exceed the machine's number, for tests or if a container hides cores."""
    monkeypatch.setenv("ALPHAC4_CORES", str(count))
    assert cores() == choose_compute("cpu").callers == count
    assert choose_compute("cpu", threads=count + 1).callers == count + 1
    config = SelfPlayConfig(parallel_games=100, full_visits=2, fast_visits=2)
    network = PolicyValueNetwork(NetworkConfig(channels=8, blocks=1)).eval()
    actors = choose_compute("cpu", "torch-fp32").actors(network, make_board(), config, np.random.default_rng)
    assert (len(actors), actors.slots) == (min(count, 100 // 32), 100)


def test_each_actor_resumes_its_own_games() -> None:
    network = PolicyValueNetwork(NetworkConfig(channels=8, blocks=1)).eval()
    config = SelfPlayConfig(parallel_games=2 * MIN_GAMES + 1, full_visits=2, fast_visits=2)
    compute = choose_compute("cpu", "torch-fp32", threads=2)
    first, second = (compute.actors(network, make_board(), config, np.random.default_rng) for _ in range(2))
    first.play(100, lambda _actor, _block: None)
    expected = first.state()
    assert len(first) == 2
    assert len(np.unique(expected["trees.occupied"])) > MIN_GAMES
    assert second.restore(expected, np.random.default_rng)
    actual = second.state()
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array)


@pytest.mark.parametrize("value", ["0", "-2", "two", "1.5", "9" * 9])
def test_invalid_numbers_of_cores_are_rejected(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPHAC4_CORES", value)
    with pytest.raises(ValueError, match="ALPHAC4_CORES must be a number of cores"):
        cores()


def test_a_missing_gpu_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for backend in ("auto", "cuda-bf16"):
        with pytest.raises(RuntimeError, match="no CUDA device"):
            choose_compute("cuda", backend, for_run=True)
    with pytest.raises(ValueError, match="unknown device 'tpu'"):  # instead of running on the cores
        choose_compute("tpu")


def test_work_of_threads_ends_after_an_interrupted_block() -> None:
    called = threading.Event()

    class Endless:
        def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            called.set()
            time.sleep(0.01)
            return np.zeros((len(planes), 7), np.float32), np.full((len(planes), 3), 1 / 3, np.float32)

    search = NetworkSearch(Endless(), rng=np.random.default_rng(0))
    with contextlib.suppress(KeyboardInterrupt), worker_threads(1) as pool:
        future = pool.submit(search.search, [Position()], Budget(simulations=100_000))
        assert called.wait(60)
        raise KeyboardInterrupt
    assert isinstance(future.exception(60), WorkerThreadsEndedError)


def test_work_in_nested_blocks_ends_with_the_outer_block() -> None:
    called = threading.Event()

    def work() -> None:
        for _ in range(6000):
            called.set()
            check_block()
            time.sleep(0.01)

    def outer() -> None:
        with worker_threads(1) as inner:
            inner.submit(work).result()

    with worker_threads(1) as pool:
        future = pool.submit(outer)
        assert called.wait(60)
    assert isinstance(future.exception(30), WorkerThreadsEndedError)


def test_threads_pass_their_events_to_the_calling_thread() -> None:
    """The results are in the order of the functions, and an error of one of them ends the others."""
    seen = list[tuple[int, threading.Thread]]()

    def work(number: int, on_event: Callable[[int], None]) -> int:
        for _ in range(100):
            on_event(number)
        return number

    def note(event: int) -> None:
        seen.append((event, threading.current_thread()))

    works = [partial(work, number) for number in range(3)]
    assert run_in_threads(works, note, lambda: None) == [0, 1, 2]
    assert Counter(seen) == {(number, threading.current_thread()): 100 for number in range(3)}

    ended = threading.Event()

    def wait(_on_event: Callable[[int], None]) -> int:
        while not has_block_ended():
            time.sleep(0.01)
        ended.set()
        return 0

    def fail(_on_event: Callable[[int], None]) -> int:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_in_threads([wait, fail], note, lambda: None)
    assert ended.wait(60)


SIGNALLED = """
import io, signal, sys
from alphac4.cli import main

class Output(io.StringIO):
    def write(self, text):
        signal.raise_signal(number)
        return super().write(text)

number, is_ignored = int(sys.argv[1]), len(sys.argv) > 2
default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
signal.signal(number, signal.SIG_IGN if is_ignored else default)  # nohup starts the tests with SIGHUP ignored
sys.argv[1:] = ["--version"]
sys.stdout = Output()
status = main()
assert status == (0 if is_ignored else 130 if number == signal.SIGINT else 143), status
"""


@pytest.mark.parametrize("ignored", [[], ["ignored"]])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_end_a_command_unless_they_are_ignored(name: str, ignored: list[str]) -> None:
    """Its exit code is that of Ctrl-C or SIGTERM in a shell."""
    result = run_python(SIGNALLED, int(getattr(signal, name)), *ignored)
    assert result.stderr == ("" if ignored else "\nStopped.\n")
