"""Evaluators for users' own networks: functions of planes, and PyTorch modules."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alphac4.game.planes import PLANES
from alphac4.game.position import count_of
from alphac4.game.rules import Board
from alphac4.mcts.network_search import NotFiniteError
from alphac4.mcts.results import root_wdl
from alphac4.nn.backends import random_boards
from alphac4.nn.evaluator import check_not_forked, softmax
from alphac4.storage.records import first_line

if TYPE_CHECKING:
    from torch import nn

Array = npt.NDArray[np.float32]

PROBE_BOARDS = 32
VALUE_TOLERANCE = 1e-3  # of values beyond 1
SUM_TOLERANCE = 0.01  # of sums of probabilities; those of bfloat16 are off by up to 0.004
MIN_PROBABILITY = 1e-9


class FunctionEvaluator:
    """Evaluator that calls a function of planes [B, P, R, C].

    The first two planes are the stones of the side to move and those of its opponent, bottom row first. The function
    returns policy logits [B, C], and either values [B] or [B, 1] in [-1, 1], or win/draw/loss probabilities [B, 3], all
    for the side to move: as NumPy arrays, lists, or PyTorch tensors.
    """

    def __init__(
        self,
        function: Callable[[Array], Any],
        input_planes: int = PLANES["stones"],
        *,
        name: str = "",  # in error messages
        probe_board: Board | None = None,  # if given, its random boards decide between logits and probabilities
    ) -> None:
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.input_planes = input_planes
        self._function = function
        self._policy_is_logits, self._value_is_logits = True, False
        if probe_board is not None:
            boards = random_boards(probe_board, PROBE_BOARDS, np.random.default_rng(0), input_planes)
            policy, value = self._call(boards)
            self._policy_is_logits = not _are_probabilities(policy)
            self._value_is_logits = value.shape[1:] == (3,) and not _are_probabilities(value)
            self.evaluate(boards)  # raises for outputs that a search cannot use

    def evaluate(self, planes: Array) -> tuple[Array, Array]:
        """Compute policy logits [B, C] and win/draw/loss probabilities [B, 3], for the side to move.

        Raise NotFiniteError for NaN, an infinite value or an infinite highest logit; ValueError for other bad outputs.
        """
        count = len(planes)
        policy, value = self._call(planes)
        is_open = planes[:, :2, -1, :].sum(axis=1) == 0
        highest = np.where(is_open, policy, -np.inf).max(axis=1, initial=-np.inf)
        if not np.isfinite(highest[is_open.any(axis=1)]).all() or np.isnan(policy).any():
            raise NotFiniteError(f"{self.name} returned a policy without a largest finite logit")
        if not np.isfinite(value).all():
            raise NotFiniteError(f"{self.name} returned a value that is not finite")
        if value.shape != (count, 3):
            if (size := np.abs(value).max(initial=0)) > 1 + VALUE_TOLERANCE:
                raise ValueError(
                    f"{self.name} returned a value of size {size:.3g}; expected -1 (lost) to 1 (won), such as by tanh"
                )
            # A scalar value carries no draw probability, so it is split into win and loss only.
            return policy, root_wdl(np.clip(value.reshape(-1), -1, 1), np.zeros(count)).astype(np.float32)
        if not (np.all(value >= 0) and np.allclose(value.sum(axis=1), 1, atol=SUM_TOLERANCE)):
            raise ValueError(
                f"{self.name} returned win, draw and loss that are not probabilities: they must add up to 1"
            )
        return policy, value

    def _call(self, planes: Array) -> tuple[Array, Array]:
        """Return the function's policy logits [B, C], and its values [B] or [B, 1], or probabilities [B, 3]."""
        count, columns = len(planes), planes.shape[3]
        try:
            outputs = self._function(planes.copy())  # a copy, which the function may change
        except Exception as error:
            text = f"{type(error).__name__}: {first_line(error)}"
            raise ValueError(f"{self.name} failed on planes {list(planes.shape)} with {text}") from error
        expected = f"a policy [{count}, {columns}] and a value [{count}] or [{count}, 3]"
        is_pair = isinstance(outputs, tuple | list) and len(outputs) == 2
        try:
            policy, value = map(_as_array, outputs if is_pair else ())
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(
                f"{self.name} returned {_describe(outputs)} for {count_of(count, 'position')}; expected {expected}"
            ) from None
        if policy.shape != (count, columns) or value.shape not in ((count,), (count, 1), (count, 3)):
            raise ValueError(
                f"{self.name} returned a policy {list(policy.shape)} and a value {list(value.shape)} for "
                f"{count_of(count, 'position')}; expected {expected}"
            )
        return (
            policy if self._policy_is_logits else np.log(np.maximum(policy, MIN_PROBABILITY)),
            softmax(value) if self._value_is_logits else value,
        )


class ModuleEvaluator(FunctionEvaluator):
    """Evaluator that calls a PyTorch module, on the device of its parameters and in evaluation mode.

    The module takes a tensor of planes [B, P, R, C] and returns a policy [B, C] and a value: [B] or [B, 1] in [-1, 1],
    or win/draw/loss [B, 3]. Random boards decide whether the policy and win/draw/loss are logits or probabilities.
    """

    def __init__(self, module: "nn.Module", board: Board, input_planes: int) -> None:
        self._module = module
        super().__init__(self._run, input_planes, name=type(module).__name__, probe_board=board)

    def _run(self, planes: Array) -> Any:
        import torch

        check_not_forked()
        like = next(self._module.parameters(), torch.empty(0))
        was_training = self._module.training
        self._module.eval()
        try:
            with torch.inference_mode():
                return self._module(torch.from_numpy(planes).to(like.device, like.dtype))
        finally:
            self._module.train(was_training)


def own_evaluator(network: Any, board: Board, planes: str | None = None) -> FunctionEvaluator:
    """Return the evaluator of a user's module or function of ``planes``, by default of the stones.

    A module that cannot take the stones gets the lines.
    """
    if "torch" not in sys.modules or not isinstance(network, sys.modules["torch"].nn.Module):
        return FunctionEvaluator(network, PLANES[planes or "stones"])
    errors = []
    for name in ("stones", "lines") if planes is None else (planes,):
        try:
            return ModuleEvaluator(network, board, PLANES[name])
        except ValueError as error:
            errors.append(f'planes="{name}": {error}')
    raise ValueError("; ".join(errors))


def _as_array(output: Any) -> Array:
    """Convert an array, a list, or a tensor on any device, with or without a gradient, to float32."""
    tensor = output.detach().cpu().float() if hasattr(output, "detach") else output
    return np.asarray(tensor, np.float32)


def _describe(outputs: Any) -> str:
    """Return the type and the shape, or the items, of a function's outputs."""
    if isinstance(outputs, tuple | list):
        return f"{type(outputs).__name__} of {len(outputs)} ({', '.join(map(_describe, outputs[:3]))})"
    return f"{type(outputs).__name__} {list(outputs.shape)}" if hasattr(outputs, "shape") else type(outputs).__name__


def _are_probabilities(outputs: Array) -> bool:
    return bool((outputs >= 0).all() and (np.abs(outputs.sum(axis=1) - 1) < SUM_TOLERANCE).all())
