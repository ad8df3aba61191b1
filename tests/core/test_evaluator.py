"""Networks and backends of inference."""

import copy
import dataclasses
import itertools
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import Linear, run_python

from alphac4.game import STANDARD
from alphac4.game.planes import PLANES
from alphac4.nn import backends
from alphac4.nn.backends import (
    INT8,
    Array,
    Backend,
    TorchBackend,
    backend_names,
    backend_order,
    has_backend,
    make_backend,
    random_boards,
    random_inputs,
    torch_threads,
)
from alphac4.nn.config import NetworkConfig
from alphac4.nn.evaluator import (
    BATCH,
    Evaluator,
    fp32_outputs,
    is_batch_invariant,
    outputs_match,
    probe_network,
    select_backend,
    size_is_batch_invariant,
    softmax,
)
from alphac4.nn.network import PolicyValueNetwork, build_network, fold_batch_norm
from alphac4.storage.checkpoints import load_checkpoint

BACKENDS = backend_names("cpu")
needs_8_bits = pytest.mark.skipif(INT8 not in BACKENDS, reason="needs openvino")


def reference(network: PolicyValueNetwork, planes: Array) -> tuple[Array, Array]:
    """Policy logits and win/draw/loss probabilities by PyTorch, with unfolded batch norms."""
    with torch.inference_mode():
        policy, value = network(torch.from_numpy(planes))
    return policy.numpy(), torch.softmax(value, dim=1).numpy()


@pytest.fixture
def fresh(network: PolicyValueNetwork) -> PolicyValueNetwork:
    """An untrained network, whose tower does not change its nearly uniform probabilities."""
    return PolicyValueNetwork(network.config).eval()


@pytest.mark.parametrize("network", ["stones", "lines"], indirect=True)
@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_matches_pytorch_before_and_after_an_update(
    network: PolicyValueNetwork, fresh: PolicyValueNetwork, name: str
) -> None:
    """Batches smaller and larger than the usual one, which are padded or split, are included.

    A backend that keeps compiled requests per thread must not use the old weights.
    """
    if not has_backend(name, "cpu"):
        return
    evaluator = Evaluator(fresh, batch_size=64, backend=name, device="cpu", threads=1)
    in_logits, in_chances = (0.1, 0.15) if name == INT8 else (0.04, 0.04) if "bf16" in name else (1e-4, 1e-4)
    for weights, batches in ((fresh, [64]), (network, [1, 3, 64, 150])):
        if weights is network:
            evaluator.update(weights)
        for batch in batches:
            planes = random_boards(STANDARD, batch, np.random.default_rng(batch), weights.config.input_planes)
            policy, wdl = evaluator.evaluate(planes)
            expected_policy, expected_wdl = reference(weights, planes)
            assert np.abs(policy - expected_policy).max() < in_logits * np.abs(expected_policy).max()
            np.testing.assert_allclose(softmax(policy), softmax(expected_policy), atol=in_chances)
            np.testing.assert_allclose(wdl, expected_wdl, atol=in_chances)
            if name == INT8:  # smaller on average, but not zero, as without quantisation
                assert 0 < np.abs(softmax(policy) - softmax(expected_policy)).mean() < 0.01


@pytest.mark.parametrize("name", [name for name in BACKENDS if "fp32" in name])
def test_concurrent_callers_get_the_outputs_for_their_own_positions(network: PolicyValueNetwork, name: str) -> None:
    evaluator = Evaluator(network, batch_size=32, threads=1, backend=name, device="cpu")
    wrong: list[int] = []

    def call(seed: int) -> None:
        planes = random_boards(STANDARD, 20 + seed, np.random.default_rng(seed))
        expected, _ = reference(network, planes)
        for _ in range(20):
            if np.abs(evaluator.evaluate(planes)[0] - expected).max() > 1e-3:
                wrong.append(seed)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("scales", [(1.5, 1.0), (1.0, float("nan"))])
def test_a_backend_with_wrong_outputs_is_not_chosen(
    network: PolicyValueNetwork,
    fresh: PolicyValueNetwork,
    scales: tuple[float, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This includes new networks, whose outputs are always nearly uniform, and backends with NaN in one output."""
    right = TorchBackend.__call__

    def broken(backend: TorchBackend, planes: Array) -> tuple[Array, Array]:
        policy, value = right(backend, planes)
        factors = scales if backend._dtype == torch.bfloat16 else (1, 1)
        return policy * np.float32(factors[0]), value * np.float32(factors[1])

    monkeypatch.setattr(TorchBackend, "__call__", broken)
    for weights in (network, fresh):
        assert select_backend(["torch-bf16", "torch-fp32"], weights, 16, 1)[0] == "torch-fp32"
    for outputs in reference(fresh, random_boards(STANDARD, 16, np.random.default_rng(0))):
        assert np.ptp(outputs, axis=1).max() < 0.3


@pytest.mark.parametrize(("error", "accepted"), [(0.05, True), (0.2, False), (np.nan, False), (np.inf, False)])
def test_one_very_wrong_logit_is_an_error(error: float, accepted: bool, rng: np.random.Generator) -> None:
    """Its part in the root mean square of 2,000 positions is small; the largest logit is 1."""
    value = rng.uniform(-1, 1, (2000, 3)).astype(np.float32)
    value[0, 0] = 1
    other = value.copy()
    other[7, 1] += error
    assert outputs_match([other], [value], "openvino-int8") == accepted


def test_every_backend_of_this_machine_is_accepted_for_a_new_network(fresh: PolicyValueNetwork) -> None:
    for name in BACKENDS:
        assert not has_backend(name, "cpu") or select_backend([name], fresh, 32, 1)[0] == name


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["quick", "best"])
def test_every_backend_is_accurate_for_the_shipped_networks(name: str, backend: str) -> None:
    """int8 is included on processors where its products saturate."""
    network = load_checkpoint(Path(name)).network
    assert not has_backend(backend, "cpu") or select_backend([backend], network, 128, 1)[0] == backend


@needs_8_bits
def test_7_bit_weights_are_nearly_as_accurate_as_8_bit_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their mean error is 50 % larger. A tower with doubled weights would fail."""
    network = load_checkpoint(Path("best")).network
    planes = random_inputs(network.config, 128, np.random.default_rng(3))
    expected, outputs = softmax(fp32_outputs(network, planes)[0]), []
    for saturate in (False, True):
        monkeypatch.setattr(backends, "has_int8_saturation", lambda saturate=saturate: saturate)
        outputs.append(make_backend(INT8, network, 128, 1)(planes))
    deviations = [float(np.abs(softmax(policy) - expected).mean()) for policy, _ in outputs]
    assert 0 < deviations[1] < 0.006
    assert not np.array_equal(outputs[0][0], outputs[1][0])


@pytest.mark.slow
@needs_8_bits
def test_int8_is_accurate_where_products_saturate() -> None:
    """The process is limited to AVX2, like x86 without VNNI, where 8-bit weights would cause errors of up to 0.9."""
    program = """
from pathlib import Path
from alphac4.nn.backends import INT8, has_int8_saturation, openvino_has_bf16
from alphac4.nn.evaluator import Evaluator, select_backend
from alphac4.storage.checkpoints import load_checkpoint
network = load_checkpoint(Path("best")).network
print(has_int8_saturation(), select_backend([INT8], network, 128, 1)[0], Evaluator(network).backend)
print(openvino_has_bf16())
"""
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    result = run_python(program, env=environment)
    saturate, eight_bits, chosen, has_bf16 = result.stdout.split()
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    assert saturate == str(is_x86)
    assert not (is_x86 and has_bf16 == "True")
    assert eight_bits == INT8
    assert chosen.endswith("-fp32")
    assert result.stderr == ""  # bf16 is not tried without its instructions


def test_a_named_backend_that_the_processor_lacks_is_an_error(
    network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["torch-fp32", "openvino-bf16"]
    monkeypatch.setattr(backends, "backend_names", lambda _device, _network=None: names)
    monkeypatch.setattr(backends, "openvino_has_bf16", lambda: False)
    message = "unknown backend 'openvino-bf16' for this network on this machine; available: auto, torch-fp32$"
    with pytest.raises(ValueError, match=message):
        Evaluator(network, backend="openvino-bf16", device="cpu")
    assert [has_backend(name, "cpu") for name in names] == [True, False]


@pytest.mark.parametrize("block", [0, 1])
def test_a_backend_with_a_broken_tower_is_not_chosen_for_a_new_network(
    block: int, fresh: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new network's tower is zero, so only the probe network reveals the error."""
    initialise = TorchBackend.__init__

    def broken(backend: TorchBackend, network: PolicyValueNetwork, device: str, dtype: torch.dtype, *rest: Any) -> None:
        initialise(backend, network, device, dtype, *rest)
        if dtype == torch.bfloat16:
            backend._network.tower[block].first.weight.mul_(1.5)

    monkeypatch.setattr(TorchBackend, "__init__", broken)
    monkeypatch.setattr(backends, "TorchBackend", lambda *args, by_winograd: TorchBackend(*args))  # noqa: ARG005
    planes = random_inputs(fresh.config, 16, np.random.default_rng(0))
    policies = [make_backend(name, fresh, 16, 1)(planes)[0] for name in ("torch-bf16", "torch-fp32")]
    np.testing.assert_allclose(*policies, atol=1e-3)
    assert select_backend(["torch-bf16", "torch-fp32"], fresh, 16, 1)[0] == "torch-fp32"


@pytest.mark.parametrize("blocks", [1, 3])
def test_outputs_of_a_probe_network_depend_on_every_block(blocks: int) -> None:
    network = PolicyValueNetwork(NetworkConfig(channels=8, blocks=blocks)).eval()
    changed = probe_network(network)
    assert probe_network(changed) is changed  # no layer is zero
    before = fp32_outputs(changed, random_inputs(network.config, 64, np.random.default_rng(0)))
    for index in range(blocks):
        other = copy.deepcopy(changed)
        other.tower[index].second[1].weight.data.zero_()
        after = fp32_outputs(other, random_inputs(network.config, 64, np.random.default_rng(0)))
        for logits, expected in zip(after, before, strict=True):
            assert np.sqrt(np.square(logits - expected).mean()) > 0.1 * (expected - expected.mean(axis=0)).std()


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("torch-bf16", 1),
        ("winograd-fp32", 16),
        *(pytest.param("openvino-fp32", size, marks=needs_8_bits) for size in (1, 8, 32)),
    ],
)
def test_a_backend_that_is_wrong_for_one_batch_size_is_not_chosen(
    name: str, size: int, network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenVINO compiles a model per batch size. A size below the smallest batch does not count."""

    class WrongForOneSize:
        def __init__(self, right: Backend) -> None:
            self.right, self.sizes = right, right.sizes

        def __call__(self, planes: Array) -> tuple[Array, Array]:
            policy, value = self.right(planes)
            return policy * np.float32(1.5 if len(planes) == size else 1), value

    def make(requested: str, *arguments: Any) -> Backend:
        backend = make_backend(requested, *arguments)
        return WrongForOneSize(backend) if requested == name else backend

    monkeypatch.setattr("alphac4.nn.evaluator.make_backend", make)
    for min_batch, expected in ((1, "torch-fp32"), (size + 1, name)):
        assert select_backend([name, "torch-fp32"], network, 64, 1, min_batch)[0] == expected


def test_the_backend_is_chosen_again_for_other_weights(
    network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The choice does not depend on earlier weights. Each rejected backend causes one warning."""
    coarse, right = copy.deepcopy(network), TorchBackend.__call__
    with torch.no_grad():
        coarse.policy.bias[0] = 2.0

    def broken(backend: TorchBackend, planes: Array) -> tuple[Array, Array]:
        policy, value = right(backend, planes)
        is_wrong = backend._dtype == torch.bfloat16 and float(backend._network.policy.bias[0]) == 2.0
        return policy * np.float32(1.5 if is_wrong else 1), value

    monkeypatch.setattr(TorchBackend, "__call__", broken)
    monkeypatch.setattr("alphac4.nn.evaluator.backend_order", lambda *_args, **_options: ["torch-bf16", "torch-fp32"])
    evaluator, used = Evaluator(network, device="cpu"), []
    for weights in (network, coarse, coarse, network, coarse):
        evaluator.update(weights)
        used.append((evaluator.backend, Evaluator(weights, device="cpu").backend))
    assert used == [(name, name) for name in ("torch-bf16", *["torch-fp32"] * 2, "torch-bf16", "torch-fp32")]
    caplog.clear()
    for backend in ("torch-fp32", "torch-bf16"):  # a named one never changes
        evaluator = Evaluator(network, device="cpu", backend=backend)
        for _ in range(2):
            evaluator.update(coarse)
            assert evaluator.backend == backend
    assert caplog.messages == ["backend torch-bf16: deviates from fp32, and is used because it was named"]


def test_backends_are_compared_on_reachable_boards(rng: np.random.Generator) -> None:
    """No stone floats or shares a cell. The side to move has as many stones as its opponent, or one less."""
    planes = random_boards(STANDARD, 200, rng)
    stones = planes.sum(axis=1)
    assert stones.max() == 1
    assert (np.diff(stones, axis=1) <= 0).all()  # rows from the bottom
    own, other = planes.sum(axis=(2, 3)).T
    assert set(np.unique(other - own)) == {0.0, 1.0}
    assert stones.sum(axis=(1, 2)).max() > 35
    assert len({board.tobytes() for board in planes}) > 100


class FailingBackend:
    sizes = (1,)

    def __call__(self, _planes: Array) -> tuple[Array, Array]:
        raise MemoryError


def test_a_backend_that_raises_is_skipped(network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch) -> None:

    def make(name: str, *_arguments: object) -> Any:
        if name == "cannot-start":
            raise OSError("cannot load shared object")
        if name == "cannot-run":
            return FailingBackend()
        return make_backend("torch-fp32", network, 8, 1)

    monkeypatch.setattr("alphac4.nn.evaluator.make_backend", make)
    assert select_backend(["cannot-start", "cannot-run", "good-fp32"], network, 8, 1)[0] == "good-fp32"
    with pytest.raises(RuntimeError, match="no inference backend"):
        select_backend(["cannot-start"], network, 8, 1)


def test_unknown_backends_are_rejected(network: PolicyValueNetwork) -> None:
    with pytest.raises(ValueError, match="available: auto, torch-fp32"):
        Evaluator(network, device="cpu", backend="abacus")


SMALL, LARGE = NetworkConfig(channels=32, blocks=4), NetworkConfig(channels=64, blocks=5)
ORDERS = [  # fast bf16, OpenVINO, network, positions: the fastest backend without int8
    (True, True, LARGE, 1, "openvino-bf16"),
    (True, True, LARGE, 128, "openvino-bf16"),
    (True, False, LARGE, 128, "torch-bf16"),
    (True, False, LARGE, 1, "torch-fp32"),
    (False, True, LARGE, 1, "openvino-fp32"),
    (False, True, LARGE, 16, "openvino-fp32"),
    (False, True, LARGE, 128, "winograd-fp32"),
    (False, True, SMALL, 128, "openvino-fp32"),
    (False, False, SMALL, 128, "winograd-fp32"),
    (False, False, SMALL, 1, "torch-fp32"),
]


@pytest.mark.parametrize(("bf16", "openvino", "config", "batch", "fastest"), ORDERS)
def test_the_backend_order_depends_on_the_processor_and_the_network(
    bf16: bool, openvino: bool, config: NetworkConfig, batch: int, fastest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order was measured (docs/speed.md). It has all backends, so that a broken one can be skipped."""
    names = ["torch-fp32", "torch-bf16", "winograd-fp32", "openvino-fp32", "openvino-bf16", INT8]
    known = [name for name in names if openvino or "openvino" not in name]
    monkeypatch.setattr(backends, "is_bf16_faster", lambda: bf16)
    monkeypatch.setattr(backends, "backend_names", lambda _device, _network=None: known)
    order = backend_order(config, "cpu", batch, int8=False)
    assert order[0] == fastest
    assert order[-1] == "torch-fp32"
    assert backend_order(config, "cpu", batch, int8=True) == [INT8] * openvino + order


def torch_threads_of_a_new_thread() -> int:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_overlapping_blocks_restore_the_number_of_threads() -> None:
    """The first thread to enter leaves first; the second, new to PyTorch, starts with the number that the first set."""
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        blocks = [torch_threads(count) for count in (1, 2)]
        assert first.submit(torch.get_num_threads).result() == 3
        for pool, block, count in zip((first, second), blocks, (1, 2), strict=True):
            pool.submit(block.__enter__).result()
            assert pool.submit(torch.get_num_threads).result() == count
        for pool, block in zip((first, second), blocks, strict=True):
            pool.submit(block.__exit__, None, None, None).result()
            assert pool.submit(torch.get_num_threads).result() == 3
    assert torch.get_num_threads() == torch_threads_of_a_new_thread() == 3


@pytest.mark.usefixtures("three_threads")
def test_a_block_within_another_restores_both_numbers_of_threads() -> None:
    with torch_threads(1):
        with torch_threads(2):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == torch_threads_of_a_new_thread() == 3


@pytest.mark.slow
@needs_8_bits
@pytest.mark.skipif(sys.platform != "linux", reason="needs an alternate signal stack")
def test_a_stack_overflow_is_reported_after_openvino_is_loaded() -> None:
    """`faulthandler` needs the alternate signal stack that it has set up before."""
    program = """
import ctypes, faulthandler, sys
faulthandler.enable()
from alphac4.nn.config import NetworkConfig
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork
network = PolicyValueNetwork(NetworkConfig(channels=4, blocks=1)).eval()
Evaluator(network, batch_size=1, threads=1, backend="openvino-fp32", device="cpu")
sys.setrecursionlimit(10**9)
overflow = ctypes.CFUNCTYPE(None)(lambda: overflow())
overflow()
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode < 0
    assert "Fatal Python error: Segmentation fault" in result.stderr


def test_folding_batch_norm_preserves_outputs_network_and_random_state(network: PolicyValueNetwork) -> None:
    """Loading weights during a run must not change later random numbers."""
    planes = torch.from_numpy(random_boards(STANDARD, 33, np.random.default_rng(33)))
    with torch.inference_mode():
        for folded, plain in zip(fold_batch_norm(network)(planes), network(planes), strict=True):
            torch.testing.assert_close(folded, plain, atol=1e-4, rtol=0)
    network.train()
    state = torch.random.get_rng_state()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    fold_batch_norm(network)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert network.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


def test_a_grown_network_has_the_same_outputs(network: PolicyValueNetwork) -> None:
    """It has additional blocks and planes, and gradients reach all of them. Other changes of size are rejected."""
    config = network.config
    assert config.planes == "stones"
    larger = PolicyValueNetwork(dataclasses.replace(config, planes="lines", blocks=config.blocks + 2)).eval()
    larger.initialize_from(network)
    planes = torch.from_numpy(random_boards(STANDARD, 17, np.random.default_rng(17)))
    seen = torch.from_numpy(random_boards(STANDARD, 17, np.random.default_rng(17), PLANES["lines"]))
    for ours, theirs in zip(larger(seen), network(planes), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    larger(seen)[0][:, 0].sum().backward()
    assert all(block.second[1].weight.grad.abs().sum() > 0 for block in larger.tower)
    assert (larger.stem[0].weight.grad.abs().sum(dim=(0, 2, 3)) > 0).all()
    with pytest.raises(ValueError, match="cannot start from"):
        network.initialize_from(larger)
    wide, narrow = (PolicyValueNetwork(dataclasses.replace(config, heads=(("reply", size),))) for size in (4, 3))
    with pytest.raises(ValueError, match="heads"):
        wide.initialize_from(narrow)
    with pytest.raises(ValueError, match="it may only have more blocks and planes"):
        PolicyValueNetwork(dataclasses.replace(config, blocks=config.blocks + 2)).initialize_from(larger)
    with pytest.raises(ValueError, match=r"this one \(rows 6 -> 5\): it may only have more blocks and planes"):
        PolicyValueNetwork(dataclasses.replace(config, rows=5)).initialize_from(network)


@pytest.mark.parametrize("backend", backend_names("cpu"))
@pytest.mark.parametrize("weights", ["quick", "4 x 1", "20 x 1 on 7 x 7"])
def test_outputs_for_a_position_do_not_depend_on_its_batch(backend: str, weights: str) -> None:
    """With ``batch_invariant`` they are bit-identical, so that a run's games do not depend on the number of cores.

    Backends that fail `is_batch_invariant` are not chosen for a run. The weights are trained, or those of a probe
    network, because the tower of a new network is zero.
    """
    configs = {
        "4 x 1": NetworkConfig(channels=4, blocks=1),
        "20 x 1 on 7 x 7": NetworkConfig(rows=7, channels=20, blocks=1),
    }
    if weights in configs:
        network = probe_network(PolicyValueNetwork(configs[weights]).eval())
    else:
        network = load_checkpoint(Path(weights)).network
    if not has_backend(backend, "cpu") or not is_batch_invariant(backend, network):
        return
    planes = random_inputs(network.config, 128, np.random.default_rng(2))
    whole = Evaluator(network, batch_size=128, device="cpu", backend=backend, threads=1, batch_invariant=True).evaluate(
        planes
    )
    order = np.random.default_rng(3).permutation(128)
    for batch, threads in ((1, 1), (16, 2), (43, 1)):
        evaluator = Evaluator(
            network, batch_size=batch, device="cpu", backend=backend, threads=threads, batch_invariant=True
        )
        for some in (order[:batch], order[-batch:], order[: batch + 1]):
            for part, expected in zip(evaluator.evaluate(planes[some]), whole, strict=True):
                np.testing.assert_array_equal(part, expected[some])


@needs_8_bits
@pytest.mark.parametrize("name", ["quick", "best"])
def test_openvino_is_batch_invariant_for_the_shipped_networks(name: str) -> None:
    config = load_checkpoint(Path(name)).network.config
    network = PolicyValueNetwork(config).eval()
    assert is_batch_invariant("openvino-fp32", network)
    assert is_batch_invariant(INT8, network)


def test_a_backend_that_is_not_batch_invariant_is_not_chosen_for_a_run(
    network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is chosen for other purposes, and with a warning for a run if there is no other backend."""
    right = TorchBackend.__call__

    def rounding(backend: TorchBackend, planes: Array) -> tuple[Array, Array]:
        outputs = [right(backend, planes[row : row + 1]) for row in range(len(planes))]  # always batch-invariant
        policy, value = (np.concatenate(part) for part in zip(*outputs, strict=True))
        is_small = backend._dtype == torch.bfloat16 and len(planes) < 64
        return policy, value * np.float32(1 + 1e-6 if is_small else 1)

    order = ["torch-bf16", "torch-fp32"]
    monkeypatch.setattr("alphac4.nn.evaluator.backend_order", lambda *_args, **_options: order)
    monkeypatch.setattr(TorchBackend, "__call__", rounding)
    size_is_batch_invariant.cache_clear()
    try:
        assert Evaluator(network, device="cpu").backend == "torch-bf16"
        assert Evaluator(network, device="cpu", batch_invariant=True).backend == "torch-fp32"
        assert "torch-bf16: answers differently in batches of another size" in caplog.text
        order.reverse()
        caplog.clear()
        assert Evaluator(network, device="cpu", batch_invariant=True).backend == "torch-fp32"
        assert caplog.text == ""  # nothing faster is left out
        order[:] = ["torch-bf16"]
        assert Evaluator(network, device="cpu", batch_invariant=True).backend == "torch-bf16"
        assert "results depend on the number of cores" in caplog.text
        assert not is_batch_invariant("torch-bf16", build_network(NetworkConfig(), Linear).eval())
    finally:
        size_is_batch_invariant.cache_clear()


def test_backend_of_a_run_is_chosen_for_a_batch_that_does_not_depend_on_the_cores(
    network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = list[int]()

    def order(_config: NetworkConfig, _device: str, batch: int, **_options: bool) -> list[str]:
        sizes.append(batch)
        return ["torch-fp32"]

    monkeypatch.setattr("alphac4.nn.evaluator.backend_order", order)
    for batch_invariant, batch_size in itertools.product((True, False), (16, 300)):
        Evaluator(network, device="cpu", batch_size=batch_size, batch_invariant=batch_invariant)
    assert sizes == [BATCH, BATCH, 16, 300]


def test_tolerance_of_a_backend_depends_on_its_precision(rng: np.random.Generator) -> None:
    value = rng.uniform(-1, 1, (2000, 3)).astype(np.float32)
    error = (value - value.mean(axis=0)).std() * np.where(rng.random(value.shape) < 0.5, -1, 1)
    accepted = {
        share: [
            precision
            for precision in ("fp32", "bf16", "int8")
            if outputs_match([(value + share * error).astype(np.float32)], [value], f"torch-{precision}")
        ]
        for share in (0.01, 0.05, 0.1, 0.16)
    }
    assert accepted == {0.01: ["fp32", "bf16", "int8"], 0.05: ["bf16", "int8"], 0.1: ["int8"], 0.16: []}
