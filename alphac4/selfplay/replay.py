"""Replay: the recorded positions of a run as shards on disk, the window that is learned from, and batches.

A shard is a file of samples with a digest. Its name says of which iteration it is, so that what belongs to an
interrupted one is known.
"""

import bisect
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.game.planes import PLANES, make_planes
from alphac4.game.rules import Geometry
from alphac4.selfplay.samples import Samples, concatenate, in_fixed_order
from alphac4.storage.arrays import load_arrays, save_arrays
from alphac4.storage.files import FileError

logger = logging.getLogger(__name__)

FORMAT = "alphac4-replay-5"
WINDOW_EXPONENT, WINDOW_SLOPE = 0.75, 0.4  # KataGo's: how the window grows, and how fast at first
_NAME = re.compile(r"(?P<iteration>\d{6,})-(?P<number>\d{5,})\.safetensors")


@dataclass(frozen=True, kw_only=True, order=True)
class ShardName:
    """Iteration and number of a shard."""

    iteration: int
    number: int  # from 0, in the order in which an iteration's were recorded

    def __str__(self) -> str:
        return f"{self.iteration:06d}-{self.number:05d}.safetensors"


def parse_shard_name(path: Path) -> ShardName | None:
    """Read a file's name; None for a name that is not a shard's."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        return None
    name = ShardName(**{key: int(value) for key, value in found.groupdict().items()})
    return name if str(name) == path.name else None


def load_shard(path: Path) -> Samples:
    """Read a shard back.

    Raises:
        ValueError: in one line, if it is truncated, altered or not a shard.
    """
    arrays, _ = load_arrays(path, FORMAT)
    try:
        return Samples(**arrays)
    except TypeError as error:
        raise FileError(f"{path}: damaged: not the fields of samples") from error


def window_size(total: int, minimum: int) -> int:
    """Number of the latest of ``total`` samples to train on: grows sublinearly with the run.

    ``c (1 + b ((N / c)^a - 1) / a)`` for N > c, else N, with c the ``minimum``: Wu 2019 (KataGo), appendix C.
    """
    if total <= minimum:
        return total
    return int(minimum * (1 + WINDOW_SLOPE * ((total / minimum) ** WINDOW_EXPONENT - 1) / WINDOW_EXPONENT))


class Replay:
    """The latest samples of one run in memory, and as shards in a ``folder`` if one is given."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._shards: list[tuple[ShardName, Samples]] = []
        self.total = 0  # samples ever recorded, dropped shards included

    def add(self, samples: Samples, iteration: int) -> None:
        """Record samples on disk, as an iteration's next shard, then in the window."""
        name = ShardName(iteration=iteration, number=self.shards(iteration))
        if self.folder is not None:
            save_arrays(self.folder / str(name), samples.arrays(), {"format": FORMAT})
        self._insert(name, samples)
        self.total += len(samples)

    def count(self, iteration: int) -> int:
        """Number of samples at hand that are an iteration's."""
        return sum(len(samples) for name, samples in self._shards if name.iteration == iteration)

    def shards(self, iteration: int) -> int:
        """Number of shards that an iteration has recorded."""
        return sum(name.iteration == iteration for name, _ in self._shards)

    def load(self, iteration: int, kept: int = 0) -> None:
        """Read the shards of the folder up to the last whole ``iteration``, and the first ``kept`` of the next one.

        Others do not count, and are removed. A damaged one, and a file that is no shard, are reported in one line and
        left out.
        """
        self._shards = []
        for path in sorted(self.folder.iterdir()) if self.folder and self.folder.is_dir() else ():
            name = parse_shard_name(path)
            if name is None:
                if path.suffix == ".safetensors":
                    logger.warning("%s: no shard of this run by its name; left out", path)
            elif name >= ShardName(iteration=iteration + 1, number=kept):
                path.unlink(missing_ok=True)
            else:
                try:
                    self._insert(name, load_shard(path))
                except ValueError as error:
                    logger.warning("%s; the run goes on without it", error)

    def _insert(self, name: ShardName, samples: Samples) -> None:
        bisect.insort(self._shards, (name, samples), key=lambda shard: shard[0])

    def iterations(self) -> list[int]:
        """Numbers of the iterations of which there are samples, in order."""
        return sorted({name.iteration for name, _ in self._shards})

    def of_iteration(self, iteration: int) -> Samples:
        """All samples of one iteration at hand, in an order that does not depend on which actor recorded what, or when.

        Raises:
            ValueError: if there are none.
        """
        return in_fixed_order(concatenate([samples for name, samples in self._shards if name.iteration == iteration]))

    def window(self, size: int) -> Samples:
        """The latest ``size`` samples (fewer if there are not as many), the oldest iteration first.

        Raises:
            ValueError: if there are none.
        """
        parts: list[Samples] = []
        left = size
        for iteration in reversed(self.iterations()):
            if left <= 0:
                break
            samples = self.of_iteration(iteration)
            parts.append(samples.take(slice(max(0, len(samples) - left), None)))
            left -= len(samples)
        if not parts:
            raise ValueError(f"{self.folder or 'replay'}: no samples to train on")
        return concatenate(parts[::-1])

    def drop_old(self, keep: int) -> None:
        """Forget, and remove from disk, shards that lie wholly before the latest ``keep`` samples."""
        held = 0
        for index in range(len(self._shards) - 1, -1, -1):
            if held >= keep:
                for name, _ in self._shards[: index + 1]:
                    if self.folder is not None:
                        (self.folder / str(name)).unlink(missing_ok=True)
                del self._shards[: index + 1]
                return
            held += len(self._shards[index][1])


class Batch(NamedTuple):
    """B training positions."""

    planes: npt.NDArray[np.float32]  # [B, P, R, C]
    policy: npt.NDArray[np.float32]  # [B, A]
    policy_weight: npt.NDArray[np.float32]  # [B] how much the policy counts
    wdl: npt.NDArray[np.float32]  # [B, 3]
    final: npt.NDArray[np.float32]  # [B, 2, R, C] own stones and the opponent's when the game was over


def draw_batches(
    samples: int, size: int, count: int, rng: np.random.Generator
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]]:
    """Draw ``count`` batches of ``size`` from shuffled passes over so many ``samples``.

    Yields:
        The samples' numbers [B] and which of them are mirrored left to right [B], one half on average.
    """
    order = np.empty(0, np.int64)
    for _ in range(count):
        while len(order) < size:
            order = np.concatenate([order, rng.permutation(samples)])
        chosen, order = order[:size], order[size:]
        yield chosen, rng.random(size) < 0.5


def batches(
    samples: Samples,
    geometry: Geometry,
    size: int,
    count: int,
    rng: np.random.Generator,
    *,
    fast_weight: float = 0.0,
    planes: int = PLANES["stones"],
) -> Iterator[Batch]:
    """Make the batches of `draw_batches`.

    Args:
        samples: those of the window.
        geometry: the board.
        size: positions per batch.
        count: number of batches.
        rng: draws the order and the mirrored positions.
        fast_weight: weight of a fast search's policy; that of a full search is 1.
        planes: number of planes that the network sees.
    """
    for rows, flip in draw_batches(len(samples), size, count, rng):
        chosen = samples.take(rows)
        seen = make_planes(geometry, chosen.own, chosen.occupied, planes)
        final = make_planes(geometry, chosen.final_own, chosen.final_occupied)
        policy = chosen.policy.astype(np.float32)
        seen[flip] = seen[flip][..., ::-1]
        final[flip] = final[flip][..., ::-1]
        policy[flip] = policy[flip][:, ::-1]
        weights = np.where(chosen.full, 1.0, fast_weight).astype(np.float32)
        yield Batch(seen, policy, weights, chosen.returns.astype(np.float32), final)
