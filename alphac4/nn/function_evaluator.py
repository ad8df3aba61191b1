"""Any function on planes as a network: what a search needs of it, checked."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from alphac4.mcts.results import root_wdl

Array = npt.NDArray[np.float32]


class FunctionEvaluator:
    """Evaluates positions by a function of planes [B, 2, R, C], all seen by the side to move.

    The planes hold the stones of the side to move, then its opponent's, bottom row first. The function returns policy
    logits [B, C], and either values [B] in [-1, 1] or probabilities of win, draw and loss [B, 3].
    """

    def __init__(self, function: Callable[[Array], Any]) -> None:
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self._function = function

    def evaluate(self, planes: Array) -> tuple[Array, Array]:
        """Policy logits [B, C] and win/draw/loss probabilities [B, 3].

        Raises:
            ValueError: in one line, for answers of another shape, or numbers that no search can use.
        """
        count, columns = len(planes), planes.shape[3]
        try:
            policy, value = (np.asarray(answer, np.float32) for answer in self._function(planes))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{self.name} must return a policy and a value for planes {planes.shape}: {error}"
            ) from error
        if policy.shape != (count, columns) or value.shape not in ((count,), (count, 1), (count, 3)):
            raise ValueError(
                f"{self.name} returned a policy {policy.shape} and a value {value.shape} for {count} positions; "
                f"expected ({count}, {columns}), and ({count},) or ({count}, 3)"
            )
        is_open = planes[:, :, -1, :].sum(axis=1) == 0
        highest = np.where(is_open, policy, -np.inf).max(axis=1, initial=-np.inf)
        if not np.isfinite(highest[is_open.any(axis=1)]).all() or np.isnan(policy).any():
            raise ValueError(f"{self.name} returned a policy whose highest logit is no finite number")
        if value.shape != (count, 3):
            if not np.isfinite(value).all():
                raise ValueError(f"{self.name} returned a value that is no finite number")
            return policy, values_to_wdl(value.reshape(-1))
        if not (np.all(value >= 0) and np.allclose(value.sum(axis=1), 1, atol=0.01)):
            raise ValueError(
                f"{self.name} returned win, draw and loss that are no probabilities: they must add up to 1"
            )
        return policy, value


def values_to_wdl(values: Array) -> Array:
    """Win/draw/loss [B, 3] of values [B]: nothing is known of draws, so that all is win or loss."""
    return root_wdl(np.clip(values, -1, 1), np.zeros(len(values))).astype(np.float32)
