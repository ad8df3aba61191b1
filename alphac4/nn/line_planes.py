"""The planes of `alphac4.game.planes` from the stones alone, in PyTorch: for GPUs and for exported files."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alphac4.game.rules import Geometry


class LinePlanes(nn.Module):
    """Planes of stones [B, 2, R, C] to all eight [B, 8, R, C]."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        length = geometry.run_length
        steps = torch.arange(length)
        still = torch.zeros_like(steps)
        directions = [(steps, still), (still, steps)]
        if geometry.diagonals:
            directions += [(steps, steps), (steps, steps.flip(0))]
        lines = torch.zeros(len(directions), 1, length, length)
        for line, (rows, columns) in zip(lines, directions, strict=True):
            line[0, rows, columns] = 1.0
        self.length = length
        self.lines: Tensor
        self.register_buffer("lines", lines)  # [directions, 1, L, L]
        self.within: Tensor  # where a line lies on the board, by the lowest row and column of its square
        self.register_buffer("within", self._along(torch.ones(1, 1, geometry.rows, geometry.columns)) == length)
        self.rows: Tensor
        self.register_buffer("rows", torch.arange(geometry.rows, dtype=torch.float32)[:, None])

    def forward(self, stones: Tensor) -> Tensor:
        """See the class."""
        own, theirs = stones[:, :1], stones[:, 1:]
        occupied = own + theirs
        empty = 1.0 - occupied
        below = F.pad(occupied, (0, 0, 1, 0), value=1.0)[:, :, :-1]
        plies = occupied.sum(dim=(1, 2, 3), keepdim=True)
        parity = (1.0 - (self.rows + plies) % 2).expand_as(occupied)
        counts = self._along(own), self._along(theirs)
        completing, open_ = (
            torch.cat([self._cells(*sides, missing) for sides in (counts, counts[::-1])], dim=1) * empty
            for missing in (1, 2)
        )
        return torch.cat([stones, completing, empty * below, parity, open_], dim=1)

    def _along(self, cells: Tensor) -> Tensor:
        """How many of the cells [B, 1, R, C] each line has [B, directions, R, C]."""
        return F.conv2d(F.pad(cells, (0, self.length - 1, 0, self.length - 1)), self.lines)

    def _cells(self, ours: Tensor, theirs: Tensor, missing: int) -> Tensor:
        """The cells [B, 1, R, C] of lines that miss so many of our stones and hold none of theirs."""
        lines = self.within & (ours == self.length - missing) & (theirs == 0)
        counts = F.conv_transpose2d(lines.to(ours.dtype), self.lines)
        return (counts[:, :, : ours.shape[2], : ours.shape[3]] > 0).to(ours.dtype)
