"""Self-test of a GPU: it must compute what the cores do before anything relies on it."""

import copy
import functools
import queue
import threading

import torch
from torch import Tensor
from torch.nn import functional as F

from alphac4.nn.config import NetworkConfig
from alphac4.nn.evaluator import probe_network
from alphac4.nn.network import PolicyValueNetwork

POSITIONS = 64
TOLERANCE = 0.02  # of the largest number of a tensor: PyTorch's convolutions keep ten bits on a GPU
LEARNED_TOLERANCE = 0.1  # the same of weights after a step: gradients jump where ten bits move a ReLU's input past 0
NOISE = 1e-3  # of numbers that are next to nothing
ANSWERS = 2  # of the tensors compared: policy and value; the rest is of learning
MAX_SECONDS = 120.0  # the first use of a GPU loads libraries


@functools.cache
def self_test_error() -> str:
    """Run the GPU's self-test; return an error message in one line, or "" if it computes what the cores do."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        # A new network's tower is zero, and its logits are too small to be told from noise.
        network = probe_network(PolicyValueNetwork(NetworkConfig(channels=32, blocks=2)).eval())
        for head in (network.policy, network.value):
            torch.nn.init.normal_(head.weight, std=0.1)
        config = network.config
        planes = (torch.rand(POSITIONS, config.input_planes, config.rows, config.columns) < 0.3).float()
    expected = evaluate_and_learn(network, planes, "cpu")
    answers: queue.SimpleQueue[list[Tensor] | Exception] = queue.SimpleQueue()

    def work() -> None:
        try:
            answers.put(evaluate_and_learn(network, planes, "cuda"))
        except Exception as error:  # of whatever kind a broken driver raises
            answers.put(error)

    threading.Thread(target=work, name="gpu-self-test", daemon=True).start()  # nobody can end a call that hangs
    try:
        found = answers.get(timeout=MAX_SECONDS)
    except queue.Empty:
        return f"its self-test has not ended in {MAX_SECONDS:g} seconds"
    if isinstance(found, Exception):
        return f"its self-test failed: {str(found).strip().partition(chr(10))[0] or type(found).__name__}"
    for index, (ours, theirs) in enumerate(zip(expected, found, strict=True)):
        off = float((theirs - ours).abs().max())
        tolerance = TOLERANCE if index < ANSWERS else LEARNED_TOLERANCE
        if not off <= tolerance * float(ours.abs().max()) + NOISE:  # so that NaN fails as well
            return f"its self-test differs by {off:.2g} from the same on the cores"
    return ""


def evaluate_and_learn(network: PolicyValueNetwork, planes: Tensor, device: str) -> list[Tensor]:
    """Return the network's answers on a device, then its loss and its weights after one gradient step."""
    network, planes = copy.deepcopy(network).to(device), planes.to(device)
    with torch.inference_mode():
        answers = network(planes)
    policy, value = network.train()(planes)
    wanted = torch.arange(len(planes), device=device)
    loss = F.cross_entropy(policy, wanted % policy.shape[1]) + F.cross_entropy(value, wanted % value.shape[1])
    loss.backward()  # type: ignore[no-untyped-call]
    torch.optim.SGD(network.parameters(), lr=1.0).step()
    return [tensor.detach().float().cpu() for tensor in (*answers, loss, *network.state_dict().values())]
