"""The replay window and its batches in the GPU's memory."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numba import cuda as numba_cuda
from torch import Tensor

from alphac4.game.planes import PLANES, write_mirrored
from alphac4.game.rules import Board
from alphac4.plugins.cuda.device import cuda_device, kernel, kernel_view, launch, to_tensor
from alphac4.selfplay.replay import Replay
from alphac4.selfplay.samples import Samples

cuda: Any = numba_cuda  # defines its functions at run time

BOARD_FIELDS = ("own", "occupied", "final_own", "final_occupied")  # fields of samples that hold boards


class Boards(NamedTuple):
    """B positions on the device, and the array into which a kernel writes their planes."""

    own: Any  # uint64 [B]
    occupied: Any  # uint64 [B]
    mirrored: Any  # int8 [B]: 1 to mirror the planes left to right
    planes: Any  # float32 [B, P, R, C]
    one: Any  # the number 1 in the planes' type


@kernel
def write_boards(board: Board, boards: Boards) -> None:
    row = cuda.grid(1)
    if row < boards.own.shape[0]:
        own, occupied, planes = boards.own[row], boards.occupied[row], boards.planes[row]
        write_mirrored(board, own, occupied, boards.mirrored[row], planes, boards.one)


class DeviceReplay:
    """The latest ``capacity`` samples of a run on the GPU, with 76 bytes each on the standard board."""

    def __init__(self, board: Board, capacity: int, batch_size: int, planes: int, fast_search_weight: float) -> None:
        self.device = cuda_device()
        self.capacity = capacity
        self.batch_size = batch_size
        self.count = 0  # samples stored
        self._board = board
        self._fast_search_weight = fast_search_weight
        self._next = 0  # row of the next sample
        self._loaded = 0  # latest iteration whose samples are stored

        def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=self.device)

        self._fields = {name: empty(capacity, dtype=torch.int64) for name in BOARD_FIELDS} | {
            "policy": empty(capacity, board.columns),
            "weight": empty(capacity),
            "value_target": empty(capacity, 3),
        }
        self._targets: dict[str, tuple[Tensor, bool]] = {}  # a user's targets, and whether they are mirrored
        # Always in the same memory, so that a graph can be captured.
        self._positions = {name: empty(batch_size, dtype=torch.int64) for name in BOARD_FIELDS}
        self._mirrored = empty(batch_size, dtype=torch.int8)
        shape = (batch_size, planes, board.rows, board.columns)
        self._planes = empty(*shape).contiguous(memory_format=torch.channels_last)
        self._final = empty(batch_size, PLANES["stones"], board.rows, board.columns)
        self._boards = [
            Boards(
                own=kernel_view(self._positions[own], np.uint64),
                occupied=kernel_view(self._positions[occupied], np.uint64),
                mirrored=kernel_view(self._mirrored),
                planes=kernel_view(tensor),
                one=np.float32(1),
            )
            for own, occupied, tensor in ((*BOARD_FIELDS[:2], self._planes), (*BOARD_FIELDS[2:], self._final))
        ]

    def load(self, replay: Replay) -> None:
        """Copy the samples of iterations that are not stored yet."""
        for iteration, samples in replay.iterations:
            if iteration > self._loaded:
                self.add(samples)
                self._loaded = iteration

    def add(self, samples: Samples) -> None:
        """Copy samples to the device, but at most the last ``capacity``."""
        samples = samples.take(slice(max(0, len(samples) - self.capacity), None))
        rows = (self._next + torch.arange(len(samples))) % self.capacity
        rows = rows.to(self.device)
        arrays = {name: getattr(samples, name) for name in BOARD_FIELDS} | {
            "policy": samples.policy_target.astype(np.float32),
            "weight": np.where(samples.is_full_search, 1.0, self._fast_search_weight).astype(np.float32),
            "value_target": samples.value_target.astype(np.float32),
        }
        for name, array in arrays.items():
            self._fields[name].index_copy_(0, rows, to_tensor(array, self.device))
        for name, target in samples.targets.items():
            values = to_tensor(target.values, self.device)
            if name not in self._targets:
                stored = torch.zeros((self.capacity, *values.shape[1:]), device=self.device)
                self._targets[name] = stored, target.per_column
            self._targets[name][0].index_copy_(0, rows, values)
        self._next = (self._next + len(samples)) % self.capacity
        self.count = min(self.capacity, self.count + len(samples))

    def rows(self, indices: np.ndarray, window: int) -> np.ndarray:
        """Return rows of the device's arrays for indices into the latest ``window`` samples, oldest first."""
        rows: np.ndarray = (self._next - window + indices) % self.capacity
        return rows

    def batch(
        self, rows: Tensor, mirrored: Tensor
    ) -> tuple[tuple[Tensor, Tensor, Tensor, Tensor, Tensor], dict[str, Tensor]]:
        """Return a batch for learning, and further targets by name.

        ``rows`` are int64 [B], ``mirrored`` int8 [B] with 1 to mirror a position. The batch consists of planes
        [B, P, R, C], policies [B, A], their weights [B], win/draw/loss [B, 3] and final stones [B, 2, R, C]. The next
        call overwrites the planes and the final stones.
        """
        fields = self._fields
        for name in BOARD_FIELDS:
            torch.index_select(fields[name], 0, rows, out=self._positions[name])
        self._mirrored.copy_(mirrored)
        for boards in self._boards:
            launch(write_boards, self.batch_size, self._board, boards)
        policy = fields["policy"][rows]
        policy = torch.where(mirrored[:, None] != 0, policy.flip(1), policy)
        targets = {}
        for name, (stored, is_mirrored) in self._targets.items():
            values = stored[rows]
            if is_mirrored:
                flip = mirrored.reshape(-1, *[1] * (values.ndim - 1)) != 0
                values = torch.where(flip, values.flip(-1), values)
            targets[name] = values
        return (self._planes, policy, fields["weight"][rows], fields["value_target"][rows], self._final), targets
