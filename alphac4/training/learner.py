"""Learning: the losses, one gradient step, and the average of the weights, which is what plays.

A step on a batch of B positions minimises

    policy + value + ownership_weight * ownership

(AlphaZero's loss, Silver et al. 2018, with a cross-entropy for the value and KataGo's ownership, Wu 2019). On a CPU the
batch is cut into parts of `PART` positions. Each part goes through a replica of the network by itself, on one thread,
and the parts' gradients are added in the order of the parts. So one or many cores compute the same numbers: cores only
take parts, and a run comes to the same weights on all of them. Batch norm then normalises each part for itself ("ghost
batches", Hoffer et al. 2017, arXiv 1705.08741), while losses are divided by the sums of the whole batch.

On a GPU the whole batch is one part.
"""

import contextlib
import copy
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from alphac4.game.rules import Geometry
from alphac4.machine import cores
from alphac4.nn import winograd
from alphac4.nn.backends import BF16, FP32, learning_precision, torch_threads
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.replay import Batch, Replay, batches
from alphac4.selfplay.samples import Samples
from alphac4.training.config import LearningConfig
from alphac4.training.optimizer import Muon, Schedule
from alphac4.training.reports import LearningReport

logger = logging.getLogger(__name__)

PART = 64  # positions: what each of two cores has of the presets' batches of 128
# Of a batch's gradient. One strange batch must not undo what many have taught: steps of AdamW and Muon do not grow with
# the gradient, but their moments do, for dozens of steps.
MAX_GRAD_NORM = 1.0


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """``-sum(target log softmax(logits))`` in nats over the classes, which are dimension 1."""
    return -(target * F.log_softmax(logits, dim=1)).sum(dim=1)


def policy_loss(logits: Tensor, target: Tensor, weight: Tensor, total: float | Tensor) -> Tensor:
    """Cross-entropy of the moves, averaged by ``weight`` [B]; logits, target [B, A].

    Here and below ``total`` is the sum of weights of the whole batch, of which these B may be a part.
    """
    return (cross_entropy(logits, target) * weight).sum() / total


def value_loss(logits: Tensor, target: Tensor, total: float) -> Tensor:
    """Cross-entropy of win/draw/loss for the side to move; logits, target [B, 3]."""
    return cross_entropy(logits, target).sum() / total


def ownership_loss(logits: Tensor, final: Tensor, planes: Tensor, total: float | Tensor) -> Tensor:
    """Cross-entropy of whose stone ends up in each cell, averaged over the cells that are empty now.

    Args:
        logits: [B, 3, R, C]: own stone, the opponent's, empty.
        final: [B, 2, R, C]: own stones and the opponent's at the game's end.
        planes: [B, P, R, C]: those of the position, the stones first.
        total: empty cells of the whole batch.
    """
    target = torch.cat([final, 1.0 - final.sum(dim=1, keepdim=True)], dim=1)
    return (cross_entropy(logits, target) * empty_cells(planes)).sum() / total


def empty_cells(planes: Tensor) -> Tensor:
    """[B, R, C] 1 where there is no stone."""
    return 1.0 - planes[:, :2].sum(dim=1)


class TensorBatch(NamedTuple):
    """`alphac4.selfplay.replay.Batch` as tensors on the learner's device."""

    planes: Tensor  # float32 [B, P, R, C]
    policy: Tensor  # float32 [B, A]
    policy_weight: Tensor  # float32 [B]
    wdl: Tensor  # float32 [B, 3]
    final: Tensor  # float32 [B, 2, R, C]


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Divisors of a batch's losses, whatever parts it is computed in."""

    positions: float
    policy_weight: Tensor  # scalar, at least 1: a batch without full searches teaches no policy
    empty_cells: Tensor  # scalar, at least 1

    @classmethod
    def of(cls, batch: TensorBatch) -> "Totals":
        """Count a whole batch, without waiting for the device."""
        return cls(
            positions=float(len(batch.planes)),
            policy_weight=batch.policy_weight.sum().clamp(min=1.0),
            empty_cells=empty_cells(batch.planes).sum().clamp(min=1.0),
        )


class Learner:
    """The network being trained, its optimisers, and the average of its weights, which is what plays.

    Weights, losses and optimisers are float32, whatever ``precision`` the passes are computed in.

    Args:
        network: its shape.
        config: how it learns.
        geometry: the board of the samples.
        seed: of the first weights.
        device: where it learns.
        workers: cores that compute parts at a time; by default all. They change how long a step takes, and no weight.
        precision: `BF16` or `FP32`; by default what `learning_precision` chooses.
    """

    def __init__(
        self,
        network: NetworkConfig,
        config: LearningConfig,
        geometry: Geometry,
        seed: int,
        *,
        device: torch.device | None = None,
        workers: int | None = None,
        precision: str | None = None,
    ) -> None:
        self.config = config
        self.device = device or torch.device("cpu")
        self._geometry = geometry
        on_cpu = self.device.type == "cpu"
        self._parts = -(-config.batch_size // PART) if on_cpu else 1
        self._workers = min(workers or cores(), self._parts)
        positions = config.batch_size // self._parts
        self.precision = precision or learning_precision(self.device)
        self.by_winograd = on_cpu and self.precision == FP32 and winograd.pays_in_learning(network, positions)
        logger.debug(
            "learning in %s%s on %s",
            self.precision,
            ", convolutions by Winograd's filtering" if self.by_winograd else "",
            f"{self._workers} cores" if on_cpu else self.device,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = PolicyValueNetwork(network)
        self.network.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network.train()
        self.average = copy.deepcopy(self.network).eval().requires_grad_(False)
        self.optimizers = self._make_optimizers()
        # A replica for each part: the network's own weights, but gradients and running statistics of the part alone.
        self._replicas = [copy.deepcopy(self.network) for _ in range(self._parts)]
        for replica in self._replicas:
            for theirs, ours in zip(replica.parameters(), self.network.parameters(), strict=True):
                theirs.data = ours.data
        self.steps = 0

    def _make_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """By the names of their states: AdamW, and Muon for the tower's kernels if it is used. Only kernels decay."""
        config, made = self.config, dict[str, torch.optim.Optimizer]()
        kernels = [p for p in self.network.parameters() if p.ndim > 1]
        others = [p for p in self.network.parameters() if p.ndim <= 1]
        taken = [p for p in self.network.tower.parameters() if p.ndim > 1 and config.optimizer == "muon"]
        taken_ids = set(map(id, taken))
        groups = [
            {"params": [p for p in kernels if id(p) not in taken_ids], "weight_decay": config.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        made["optimizer"] = torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)
        if taken:
            made["muon"] = Muon(taken, config.learning_rate, weight_decay=config.weight_decay)
        return made

    def take_over(self, network: PolicyValueNetwork) -> None:
        """Begin with another network's weights; see `PolicyValueNetwork.take_over`."""
        self.network.take_over(network)
        self.average.load_state_dict(self.network.state_dict())

    def learn(
        self,
        samples: Samples,
        *,
        steps: int,
        schedule: Schedule,
        rng: np.random.Generator,
        on_step: Callable[[], object] = lambda: None,
    ) -> LearningReport:
        """Learn from batches of these samples, in an order that ``rng`` draws; see `learn_from`."""
        stream = batches(
            samples,
            self._geometry,
            self.config.batch_size,
            steps,
            rng,
            fast_weight=self.config.fast_weight,
            planes=self.network.config.input_planes,
        )
        return self.learn_from(stream, schedule, len(samples), on_step)

    def learn_latest(
        self,
        replay: Replay,
        window: int,
        *,
        steps: int,
        schedule: Schedule,
        rng: np.random.Generator,
        on_step: Callable[[], object] = lambda: None,
    ) -> LearningReport:
        """`learn` from the latest ``window`` samples of a run."""
        return self.learn(replay.window(window), steps=steps, schedule=schedule, rng=rng, on_step=on_step)

    def learn_from(
        self, stream: Iterable[Batch], schedule: Schedule, window: int, on_step: Callable[[], object] = lambda: None
    ) -> LearningReport:
        """One gradient step a batch; ``on_step`` is called before each, and may raise to end learning.

        A step whose loss or gradient is not finite is skipped: it leaves everything as it was.
        """
        started = time.perf_counter()
        sums, count, skipped, rate = np.zeros(5), 0, 0, 0.0
        self._share_statistics()
        with self._one_thread(), ThreadPoolExecutor(self._workers) as pool:
            for batch in stream:
                on_step()
                rate = schedule.rate(self.steps)
                figures = self._step(batch, rate, pool)
                if np.isfinite(figures).all():
                    sums += figures
                else:
                    skipped += 1
                count += 1
                self.steps += 1
        means = sums / max(count - skipped, 1)
        return LearningReport(
            steps=count,
            skipped_steps=skipped,
            policy_loss=float(means[0]),
            value_loss=float(means[1]),
            policy_entropy=float(means[2]),
            ownership_loss=float(means[3]),
            gradient_norm=float(means[4]),
            learning_rate=rate,
            window=window,
            seconds=time.perf_counter() - started,
        )

    def _one_thread(self) -> contextlib.AbstractContextManager[None]:
        """Let the calling thread compute by itself in the block, where it computes on the cores.

        Single-threaded passes neither wait for each other after every layer, nor come to a halt, as OpenMP's barriers
        do, when another program takes one of the cores. And what they sum, they sum in one order on any machine.
        """
        return torch_threads(1) if self.device.type == "cpu" else contextlib.nullcontext()

    def _step(self, batch: Batch, rate: float, pool: ThreadPoolExecutor) -> np.ndarray:
        """One gradient step, if it is finite; returns losses of policy and value, entropy, ownership, norm [5]."""
        tensors = TensorBatch(*(torch.from_numpy(array).to(self.device, non_blocking=True) for array in batch))
        totals = Totals.of(tensors)
        count = min(self._parts, len(batch.planes))
        parts = [TensorBatch(*part) for part in zip(*(t.tensor_split(count) for t in tensors), strict=True)]
        replicas = self._replicas[:count]
        shares = list(pool.map(partial(self._differentiate, totals=totals), replicas, parts))
        for parameters in zip(self.network.parameters(), *(r.parameters() for r in replicas), strict=True):
            ours, *gradients = parameters[0], *(p.grad for p in parameters[1:])
            ours.grad = gradients[0]
            for gradient in gradients[1:]:
                assert ours.grad is not None
                ours.grad += gradient
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), MAX_GRAD_NORM)
        found = np.append(torch.stack(shares).sum(dim=0).cpu().numpy(), float(norm))
        if np.isfinite(found).all():
            for kind, optimizer in self.optimizers.items():
                for group in optimizer.param_groups:
                    group["lr"] = rate * (self.config.muon_rate if kind == "muon" else 1.0)
                optimizer.step()
            self._take_statistics(replicas)
            self._update_average()
        self._share_statistics()
        return found

    def _differentiate(self, replica: PolicyValueNetwork, part: TensorBatch, totals: Totals) -> Tensor:
        """Set a replica's gradients to those of its part; returns its share of the figures of `losses`."""
        with self._one_thread():
            loss, figures = self.losses(replica, part, totals)
            replica.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
        return figures

    def losses(self, network: PolicyValueNetwork, batch: TensorBatch, totals: Totals) -> tuple[Tensor, Tensor]:
        """The loss, and as figures [4] those of policy and value, the policy's entropy, and the loss of ownership.

        Of a part they are its share of the whole batch's.
        """
        planes = batch.planes.contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == BF16, cache_enabled=False):
            tower = partial(winograd.run_tower, network.tower) if self.by_winograd else None
            policy_logits, value_logits, ownership_logits = network.forward_all(planes, tower)
        policy_logits, value_logits = policy_logits.float(), value_logits.float()
        loss_policy = policy_loss(policy_logits, batch.policy, batch.policy_weight, totals.policy_weight)
        loss_value = value_loss(value_logits, batch.wdl, totals.positions)
        loss = loss_policy + loss_value
        loss_ownership = torch.zeros((), device=loss.device)
        if ownership_logits is not None:
            loss_ownership = ownership_loss(ownership_logits.float(), batch.final, planes, totals.empty_cells)
            loss = loss + self.config.ownership_weight * loss_ownership
        with torch.no_grad():
            entropy = cross_entropy(policy_logits, policy_logits.softmax(dim=1)).sum() / totals.positions
            figures = torch.stack([loss_policy, loss_value, entropy, loss_ownership])
        return loss, figures.detach().double()

    @torch.no_grad()
    def _take_statistics(self, replicas: list[PolicyValueNetwork]) -> None:
        """Give the network the mean of its replicas' running statistics, which is that of all parts of the batch."""
        for ours, *theirs in zip(self.network.buffers(), *(r.buffers() for r in replicas), strict=True):
            ours.copy_(torch.stack(theirs).mean(dim=0) if ours.is_floating_point() else theirs[0])

    @torch.no_grad()
    def _share_statistics(self) -> None:
        """Let all replicas go on from the network's running statistics."""
        for replica in self._replicas:
            for theirs, ours in zip(replica.buffers(), self.network.buffers(), strict=True):
                theirs.copy_(ours)

    @torch.no_grad()
    def _update_average(self) -> None:
        """``average <- d average + (1 - d) network``, running statistics included."""
        decay = self.average_decay(self.steps)
        ours = self.network.state_dict()
        for name, value in self.average.state_dict().items():
            if value.is_floating_point():
                value.lerp_(ours[name], 1.0 - decay)
            else:
                value.copy_(ours[name])

    def average_decay(self, step: int) -> float:
        """The average's decay in the step after ``step`` others: `LearningConfig.ema_decay`, but less at the start.

        There the average follows closely, or it would be the untrained network for hundreds of steps.
        """
        return min(self.config.ema_decay, (1 + step) / (10 + step))

    def is_finite(self) -> bool:
        """Whether all weights, those of the average included, are finite numbers."""
        tensors = [*self.network.state_dict().values(), *self.average.state_dict().values()]
        return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)

    def candidate(self) -> PolicyValueNetwork:
        """A copy of the averaged network on the CPU, in evaluation mode."""
        with torch.random.fork_rng(devices=[]):  # a new network draws weights, and the caller's random numbers stay
            copied = PolicyValueNetwork(self.network.config)
        copied.load_state_dict({name: value.cpu() for name, value in self.average.state_dict().items()})
        return copied.eval()

    def state(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs, as named tensors on the CPU."""
        return {name: tensor.detach().cpu().clone() for name, tensor in self.live_state().items()}

    def live_state(self) -> dict[str, Tensor]:
        """The tensors that `state` copies, themselves."""
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= {f"average.{name}": value for name, value in self.average.state_dict().items()}
        for kind, optimizer in self.optimizers.items():
            for index, values in optimizer.state_dict()["state"].items():
                tensors |= {f"{kind}.{index}.{name}": torch.as_tensor(value) for name, value in values.items()}
        return tensors | {"steps": torch.tensor(self.steps)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take up `state`."""
        parts: dict[str, dict[str, Tensor]] = {kind: {} for kind in ("network", "average", *self.optimizers)}
        for name, value in tensors.items():
            kind, _, rest = name.partition(".")
            if kind in parts:
                parts[kind][rest] = value
        self.network.load_state_dict(parts["network"])
        self.average.load_state_dict(parts["average"])
        for kind, optimizer in self.optimizers.items():
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
