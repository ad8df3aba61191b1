"""PyTorch's devices. A GPU is used only if its outputs and its learning match those of the cores in a self-test."""

import copy
import functools
import logging
import queue
import threading

import torch
from torch import Tensor
from torch.nn import functional as F

from alphac4.nn.config import NetworkConfig
from alphac4.nn.evaluator import probe_network
from alphac4.nn.network import PolicyValueNetwork, torch_seed
from alphac4.storage.records import first_line

logger = logging.getLogger(__name__)

NO_DEVICE = "no CUDA device: PyTorch finds none (`nvidia-smi` lists those of this machine); choose the device cpu"

POSITIONS = 64
TOLERANCE = 0.02  # relative to the largest number of a tensor: convolutions on a GPU round to ten bits
LEARNED_TOLERANCE = 0.1  # the same for the loss and the weights after a step: rounding flips ReLUs, and gradients jump
ABSOLUTE_TOLERANCE = 1e-3  # added to both, for tensors near zero
OUTPUTS = 2  # compared tensors of inference, policy and value; the others are of learning
TIMEOUT_S = 120.0  # the first use of a GPU loads libraries


def choose_device(name: str, backend: str) -> tuple[str, str]:
    """Return PyTorch's device and the backend, which becomes "auto" if it needs a GPU that fails its self-test."""
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise RuntimeError(NO_DEVICE)
    if name == "cpu" or not has_gpu:
        return "cpu", backend
    error = self_test_error()
    if not error:
        return "cuda", backend
    logger.warning("the GPU is not used: %s", error)
    return "cpu", "auto" if str(backend).startswith("cuda-") else backend


@functools.cache
def self_test_error() -> str:
    """Run the GPU's self-test; return an error message in one line, or "" on success."""
    with torch_seed(0):
        # A new network's tower is zero, and its logits are as small as rounding errors.
        network = probe_network(PolicyValueNetwork(NetworkConfig(channels=32, blocks=2)).eval())
        for head in (network.policy, network.value):
            torch.nn.init.normal_(head.weight, std=0.1)
        config = network.config
        planes = (torch.rand(POSITIONS, config.input_planes, config.rows, config.columns) < 0.3).float()
    expected = evaluate_and_learn(network, planes, "cpu")
    results: queue.SimpleQueue[list[Tensor] | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put(evaluate_and_learn(network, planes, "cuda"))
        except Exception as error:  # a broken driver raises many types
            results.put(error)

    threading.Thread(target=run, name="gpu-self-test", daemon=True).start()  # a hanging call cannot be cancelled
    try:
        actual = results.get(timeout=TIMEOUT_S)
    except queue.Empty:
        return f"its self-test did not end in {TIMEOUT_S:g} seconds"
    if isinstance(actual, Exception):
        return f"its self-test failed: {first_line(actual)}"
    for index, (cpu, gpu) in enumerate(zip(expected, actual, strict=True)):
        deviation = float((gpu - cpu).abs().max())
        tolerance = TOLERANCE if index < OUTPUTS else LEARNED_TOLERANCE
        if not deviation <= tolerance * float(cpu.abs().max()) + ABSOLUTE_TOLERANCE:  # so that NaN fails as well
            return f"its self-test differs by {deviation:.2g} from the cores"
    return ""


def evaluate_and_learn(network: PolicyValueNetwork, planes: Tensor, device: str) -> list[Tensor]:
    """Compute on a device; return policy and value logits, the loss, and the network's state after a gradient step."""
    network, planes = copy.deepcopy(network).to(device), planes.to(device)
    with torch.inference_mode():
        outputs = network(planes)
    policy, value = network.train()(planes)
    targets = torch.arange(len(planes), device=device)
    loss = F.cross_entropy(policy, targets % policy.shape[1]) + F.cross_entropy(value, targets % value.shape[1])
    loss.backward()  # type: ignore[no-untyped-call]
    torch.optim.SGD(network.parameters(), lr=1.0).step()
    return [tensor.detach().float().cpu() for tensor in (*outputs, loss, *network.state_dict().values())]
