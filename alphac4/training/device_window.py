"""The training window on the learner's device: samples stay there, and batches are made there."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from alphac4.game.planes import PLANES
from alphac4.game.rules import Geometry
from alphac4.nn.network import LinePlanes
from alphac4.selfplay.merging import orient
from alphac4.selfplay.replay import policy_weights, value_targets
from alphac4.selfplay.shards import Samples
from alphac4.training.learner import TensorBatch


class DeviceWindow:
    """Keeps the window's shards on the device between iterations; only new ones travel."""

    def __init__(
        self,
        geometry: Geometry,
        device: torch.device,
        return_share: float,
        *,
        fast_weight: float = 0.0,
        canonical: bool = False,
        planes: int = PLANES["stones"],
    ) -> None:
        self._geometry = geometry
        self._device = device
        self._return_share = return_share
        self._fast_weight = fast_weight
        self._canonical = canonical  # positions as they are evaluated, instead of half of each batch mirrored
        self._shards: dict[Path, dict[str, Tensor]] = {}
        rows, height = geometry.rows, geometry.rows + 1
        bits = [[column * height + row for column in range(geometry.columns)] for row in range(rows)]
        self._bits = torch.tensor(bits, dtype=torch.int64, device=device)  # [R, C]
        self._lines = LinePlanes(geometry).to(device) if planes > PLANES["stones"] else None

    def batches(
        self, shards: Sequence[tuple[Path, Samples]], size: int, batch: int, count: int, seed: int
    ) -> Iterator[TensorBatch]:
        """``count`` batches from the latest ``size`` samples: shuffled passes over positions in either orientation."""
        fields = self._window(shards, size)
        length = len(fields["own"])
        generator = torch.Generator(self._device)
        generator.manual_seed(seed)
        share = 0.0 if self._canonical else 0.5
        order = torch.empty(0, dtype=torch.int64, device=self._device)
        for _ in range(count):
            while len(order) < batch:
                passed = torch.randperm(length, generator=generator, device=self._device)
                order = torch.cat([order, passed])
            chosen, order = order[:batch], order[batch:]
            flip = torch.rand(batch, generator=generator, device=self._device) < share
            yield self.make_batch({name: tensor[chosen] for name, tensor in fields.items()}, flip)

    def make_batch(self, fields: dict[str, Tensor], flip: Tensor) -> TensorBatch:
        """The batch of some samples, mirrored left to right where ``flip`` [B] says so."""
        planes = self._stones(fields["own"], fields["occupied"])
        if self._lines is not None:
            planes = self._lines(planes)
        final = self._stones(fields["final_own"], fields["final_occupied"])
        policy = fields["policy"].float()
        return TensorBatch(
            planes=torch.where(flip[:, None, None, None], planes.flip(-1), planes),
            policy=torch.where(flip[:, None], policy.flip(-1), policy),
            policy_weight=fields["policy_weight"],
            wdl=fields["wdl"],
            final=torch.where(flip[:, None, None, None], final.flip(-1), final),
        )

    def fields(self, samples: Samples) -> dict[str, Tensor]:
        """What batches need of some samples, on the device."""
        if self._canonical:
            samples = orient(samples, self._geometry)
        arrays = {
            "own": samples.own.view(np.int64),
            "occupied": samples.occupied.view(np.int64),
            "final_own": samples.final_own.view(np.int64),
            "final_occupied": samples.final_occupied.view(np.int64),
            "policy": samples.policy,
            "policy_weight": policy_weights(samples, self._fast_weight),
            "wdl": value_targets(samples, self._return_share),
        }
        return {name: torch.from_numpy(np.ascontiguousarray(a)).to(self._device) for name, a in arrays.items()}

    def _window(self, shards: Sequence[tuple[Path, Samples]], size: int) -> dict[str, Tensor]:
        """The latest ``size`` samples, oldest first; shards that are no longer there are forgotten."""
        paths = {path for path, _ in shards}
        self._shards = {path: fields for path, fields in self._shards.items() if path in paths}
        parts: list[dict[str, Tensor]] = []
        left = size
        for path, samples in reversed(shards):
            if left <= 0:
                break
            if path not in self._shards:
                self._shards[path] = self.fields(samples)
            parts.append({name: tensor[max(0, len(samples) - left) :] for name, tensor in self._shards[path].items()})
            left -= len(samples)
        return {name: torch.cat([part[name] for part in reversed(parts)]) for name in parts[0]}

    def _stones(self, own: Tensor, occupied: Tensor) -> Tensor:
        """Planes float32 [B, 2, R, C], bottom row first: own stones, the opponent's."""
        sides = torch.stack([own, own ^ occupied], dim=1)[:, :, None, None]
        return ((sides >> self._bits) & 1).float()
