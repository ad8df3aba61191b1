"""The replay window: the latest samples of a run, their files, and the order in which they are learned.

A shard is a file with the samples of one iteration and a digest, named by the iteration's number. Samples are sorted by
content, in memory and in shards, so that a shard does not depend on the actors that recorded them.
"""

import dataclasses
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alphac4.game.rules import Board
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import make_games
from alphac4.selfplay.samples import Samples, concatenate, make_samples, sort_by_content
from alphac4.storage.arrays import load_arrays, save_arrays
from alphac4.storage.files import FileError
from alphac4.storage.records import BoardConfig, read_record

logger = logging.getLogger(__name__)

FORMAT = "alphac4-replay-7"
WINDOW_EXPONENT, WINDOW_SLOPE = 0.75, 0.4  # exponent and slope of the window's growth (KataGo)
KEPT_WINDOWS = 2  # samples in memory, in multiples of the replay window
_NAME = re.compile(r"\d{6,}\.safetensors")


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.safetensors"


def find_shards(folder: Path) -> dict[int, Path]:
    """Return the shards in a folder by number, in order; files with other names are ignored."""
    paths = {int(path.stem): path for path in folder.glob("*.safetensors") if _NAME.fullmatch(path.name)}
    return dict(sorted(paths.items()))


def save_shard(path: Path, samples: Samples) -> None:
    board = {item.name: getattr(samples.board, item.name) for item in dataclasses.fields(BoardConfig)}
    save_arrays(path, samples.arrays(), {"format": FORMAT, "board": board})


def load_shard(path: Path) -> Samples:
    """Read a shard; raise FileError if it is missing, truncated, altered or not a shard."""
    arrays, header = load_arrays(path, FORMAT)
    try:
        return Samples.from_arrays(read_record(BoardConfig, header["board"]).make(), arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path}: damaged: not the fields of samples") from error


def window_size(total: int, minimum: int) -> int:
    """Return ``c (1 + b ((N / c)^a - 1) / a)`` for N > c, else N: Wu 2019 (KataGo), appendix C.

    N is ``total``, c ``minimum``, a WINDOW_EXPONENT and b WINDOW_SLOPE.
    """
    if total <= minimum:
        return total
    return int(minimum * (1 + WINDOW_SLOPE * ((total / minimum) ** WINDOW_EXPONENT - 1) / WINDOW_EXPONENT))


def replay_bytes(board: Board, total: int, minimum: int) -> int:
    """Return the bytes of a run's samples in memory after ``total`` of them, and of the copy of the window to learn."""
    games = make_games(1, board)._replace(plies=np.ones(1, np.int32))
    sample = sum(array.nbytes for array in make_samples(board, SelfPlayConfig(), games).arrays().values())
    window = window_size(total, minimum)
    return sample * (min(KEPT_WINDOWS * window, total) + window)


class Replay:
    """Latest samples of a run in memory, and in shards if a ``folder`` is given."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.iterations: list[tuple[int, Samples]] = []  # each iteration's number and samples, the oldest first
        self.total = 0  # samples recorded by the run, removed iterations included
        self._dropped = -1  # the last iteration that `drop_old` has removed from memory

    def add(self, samples: Samples, iteration: int) -> None:
        """Sort and add the samples of the next iteration; `save_latest` writes them to disk."""
        numbers = np.full(len(samples), iteration, np.int32)
        self.iterations.append((iteration, dataclasses.replace(sort_by_content(samples), iteration=numbers)))
        self.total += len(samples)

    def save_latest(self) -> None:
        """Write the latest iteration's shard, and then remove the shards of iterations that `drop_old` has removed."""
        if self.folder is None or not self.iterations:
            return
        save_shard(shard_path(self.folder, self.iterations[-1][0]), self.iterations[-1][1])
        for iteration, path in find_shards(self.folder).items():
            if iteration <= self._dropped:
                path.unlink(missing_ok=True)

    def load(self, iteration: int) -> None:
        """Read the shards up to the last committed ``iteration``, and remove later ones.

        Damaged, missing and misnamed shards are skipped with a warning. An OSError propagates, because a shard that
        cannot be read now may be intact, and without it the run's networks would differ.
        """
        self.iterations = []
        if self.folder is None:
            return
        shards = find_shards(self.folder)
        for path in sorted(set(self.folder.glob("*.safetensors")) - set(shards.values())):
            logger.warning("%s: skipped, because the name is not that of a shard", path)
        for number, path in shards.items():
            if number > iteration:
                path.unlink(missing_ok=True)
        for number in range(max(1, min(shards, default=iteration)), iteration + 1):
            try:
                self.iterations.append((number, load_shard(shard_path(self.folder, number))))
            except FileError as error:
                logger.warning("%s; the run continues without it", error)

    def window(self, size: int) -> Samples:
        """Return the latest ``size`` samples, or all if there are fewer, the oldest iteration first."""
        parts: list[Samples] = []
        left = size
        for _, samples in reversed(self.iterations):
            if left <= 0:
                break
            parts.append(samples.take(slice(max(0, len(samples) - left), None)))
            left -= len(samples)
        if not parts:
            raise ValueError(f"{self.folder or 'replay'}: no samples to train on")
        return concatenate(parts[::-1])

    def drop_old(self, keep: int) -> None:
        """Remove from memory the iterations that have none of the latest ``keep`` samples."""
        held = 0
        for index in range(len(self.iterations) - 1, -1, -1):
            if held >= keep:
                self._dropped = self.iterations[index][0]
                del self.iterations[: index + 1]
                return
            held += len(self.iterations[index][1])


def draw_batches(
    samples: int, size: int, count: int, rng: np.random.Generator, weights: npt.NDArray[np.float64] | None = None
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]]:
    """Draw ``count`` batches from shuffled passes over all samples or, by ``weights`` [samples], with replacement.

    The weights sum to 1. Yields indices [B], with B = ``size``, and whether each sample is mirrored left to right [B],
    with probability 1/2.
    """
    order = np.empty(0, np.int64)
    for _ in range(count):
        while len(order) < size and weights is None:
            order = np.concatenate([order, rng.permutation(samples)])
        chosen, order = order[:size], order[size:]
        if weights is not None:
            chosen = rng.choice(samples, size, p=weights)
        yield chosen, rng.random(size) < 0.5
