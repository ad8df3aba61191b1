"""Learning on the cores: every core has its own replica of the network, and its own part of each batch."""

import copy
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch

from alphac4.game.rules import Geometry
from alphac4.machine import cores
from alphac4.nn import winograd
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork, Tower
from alphac4.nn.precision import FP32
from alphac4.selfplay.merging import merge_duplicates, orient
from alphac4.selfplay.replay import Batch, Replay, batches
from alphac4.training.config import LearningConfig
from alphac4.training.learner import Learner, LearningPlan, TensorBatch
from alphac4.training.reports import LearningReport
from alphac4.training.schedule import Schedule


class HostLearner(Learner):
    """`Learner` on batches that are made in the computer's own memory."""

    def __init__(
        self,
        network: NetworkConfig,
        config: LearningConfig,
        geometry: Geometry,
        seed: int,
        replicas: int | None = None,
        precision: str | None = None,
    ) -> None:
        replicas = replicas or cores()
        super().__init__(network, config, torch.device("cpu"), seed, precision, replicas)
        self._geometry = geometry
        self.by_winograd = self.precision == FP32 and winograd.pays_in_learning(network, self.positions)
        self.optimizer = torch.optim.AdamW(self.parameter_groups(), lr=config.learning_rate, fused=True)
        self.muon = self.make_muon(config.learning_rate)
        # One replica a core on its part of the batch: two single-threaded passes neither wait for each other after
        # every layer, nor come to a halt, as OpenMP's barriers do, when another program takes one of the cores.
        self._replicas = [self.network]
        for _ in range(1, replicas):
            replica = copy.deepcopy(self.network)
            for theirs, ours in zip(replica.parameters(), self.network.parameters(), strict=True):
                theirs.data = ours.data  # the same weights, gradients of its own
            self._replicas.append(replica)

    def tower_of(self, network: PolicyValueNetwork) -> Tower:
        """See `Learner`; by Winograd's minimal filtering where that is faster."""
        return partial(winograd.run_tower, network.tower) if self.by_winograd else super().tower_of(network)

    def take_over(self, network: PolicyValueNetwork) -> None:
        """See `Learner`."""
        super().take_over(network)
        for replica in self._replicas[1:]:
            replica.load_state_dict(self.network.state_dict())  # the running statistics of batch norm are its own

    def learn(self, replay: Replay, plan: LearningPlan) -> LearningReport:
        """See `Learner`."""
        samples = window = replay.window(plan.window)
        config = self.config
        if config.merge_duplicates:
            samples = merge_duplicates(window, self._geometry)
        elif config.canonical:
            samples = orient(window, self._geometry)
        made = batches(
            samples,
            self._geometry,
            config.batch_size,
            plan.steps,
            config.return_share,
            plan.rng,
            fast_weight=config.fast_weight,
            flip_half=not config.canonical,
            planes=self.network.config.input_planes,
        )
        return self.learn_from(made, plan.schedule, len(window), plan.on_step)

    def learn_from(
        self, stream: Iterable[Batch], schedule: Schedule, window: int, on_step: Callable[[], object] = lambda: None
    ) -> LearningReport:
        """One gradient step a batch; ``on_step`` is called before each."""
        started = time.perf_counter()
        self._use_one_thread()
        for replica in self._replicas:
            replica.train()
        sums, count, skipped, rate = np.zeros(5), 0, 0, 0.0
        with ThreadPoolExecutor(len(self._replicas)) as pool:
            for batch in stream:
                on_step()
                rate = schedule.rate(self.config, self.steps)
                self._set_rate(rate)
                figures = self._step(batch, pool)
                if figures is None:
                    skipped += 1
                else:
                    sums += figures
                count += 1
                self.steps += 1
        return self._report(sums, count, skipped, rate, window, time.perf_counter() - started)

    def _set_rate(self, rate: float) -> None:
        for kind, optimizer in self.optimizers().items():
            for group in optimizer.param_groups:
                group["lr"] = rate * (self.config.muon_rate if kind == "muon" else 1.0)

    def _step(self, batch: Batch, pool: ThreadPoolExecutor) -> np.ndarray | None:
        """Gradients of every replica's part of the batch, their mean, one step; returns the reported means [5].

        None, and no step, if they are not finite.
        """
        count = min(len(self._replicas), len(batch.planes))
        parts = [Batch(*part) for part in zip(*(np.array_split(a, count) for a in batch), strict=True)]
        shares = [len(part.planes) / len(batch.planes) for part in parts]
        replicas = self._replicas[:count]
        means = list(pool.map(self._accumulate, replicas, parts, shares))
        for replica in replicas[1:]:
            for ours, theirs in zip(self.network.parameters(), replica.parameters(), strict=True):
                if ours.grad is not None and theirs.grad is not None:
                    ours.grad += theirs.grad
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.gradient_clip)
        figures = np.append(sum(mean * share for mean, share in zip(means, shares, strict=True)), float(norm))
        if not np.isfinite(figures).all():
            return None
        for optimizer in self.optimizers().values():
            optimizer.step()
        self._update_average()
        return figures

    def _use_one_thread(self) -> None:
        """In the calling thread; see `__init__`."""
        if torch.get_num_threads() != 1:
            torch.set_num_threads(1)

    def _accumulate(self, replica: PolicyValueNetwork, part: Batch, share: float) -> np.ndarray:
        """Set the replica's gradients to those of its part, times its share; returns losses and entropy [4]."""
        self._use_one_thread()
        loss, figures = self.losses(replica, TensorBatch(*(torch.from_numpy(array) for array in part)))
        replica.zero_grad(set_to_none=True)
        (share * loss).backward()  # type: ignore[no-untyped-call]
        return figures.numpy()

    @torch.no_grad()
    def _update_average(self) -> None:
        decay = self._average_decay()
        ours = self.network.state_dict()
        for name, value in self.average.state_dict().items():
            if value.is_floating_point():
                value.lerp_(ours[name], 1.0 - decay)
            else:
                value.copy_(ours[name])
