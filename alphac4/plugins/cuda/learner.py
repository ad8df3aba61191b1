"""Learning on a GPU, with the replay window and batches in its memory and the gradient step as one captured graph.

The results are those of an `alphac4.training.learner.Learner` that does not cut batches into parts; a test compares the
two. The host draws the positions of each batch, and reads the losses once per iteration.
"""

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from alphac4.game.rules import Board
from alphac4.nn.config import NetworkConfig
from alphac4.plugins.cuda.device import capture_graph
from alphac4.plugins.cuda.replay import DeviceReplay
from alphac4.selfplay.replay import Replay, draw_batches
from alphac4.training.config import LearningConfig
from alphac4.training.extensions import Extensions
from alphac4.training.learner import MAX_GRAD_NORM, Learner, Schedule
from alphac4.training.losses import TrainingBatch, with_weights
from alphac4.training.optimizer import Muon
from alphac4.training.reports import LearningReport

QUEUED_STEPS = 64  # steps launched before the host waits, so that progress and Ctrl-C keep up with the device


class DeviceLearner(Learner):
    """`Learner` whose gradient step runs on the GPU without the host.

    A step whose loss or gradient is not finite changes no weight, but the optimisers' moments decay by one step. Steps
    of optimisers that are not made for graphs are launched singly, which is slower.
    """

    def __init__(
        self,
        network: NetworkConfig,
        config: LearningConfig,
        board: Board,
        seed: int,
        replay: DeviceReplay,
        precision: str | None = None,
        extensions: Extensions | None = None,
    ) -> None:
        super().__init__(network, config, board, seed, device=replay.device, precision=precision, extensions=extensions)
        self._window = replay
        # All gradients share one vector, and so do all running statistics, so that one kernel processes all of them.
        self._gradients, views = _vector_like(list(self.network.parameters()), self.device)
        for parameter, view in zip(self.network.parameters(), views, strict=True):
            parameter.grad = view
        buffers = [buffer for buffer in self.network.buffers() if buffer.is_floating_point()]
        self._statistics, views = _vector_like(buffers, self.device)
        for buffer, view in zip(buffers, views, strict=True):
            view.copy_(buffer)
            buffer.data = view
        self._factors = torch.zeros(0)  # of the learning rates, for each step of a plan
        self._run: Callable[[], object] | None = None  # the captured step

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore `state`; the step must be captured again, because the optimisers' memory has changed."""
        super().restore(tensors)
        self._run = None

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
        """Learn as `Learner.learn` does, after copying the replay's new samples to the device."""
        started = time.perf_counter()
        self._window.load(replay)
        window = min(window, self._window.count)
        weights = None
        if "sample_weights" in self.extensions:
            weights = self.sample_weights(replay.window(window), rng)
        drawn = list(draw_batches(window, self.config.batch_size, steps, rng, weights))
        factors = [schedule(self.steps + step) for step in range(steps)]
        plan = (
            self._window.rows(np.stack([numbers for numbers, _ in drawn]), window),
            np.stack([mirrored for _, mirrored in drawn]).astype(np.int8),
            np.array(factors, np.float32),
            np.array([1.0 - self.average_decay(self.steps + step) for step in range(steps)], np.float32),
        )
        if len(self._factors) < steps:
            self._prepare(steps)
        for tensor, array in zip((self._rows, self._mirrored, self._factors, self._weights), plan, strict=True):
            tensor[:steps].copy_(torch.from_numpy(array))
        self._done.zero_()
        self._sums.zero_()
        with self._random_numbers():
            for step in range(steps):
                on_step()
                self._take_step()
                self.steps += 1
                if step % QUEUED_STEPS == QUEUED_STEPS - 1:
                    self._sums.cpu()
            sums = self._sums.cpu().numpy()
        return self._report(sums[:-1], steps, steps - round(sums[-1]), window, started)

    def _prepare(self, steps: int) -> None:
        size, device = self.config.batch_size, self.device
        self._rows = torch.zeros((steps, size), dtype=torch.int64, device=device)  # rows of each step's batch
        self._mirrored = torch.zeros((steps, size), dtype=torch.int8, device=device)
        self._factors = torch.zeros(steps, device=device)
        self._weights = torch.zeros(steps, device=device)  # each step's weight of the network in the average
        self._done = torch.zeros(1, dtype=torch.int64, device=device)  # steps taken in this call
        with torch.no_grad():
            self.forward(self.average, self._batch())  # sets the names of the losses
        # Sums of the losses, the entropy and the norm, and the number of steps that were not skipped.
        self._sums = torch.zeros(len(self._terms) + 3, dtype=torch.float64, device=device)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = torch.zeros((), device=device)
                if "capturable" in group:
                    group["capturable"] = device.type == "cuda"
        self._run = None

    def _take_step(self) -> None:
        """Take one gradient step: the first singly, because the optimisers create their state, then by a graph."""
        if self._run is not None:
            self._run()
            return
        self._step_on_device()
        if all(map(_is_capturable, self.optimizers)):
            self._run = self._capture()

    def _capture(self) -> Callable[[], object]:
        """Return the captured gradient step. Capturing runs the step a few times, but changes no state."""
        before = self.state()
        figures = [(tensor, tensor.clone()) for tensor in (self._done, self._sums)]
        with self._random_numbers():
            run = capture_graph(self._step_on_device, self.device)
        for name, tensor in self.live_state().items():
            if name != "steps":
                tensor.detach().copy_(before[name])
        for tensor, value in figures:
            tensor.copy_(value)
        return run

    def _step_on_device(self) -> None:
        self._gradients.zero_()
        statistics = self._statistics.clone()
        losses, entropy = self.forward(self.network, self._batch())
        sum(each.mean() for each in losses.values()).backward()  # type: ignore[union-attr, no-untyped-call]
        with torch.no_grad():
            norm = torch.linalg.vector_norm(self._gradients)
            means = [each.detach().double().mean() for each in (*losses.values(), entropy)]
            figures = torch.stack([*means, norm.double()])
            is_finite = torch.isfinite(figures).all()
            clipped = self._gradients * (MAX_GRAD_NORM / (norm + 1e-6)).clamp(max=1.0)
            self._gradients.copy_(torch.where(is_finite, clipped, torch.zeros_like(clipped)))
            self.set_rates(torch.where(is_finite, self._factors.index_select(0, self._done)[0], 0.0))
        for optimizer in self.optimizers:
            optimizer.step()
        with torch.no_grad():
            self._statistics.copy_(torch.where(is_finite, self._statistics, statistics))
            weight = torch.where(is_finite, self._weights.index_select(0, self._done)[0], 0.0)
            averages = [value for value in self.average.state_dict().values() if value.is_floating_point()]
            ours = [value for value in self.network.state_dict().values() if value.is_floating_point()]
            change = torch._foreach_sub(ours, averages)
            torch._foreach_mul_(change, weight)
            torch._foreach_add_(averages, change)
            self._sums += torch.where(is_finite, torch.cat([figures, torch.ones_like(figures[:1])]), 0.0)
            self._done.add_(1).remainder_(len(self._factors))  # capturing runs the step a few times

    def _batch(self) -> TrainingBatch:
        rows, mirrored = self._rows.index_select(0, self._done)[0], self._mirrored.index_select(0, self._done)[0]
        tensors, targets = self._window.batch(rows, mirrored)
        return with_weights(*tensors, targets=targets, ownership_weight=self.config.ownership_weight)


def _is_capturable(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether a graph can repeat an optimiser's steps, because they depend on no number in Python."""
    kinds = (Muon, torch.optim.SGD)
    return type(optimizer) in kinds or all("capturable" in group for group in optimizer.param_groups)


def _vector_like(tensors: list[Tensor], device: torch.device) -> tuple[Tensor, list[Tensor]]:
    """Return a vector of zeros for all tensors, and its parts in their shapes and memory formats."""
    sizes = [tensor.numel() for tensor in tensors]
    vector = torch.zeros(sum(sizes), device=device)
    starts = np.cumsum([0, *sizes])[:-1].tolist()
    parts = zip(tensors, starts, strict=True)
    return vector, [torch.as_strided(vector, tensor.shape, tensor.stride(), start) for tensor, start in parts]
