"""Batched inference by the fastest backend that agrees with fp32, or by one that is named."""

import copy
import functools
import logging
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from alphac4.machine import cores
from alphac4.nn.backends import Array, Backend, backend_names, backend_order, make_backend, random_inputs, torch_threads
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import N, Network, PolicyValueNetwork, fold_batch_norm
from alphac4.nn.winograd import MIN_POSITIONS
from alphac4.storage.records import first_line

logger = logging.getLogger(__name__)

# Largest deviation from fp32, by the end of a backend's name: the root of its mean square, as a share of the spread of
# the logits between positions. Measured on trained networks and `probe_network`s of up to 10 blocks: 1e-4 in fp32, 0.03 in
# bf16, 0.1 in 8 bits. A GPU may multiply numbers of 10 bits in "fp32". A tower that is off by a tenth deviates by 0.2.
TOLERANCES = {"fp32": 0.02, "bf16": 0.08, "int8": 0.15}
MAX_DEVIATION = 0.1  # of one logit, as a share of the largest: products that saturate spoil few, but spoil them badly
PROBE_BOARDS = 128
# Positions of a batch from which on a position's answer is the same in all, for most backends: on a Zen 4 PyTorch needs
# 4 of them in fp32, OpenVINO 16 in bf16, and Winograd's filtering as many as it takes.
MIN_INVARIANT_BATCH = MIN_POSITIONS
OTHER_BATCHES = (
    (MIN_INVARIANT_BATCH, 1),
    (43, 1),
    (100, 2),
)  # positions and threads of calls that must give the same answers
BATCH = 128  # positions in a usual call


class Evaluator:
    """Evaluates batches of positions; safe to call from several threads at once.

    Args:
        network: the weights to begin with; `update` loads others.
        batch_size: positions in a usual call; other sizes work, a little slower.
        streams: how many threads call at once. One thread a core with its own batch beats one call over all
            cores, which has to wait for the slowest core after every layer.
        device: "cpu", "cuda", or "auto" for CUDA where there is one.
        backend: a backend's name, or "auto" for the fastest on this machine that agrees with fp32. "auto" is decided
            for all weights that are loaded, by nothing but the weights and the processor. A named backend is used even
            if it deviates, with a warning.
        int8: let "auto" take 8-bit inference, whose probabilities are off by some thousandths: right for self-play,
            where speed counts for more, and wrong where strength is measured.
        threads: cores to use in all; by default those this process may use.
        alike: give a position the same answer, bit for bit, whatever the other positions of its batch and however
            many. The libraries compute a few otherwise than many, so that fewer than `MIN_INVARIANT_BATCH` are computed as if
            they were more, which takes longer. "auto" takes no backend that fails `is_batch_invariant`.

    Raises:
        RuntimeError: for CUDA without a device, or where no backend works.
        ValueError: for an unknown backend, naming those available, or for an impossible size or device.
    """

    def __init__(
        self,
        network: Network,
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
        if backend not in ("auto", *backend_names(device, network.config)):
            available = ", ".join(backend_names(device, network.config))
            raise ValueError(f"no backend {backend!r} here for this network; available: {available}")
        self._min_rows = MIN_INVARIANT_BATCH if alike else 1
        self.batch_size = batch_size = max(batch_size, self._min_rows)
        self.streams = streams
        self.input_planes = network.config.input_planes
        self.version = 0
        self._threads = max(1, (threads or cores()) // streams)  # of a call
        usual = BATCH if alike else batch_size  # or the backend would depend on the number of cores
        self.backend = backend
        self._order = backend_order(network.config, device, usual, int8=int8) if backend == "auto" else []
        self._warned: set[str] = set()  # backends that were refused: one warning each is enough
        if alike and self._order:
            self._order = batch_invariant(self._order, network, self._warned)
        self._load(network)
        logger.debug("inference by %s for %d positions per call", self.backend, batch_size)

    def update(self, network: Network) -> None:
        """Load other weights."""
        self._load(network)
        self.version += 1  # last: a search that sees it must not get an answer of the old weights

    def _load(self, network: Network) -> None:
        if self._order:
            self.backend, self._run = select_backend(self._order, network, self.batch_size, self._threads, self._warned)
        else:
            self._run = make_backend(self.backend, network, self.batch_size, self._threads)
            planes = probe_inputs(network)
            expected = fp32_outputs(network, planes)
            if all_finite(expected) and not agrees(self._run(planes), expected, self.backend):
                _warn_once(self._warned, self.backend, "deviates from fp32, and is used because it was named")
        self.network = network

    def evaluate(self, planes: Array) -> tuple[Array, Array]:
        """Policy logits [B, C] and win/draw/loss probabilities [B, 3] of ``planes`` float32 [B, P, R, C].

        All are seen by the side to move.
        """
        count = len(planes)
        if count < self._min_rows:
            planes = np.resize(planes, (self._min_rows, *planes.shape[1:]))
        policy, value = self._run(planes)
        with np.errstate(invalid="ignore"):  # of softmax; a search refuses answers that are not finite
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


def select_backend(
    order: Sequence[str], network: Network, batch: int, threads: int, warned: set[str] | None = None
) -> tuple[str, Backend]:
    """Load a network into the first backend that works here and answers as fp32 does.

    Zero-initialised norms hide the tower of a new network. So a backend must also agree for its `probe_network`, where the
    tower matters. The choice depends on the weights and the processor, and on nothing that happened before. So a run
    that is resumed decides as one that was not interrupted, on any number of cores.

    Args:
        order: names of backends. The last one is taken if the network's answers are not finite: none can agree.
        network: the weights.
        batch: positions in a usual call.
        threads: cores to use for each call.
        warned: names of backends that a warning was logged for; others are added.

    Raises:
        RuntimeError: if no backend works.
    """
    warned = set() if warned is None else warned
    planes = probe_inputs(network)
    networks = {id(each): each for each in (probe_network(network), network)}  # often the same
    expected = {key: fp32_outputs(each, planes) for key, each in networks.items()}
    if not all_finite(expected[id(network)]):
        return order[-1], make_backend(order[-1], network, batch, threads)
    for name in order:
        try:
            for key, each in networks.items():
                run = make_backend(name, each, batch, threads)
                if not agrees(run(planes), expected[key], name):
                    _warn_once(warned, name, "deviates from fp32 and is not used")
                    break
            else:
                return name, run  # the network's, which is the last
        except Exception as error:  # a backend that cannot run here must not end the program
            _warn_once(warned, name, f"does not work here: {first_line(error)}")
    raise RuntimeError("no inference backend works on this machine")


def batch_invariant(order: Sequence[str], network: Network, warned: set[str]) -> list[str]:
    """The backends that pass `is_batch_invariant`, or all, with a warning, if none does."""
    for name in order:
        if not is_batch_invariant(name, network):
            _warn_once(warned, name, "answers differently in batches of another size and is not used")
    passed = [name for name in order if name not in warned]
    if not passed:
        logger.warning("no backend answers the same in every batch: results depend on the number of cores here")
    return passed or list(order)


def is_batch_invariant(name: str, network: Network) -> bool:
    """Return whether a backend gives a position the same answer, bit for bit, in batches of `MIN_INVARIANT_BATCH` or more.

    That is a property of the libraries, the processor and the network's size. Intel's library for matrices does not
    have it on processors with AVX2 only. A backend that cannot run passes: `select_backend` deals with it.
    """
    if isinstance(network, PolicyValueNetwork):
        return size_is_batch_invariant(name, network.config)
    return _same_in_all_batches(name, probe_network(network))


@functools.cache
def size_is_batch_invariant(name: str, config: NetworkConfig) -> bool:
    """`is_batch_invariant` for the package's own networks of a size."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return _same_in_all_batches(name, probe_network(PolicyValueNetwork(config).eval()))


def _same_in_all_batches(name: str, trained: Network) -> bool:
    planes = probe_inputs(trained)
    try:
        whole = make_backend(name, trained, len(planes), 1)(planes)
        for batch, threads in OTHER_BATCHES:
            run = make_backend(name, trained, batch, threads)
            for rows in (slice(batch), slice(-batch, None)):
                if any(
                    not np.array_equal(part, all_[rows]) for part, all_ in zip(run(planes[rows]), whole, strict=True)
                ):
                    return False
    except Exception:
        return True
    return True


def _warn_once(warned: set[str], name: str, reason: str) -> None:
    if name not in warned:
        logger.warning("backend %s %s", name, reason)
    warned.add(name)


def probe_inputs(network: Network) -> Array:
    """Boards on which backends are compared: such as can arise, as 8 bits are calibrated for those."""
    return random_inputs(network.config, PROBE_BOARDS, np.random.default_rng(1))  # seed 0 calibrates


def fp32_outputs(network: Network, planes: Array) -> list[Array]:
    """Policy and value logits by PyTorch on one thread, so that they are the same on any number of cores."""
    with torch_threads(1), torch.inference_mode():
        return [logits.numpy() for logits in fold_batch_norm(network)(torch.from_numpy(planes))]


def all_finite(answers: Sequence[Array]) -> bool:
    """Return whether all numbers of a network's answers are finite."""
    return all(bool(np.isfinite(logits).all()) for logits in answers)


def probe_network(network: N) -> N:
    """Return a network whose answers depend on all of its residual blocks, for checks of a backend's arithmetic.

    That is the network itself if it has no layer whose weights are all zero, as the last norm of a residual block is at
    first. In a copy such layers get weights as large as in trained networks, and batch norms the statistics of random
    boards.
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
            module.momentum = None  # running statistics are the mean of all batches
        if is_zero(module):
            nn.init.normal_(module.weight, std=0.3, generator=generator)  # type: ignore[arg-type]
            if isinstance(module, nn.BatchNorm2d):
                nn.init.normal_(module.bias, mean=-0.2, std=0.3, generator=generator)
    with torch_threads(1), torch.no_grad():
        copied(torch.from_numpy(random_inputs(network.config, PROBE_BOARDS, np.random.default_rng(2))))
    return copied.eval()


def agrees(answers: Sequence[Array], expected: Sequence[Array], backend: str) -> bool:
    """Return whether a backend's policy [B, C] and value [B, 3] logits are close enough to those of fp32.

    Deviations are compared with how much the logits differ between positions. Probabilities would not do: those of a
    new network are all near-uniform.
    """
    tolerance = TOLERANCES[backend.rpartition("-")[2]]
    for logits, reference in zip(answers, expected, strict=True):
        size = max(float(np.abs(reference).max()), 1e-6)
        spread = max(
            float((reference - reference.mean(axis=0)).std()), 0.01 * size
        )  # some networks say the same of all
        with np.errstate(all="ignore"):  # of infinite answers
            deviation = np.abs(logits - reference)
            rms, most = np.sqrt(np.square(deviation).mean()), deviation.max()
        if not (rms < tolerance * spread and most < MAX_DEVIATION * size):  # so that NaN fails as well
            return False
    return True
