"""Batched inference by the fastest backend that agrees with fp32, or by one that is named."""

import logging
from collections.abc import Sequence

import numpy as np
import torch

from alphac4.machine import cores
from alphac4.nn.backends import INT8, Array, Backend, backend_names, backend_order, boards_for, make_backend
from alphac4.nn.network import PolicyValueNetwork, fold_batch_norm
from alphac4.nn.winograd import MIN_POSITIONS
from alphac4.storage.records import first_line

logger = logging.getLogger(__name__)

TOLERANCE = 0.05  # largest deviation from fp32 in a probability; bf16 keeps 8 bits
LOGIT_TOLERANCE = 0.1  # the same in a logit, as a share of the largest; bf16 stays under 0.03 on towers of 10 blocks
INT8_TOLERANCE = 0.2  # in a probability, for 8-bit inference: on average it is off by some thousandths
# Positions of a batch from which on a position's answer is the same in all: seen of every backend on a Zen 4, where
# PyTorch needs 4 of them in fp32, OpenVINO 16 in bf16, and Winograd's filtering as many as it takes.
MIN_ALIKE = MIN_POSITIONS
BATCH = 128  # positions in a usual call


class Evaluator:
    """Evaluates batches of positions; safe to call from several threads at once.

    Args:
        network: the weights to begin with; `update` loads others.
        batch_size: positions in a usual call; other sizes work, a little slower.
        streams: how many threads call at once. One thread a core with its own batch beats one call over all
            cores, which has to wait for the slowest core after every layer.
        device: "cpu", "cuda", or "auto" for CUDA where there is one.
        backend: a backend's name, or "auto" for the fastest on this machine.
        int8: let "auto" take 8-bit inference, whose probabilities are off by some thousandths: right for self-play,
            where speed counts for more, and wrong where strength is measured.
        threads: cores to use in all; by default those this process may use.
        alike: give a position the same answer, bit for bit, whatever the other positions of its batch and however
            many. The libraries compute a few otherwise than many, so that fewer than `MIN_ALIKE` are computed as if
            they were more, which takes longer.

    Raises:
        RuntimeError: for CUDA without a device, or where no backend works.
        ValueError: for an unknown backend, naming those available, or for an impossible size or device.
    """

    def __init__(
        self,
        network: PolicyValueNetwork,
        *,
        batch_size: int = BATCH,
        streams: int = 1,
        device: str = "auto",
        backend: str = "auto",
        int8: bool = False,
        threads: int | None = None,
        alike: bool = False,
    ) -> None:
        for name, number in (("batch_size", batch_size), ("streams", streams), ("threads", threads)):
            if number is not None and number < 1:
                raise ValueError(f"{name} must be at least 1, not {number}")
        if device not in ("auto", "cpu", "cuda"):
            raise ValueError(f'no device {device!r}; there are "auto", "cpu" and "cuda"')
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cuda" and not torch.cuda.is_available():
            raise RuntimeError("no CUDA device is available; choose the device cpu")
        if backend not in ("auto", *backend_names(device)):
            raise ValueError(f"no backend {backend!r} here; available: {', '.join(backend_names(device))}")
        self._min_rows = MIN_ALIKE if alike else 1
        self.batch_size = batch_size = max(batch_size, self._min_rows)
        self.streams = streams
        self.network = network
        self.input_planes = network.config.input_planes
        self.version = 0
        self._threads = max(1, (threads or cores()) // streams)  # of a call
        if backend == "auto":
            usual = BATCH if alike else batch_size  # or the backend would depend on the number of cores
            order = backend_order(network.config, device, usual, int8=int8)
            self.backend, self._run = first_that_agrees(order, network, usual, self._threads)
            if usual != batch_size:
                self._run = make_backend(self.backend, network, batch_size, self._threads)
            logger.debug("inference by %s, the fastest here for %d positions a call", self.backend, batch_size)
        else:
            self.backend, self._run = backend, make_backend(backend, network, batch_size, self._threads)

    def update(self, network: PolicyValueNetwork) -> None:
        """Load other weights into the same backend."""
        self.network = network
        self.version += 1
        self._run = make_backend(self.backend, network, self.batch_size, self._threads)

    def evaluate(self, planes: Array) -> tuple[Array, Array]:
        """Policy logits [B, C] and win/draw/loss probabilities [B, 3] of ``planes`` float32 [B, P, R, C].

        All are seen by the side to move.
        """
        count = len(planes)
        if count < self._min_rows:
            planes = np.resize(planes, (self._min_rows, *planes.shape[1:]))
        policy, value = self._run(planes)
        return policy[:count], softmax(value[:count])


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


def first_that_agrees(
    order: Sequence[str], network: PolicyValueNetwork, batch: int, threads: int
) -> tuple[str, Backend]:
    """The first backend that works here and answers as fp32 does, and the network loaded into it.

    They are compared on boards that can arise: 8 bits are calibrated for those, and beside them trained networks answer
    with far larger numbers.

    Raises:
        RuntimeError: if none works.
    """
    planes = boards_for(network.config, batch, np.random.default_rng(1))  # 0 calibrates
    with torch.inference_mode():
        expected = [y.numpy() for y in fold_batch_norm(network)(torch.from_numpy(planes))]
    for name in order:
        try:
            run = make_backend(name, network, batch, threads)
            got = run(planes)
        except Exception as error:  # a backend that cannot run here must not end the program
            logger.warning("backend %s does not work here: %s", name, first_line(error))
            continue
        if agrees(got, expected, INT8_TOLERANCE if name == INT8 else TOLERANCE):
            return name, run
        logger.warning("backend %s deviates from fp32 and is not used", name)
    raise RuntimeError("no inference backend works on this machine")


def agrees(got: Sequence[Array], expected: Sequence[Array], tolerance: float) -> bool:
    """Whether a backend's policy and value logits are close enough to the fp32 ones, probabilities to ``tolerance``."""
    for logits, reference in zip(got, expected, strict=True):
        # Probabilities alone would let anything pass for a new network, which gives near-uniform ones.
        scale = max(float(np.abs(reference).max()), 1e-6)
        off = float(np.abs(softmax(logits) - softmax(reference)).max())
        logit_off = float(np.abs(logits - reference).max()) / scale
        if not (off < tolerance and logit_off < LOGIT_TOLERANCE):  # so that NaN fails as well
            return False
    return True
