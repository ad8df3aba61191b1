"""Batches of positions, and the losses that a gradient step minimises.

The default loss is AlphaZero's (Silver et al. 2018) with a cross-entropy for the value, and KataGo's ownership (Wu
2019). Shapes: B positions, A moves, P planes, a board of R x C cells. All targets are for the side to move.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from alphac4.game.planes import PLANES, make_planes
from alphac4.game.rules import Board
from alphac4.nn.network import Outputs
from alphac4.selfplay.replay import draw_batches
from alphac4.selfplay.samples import Samples


class TrainingBatch(NamedTuple):
    """B positions with their targets and weights.

    The positions may be a part of a batch. The weights are scaled for the whole batch: the mean of loss times weight is
    the weighted mean of the loss.
    """

    planes: Tensor  # float32 [B, P, R, C]: the stones of the side to move, its opponent's, then further planes
    policy_target: Tensor  # float32 [B, A] target, sums to 1
    policy_weight: Tensor  # float32 [B], mean 1 over the batch
    value_target: Tensor  # float32 [B, 3] target of win, draw and loss, sums to 1
    final_stones: Tensor  # float32 [B, 2, R, C]: own stones and the opponent's at the end of the game
    cell_weight: Tensor  # float32 [B]: of each empty cell's loss, `ownership_weight` * positions / empty cells
    targets: dict[str, Tensor]  # float32 [B, ...] each: further targets by name

    def split(self, indices_or_sections: int | list[int], device: torch.device | None = None) -> "list[TrainingBatch]":
        """Return parts as of `torch.Tensor.tensor_split`, on a device."""

        def parts(tensor: Tensor) -> Sequence[Tensor]:
            return tensor.to(device, non_blocking=True).tensor_split(indices_or_sections)

        fields = [parts(tensor) for name, tensor in self._asdict().items() if name != "targets"]
        named = {name: parts(tensor) for name, tensor in self.targets.items()}
        return [
            TrainingBatch._make([*part, {name: tensors[index] for name, tensors in named.items()}])
            for index, part in enumerate(zip(*fields, strict=True))
        ]


Losses = Callable[[Outputs, TrainingBatch], Mapping[str, Tensor]]
"""Returns named losses [B] of each position, in any unit. A gradient step minimises the sum of their means over the
batch."""


def batches(
    samples: Samples,
    board: Board,
    size: int,
    count: int,
    rng: np.random.Generator,
    *,
    fast_search_weight: float = 0.0,  # of a fast search's policy; a full search has 1
    ownership_weight: float = 1.0,
    planes: int = PLANES["stones"],
    weights: npt.NDArray[np.float64] | None = None,  # [samples] probabilities of drawing each sample, with replacement
) -> Iterator[TrainingBatch]:
    """Make the batches of `draw_batches` on the CPU."""
    for rows, flip in draw_batches(len(samples), size, count, rng, weights):
        chosen = samples.take(rows)
        seen = make_planes(board, chosen.own, chosen.occupied, planes)
        final_stones = make_planes(board, chosen.final_own, chosen.final_occupied)
        policy_target = chosen.policy_target.astype(np.float32)
        seen[flip] = seen[flip][..., ::-1]
        final_stones[flip] = final_stones[flip][..., ::-1]
        policy_target[flip] = policy_target[flip][:, ::-1]
        policy_weight = np.where(chosen.is_full_search, 1.0, fast_search_weight).astype(np.float32)
        value_target = chosen.value_target.astype(np.float32)
        targets = {}
        for name, target in chosen.targets.items():
            if target.per_column:
                target.values[flip] = target.values[flip][..., ::-1]
            targets[name] = torch.from_numpy(target.values)
        arrays = seen, policy_target, policy_weight, value_target, final_stones
        yield with_weights(*map(torch.from_numpy, arrays), targets=targets, ownership_weight=ownership_weight)


def with_weights(
    planes: Tensor,
    policy_target: Tensor,
    policy_weight: Tensor,
    value_target: Tensor,
    final_stones: Tensor,
    *,
    targets: Mapping[str, Tensor] | None = None,
    ownership_weight: float = 1.0,
) -> TrainingBatch:
    """Make a batch with normalised weights from the tensors of a whole batch, without waiting for the device."""
    count = len(planes)
    # At least 1, for batches in which all policies have the weight 0.
    policy_weight = policy_weight * (count / policy_weight.sum().clamp(min=1.0))
    cell_weight = (ownership_weight * (count / empty_cells(planes).sum().clamp(min=1.0))).expand(count)
    return TrainingBatch(
        planes, policy_target, policy_weight, value_target, final_stones, cell_weight, dict(targets or {})
    )


def default_losses(outputs: Outputs, batch: TrainingBatch) -> dict[str, Tensor]:
    """Return the default losses [B]: "policy", "value", and "ownership" if the network has this head.

    The weights are applied: `learning.ownership_weight` for ownership, and 1 on average for policy and value.
    """
    losses = {
        "policy": cross_entropy(outputs.policy, batch.policy_target) * batch.policy_weight,
        "value": cross_entropy(outputs.value, batch.value_target),
    }
    if outputs.ownership is not None:
        losses["ownership"] = ownership_loss(outputs.ownership, batch)
    return losses


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return ``-sum(target log softmax(logits))`` in nats over the K classes: [B, K, ...] to [B, ...].

    Raises:
        TypeError: if an argument is not a tensor.
        ValueError: if the shapes differ or have no K.
    """
    if not isinstance(logits, Tensor) or not isinstance(target, Tensor):
        raise TypeError(f"logits and target must be tensors, not {type(logits).__name__} and {type(target).__name__}")
    if logits.shape != target.shape or logits.ndim < 2:
        raise ValueError(
            f"logits and target must both be [B, K, ...], not {list(logits.shape)} and {list(target.shape)}"
        )
    return -(target * F.log_softmax(logits, dim=1)).sum(dim=1)


def ownership_loss(logits: Tensor, batch: TrainingBatch) -> Tensor:
    """Return the weighted cross-entropy [B] of the final owner of each empty cell; ``logits`` are [B, 3, R, C].

    Classes are own stone, the opponent's, empty. The batch mean is `ownership_weight` times the mean over empty cells.
    """
    target = torch.cat([batch.final_stones, 1.0 - batch.final_stones.sum(dim=1, keepdim=True)], dim=1)
    cells = cross_entropy(logits, target) * empty_cells(batch.planes)
    return cells.sum(dim=(1, 2)) * batch.cell_weight


def empty_cells(planes: Tensor) -> Tensor:
    """Return 1 for each empty cell and 0 for the others [B, R, C]."""
    return 1.0 - planes[:, :2].sum(dim=1)


def check_losses(losses: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
    """Return the result of a user's function `loss` as a dictionary; raise ValueError if it is invalid."""
    expected = f"expected a dictionary of named losses, a tensor [{count}] each"
    if not isinstance(losses, Mapping) or not losses:
        raise ValueError(f"loss returned {type(losses).__name__}; {expected}")
    for term, loss in losses.items():
        if not isinstance(loss, Tensor) or loss.shape != (count,):
            actual = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise ValueError(f"loss returned {actual} for the loss {term!r}; {expected}")
    if torch.is_grad_enabled() and not any(loss.requires_grad for loss in losses.values()):
        raise ValueError("loss returned numbers without a gradient; expected tensors computed from the outputs")
    return dict(losses)
