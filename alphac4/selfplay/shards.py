"""Shards: recorded positions in a file with a digest."""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alphac4.storage.arrays import ArrayFileError, Arrays, load_arrays, save_arrays

FORMAT = "alphac4-replay-5"
_NAME = re.compile(r"(?P<iteration>\d{6,})-(?P<actor>\d{3,})-(?P<number>\d{5,})\.safetensors")


@dataclass(frozen=True, kw_only=True)
class Samples:
    """S recorded positions, each seen by its side to move."""

    own: npt.NDArray[np.uint64]  # [S]
    occupied: npt.NDArray[np.uint64]  # [S]
    policy: npt.NDArray[np.float16]  # [S, A] policy target, sums to 1
    full: npt.NDArray[np.bool_]  # [S] whether the policy counts in full, as a full search's does, or `fast_weight`
    outcome: npt.NDArray[np.int8]  # [S] the game's result: +1 win, 0 draw, -1 loss
    value: npt.NDArray[np.float32]  # [S] the search's root value in [-1, 1]
    draw: npt.NDArray[np.float32]  # [S] the search's probability of a draw
    returns: npt.NDArray[np.float16]  # [S, 3] win/draw/loss as the rest of the game corrects the search's value
    final_own: npt.NDArray[np.uint64]  # [S] own stones when the game was over
    final_occupied: npt.NDArray[np.uint64]  # [S] all stones then

    def __len__(self) -> int:
        return len(self.own)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fields by name."""
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}

    def take(self, index: slice | npt.NDArray[np.int64]) -> "Samples":
        """Some of the positions."""
        return Samples(**{name: array[index] for name, array in self.arrays().items()})


_TYPES = {  # of each field: type and number of dimensions
    "own": (np.uint64, 1),
    "occupied": (np.uint64, 1),
    "policy": (np.float16, 2),
    "full": (np.bool_, 1),
    "outcome": (np.int8, 1),
    "value": (np.float32, 1),
    "draw": (np.float32, 1),
    "returns": (np.float16, 2),
    "final_own": (np.uint64, 1),
    "final_occupied": (np.uint64, 1),
}


def concatenate(parts: Sequence[Samples]) -> Samples:
    """All positions of all parts, in order."""
    return Samples(**{name: np.concatenate([part.arrays()[name] for part in parts]) for name in parts[0].arrays()})


@dataclass(frozen=True, kw_only=True, order=True)
class ShardName:
    """Whose shard a file is: sorted by name, each actor's samples stay together whenever its shards were cut."""

    iteration: int
    actor: int
    number: int  # from 0, of this actor in this iteration

    def __str__(self) -> str:
        return f"{self.iteration:06d}-{self.actor:03d}-{self.number:05d}.safetensors"


def parse_shard_name(path: Path) -> ShardName | None:
    """What a file's name says; None for a name that is not a shard's."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        return None
    name = ShardName(**{key: int(value) for key, value in found.groupdict().items()})
    return name if str(name) == path.name else None


def save_shard(path: Path, samples: Samples, iteration: int) -> None:
    """Write a shard atomically."""
    save_arrays(path, samples.arrays(), {"format": FORMAT, "iteration": iteration})


def load_shard(path: Path) -> Samples:
    """Read a shard back; fields that earlier versions wrote as well are left alone.

    Raises:
        ValueError: in one line, if it is truncated, altered or not a shard.
    """
    arrays, _ = load_arrays(path, FORMAT)
    if reason := _implausible(arrays):
        raise ArrayFileError(f"{path}: damaged: {reason}")
    return Samples(**{name: arrays[name] for name in _TYPES})


def _implausible(arrays: Arrays) -> str:
    """What no shard that this program wrote can hold, in words."""
    for name, (kind, dimensions) in _TYPES.items():
        if name not in arrays:
            return f"{name} is missing"
        if arrays[name].dtype != kind or arrays[name].ndim != dimensions:
            return f"{name} has another type"
    samples = Samples(**{name: arrays[name] for name in _TYPES})
    if len({len(array) for array in arrays.values()}) != 1:
        return "fields of different length"
    probabilities = (samples.policy, samples.returns, samples.draw)
    if not all(np.isfinite(array).all() for array in (*probabilities, samples.value)):
        return "targets that are not finite numbers"
    if any(((array < -1e-3) | (array > 1 + 1e-2)).any() for array in probabilities):
        return "targets that are no probabilities"
    sums = [array.astype(np.float64).sum(axis=1) for array in (samples.policy, samples.returns)]
    if samples.returns.shape[1] != 3 or any((np.abs(total - 1) > 2e-2).any() for total in sums):
        return "targets that do not add up to 1"
    if (np.abs(samples.value) > 1 + 1e-3).any() or (np.abs(samples.outcome) > 1).any():
        return "values beyond a win or a loss"
    stones = ((samples.own, samples.occupied), (samples.final_own, samples.final_occupied))
    if any((own & ~occupied).any() for own, occupied in stones) or (samples.occupied & ~samples.final_occupied).any():
        return "stones that no game leaves"
    return ""
