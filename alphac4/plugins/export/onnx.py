"""Export of a network as an ONNX file, which is compared with PyTorch before it is written."""

import decimal
import json
import logging
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alphac4.game.rules import Board, board_settings
from alphac4.machine import import_onnxruntime, install_advice, quiet_logging
from alphac4.nn.backends import random_boards
from alphac4.nn.network import fold_batch_norm
from alphac4.storage.checkpoints import Checkpoint
from alphac4.storage.files import write_atomically
from alphac4.version import __version__

TOLERANCE = 1e-4  # largest deviation of a probability from PyTorch
PROBE_BOARDS = 256

INPUT = "planes float32 [N, 2, rows, columns], bottom row first: the stones of the side to move, its opponent's"
OUTPUT = "policy logits [N, columns]; wdl probabilities [N, 3] of win, draw and loss for the side to move"

_export_lock = threading.Lock()


class LinePlanes(nn.Module):
    """Module that computes all planes [B, 8, R, C] of `alphac4.game.planes` from the planes of stones [B, 2, R, C]."""

    def __init__(self, board: Board) -> None:
        super().__init__()
        length = board.run_length
        steps = torch.arange(length)
        still = torch.zeros_like(steps)
        directions = [(steps, still), (still, steps)]
        if board.diagonals:
            directions += [(steps, steps), (steps, steps.flip(0))]
        lines = torch.zeros(len(directions), 1, length, length)
        for line, (rows, columns) in zip(lines, directions, strict=True):
            line[0, rows, columns] = 1.0
        self.length = length
        self.lines: Tensor
        self.register_buffer("lines", lines)  # [directions, 1, L, L]
        self.within: Tensor  # whether a line is on the board, by the lowest row and column of its square
        cells = torch.ones(1, 1, board.rows, board.columns)
        self.register_buffer("within", self._count_in_lines(cells) == length)
        self.rows: Tensor
        self.register_buffer("rows", torch.arange(board.rows, dtype=torch.float32)[:, None])

    def forward(self, stones: Tensor) -> Tensor:
        """Map planes of stones [B, 2, R, C] to all planes [B, 8, R, C]."""
        own, theirs = stones[:, :1], stones[:, 1:]
        occupied = own + theirs
        empty = 1.0 - occupied
        below = F.pad(occupied, (0, 0, 1, 0), value=1.0)[:, :, :-1]
        plies = occupied.sum(dim=(1, 2, 3), keepdim=True)
        parity = (1.0 - (self.rows + plies) % 2).expand_as(occupied)
        counts = self._count_in_lines(own), self._count_in_lines(theirs)
        completing, open_ = (
            torch.cat([self._cells(*sides, missing) for sides in (counts, counts[::-1])], dim=1) * empty
            for missing in (1, 2)
        )
        return torch.cat([stones, completing, empty * below, parity, open_], dim=1)

    def _count_in_lines(self, cells: Tensor) -> Tensor:
        """Count the set cells of [B, 1, R, C] in each line: [B, directions, R, C]."""
        return F.conv2d(F.pad(cells, (0, self.length - 1, 0, self.length - 1)), self.lines)

    def _cells(self, ours: Tensor, theirs: Tensor, missing: int) -> Tensor:
        """Return the cells [B, 1, R, C] of lines that lack ``missing`` of our stones and contain none of theirs."""
        lines = self.within & (ours == self.length - missing) & (theirs == 0)
        counts = F.conv_transpose2d(lines.to(ours.dtype), self.lines)
        return (counts[:, :, : ours.shape[2], : ours.shape[3]] > 0).to(ours.dtype)


class _StonesToProbabilities(nn.Module):
    """Module that computes policy logits and win/draw/loss probabilities from planes of stones."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        lines = checkpoint.network.config.planes == "lines"
        self.all_planes = LinePlanes(checkpoint.board) if lines else nn.Identity()
        self.network = fold_batch_norm(checkpoint.network)

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:  # its name is the file's input
        policy, value = self.network(self.all_planes(planes))
        return policy, torch.softmax(value, dim=1)


def export_onnx(checkpoint: Checkpoint, path: Path) -> float:
    """Write the network to a file; return the largest deviation of a probability from PyTorch.

    The file's metadata describe its input, outputs and board.

    Raises:
        RuntimeError: if the outputs differ by more than `TOLERANCE` or are not finite; then no file is written.
    """
    content = onnx_bytes(checkpoint)
    deviation = deviation_from_torch(checkpoint, content)
    if not deviation <= TOLERANCE:  # so that NaN fails as well
        raise RuntimeError(f"{path} was not written: the outputs of ONNX differ from PyTorch's by {deviation:.2g}")
    write_atomically(path, content)
    return deviation


def format_bound(deviation: float) -> str:
    """Format a deviation with one significant digit, rounded up: 1.3e-6 as "2e-06"."""
    context = decimal.Context(prec=1, rounding=decimal.ROUND_CEILING)
    return f"{float(context.create_decimal_from_float(deviation)):.0e}"


def import_onnx() -> Any:
    """Return the module `onnx` after importing all packages that an export needs."""
    try:
        import_onnxruntime()  # `deviation_from_torch` needs it
        import onnx
        import onnxscript  # noqa: F401 - PyTorch's exporter needs it
    except ImportError as error:
        raise RuntimeError(f"ONNX needs {error.name}: {install_advice('onnx')}") from error
    return onnx


def onnx_bytes(checkpoint: Checkpoint) -> bytes:
    """Return the network as an ONNX model for batches of any size."""
    onnx, board = import_onnx(), checkpoint.board
    # The exporter logs every step. Filters of warnings belong to the process, so exports of several threads take turns.
    with _export_lock, quiet_logging(logging.WARNING), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            _StonesToProbabilities(checkpoint),
            (torch.zeros(2, 2, board.rows, board.columns),),
            input_names=["planes"],
            output_names=["policy", "wdl"],
            dynamic_shapes={"planes": {0: torch.export.Dim("N")}},
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    model, sizes = program.model_proto, json.dumps(board_settings(board))
    about = {"game": "Connect Four", "board": sizes, "input": INPUT, "output": OUTPUT}
    model.producer_name, model.producer_version = "alphac4", __version__
    onnx.helper.set_model_props(model, about)
    for node in model.graph.node:
        node.ClearField("metadata_props")  # stack traces, with the paths of this machine
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def deviation_from_torch(checkpoint: Checkpoint, content: bytes) -> float:
    """Return the largest deviation of a policy or win/draw/loss probability from PyTorch, on random boards; or NaN."""
    onnxruntime = import_onnxruntime()
    network, rng = checkpoint.network.eval(), np.random.default_rng(0)
    planes = random_boards(checkpoint.board, PROBE_BOARDS, rng, network.config.input_planes)
    session: Any = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    policy, wdl = session.run(["policy", "wdl"], {"planes": planes[:, :2]})
    with torch.inference_mode():
        expected_policy, expected_value = network(torch.from_numpy(planes))
    differences = (
        torch.softmax(torch.from_numpy(policy), 1) - torch.softmax(expected_policy, 1),
        torch.from_numpy(wdl) - torch.softmax(expected_value, 1),
    )
    return float(torch.stack([difference.abs().max() for difference in differences]).max())  # keeps NaN, unlike max()
