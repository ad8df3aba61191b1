"""Learning: gradient steps, and the average of the weights, with which the network plays.

On a CPU the batch is cut into parts of at most `PART_SIZE` positions. Each part goes through a network replica on one
thread, and the gradients are added in the order of the parts. So a run produces bit-identical weights on any number of
cores. Batch norm normalises each part separately ("ghost batches", Hoffer et al. 2017, arXiv 1705.08741), while losses
are means over the whole batch. On a GPU the whole batch is one part.
"""

import contextlib
import copy
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from alphac4.compute.cores import Compute
from alphac4.game.rules import Board
from alphac4.machine import cores
from alphac4.nn import winograd
from alphac4.nn.backends import BF16, FP32, learning_precision, torch_threads
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import Network, PolicyValueNetwork, build_network, seed_lock, torch_seed
from alphac4.selfplay.replay import Replay
from alphac4.selfplay.samples import Samples
from alphac4.training.config import LearningConfig, TrainConfig
from alphac4.training.extensions import Extensions, as_probabilities, check_optimizers
from alphac4.training.losses import TrainingBatch, batches, check_losses, cross_entropy, default_losses
from alphac4.training.optimizer import MUON_RATE, Muon, group_values, optimizer_state, restore_optimizer
from alphac4.training.reports import LearningReport

logger = logging.getLogger(__name__)

PART_SIZE = 64  # positions per part: the batches of 128 of `quick` and `standard` have two parts
# The gradient of a batch is clipped to this norm. Steps of AdamW and Muon do not grow with the gradient, but one large
# gradient dominates their moments for dozens of steps.
MAX_GRAD_NORM = 1.0

Schedule = Callable[[int], float]
"""Returns the factor of all learning rates in a gradient step, given the number of steps before it."""


class Learner:
    """A network in training, its optimisers, and the average of its weights, with which it plays.

    Weights, losses and optimisers are float32 in either ``precision`` of the forward and backward passes.
    """

    def __init__(
        self,
        network: NetworkConfig,
        config: LearningConfig,
        board: Board,
        seed: int,  # of the initial weights, and of random numbers that a user's module, losses or optimisers draw
        *,
        device: torch.device | None = None,
        workers: int | None = None,  # threads, by default one per core; changes the speed, not the weights
        precision: str | None = None,  # by default `learning_precision`
        extensions: Extensions | None = None,
    ) -> None:
        self.config = config
        self.seed = seed
        self.extensions = extensions or Extensions()
        self.device = device or torch.device("cpu")
        self._board = board
        on_cpu = self.device.type == "cpu"
        self._parts = -(-config.batch_size // PART_SIZE) if on_cpu else 1
        self._workers = min(workers or cores(), self._parts)
        self.precision = precision or learning_precision(self.device)
        with torch_seed(seed):
            self.network = build_network(network, self.extensions.functions.get("network"))
        self.network.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network.train()
        self.average = copy.deepcopy(self.network).eval().requires_grad_(False)
        self.losses = default_losses if "loss" not in self.extensions else partial(self.extensions.call, "loss")
        self.optimizers = self._make_optimizers()
        self._initial_rates = [[float(group["lr"]) for group in each.param_groups] for each in self.optimizers]
        self._initial_values = list(map(group_values, self.optimizers))
        # One replica per part: it shares the network's weights, but has its own gradients and running statistics.
        self._replicas = [copy.deepcopy(self.network) for _ in range(self._parts)]
        by_winograd = (
            on_cpu
            and self.precision == FP32
            and winograd.is_faster_in_learning(self.network.config, config.batch_size // self._parts)
        )
        for replica in self._replicas:
            for theirs, ours in zip(replica.parameters(), self.network.parameters(), strict=True):
                theirs.data = ours.data
            if by_winograd:
                winograd.use_winograd(replica)
        logger.debug(
            "learning in %s%s on %s",
            self.precision,
            ", convolutions by Winograd's filtering" if by_winograd else "",
            f"{self._workers} cores" if on_cpu else self.device,
        )
        self._lists: dict[tuple[int, object], list[Tensor]] = {}  # of `_tensors`, by the network's id and ``members``
        self.steps = 0
        self._terms: list[str] = []  # names of the losses, from the first step on
        # Whether each step checks if the user's module or losses draw random numbers; only on a CPU.
        self._is_watched = on_cpu and ("network" in self.extensions or "loss" in self.extensions)
        # Whether they may draw some in the next step.
        self._draws_numbers = not on_cpu or self._is_watched

    def _make_optimizers(self) -> Sequence[torch.optim.Optimizer]:
        """Return the user's optimisers, or AdamW and, if set, Muon for the tower's kernels. Only kernels decay."""
        config = self.config
        if "optimizer" in self.extensions:
            module = getattr(self.network, "module", self.network)
            built = self.extensions.call("optimizer", module)
            return check_optimizers((built,) if isinstance(built, torch.optim.Optimizer) else built, module)
        by_muon = list[nn.Parameter]()
        if config.optimizer == "muon" and isinstance(self.network, PolicyValueNetwork):
            by_muon = [p for p in self.network.tower.parameters() if p.ndim > 1]
        by_muon_ids = set(map(id, by_muon))
        by_adamw = [p for p in self.network.parameters() if id(p) not in by_muon_ids]
        groups = [
            {"params": [p for p in by_adamw if p.ndim > 1], "weight_decay": config.weight_decay},
            {"params": [p for p in by_adamw if p.ndim <= 1], "weight_decay": 0.0},
        ]
        adamw = torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)
        if not by_muon:
            return (adamw,)
        return adamw, Muon(by_muon, config.learning_rate * MUON_RATE, weight_decay=config.weight_decay)

    def set_rates(self, factor: float | Tensor) -> None:
        """Set every group's learning rate to its initial rate times ``factor``."""
        for optimizer, rates in zip(self.optimizers, self._initial_rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                if isinstance(group["lr"], Tensor):
                    group["lr"].copy_(torch.as_tensor(rate * factor))
                else:
                    group["lr"] = rate * float(factor)

    def initialize_from(self, network: Network) -> None:
        self.network.initialize_from(network)
        self.average.load_state_dict(self.network.state_dict())

    def learn(
        self,
        replay: Replay,
        window: int,
        *,
        steps: int,
        schedule: Schedule,
        rng: np.random.Generator,
        on_step: Callable[[], object] = lambda: None,
    ) -> LearningReport:
        """Take gradient steps on batches of the latest ``window`` samples; ``on_step`` may raise to end learning."""
        samples = replay.window(window)
        stream = batches(
            samples,
            self._board,
            self.config.batch_size,
            steps,
            rng,
            fast_search_weight=self.config.fast_search_weight,
            ownership_weight=self.config.ownership_weight,
            planes=self.network.config.input_planes,
            weights=self.sample_weights(samples, rng),
        )
        return self.learn_from(stream, schedule, len(samples), on_step)

    def sample_weights(self, samples: Samples, rng: np.random.Generator) -> np.ndarray | None:
        """Return the probabilities [S] with which samples are drawn; None for whole passes over all of them."""
        if "sample_weights" not in self.extensions:
            return None
        # A copy: batches are made of the same arrays, which the function may change.
        weights = self.extensions.numbers("sample_weights", copy.deepcopy(samples), rng, sizes=(len(samples),))
        return as_probabilities(weights)

    def learn_from(
        self,
        stream: Iterable[TrainingBatch],
        schedule: Schedule,
        window: int,
        on_step: Callable[[], object] = lambda: None,
    ) -> LearningReport:
        """Take one gradient step per batch of ``stream``; skip steps whose loss or gradient is not finite."""
        started = time.perf_counter()
        sums, count, skipped = np.zeros(1), 0, 0
        self._share_statistics()
        with self._one_thread(), ThreadPoolExecutor(self._workers) as pool:
            for batch in stream:
                on_step()
                self.set_rates(schedule(self.steps))
                figures = self._step(batch, pool)
                if np.isfinite(figures).all():
                    sums = sums + figures
                else:
                    skipped += 1
                count += 1
                self.steps += 1
        return self._report(sums, count, skipped, window, started)

    def _report(self, sums: np.ndarray, steps: int, skipped: int, window: int, started: float) -> LearningReport:
        """Return the report of ``steps`` steps; ``sums`` are the sums of `_step`'s figures, without skipped steps."""
        if steps == skipped and "loss" in self.extensions:
            raise ValueError(f"loss returned numbers that are not finite, or have no finite gradient, in {steps} steps")
        *losses, entropy, norm = (sums / (steps - skipped)).tolist() if steps > skipped else (None, None)
        return LearningReport(
            steps=steps,
            skipped_steps=skipped,
            policy_entropy=entropy,
            gradient_norm=norm,
            losses=dict(zip(self._terms, losses, strict=False)),  # none if all steps were skipped
            learning_rate=float(self.optimizers[0].param_groups[0]["lr"]),
            window=window,
            seconds=time.perf_counter() - started,
        )

    def _one_thread(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which PyTorch computes in the calling thread only, if learning is on the CPU.

        Each part is computed by one thread: parts do not wait for each other after every layer, OpenMP's barriers do
        not stall when another program uses a core, and the order of sums does not depend on the number of cores.
        """
        return torch_threads(1) if self.device.type == "cpu" else contextlib.nullcontext()

    def _step(self, batch: TrainingBatch, pool: ThreadPoolExecutor) -> np.ndarray:
        """Take one gradient step if it is finite.

        Return [K + 2]: the means of the K losses and of the entropy, and the gradient norm.
        """
        positions = len(batch.planes)
        count = min(self._parts, positions)
        parts = batch.split(count, self.device)
        replicas = self._replicas[:count]
        sums = self._differentiate_all(replicas, parts, positions, pool)
        parameters, *of_replicas = (self._tensors(each, nn.Module.parameters) for each in (self.network, *replicas))
        for ours, *theirs in zip(parameters, *of_replicas, strict=True):
            gradients = [each.grad for each in theirs if each.grad is not None]
            ours.grad = reduce(Tensor.add_, gradients) if gradients else None
        norm = torch.nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM)
        figures = np.append(np.sum(sums, axis=0) / positions, float(norm))
        if np.isfinite(figures).all():
            # Some optimisers add noise; the package's own draw nothing.
            adds_noise = "optimizer" in self.extensions
            with self._random_numbers(self._parts) if adds_noise else contextlib.nullcontext():
                for optimizer in self.optimizers:
                    optimizer.step()
            self._take_statistics(replicas)
            self._update_average()
        self._share_statistics()
        return figures

    def _differentiate_all(
        self, replicas: Sequence[Network], parts: Sequence[TrainingBatch], positions: int, pool: ThreadPoolExecutor
    ) -> list[np.ndarray]:
        """Call `_differentiate` for all parts, in parallel unless the module or the losses draw random numbers.

        In that case, as with dropout, the parts follow each other, each with a seed of its own. So one seed fixes the
        weights on any number of cores, and the caller's random state does not change.
        """
        if not self._draws_numbers:
            before = _random_state() if self._is_watched else None
            sums = list(pool.map(partial(self._differentiate, positions=positions), replicas, parts))
            if before is None or torch.equal(_random_state(), before):
                return sums
            with seed_lock:
                torch.set_rng_state(before)
            self._share_statistics()
        sums, have_drawn = [], False
        for number, (replica, part) in enumerate(zip(replicas, parts, strict=True)):
            with self._random_numbers(number):
                before = torch.get_rng_state()
                sums.append(self._differentiate(replica, part, positions))
                have_drawn |= not torch.equal(torch.get_rng_state(), before)
        if self._is_watched:
            self._draws_numbers = have_drawn
        return sums

    def _random_numbers(self, part: int = 0) -> contextlib.AbstractContextManager[None]:
        """Return a `torch_seed` that depends on the run's seed, the step and the part of the batch."""
        seed = np.random.SeedSequence([self.seed, self.steps, part]).generate_state(1, np.uint64)
        return torch_seed(int(seed[0]), self.device)

    def _differentiate(self, replica: Network, part: TrainingBatch, positions: int) -> np.ndarray:
        """Set a replica's gradients from its part of a batch; return the sums of K losses and the entropy [K + 1]."""
        with self._one_thread():
            losses, entropy = self.forward(replica, part)
            loss = cast(Tensor, sum(each.sum() for each in losses.values())) / positions
            replica.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
        return np.array([float(each.detach().double().sum()) for each in (*losses.values(), entropy)])

    def forward(self, network: Network, batch: TrainingBatch) -> tuple[dict[str, Tensor], Tensor]:
        """Return the named losses [B] of each position, and the entropy [B] of the policy, in nats."""
        planes = batch.planes.contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == BF16, cache_enabled=False):
            outputs = network.forward_all(planes)
        outputs = outputs._replace(
            policy=outputs.policy.float(),
            value=outputs.value.float(),
            ownership=None if outputs.ownership is None else outputs.ownership.float(),
            extra={name: each.float() for name, each in outputs.extra.items()},
        )
        with torch.no_grad():
            entropy = cross_entropy(outputs.policy, outputs.policy.softmax(dim=1))
        losses = check_losses(self.losses(outputs, batch._replace(planes=planes)), len(planes))
        self._terms = self._terms or list(losses)
        if losses.keys() != set(self._terms):
            raise ValueError(
                f"loss returned {list(losses)}, and {self._terms} in its first call; expected the same names in every "
                "call: return zeros for a loss that does not apply"
            )
        return {name: losses[name] for name in self._terms}, entropy

    def _tensors(self, network: Network, members: Callable[[nn.Module], Iterable[Tensor]]) -> list[Tensor]:
        """Return the ``members`` of a network, such as its parameters.

        The list for the package's network is kept; a user's module may replace its buffers, so it is listed each time.
        """
        if type(network) is not PolicyValueNetwork:
            return list(members(network))
        key = id(network), members
        if key not in self._lists:
            self._lists[key] = list(members(network))
        return self._lists[key]

    @torch.no_grad()
    def _take_statistics(self, replicas: list[Network]) -> None:
        """Set the network's running statistics to the mean of those of the replicas that had a part of the batch."""
        buffers, *of_replicas = (self._tensors(each, nn.Module.buffers) for each in (self.network, *replicas))
        for ours, *theirs in zip(buffers, *of_replicas, strict=True):
            ours.copy_(torch.stack(theirs).mean(dim=0) if ours.is_floating_point() else theirs[0])

    @torch.no_grad()
    def _share_statistics(self) -> None:
        ours = self._tensors(self.network, nn.Module.buffers)
        for replica in self._replicas if ours else ():
            torch._foreach_copy_(self._tensors(replica, nn.Module.buffers), ours)

    @torch.no_grad()
    def _update_average(self) -> None:
        """Compute ``average <- d average + (1 - d) network``, running statistics included."""
        weight = 1.0 - self.average_decay(self.steps)
        averages, values = (self._tensors(each, _state_of) for each in (self.average, self.network))
        for average, ours in zip(averages, values, strict=True):
            if average.is_floating_point():
                average.lerp_(ours, weight)
            else:
                average.copy_(ours)

    def average_decay(self, step: int) -> float:
        """Return `LearningConfig.ema_decay`, or less in the first steps, so that untrained weights fade.

        For 0.99 these are the first 890.
        """
        return min(self.config.ema_decay, (1 + step) / (10 + step))

    def is_finite(self) -> bool:
        tensors = [*self.network.state_dict().values(), *self.average.state_dict().values()]
        return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)

    def candidate(self) -> Network:
        """Return a copy of the averaged network on the CPU, in evaluation mode."""
        copied = copy.deepcopy(self.average).cpu().eval()
        return copied.to(memory_format=torch.contiguous_format)  # type: ignore[no-any-return, call-overload]

    def state(self) -> dict[str, Tensor]:
        """Return everything that the learner of a resumed run needs, as named tensors on the CPU."""
        return {name: tensor.detach().cpu().clone() for name, tensor in self.live_state().items()}

    def live_state(self) -> dict[str, Tensor]:
        """Return the tensors that `state` copies, without copying them."""
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= {f"average.{name}": value for name, value in self.average.state_dict().items()}
        for number, optimizer in enumerate(self.optimizers):
            state = optimizer_state(optimizer, self._initial_values[number])
            tensors |= {f"optimizer{number}.{name}": value for name, value in state.items()}
        return tensors | {"steps": torch.tensor(self.steps)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        parts = defaultdict[str, dict[str, Tensor]](dict)
        for name, value in tensors.items():
            kind, _, rest = name.partition(".")
            parts[kind][rest] = value
        self.network.load_state_dict(parts["network"])
        self.average.load_state_dict(parts["average"])
        for number, optimizer in enumerate(self.optimizers):
            restore_optimizer(optimizer, self._initial_values[number], parts[f"optimizer{number}"])
        self.steps = int(tensors["steps"])


def _random_state() -> Tensor:
    """Return PyTorch's random state outside of other threads' blocks of `torch_seed`."""
    with seed_lock:
        return torch.get_rng_state()


def make_learner(config: TrainConfig, compute: Compute, extensions: Extensions | None = None) -> Learner:
    """Return a run's learner with an untrained network, after checking functions and PyTorch's state."""
    if extensions is not None:
        extensions.check_settings(config)
    if torch.get_default_dtype() != torch.float32:
        dtype = torch.get_default_dtype()
        raise RuntimeError(f"training needs torch.float32 as default dtype, not {dtype}: call torch.set_default_dtype")
    if torch.is_inference_mode_enabled():
        raise RuntimeError("training needs gradients: leave torch.inference_mode() before")
    network, board, device = config.network_config(), config.board.make(), compute.learning_device
    return compute.learner(config, extensions) or Learner(
        network, config.learning, board, config.seed, device=device, extensions=extensions
    )


def _state_of(network: nn.Module) -> Iterable[Tensor]:
    """Return the tensors of a network's state: parameters, and buffers that are saved."""
    return network.state_dict().values()
