"""Batched inference by the first backend of a fixed order whose outputs match fp32, or by a named one."""

import copy
import functools
import logging
import os
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from alphac4.machine import cores
from alphac4.nn.backends import (
    Array,
    Backend,
    backend_order,
    check_backend,
    make_backend,
    random_inputs,
    torch_threads,
)
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import N, Network, PolicyValueNetwork, fold_batch_norm, torch_seed
from alphac4.nn.winograd import MIN_POSITIONS
from alphac4.storage.records import first_line

logger = logging.getLogger(__name__)

# Largest root mean square deviation from fp32, by precision, relative to the standard deviation of the logits between
# positions. Measured on trained and probe networks of up to 10 blocks: 1e-4 in fp32, 0.03 in bf16, 0.1 in int8. A GPU
# may round to 10 bits in "fp32". A tower that is off by a tenth deviates by 0.2.
TOLERANCES = {"fp32": 0.02, "bf16": 0.08, "int8": 0.15}
# Largest deviation of one logit, relative to the largest logit: saturated products make few logits very wrong.
MAX_DEVIATION = 0.1
PROBE_BOARDS = 128
COMPARED_BOARDS = 32  # boards compared at batch sizes other than the largest
# The smallest batch that gives the same outputs for a position as larger ones, for most backends: on a Zen 4, PyTorch
# needs 4 positions in fp32 and OpenVINO 16 in bf16. Winograd's filtering starts at this size.
MIN_INVARIANT_BATCH = MIN_POSITIONS
# Positions and threads of calls that must give the same outputs.
OTHER_BATCHES = ((MIN_INVARIANT_BATCH, 1), (43, 1), (100, 2))
BATCH = 128  # positions in a usual call

_process = 0  # id of the process that first loaded a network: this one, or one that it was forked from


def _warn(backend: str, reason: str) -> None:
    logger.warning("backend %s: %s", backend, reason)


class Evaluator:
    """Evaluator of batches of positions. Several threads may call `evaluate` concurrently.

    "auto" is the first backend, in a fixed order, whose outputs match fp32 on this machine. It is chosen again whenever
    weights are loaded; the choice does not depend on timings. A named backend is used even if it deviates, with a
    warning. One caller per core, each with its own batch, is faster than one call over all cores, which waits for the
    slowest core after every layer. If ``batch_invariant``, a position gets the same outputs, bit for bit, in any batch:
    batches below `MIN_INVARIANT_BATCH`, which libraries compute differently, are padded.
    """

    def __init__(
        self,
        network: Network,
        *,
        batch_size: int = BATCH,  # of a usual call; others are a little slower
        device: str = "cpu",
        backend: str = "auto",
        allow_int8: bool = False,  # whether "auto" may use it: probabilities are off by thousandths on average
        threads: int | None = None,  # cores per call; by default all
        batch_invariant: bool = False,
    ) -> None:
        check_backend(backend, device, network.config)
        self._min_rows = MIN_INVARIANT_BATCH if batch_invariant else 1
        self.batch_size = batch_size = max(batch_size, self._min_rows)
        self.input_planes = network.config.input_planes
        self.version = 0
        self._threads = threads or cores()
        # A run's batch size depends on the number of cores, but its backend must not.
        usual = BATCH if batch_invariant else batch_size
        self.backend = backend
        self._order = backend_order(network.config, device, usual, int8=allow_int8) if backend == "auto" else []
        self._warn = functools.cache(_warn)  # once, not for all weights that are loaded
        if batch_invariant and self._order:
            self._order = invariant_backends(self._order, network)
        self._load(network)
        logger.debug("inference by %s for %d positions per call", self.backend, batch_size)

    def update(self, network: Network) -> None:
        """Load new weights, and increase ``version``."""
        self._load(network)
        self.version += 1  # last: a search that reads it must not get outputs of the old weights

    def _load(self, network: Network) -> None:
        check_not_forked()
        if self._order:
            self.backend, self._run = select_backend(
                self._order, network, self.batch_size, self._threads, self._min_rows, self._warn
            )
        else:
            self._run = make_backend(self.backend, network, self.batch_size, self._threads, self._min_rows)
            planes = probe_inputs(network)
            expected = fp32_outputs(network, planes)
            if all_finite(expected) and not is_accurate(self.backend, self._run, planes, expected, self._min_rows):
                self._warn(self.backend, "deviates from fp32, and is used because it was named")
        self.network = network

    def evaluate(self, planes: Array) -> tuple[Array, Array]:
        """Return policy logits [B, C] and win/draw/loss probabilities [B, 3] of planes [B, P, R, C].

        Both are for the side to move.
        """
        check_not_forked()
        count = len(planes)
        if count < self._min_rows:
            planes = np.resize(planes, (self._min_rows, *planes.shape[1:]))
        policy, value = self._run(planes)
        with np.errstate(invalid="ignore"):  # in softmax; a search rejects outputs that are not finite
            return policy[:count], softmax(value[:count])


def check_not_forked() -> None:
    """Raise RuntimeError in a process forked after its parent loaded a network: it would wait for threads it lacks."""
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise RuntimeError(
            "this process was forked from one that has loaded a network, and networks do not work in it: "
            'start processes by "spawn", as in multiprocessing.get_context("spawn")'
        )


def softmax(logits: Array) -> Array:
    """Compute the softmax over the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)  # type: ignore[no-any-return]


def select_backend(
    order: Sequence[str],  # if the network's outputs are not finite, none can match, and the last one is used
    network: Network,
    batch: int,  # positions in a usual call
    threads: int,
    min_batch: int = 1,  # positions in the smallest call, at most ``batch``
    warn: Callable[[str, str], object] = _warn,  # called with a backend that is not used and the reason
) -> tuple[str, Backend]:
    """Load a network into the first backend that works here and whose outputs match fp32.

    Zero-initialised norms hide the tower of a new network. So the outputs must also match for its `probe_network`, in
    which the tower matters. The choice depends only on the weights, the processor and what is installed. So a resumed
    run and an uninterrupted one choose the same backend, on any number of cores.
    """
    planes = probe_inputs(network)
    networks = dict.fromkeys((probe_network(network), network))  # one, unless a layer is zero
    references = {each: fp32_outputs(each, planes) for each in networks}
    if not all_finite(references[network]):
        return order[-1], make_backend(order[-1], network, batch, threads, min_batch)
    for name in order:
        try:
            for each, expected in references.items():
                run = make_backend(name, each, batch, threads, min_batch)
                if not is_accurate(name, run, planes, expected, min_batch):
                    warn(name, "deviates from fp32 and is not used")
                    break
            else:
                return name, run  # the backend of `network`, which comes last
        except Exception as error:  # an optional library that fails must not end the program
            warn(name, f"does not work here: {first_line(error)}")
    raise RuntimeError("no inference backend works on this machine")


def is_accurate(name: str, backend: Backend, planes: Array, expected: Sequence[Array], min_batch: int = 1) -> bool:
    """Return whether outputs match fp32's ``expected`` logits at every batch size that has code of its own.

    All ``planes`` [B, P, R, C] are compared at the largest batch size, `COMPARED_BOARDS` of them at others.
    """
    largest = max(*backend.sizes, len(planes))
    for size in {*backend.sizes, len(planes)}:
        if size < min_batch:
            continue
        rows = size * -(-(len(planes) if size == largest else COMPARED_BOARDS) // size)
        repeated = np.resize(planes, (rows, *planes.shape[1:]))
        parts = [backend(repeated[start : start + size]) for start in range(0, rows, size)]
        outputs = [np.concatenate(logits) for logits in zip(*parts, strict=True)]
        if not outputs_match(outputs, [np.resize(each, (rows, each.shape[1])) for each in expected], name):
            return False
    return True


def invariant_backends(order: Sequence[str], network: Network) -> list[str]:
    """Return the backends that pass `is_batch_invariant`, or all if none does.

    Warn of backends that fail and precede the first that passes.
    """
    passed = [name for name in order if is_batch_invariant(name, network)]
    if not passed:
        logger.warning("no backend is batch-invariant on this machine: results depend on the number of cores")
        return list(order)
    for name in order[: order.index(passed[0])]:
        _warn(name, "answers differently in batches of another size and is not used")
    return passed


def is_batch_invariant(backend: str, network: Network) -> bool:
    """Return whether a position's outputs are the same, bit for bit, in all batches of `MIN_INVARIANT_BATCH` or more.

    This depends on the libraries, the processor and the network's size. Intel's MKL is not batch-invariant on
    processors with AVX2 only. A backend that cannot run passes: `select_backend` skips it.
    """
    if isinstance(network, PolicyValueNetwork):
        return size_is_batch_invariant(backend, network.config)
    return _has_invariant_outputs(backend, probe_network(network))


@functools.cache
def size_is_batch_invariant(backend: str, config: NetworkConfig) -> bool:
    """Return `is_batch_invariant` of a backend for the package's own networks with this ``config``."""
    with torch_seed(0):
        return _has_invariant_outputs(backend, probe_network(PolicyValueNetwork(config).eval()))


def _has_invariant_outputs(backend: str, trained: Network) -> bool:
    planes = probe_inputs(trained)
    try:
        whole = make_backend(backend, trained, len(planes), 1)(planes)
        for batch, threads in OTHER_BATCHES:
            run = make_backend(backend, trained, batch, threads)
            for rows in (slice(batch), slice(-batch, None)):
                pairs = zip(run(planes[rows]), whole, strict=True)
                if not all(np.array_equal(part, logits[rows]) for part, logits in pairs):
                    return False
    except Exception:
        return True
    return True


def probe_inputs(network: Network) -> Array:
    """Return planes [B, P, R, C] of the boards on which backends are compared."""
    return random_inputs(network.config, PROBE_BOARDS, np.random.default_rng(1))  # seed 0 calibrates


def fp32_outputs(network: Network, planes: Array) -> list[Array]:
    """Compute policy and value logits in PyTorch on one thread, so that they do not depend on the number of cores."""
    with torch_threads(1), torch.inference_mode():
        return [logits.numpy() for logits in fold_batch_norm(network)(torch.from_numpy(planes))]


def all_finite(outputs: Sequence[Array]) -> bool:
    return all(bool(np.isfinite(logits).all()) for logits in outputs)


def probe_network(network: N) -> N:
    """Return a network whose outputs depend on all of its residual blocks, for checks of a backend's arithmetic.

    This is the network itself, unless all weights of a layer are zero, as in the last norm of an untrained residual
    block. Then it is a copy in which such layers get weights as large as in trained networks, and batch norms get the
    statistics of random boards.
    """

    def is_zero(module: nn.Module) -> bool:
        weight = getattr(module, "weight", None)
        return isinstance(weight, nn.Parameter) and not weight.any()

    if not any(is_zero(module) for module in network.modules()):
        return network
    generator = torch.Generator().manual_seed(0)
    copied = copy.deepcopy(network).to("cpu", torch.float32).train()
    for module in copied.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None  # so that running statistics are the mean over all batches
        if is_zero(module):
            nn.init.normal_(module.weight, std=0.3, generator=generator)  # type: ignore[arg-type]
            if isinstance(module, nn.BatchNorm2d):
                nn.init.normal_(module.bias, mean=-0.2, std=0.3, generator=generator)
    with torch_threads(1), torch.no_grad():
        copied(torch.from_numpy(random_inputs(network.config, PROBE_BOARDS, np.random.default_rng(2))))
    return copied.eval()


def outputs_match(outputs: Sequence[Array], expected: Sequence[Array], backend: str) -> bool:
    """Return whether a backend's policy [B, C] and value [B, 3] logits are close to those of fp32.

    Deviations are relative to the standard deviation of the logits between positions. Probabilities would hide errors:
    those of a new network are all nearly uniform.
    """
    tolerance = TOLERANCES[backend.rpartition("-")[2]]
    for logits, reference in zip(outputs, expected, strict=True):
        size = max(float(np.abs(reference).max()), 1e-6)
        spread = max(float((reference - reference.mean(axis=0)).std()), 0.01 * size)  # some networks are constant
        with np.errstate(all="ignore"):  # outputs may be infinite
            deviation = np.abs(logits - reference)
            rms, largest = np.sqrt(np.square(deviation).mean()), deviation.max()
        if not (rms < tolerance * spread and largest < MAX_DEVIATION * size):  # so that NaN fails as well
            return False
    return True
