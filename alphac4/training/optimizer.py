"""The schedule of the learning rate, the optimiser Muon, and the state of any optimiser as named tensors."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alphac4.training.config import LearningConfig

WARMUP_STEPS = 100  # an optimiser's first steps would be too large, because its moments are still inaccurate
WARMUP_SHARE = 0.05  # maximum share of a run, for short runs

NEWTON_SCHULZ_STEPS = 5
NEWTON_SCHULZ_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of x, x^3, x^5: a polynomial that is steep at 0, else about 1
# Muon's learning rate as a multiple of AdamW's (Liu et al. 2025, arXiv 2502.16982: 1, for steps of the same size).
MUON_RATE = 1.5
ADAMW_STEP_RMS = 0.2  # root mean square of AdamW's steps, to which Muon's are scaled

NUMBER = " (number)"  # suffix of the names of numbers among an optimiser's named tensors

Values = dict[str, Any]  # numbers and tensors by name


@dataclass(frozen=True, kw_only=True)
class CosineSchedule:
    """Factor of the learning rate: a cosine (Loshchilov and Hutter 2017) after a linear warm-up.

    If the length of a run changes, a new cosine leads from the current rate to the final rate at the new end. So a
    change never raises the rate, and a finished run that is extended keeps its final rate.
    """

    start_step: int = 0
    start: float = 1.0
    final: float = 0.0
    end_step: int
    warmup_steps: int = 0

    @classmethod
    def of_run(cls, config: LearningConfig, steps: int) -> "CosineSchedule":
        return cls(
            final=config.final_learning_rate / config.learning_rate,
            end_step=steps,
            warmup_steps=min(WARMUP_STEPS, int(WARMUP_SHARE * steps)),
        )

    def __call__(self, step: int) -> float:
        """Return the factor for the gradient step that follows ``step`` others."""
        return self._cosine(step) * min(1.0, (step + 1) / max(self.warmup_steps, 1))

    def with_end(self, step: int, end_step: int) -> "CosineSchedule":
        """Return the schedule that continues from ``step`` and ends at ``end_step``."""
        if end_step == self.end_step:
            return self
        return replace(self, start_step=step, start=self._cosine(step), end_step=max(end_step, step))

    def _cosine(self, step: int) -> float:
        """Return ``final + (start - final) (1 + cos(pi progress)) / 2``."""
        progress = min(1.0, max(0, step - self.start_step) / max(self.end_step - self.start_step, 1))
        return self.final + (self.start - self.final) * 0.5 * (1.0 + math.cos(math.pi * progress))


def orthogonalised(matrices: Tensor) -> Tensor:
    """Return matrices [N, R, C] with their singular values moved to about 1 (0.7 to 1.2), by five Newton-Schulz steps.

    A step multiplies a matrix X by a polynomial of X X^T. The product of the five polynomials is computed first,
    because X X^T [R, R] is not larger than X.
    """
    wide = matrices.shape[1] <= matrices.shape[2]
    x: Tensor = matrices if wide else matrices.mT
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=1e-7)
    square = x @ x.mT
    product = factor = _factor(square)
    for _ in range(NEWTON_SCHULZ_STEPS - 1):
        square = factor @ square @ factor  # the square of factor @ x: polynomials of one matrix commute
        factor = _factor(square)
        product = factor @ product
    x = product @ x
    return x if wide else x.mT


def _factor(square: Tensor) -> Tensor:
    """Return the factor by which a step multiplies X, from ``square`` = X X^T."""
    a, b, c = NEWTON_SCHULZ_COEFFICIENTS
    factor = torch.baddbmm(square, square, square, beta=b, alpha=c)
    factor.diagonal(dim1=1, dim2=2).add_(a)
    return factor


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised for each kernel (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon).

    Steps are scaled to the size of AdamW's with the same rate (Liu et al. 2025, arXiv 2502.16982). A kernel
    [out, in, ...] is treated as a matrix with one row per output. Use Muon for the hidden layers of a network; let
    AdamW update norms, biases, embeddings and outputs.

    Args:
        kernels: parameters with at least two axes.
        lr: learning rate; the elements of a step have a root mean square of about 0.2 times this.
        momentum: weight of the earlier gradients in their moving average, per step.
        weight_decay: decoupled, as in AdamW.
    """

    def __init__(self, kernels: Iterable[Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.0) -> None:
        kernels = list(kernels)
        if any(isinstance(kernel, Tensor) and kernel.ndim < 2 for kernel in kernels):
            raise ValueError("Muon updates kernels, with at least two axes: pass norms and biases to another optimizer")
        super().__init__(kernels, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape = defaultdict[torch.Size, list[Tensor]](list)
            for kernel in group["params"]:
                if kernel.grad is not None:
                    by_shape[kernel.shape].append(kernel)
            for kernels in by_shape.values():
                self._step(kernels, group)

    def _step(self, kernels: list[Tensor], group: dict[str, Any]) -> None:
        """Update all kernels of one shape together: single kernels are too small to use a processor well."""
        updates = []
        for kernel in kernels:
            assert kernel.grad is not None
            gradient, state = kernel.grad, self.state[kernel]
            if not state:
                state["momentum"] = torch.zeros_like(kernel)
            state["momentum"].lerp_(gradient, 1.0 - group["momentum"])
            updates.append(gradient.lerp(state["momentum"], group["momentum"]).flatten(1))
        steps = orthogonalised(torch.stack(updates))
        rate = group["lr"]
        length = ADAMW_STEP_RMS * max(steps.shape[1:]) ** 0.5
        for kernel, step in zip(kernels, steps, strict=True):
            kernel.mul_(1.0 - rate * group["weight_decay"])
            kernel.sub_(step.reshape(kernel.shape) * (rate * length))


def group_values(optimizer: torch.optim.Optimizer) -> list[Values]:
    """Return the numbers and tensors of each parameter group, except the learning rate, which the schedule sets."""
    return [
        {
            name: value.clone() if isinstance(value, Tensor) else value
            for name, value in group.items()
            if name != "lr" and isinstance(value, Real | Tensor) and not isinstance(value, bool)
        }
        for group in optimizer.param_groups
    ]


def _are_equal(first: float | Tensor, second: float | Tensor) -> bool:
    return np.array_equal(torch.as_tensor(first).cpu(), torch.as_tensor(second).cpu())


def optimizer_state(optimizer: torch.optim.Optimizer, initial: Sequence[Values]) -> dict[str, Tensor]:
    """Return named tensors: an optimiser's state, and the values of its groups that differ from the ``initial`` ones.

    Some optimisers, such as Prodigy, count steps or adapt a factor of the learning rate in their groups.
    """
    entries: dict[str, Mapping[str, Any]] = {str(i): values for i, values in optimizer.state_dict()["state"].items()}
    for index, (now, before) in enumerate(zip(group_values(optimizer), initial, strict=True)):
        entries[f"group{index}"] = {
            name: value for name, value in now.items() if name not in before or not _are_equal(value, before[name])
        }
    tensors = {}
    for entry, values in entries.items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"{entry}.{name}"] = value
            elif isinstance(value, Real):
                tensors[f"{entry}.{name}{NUMBER}"] = torch.from_numpy(np.array(value))
            elif value is not None:
                raise ValueError(
                    f"{type(optimizer).__name__} has a {type(value).__name__} in its state, {name!r}; a run can save "
                    "only tensors and numbers"
                )
    return tensors


def restore_optimizer(
    optimizer: torch.optim.Optimizer, initial: Sequence[Values], tensors: Mapping[str, Tensor]
) -> None:
    entries: dict[str, dict[str, Any]] = {}
    for key, value in tensors.items():
        entry, _, name = key.partition(".")
        name, is_number, _ = name.partition(NUMBER)
        entries.setdefault(entry, {})[name] = value.item() if is_number else value.clone()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, (group, now, before) in enumerate(
        zip(optimizer.param_groups, group_values(optimizer), initial, strict=True)
    ):
        for name in now.keys() - before.keys():
            del group[name]
        saved = before | entries.pop(f"group{index}", {})
        device = group["params"][0].device
        for name, value in saved.items():
            group[name] = value.to(device, copy=True) if isinstance(value, Tensor) else value
    state = {int(entry) if entry.isdecimal() else entry: values for entry, values in entries.items()}
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    for index, parameter in enumerate(parameters):
        for name, value in state.get(index, {}).items():
            # PyTorch has chosen the device, but changed the type to the parameter's.
            if isinstance(value, Tensor):
                placed = value.to(optimizer.state[parameter][name].device)
                if value.shape == parameter.shape:  # a fused step ignores strides: they must be the parameter's
                    placed = torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)
                optimizer.state[parameter][name] = placed
