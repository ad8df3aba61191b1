"""What is learned: the loss, the averaged weights, and what every learner keeps between iterations."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from alphac4.nn.network import NetworkConfig, PolicyValueNetwork, Tower
from alphac4.nn.precision import BF16, learning_precision
from alphac4.selfplay.replay import Replay
from alphac4.training.config import LearningConfig
from alphac4.training.muon import Muon
from alphac4.training.reports import LearningReport
from alphac4.training.schedule import Schedule


def policy_loss(logits: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Cross-entropy ``-sum(target log softmax(logits))`` in nats, averaged by ``weight`` [B]; logits, target [B, A]."""
    each = -(target * F.log_softmax(logits, dim=1)).sum(dim=1)
    return (each * weight).sum() / weight.sum().clamp(min=1.0)


def value_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of win/draw/loss [B, 3] in nats."""
    return -(target * F.log_softmax(logits, dim=1)).sum(dim=1).mean()


def ownership_loss(logits: Tensor, final: Tensor, planes: Tensor) -> Tensor:
    """Cross-entropy in nats of whose stone ends up in each cell, averaged over the cells that are empty now.

    logits [B, 3, R, C]: own, opponent's, empty; final [B, 2, R, C]: own and opponent's stones at the game's end;
    planes [B, P, R, C]: those of the position, the stones first.
    """
    target = torch.cat([final, 1.0 - final.sum(dim=1, keepdim=True)], dim=1)
    empty = 1.0 - planes[:, :2].sum(dim=1)
    each = -(target * F.log_softmax(logits, dim=1)).sum(dim=1)
    return (each * empty).sum() / empty.sum().clamp(min=1.0)


class TensorBatch(NamedTuple):
    """`alphac4.selfplay.replay.Batch` as tensors on the learner's device."""

    planes: Tensor  # float32 [B, P, R, C]
    policy: Tensor  # float32 [B, A]
    policy_weight: Tensor  # float32 [B]
    wdl: Tensor  # float32 [B, 3]
    final: Tensor  # float32 [B, 2, R, C]


@dataclass(frozen=True, kw_only=True)
class LearningPlan:
    """What a learner does in one iteration."""

    steps: int  # gradient steps
    schedule: Schedule  # of the learning rate
    window: int  # the latest samples, from which it learns
    rng: np.random.Generator  # of the order of samples
    on_step: Callable[[], object] = lambda: None  # called before each step; may raise to end learning


class Learner(ABC):
    """The network being trained, its optimiser, and the average of its weights, which is what plays.

    The passes are computed in ``precision``, by default the fastest; weights, losses and the optimiser are float32.
    """

    optimizer: torch.optim.AdamW
    muon: Muon | None = None

    def __init__(
        self,
        network: NetworkConfig,
        config: LearningConfig,
        device: torch.device,
        seed: int,
        precision: str | None = None,
        replicas: int = 1,
    ) -> None:
        self.positions = max(1, config.batch_size // replicas)  # of a batch, for each replica
        self.precision = precision or learning_precision(device, network, self.positions)
        self.config = config
        self.device = device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = PolicyValueNetwork(network)
        self.network.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.average = PolicyValueNetwork(network).to(self.device)
        self.average.load_state_dict(self.network.state_dict())
        self.average.eval().requires_grad_(False)
        self.steps = 0

    def take_over(self, network: PolicyValueNetwork) -> None:
        """Begin with another network's weights; see `PolicyValueNetwork.take_over`."""
        self.network.take_over(network)
        self.average.load_state_dict(self.network.state_dict())

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The parameters as AdamW takes them: kernels decay, the others do not. Those of Muon are left out."""
        left_out = set(map(id, self.muon_kernels()))
        decayed = [p for p in self.network.parameters() if p.ndim > 1 and id(p) not in left_out]
        others = [p for p in self.network.parameters() if p.ndim <= 1]
        return [{"params": decayed, "weight_decay": self.config.weight_decay}, {"params": others, "weight_decay": 0.0}]

    def muon_kernels(self) -> list[torch.nn.Parameter]:
        """The parameters that Muon takes: the tower's kernels, if it is used at all."""
        return [p for p in self.network.tower.parameters() if p.ndim > 1 and self.config.optimizer == "muon"]

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """By the names of their states."""
        return {"optimizer": self.optimizer} | ({"muon": self.muon} if self.muon is not None else {})

    def make_muon(self, rate: float | Tensor) -> Muon | None:
        """Muon for the tower's kernels, if it is used."""
        kernels = self.muon_kernels()
        return Muon(kernels, rate, weight_decay=self.config.weight_decay) if kernels else None

    @abstractmethod
    def learn(self, replay: Replay, plan: LearningPlan) -> LearningReport:
        """Learn from the latest samples of ``replay``, one gradient step a batch.

        A step whose loss or gradient is not finite is skipped.
        """

    def _report(
        self, sums: np.ndarray, steps: int, skipped: int, rate: float, window: int, seconds: float
    ) -> LearningReport:
        means = sums / max(steps - skipped, 1)
        return LearningReport(
            steps=steps,
            skipped_steps=skipped,
            policy_loss=float(means[0]),
            value_loss=float(means[1]),
            policy_entropy=float(means[2]),
            ownership_loss=float(means[3]),
            gradient_norm=float(means[4]),
            learning_rate=rate,
            window=window,
            seconds=seconds,
        )

    def losses(self, network: PolicyValueNetwork, batch: TensorBatch) -> tuple[Tensor, Tensor]:
        """The loss, and as figures [4] those of policy and value, the policy's entropy, and the loss of ownership."""
        planes = batch.planes.contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == BF16, cache_enabled=False):
            policy_logits, value_logits, ownership_logits = network.forward_all(planes, self.tower_of(network))
        policy_logits, value_logits = policy_logits.float(), value_logits.float()
        loss_policy = policy_loss(policy_logits, batch.policy, batch.policy_weight)
        loss_value = value_loss(value_logits, batch.wdl)
        loss = loss_policy + self.config.value_weight * loss_value
        loss_ownership = torch.zeros((), device=loss.device)
        if ownership_logits is not None:
            loss_ownership = ownership_loss(ownership_logits.float(), batch.final, planes)
            loss = loss + self.config.ownership_weight * loss_ownership
        with torch.no_grad():
            log_policy = F.log_softmax(policy_logits, dim=1)
            entropy = -(log_policy.exp() * log_policy).sum(dim=1).mean()
            figures = torch.stack([loss_policy, loss_value, entropy, loss_ownership])
            return loss, figures.detach().double()

    def tower_of(self, network: PolicyValueNetwork) -> Tower:
        """What computes the network's residual tower."""
        return network.tower

    def _average_decay(self) -> float:
        # At the start the average follows closely, or it would be the untrained network for hundreds of steps.
        return min(self.config.average_decay, (1 + self.steps) / (10 + self.steps))

    def is_finite(self) -> bool:
        """Whether all weights, those of the average included, are finite numbers."""
        tensors = [*self.network.state_dict().values(), *self.average.state_dict().values()]
        return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)

    def candidate(self) -> PolicyValueNetwork:
        """A copy of the averaged network on the CPU, in evaluation mode."""
        copy = PolicyValueNetwork(self.network.config)
        copy.load_state_dict({name: value.cpu() for name, value in self.average.state_dict().items()})
        return copy.eval()

    def state(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs, as named tensors."""
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= {f"average.{name}": value for name, value in self.average.state_dict().items()}
        for kind, optimizer in self.optimizers().items():
            for index, values in optimizer.state_dict()["state"].items():
                tensors |= {f"{kind}.{index}.{name}": torch.as_tensor(value) for name, value in values.items()}
        tensors["steps"] = torch.tensor(self.steps)
        return {name: value.detach().cpu().clone() for name, value in tensors.items()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take up `state`."""
        optimizers = self.optimizers()
        parts: dict[str, dict[str, Tensor]] = {kind: {} for kind in ("network", "average", *optimizers)}
        for name, value in tensors.items():
            kind, _, rest = name.partition(".")
            if kind in parts:
                parts[kind][rest] = value
        self.network.load_state_dict(parts["network"])
        self.average.load_state_dict(parts["average"])
        for kind, optimizer in optimizers.items():
            moments: dict[int, dict[str, Any]] = {}
            for name, value in parts[kind].items():
                index, _, field = name.partition(".")
                moments.setdefault(int(index), {})[field] = value
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": moments, "param_groups": groups})
            for parameter, values in optimizer.state.items():
                for name, value in values.items():
                    if value.shape == parameter.shape:  # a fused step goes through memory, whatever the strides
                        values[name] = torch.empty_like(parameter, requires_grad=False).copy_(value)
        self.steps = int(tensors["steps"])
