"""Recorded positions: shards of bitboards on disk, the training window, batches."""

import bisect
import dataclasses
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from alphac4.files import write_atomically
from alphac4.game.planes import make_planes
from alphac4.game.rules import Geometry
from alphac4.mcts.results import root_wdl

logger = logging.getLogger(__name__)

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Samples:
    """S recorded positions, each seen by its side to move."""

    own: npt.NDArray[np.uint64]  # [S]
    occupied: npt.NDArray[np.uint64]  # [S]
    policy: npt.NDArray[np.float16]  # [S, A] policy target, sums to 1
    full: npt.NDArray[np.bool_]  # [S] whether the policy came from a full search and may be learned
    outcome: npt.NDArray[np.int8]  # [S] the game's result: +1 win, 0 draw, -1 loss
    value: npt.NDArray[np.float32]  # [S] the search's root value in [-1, 1]
    draw: npt.NDArray[np.float32]  # [S] the search's probability of a draw
    returns: npt.NDArray[np.float16]  # [S, 3] win/draw/loss as the rest of the game corrects the search's value
    final_own: npt.NDArray[np.uint64]  # [S] own stones when the game was over
    final_occupied: npt.NDArray[np.uint64]  # [S] all stones then
    plies_left: npt.NDArray[np.uint8]  # [S] moves to the end of the game

    def __len__(self) -> int:
        return len(self.own)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fields by name."""
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}

    def take(self, index: slice | npt.NDArray[np.int64]) -> "Samples":
        """Some of the positions."""
        return Samples(**{name: array[index] for name, array in self.arrays().items()})


def concatenate(parts: Sequence[Samples]) -> Samples:
    """All positions of all parts, in order."""
    return Samples(**{name: np.concatenate([part.arrays()[name] for part in parts]) for name in parts[0].arrays()})


def save_shard(path: Path, samples: Samples, iteration: int) -> None:
    """Write a shard atomically."""
    fields = {name: np.ascontiguousarray(array) for name, array in samples.arrays().items()}
    write_atomically(path, safetensors.numpy.save(fields, {"format": "alphac4-replay-3", "iteration": str(iteration)}))


def load_shard(path: Path) -> Samples:
    """Read a shard back.

    Raises:
        ValueError: in one line, if it is truncated, damaged or not a shard.
    """
    try:
        with safetensors.safe_open(path, framework="np") as file:
            if (file.metadata() or {}).get("format") != "alphac4-replay-3":
                raise ValueError(f"{path}: not a shard of samples")
            samples = Samples(**{item.name: file.get_tensor(item.name) for item in dataclasses.fields(Samples)})
    except (safetensors.SafetensorError, OSError) as error:
        raise ValueError(f"{path}: damaged shard: {str(error).splitlines()[0]}") from error
    if len({len(array) for array in samples.arrays().values()}) != 1:
        raise ValueError(f"{path}: damaged shard: fields of different length")
    return samples


def window_size(total: int, minimum: int, exponent: float, slope: float) -> int:
    """How many of the latest of ``total`` samples to train on: grows sublinearly with the run.

    ``c (1 + b ((N / c)^a - 1) / a)`` for N > c, else N: Wu 2019 (KataGo), appendix C, with a = 0.75, b = 0.4.
    """
    if total <= minimum:
        return total
    return int(minimum * (1 + slope * ((total / minimum) ** exponent - 1) / exponent))


class Replay:
    """The shards of one run in a folder, and the latest samples in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._shards: list[tuple[Path, Samples]] = []
        self.total = 0  # samples ever recorded, dropped shards included

    def shard_path(self, iteration: int, actor: int, number: int) -> Path:
        """Where an actor's ``number``-th shard of an iteration lies.

        Sorted by name, each actor's samples stay together: when its shards were cut does not change their order.
        """
        return self.folder / f"{iteration:06d}-{actor:03d}-{number:05d}.safetensors"

    def add(self, samples: Samples, iteration: int, actor: int, number: int) -> None:
        """Record samples on disk, then in the window."""
        path = self.shard_path(iteration, actor, number)
        save_shard(path, samples, iteration)
        bisect.insort(self._shards, (path, samples), key=lambda shard: shard[0].name)
        self.total += len(samples)

    def load(self) -> None:
        """Read all shards of the folder; a damaged one is reported in one line and left out."""
        self._shards = []
        for path in sorted(self.folder.glob("*.safetensors")):
            try:
                self._shards.append((path, load_shard(path)))
            except ValueError as error:
                logger.warning("%s; the run goes on without it", error)

    def recorded(self, iteration: int) -> tuple[int, int]:
        """``(next free shard number, samples)`` of an iteration."""
        prefix = f"{iteration:06d}-"
        mine = [(path, samples) for path, samples in self._shards if path.name.startswith(prefix)]
        numbers = [int(path.stem.split("-")[2]) + 1 for path in self.folder.glob(prefix + "*.safetensors")]
        return max(numbers, default=0), sum(len(samples) for _, samples in mine)

    @property
    def shards(self) -> Sequence[tuple[Path, Samples]]:
        """All that is in memory, oldest first."""
        return self._shards

    def window(self, size: int) -> Samples:
        """The latest ``size`` samples (fewer if there are not as many), oldest first."""
        parts: list[Samples] = []
        left = size
        for _, samples in reversed(self._shards):
            if left <= 0:
                break
            parts.append(samples.take(slice(max(0, len(samples) - left), None)))
            left -= len(samples)
        if not parts:
            raise ValueError(f"{self.folder}: no samples to train on")
        return concatenate(parts[::-1])

    def drop_old(self, keep: int) -> None:
        """Forget, and remove from disk, shards that lie wholly before the latest ``keep`` samples."""
        held = 0
        for index in range(len(self._shards) - 1, -1, -1):
            if held >= keep:
                for path, _ in self._shards[: index + 1]:
                    path.unlink(missing_ok=True)
                del self._shards[: index + 1]
                return
            held += len(self._shards[index][1])


def value_targets(samples: Samples, return_share: float) -> npt.NDArray[np.float32]:
    """Win/draw/loss targets [S, 3]: what followed in the game, mixed with the search's own root value."""
    root = root_wdl(samples.value, samples.draw)
    return (return_share * samples.returns.astype(np.float32) + (1 - return_share) * root).astype(np.float32)


class Batch(NamedTuple):
    """B training positions."""

    planes: npt.NDArray[np.float32]  # [B, 2, R, C]
    policy: npt.NDArray[np.float32]  # [B, A]
    policy_weight: npt.NDArray[np.float32]  # [B] 1 where the policy may be learned, else 0
    wdl: npt.NDArray[np.float32]  # [B, 3]
    final: npt.NDArray[np.float32]  # [B, 2, R, C] own stones and the opponent's when the game was over


def batches(
    samples: Samples, geometry: Geometry, size: int, count: int, return_share: float, rng: np.random.Generator
) -> Iterator[Batch]:
    """``count`` batches: shuffled passes over the samples, half of the positions mirrored left to right."""
    order = np.empty(0, np.int64)
    for _ in range(count):
        while len(order) < size:
            order = np.concatenate([order, rng.permutation(len(samples))])
        chosen, order = samples.take(order[:size]), order[size:]
        planes = make_planes(geometry, chosen.own, chosen.occupied)
        final = make_planes(geometry, chosen.final_own, chosen.final_occupied)
        policy = chosen.policy.astype(np.float32)
        flip = rng.random(size) < 0.5
        planes[flip] = planes[flip][..., ::-1]
        final[flip] = final[flip][..., ::-1]
        policy[flip] = policy[flip][:, ::-1]
        yield Batch(planes, policy, chosen.full.astype(np.float32), value_targets(chosen, return_share), final)
