"""Batched inference by the fastest backend that agrees with fp32, or by one that is named."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from alphac4.machine import cores, worker_threads
from alphac4.nn.backend_memory import measurement_key, recall, remember
from alphac4.nn.backends import INT8, Array, Backend, available_backends, is_candidate
from alphac4.nn.network import PolicyValueNetwork, fold_batch_norm
from alphac4.nn.quantization import boards_for

logger = logging.getLogger(__name__)

TOLERANCE = 0.05  # largest deviation from fp32 in a probability; bf16 keeps 8 bits
INT8_TOLERANCE = 0.2  # the same for 8-bit inference: on average it is off by some thousandths
LOGIT_TOLERANCE = 0.1  # the same in a logit, as a share of the largest; bf16 stays under 0.03 on towers of 10 blocks


class Evaluator:
    """Evaluates batches of positions; safe to call from several threads at once.

    Args:
        network: the weights to begin with; `update` loads others.
        batch_size: positions in a usual call; other sizes work, a little slower.
        streams: how many threads call at once. One thread a core with its own batch beats one call over all
            cores, which has to wait for the slowest core after every layer.
        device: "cpu", "cuda", or "auto" for CUDA where there is one.
        backend: a backend's name, or "auto" to measure all for a moment and take the fastest.
        int8: let "auto" consider 8-bit inference, whose probabilities are off by some thousandths: right for
            self-play, where speed counts for more, and wrong where strength is measured.
        threads: cores to use in all; by default those this process may use.
        remembers: take up, instead of measuring, what "auto" found for the same network at an earlier start, and keep
            what it finds now.

    Raises:
        RuntimeError: for CUDA without a device, or where no backend works.
        ValueError: for an unknown backend, naming those available, or for an impossible size or device.
    """

    def __init__(
        self,
        network: PolicyValueNetwork,
        *,
        batch_size: int = 128,
        streams: int = 1,
        device: str = "auto",
        backend: str = "auto",
        int8: bool = False,
        threads: int | None = None,
        remembers: bool = False,
    ) -> None:
        for name, number in (("batch_size", batch_size), ("streams", streams), ("threads", threads)):
            if number is not None and number < 1:
                raise ValueError(f"{name} must be at least 1, not {number}")
        if device not in ("auto", "cpu", "cuda"):
            raise ValueError(f'no device {device!r}; there are "auto", "cpu" and "cuda"')
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.batch_size = batch_size
        self.streams = streams
        threads = threads or cores()
        self._available = available_backends(device, batch_size, streams, threads)
        self.rates: dict[str, float] = {}  # evaluations/s by backend, where measured
        if backend == "auto":
            candidates = {name: make for name, make in self._available.items() if is_candidate(name, batch_size, int8)}
            called = {"device": device, "batch": batch_size, "streams": streams, "threads": threads}
            key = measurement_key(network, backends=list(candidates), **called) if remembers else ""
            known = recall(key) if remembers else None
            if known in candidates:
                backend = str(known)
                logger.info("inference by %s, which was the fastest when it was last measured", backend)
            else:
                self.rates = measure_backends(network, candidates, batch_size, streams)
                backend = max(self.rates, key=lambda name: self.rates[name])
                rates = sorted(self.rates.items(), key=lambda item: -item[1])
                shown = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates)
                logger.info("inference by %s; measured evaluations/s: %s", backend, shown)
                if remembers:
                    remember(key, backend)
        elif backend not in self._available:
            raise ValueError(f"no backend {backend!r} here; available: {', '.join(self._available)}")
        self.backend = backend
        self.network = network
        self.input_planes = network.config.input_planes
        self.version = 0
        self._run: Backend = self._available[backend](network)

    def update(self, network: PolicyValueNetwork) -> None:
        """Load other weights into the same backend."""
        self.network = network
        self.version += 1
        self._run = self._available[self.backend](network)

    def evaluate(self, planes: Array) -> tuple[Array, Array]:
        """Policy logits [B, C] and win/draw/loss probabilities [B, 3] of ``planes`` float32 [B, P, R, C].

        All are seen by the side to move.
        """
        policy, value = self._run(planes)
        return policy, softmax(value)


class UniformEvaluator:
    """No opinion at all: for tests, benchmarks, and search without a network."""

    def evaluate(self, planes: Array) -> tuple[Array, Array]:
        """Equal logits [B, C] and equal win/draw/loss probabilities [B, 3]."""
        batch, _, _, columns = planes.shape
        return np.zeros((batch, columns), np.float32), np.full((batch, 3), 1 / 3, np.float32)


def softmax(logits: Array) -> Array:
    """Softmax over the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)  # type: ignore[no-any-return]


def measure_backends(
    network: PolicyValueNetwork,
    available: Mapping[str, Callable[[PolicyValueNetwork], Backend]],
    batch_size: int,
    streams: int,
    seconds: float = 0.15,
    rounds: int = 3,
) -> dict[str, float]:
    """Evaluations/s of each backend whose answers agree with fp32, with ``streams`` threads calling at once.

    They are compared on boards that can arise: 8 bits are calibrated for those, and beside them trained networks answer
    with far larger numbers. The best of several rounds taken in turn counts: another program's burst must not decide
    for the whole run.

    Raises:
        RuntimeError: if none works.
    """
    planes = boards_for(network.config, batch_size, np.random.default_rng(1))  # 0 calibrates
    with torch.inference_mode():
        expected = [y.numpy() for y in fold_batch_norm(network)(torch.from_numpy(planes))]
    working: dict[str, Backend] = {}
    for name, make in available.items():
        try:
            run = make(network)
            got = run(planes)
        except Exception as error:  # a backend that cannot run here must not end the program
            _tell_broken(name, error)
            continue
        if not agrees(got, expected, INT8_TOLERANCE if name == INT8 else TOLERANCE):
            logger.warning("backend %s deviates from fp32 and is not used", name)
            continue
        working[name] = run
    rates = dict.fromkeys(working, 0.0)
    for _ in range(rounds):
        for name in list(rates):
            try:
                rates[name] = max(rates[name], measure_rate(working[name], planes, streams, seconds))
            except Exception as error:  # such as too little memory for all streams
                _tell_broken(name, error)
                del rates[name]
    if not rates:
        raise RuntimeError("no inference backend works on this machine")
    return rates


def _tell_broken(name: str, error: Exception) -> None:
    logger.warning("backend %s does not work here: %s", name, str(error).splitlines()[0] if str(error) else repr(error))


def agrees(got: Sequence[Array], expected: Sequence[Array], tolerance: float = TOLERANCE) -> bool:
    """Whether a backend's policy and value logits are close enough to the fp32 ones, probabilities to ``tolerance``."""
    for logits, reference in zip(got, expected, strict=True):
        # Probabilities alone would let anything pass for a new network, which gives near-uniform ones.
        scale = max(float(np.abs(reference).max()), 1e-6)
        off = float(np.abs(softmax(logits) - softmax(reference)).max())
        logit_off = float(np.abs(logits - reference).max()) / scale
        if not (off < tolerance and logit_off < LOGIT_TOLERANCE):  # so that NaN fails as well
            return False
    return True


def measure_rate(run: Backend, planes: npt.NDArray[np.float32], streams: int, seconds: float) -> float:
    """Evaluations/s when ``streams`` threads call with ``planes`` each; raises what a call raises."""
    done = [0] * streams
    starts = [0.0] * streams
    ends = [0.0] * streams
    barrier = threading.Barrier(streams)

    def call_repeatedly(stream: int) -> None:
        try:
            run(planes)
        except BaseException:
            barrier.abort()  # or else the other threads would wait for ever
            raise
        barrier.wait()
        starts[stream] = time.perf_counter()
        while (now := time.perf_counter()) < starts[stream] + seconds:
            run(planes)
            done[stream] += len(planes)
        ends[stream] = now

    with worker_threads(streams) as pool:
        errors = [call.exception() for call in [pool.submit(call_repeatedly, stream) for stream in range(streams)]]
    for error in errors:
        if error is not None and not isinstance(error, threading.BrokenBarrierError):
            raise error
    return sum(done) / (max(ends) - min(starts))
