"""The loss and the gradient steps."""

import copy
import math
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from alphac4.machine import cores
from alphac4.nn.backends import has_bf16
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork
from alphac4.selfplay.replay import Batch
from alphac4.training.config import LearningConfig
from alphac4.training.reports import LearningReport


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
    planes [B, 2, R, C]: those of the position.
    """
    target = torch.cat([final, 1.0 - final.sum(dim=1, keepdim=True)], dim=1)
    empty = 1.0 - planes.sum(dim=1)
    each = -(target * F.log_softmax(logits, dim=1)).sum(dim=1)
    return (each * empty).sum() / empty.sum().clamp(min=1.0)


def learning_rate(config: LearningConfig, step: int, total_steps: int) -> float:
    """Linear warm-up, then a cosine from the peak to the final rate (Loshchilov and Hutter 2017)."""
    progress = min(1.0, step / max(total_steps, 1))
    cosine = 0.5 * (1.0 + math.cos(math.pi * progress))
    rate = config.final_learning_rate + (config.learning_rate - config.final_learning_rate) * cosine
    return rate * min(1.0, (step + 1) / max(config.warmup_steps, 1))


class TensorBatch(NamedTuple):
    """`alphac4.selfplay.replay.Batch` as tensors on the learner's device."""

    planes: Tensor  # float32 [B, 2, R, C]
    policy: Tensor  # float32 [B, A]
    policy_weight: Tensor  # float32 [B]
    wdl: Tensor  # float32 [B, 3]
    final: Tensor  # float32 [B, 2, R, C]


class Learner:
    """The network being trained, its optimiser, and the average of its weights, which is what plays."""

    def __init__(
        self,
        network: NetworkConfig,
        config: LearningConfig,
        device: str | torch.device,
        seed: int,
        replicas: int | None = None,
    ) -> None:
        self.config = config
        self.device = torch.device(device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = PolicyValueNetwork(network)
        self.network.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.average = PolicyValueNetwork(network).to(self.device)
        self.average.load_state_dict(self.network.state_dict())
        self.average.eval().requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.parameter_groups(), lr=config.learning_rate)
        self.steps = 0
        self._bf16 = has_bf16(self.device)
        # One replica a core on its part of the batch: two single-threaded passes neither wait for each other after
        # every layer, nor come to a halt, as OpenMP's barriers do, when another program takes one of the cores.
        self._replicas = [self.network]
        for _ in range(1, replicas or (cores() if self.device.type == "cpu" else 1)):
            replica = copy.deepcopy(self.network)
            for theirs, ours in zip(replica.parameters(), self.network.parameters(), strict=True):
                theirs.data = ours.data  # the same weights, gradients of its own
            self._replicas.append(replica)

    def take_over(self, network: PolicyValueNetwork) -> None:
        """Begin with another network's weights; see `PolicyValueNetwork.take_over`."""
        self.network.take_over(network)
        self.average.load_state_dict(self.network.state_dict())
        for replica in self._replicas[1:]:
            replica.load_state_dict(self.network.state_dict())  # the running statistics of batch norm are its own

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The parameters as optimisers take them: kernels decay, the others do not."""
        decayed = [p for p in self.network.parameters() if p.ndim > 1]
        others = [p for p in self.network.parameters() if p.ndim <= 1]
        return [{"params": decayed, "weight_decay": self.config.weight_decay}, {"params": others, "weight_decay": 0.0}]

    def learn(self, batches: Iterable[Batch], total_steps: int, window: int) -> LearningReport:
        """One gradient step a batch; ``total_steps`` is the length of the whole run's schedule."""
        started = time.perf_counter()
        self._use_one_thread()
        for replica in self._replicas:
            replica.train()
        sums, count, rate = np.zeros(5), 0, 0.0
        with ThreadPoolExecutor(len(self._replicas)) as pool:
            for batch in batches:
                rate = learning_rate(self.config, self.steps, total_steps)
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
                sums += self._step(batch, pool)
                count += 1
                self.steps += 1
        return self._report(sums / max(count, 1), count, rate, window, time.perf_counter() - started)

    def _report(self, means: np.ndarray, steps: int, rate: float, window: int, seconds: float) -> LearningReport:
        return LearningReport(
            steps=steps,
            policy_loss=float(means[0]),
            value_loss=float(means[1]),
            policy_entropy=float(means[2]),
            ownership_loss=float(means[3]),
            gradient_norm=float(means[4]),
            learning_rate=rate,
            window=window,
            seconds=seconds,
        )

    def _step(self, batch: Batch, pool: ThreadPoolExecutor) -> np.ndarray:
        """Gradients of every replica's part of the batch, their mean, one step; returns the reported means [5]."""
        parts = [Batch(*part) for part in zip(*(np.array_split(a, len(self._replicas)) for a in batch), strict=True)]
        shares = [len(part.planes) / len(batch.planes) for part in parts]
        means = list(pool.map(self._accumulate, self._replicas, parts, shares))
        for replica in self._replicas[1:]:
            for ours, theirs in zip(self.network.parameters(), replica.parameters(), strict=True):
                if ours.grad is not None and theirs.grad is not None:
                    ours.grad += theirs.grad
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.gradient_clip)
        self.optimizer.step()
        self._update_average()
        return np.append(sum(mean * share for mean, share in zip(means, shares, strict=True)), float(norm))

    def _use_one_thread(self) -> None:
        """In the calling thread; see `__init__`."""
        if self.device.type == "cpu" and torch.get_num_threads() != 1:
            torch.set_num_threads(1)

    def _accumulate(self, replica: PolicyValueNetwork, part: Batch, share: float) -> np.ndarray:
        """Set the replica's gradients to those of its part, times its share; returns losses and entropy [4]."""
        self._use_one_thread()
        loss, figures = self.losses(replica, TensorBatch(*(torch.from_numpy(array).to(self.device) for array in part)))
        replica.zero_grad(set_to_none=True)
        (share * loss).backward()  # type: ignore[no-untyped-call]
        return np.asarray(figures.cpu())

    def losses(self, network: PolicyValueNetwork, batch: TensorBatch) -> tuple[Tensor, Tensor]:
        """The loss, and as figures [4] those of policy and value, the policy's entropy, and the loss of ownership."""
        planes = batch.planes.contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._bf16, cache_enabled=False):
            policy_logits, value_logits, ownership_logits = network.forward_all(planes)
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

    def _average_decay(self) -> float:
        # At the start the average follows closely, or it would be the untrained network for hundreds of steps.
        return min(self.config.average_decay, (1 + self.steps) / (10 + self.steps))

    @torch.no_grad()
    def _update_average(self) -> None:
        decay = self._average_decay()
        ours = self.network.state_dict()
        for name, value in self.average.state_dict().items():
            if value.is_floating_point():
                value.lerp_(ours[name], 1.0 - decay)
            else:
                value.copy_(ours[name])

    def candidate(self) -> PolicyValueNetwork:
        """A copy of the averaged network on the CPU, in evaluation mode."""
        copy = PolicyValueNetwork(self.network.config)
        copy.load_state_dict({name: value.cpu() for name, value in self.average.state_dict().items()})
        return copy.eval()

    def state(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs, as named tensors."""
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= {f"average.{name}": value for name, value in self.average.state_dict().items()}
        for index, values in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(value) for name, value in values.items()}
        tensors["steps"] = torch.tensor(self.steps)
        return {name: value.detach().cpu().clone() for name, value in tensors.items()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take up `state`."""
        parts: dict[str, dict[str, Tensor]] = {"network": {}, "average": {}, "optimizer": {}}
        for name, value in tensors.items():
            kind, _, rest = name.partition(".")
            if kind in parts:
                parts[kind][rest] = value
        self.network.load_state_dict(parts["network"])
        self.average.load_state_dict(parts["average"])
        moments: dict[int, dict[str, Any]] = {}
        for name, value in parts["optimizer"].items():
            index, _, field = name.partition(".")
            moments.setdefault(int(index), {})[field] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self.steps = int(tensors["steps"])
