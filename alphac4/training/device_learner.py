"""Learning without waiting for the GPU: a gradient step is one launch of a captured graph."""

import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor

from alphac4.game.rules import Geometry
from alphac4.nn.network import NetworkConfig
from alphac4.selfplay.merging import merge_duplicates
from alphac4.selfplay.replay import Replay
from alphac4.training.config import LearningConfig
from alphac4.training.device_window import DeviceWindow
from alphac4.training.learner import Learner, LearningPlan, TensorBatch
from alphac4.training.reports import LearningReport
from alphac4.training.schedule import Schedule

logger = logging.getLogger(__name__)

EAGER_STEPS = 3  # ordinary steps before the graph is captured, while libraries choose their algorithms


class DeviceLearner(Learner):
    """`Learner` on batches that are on the device already; figures come back once an iteration."""

    def __init__(
        self,
        network: NetworkConfig,
        config: LearningConfig,
        geometry: Geometry,
        device: torch.device,
        seed: int,
        precision: str | None = None,
    ) -> None:
        super().__init__(network, config, device, seed, precision)
        self._geometry = geometry
        self._window = DeviceWindow(
            geometry,
            device,
            config.return_share,
            fast_weight=config.fast_weight,
            canonical=config.canonical,
            planes=network.input_planes,
        )
        self._rate = torch.zeros((), device=device)
        self._follow = torch.zeros((), device=device)  # how far the averaged weights follow
        self.optimizer = torch.optim.AdamW(
            self.parameter_groups(), lr=self._rate, fused=True, capturable=device.type == "cuda"
        )
        self._muon_rate = torch.zeros((), device=device)
        self.muon = self.make_muon(self._muon_rate)
        self._sums = torch.zeros(5, dtype=torch.float64, device=device)
        self._skip = torch.zeros((), device=device)  # 1 where the step at hand is not finite: AdamW then skips it
        self._skipped = torch.zeros((), dtype=torch.int64, device=device)
        self._batch: TensorBatch | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._capture = device.type == "cuda"
        self._eager_left = EAGER_STEPS

    def learn(self, replay: Replay, plan: LearningPlan) -> LearningReport:
        """See `Learner`."""
        seed, size = int(plan.rng.integers(2**63)), self.config.batch_size
        shards = replay.shards
        if self.config.merge_duplicates:  # under a name of its own, or the device would take it for what it has
            merged = merge_duplicates(replay.window(plan.window), self._geometry)
            shards = [(Path(f"merged up to {replay.total}"), merged)]
        made = self._window.batches(shards, plan.window, size, plan.steps, seed)
        window = min(plan.window, sum(len(samples) for _, samples in replay.shards))
        return self.learn_from(made, plan.schedule, window, plan.on_step)

    def learn_from(
        self,
        stream: Iterable[TensorBatch],
        schedule: Schedule,
        window: int,
        on_step: Callable[[], object] = lambda: None,
    ) -> LearningReport:
        """One gradient step a batch; ``on_step`` is called before each."""
        started = time.perf_counter()
        self.network.train()
        self._sums.zero_()
        self._skipped.zero_()
        count, rate = 0, 0.0
        for batch in stream:
            on_step()
            rate = schedule.rate(self.config, self.steps)
            self._rate.fill_(rate)
            self._muon_rate.fill_(rate * self.config.muon_rate)
            self._follow.fill_(1.0 - self._average_decay())
            self._learn_batch(batch)
            count += 1
            self.steps += 1
        sums = self._sums.cpu().numpy()  # waits for the device
        return self._report(sums, count, int(self._skipped), rate, window, time.perf_counter() - started)

    def _learn_batch(self, batch: TensorBatch) -> None:
        if self._batch is None or self._batch.planes.shape != batch.planes.shape:
            self._batch = TensorBatch(*(tensor.clone() for tensor in batch))
            self._graph = None
        for ours, theirs in zip(self._batch, batch, strict=True):
            ours.copy_(theirs)
        if self._graph is None and self._capture and self._eager_left == 0:
            self._graph = self._captured()
        if self._graph is not None:
            self._graph.replay()
        elif self._capture:  # what is to be captured must not have run on the usual stream
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._launch()
            torch.cuda.current_stream().wait_stream(stream)
            self._eager_left = max(0, self._eager_left - 1)
        else:
            self._launch()

    def _launch(self) -> None:
        """One gradient step from the batch in place."""
        assert self._batch is not None
        self.network.zero_grad(set_to_none=True)
        loss, figures = self.losses(self.network, self._batch)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.gradient_clip)
        figures = torch.cat([figures, norm.double().reshape(1)])
        finite = torch.isfinite(figures).all()
        self._skip.copy_(~finite)
        self.optimizer.found_inf = self._skip  # type: ignore[attr-defined]  # how gradient scalers tell fused ones
        self.optimizer.step()
        if self.muon is not None:
            self.muon.skip = self._skip
            self.muon.step()
        with torch.no_grad():
            follow = self._follow * finite
            ours = self.network.state_dict()
            for name, value in self.average.state_dict().items():
                if value.is_floating_point():
                    value.lerp_(ours[name], follow.to(value.dtype))
                else:
                    value.copy_(ours[name])
            self._sums += torch.where(finite, figures, 0.0)
            self._skipped += ~finite

    def _captured(self) -> torch.cuda.CUDAGraph | None:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        try:
            self.network.zero_grad(set_to_none=True)
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._launch()
        except RuntimeError as error:
            torch.cuda.synchronize()
            logger.warning("no CUDA graph, so every step is launched anew: %s", str(error).splitlines()[0])
            self._capture = False
            return None
        return graph

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """See `Learner.restore`."""
        super().restore(tensors)
        for kind, optimizer in self.optimizers().items():
            for group in optimizer.param_groups:
                group["lr"] = self._muon_rate if kind == "muon" else self._rate
        self._graph = None
        self._eager_left = EAGER_STEPS
