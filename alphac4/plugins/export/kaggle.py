"""Export of a submission file for Kaggle's ConnectX: `alphac4.plugins.export.submission` with a network's weights.

The text of the file is run, and its outputs are compared with the network's.
"""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from alphac4.game.planes import make_planes
from alphac4.nn.backends import random_stones
from alphac4.nn.evaluator import softmax
from alphac4.nn.network import fold_batch_norm
from alphac4.plugins.export import submission
from alphac4.storage.checkpoints import Checkpoint

PLACEHOLDER = 'WEIGHTS = ""\n'
LINE_LENGTH = 120
PROBE_BOARDS = 64
TOLERANCE = 0.05  # largest deviation of a probability from PyTorch; half precision causes 0.002 in trained networks


def submission_text(checkpoint: Checkpoint) -> str:
    """Return the text of a submission file with the checkpoint's weights, after comparing its outputs with PyTorch."""
    board = checkpoint.board
    if not board.diagonals and board.run_length <= min(board.rows, board.columns):
        raise ValueError("diagonals win in Kaggle's ConnectX, but this network was trained without them")
    arrays: dict[str, npt.NDArray[np.generic]] = {"board": np.array([board.rows, board.columns, board.run_length])}
    for name, tensor in fold_batch_norm(checkpoint.network).state_dict().items():
        if tensor.ndim == 4:  # [outputs, inputs, rows, columns] of a convolution to [rows * columns * inputs, outputs]
            tensor = tensor.permute(2, 3, 1, 0).reshape(-1, tensor.shape[0])
        elif tensor.ndim == 2:
            tensor = tensor.T
        if not tensor.abs().max() <= np.finfo(np.float16).max:  # so that NaN fails as well
            raise ValueError(f"{name}: a weight is too large for half precision")
        arrays[name] = tensor.numpy().astype(np.float16)
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
    encoded = base64.b64encode(packed.getvalue()).decode()
    lines = [encoded[start : start + LINE_LENGTH] for start in range(0, len(encoded), LINE_LENGTH)]
    before, after = Path(submission.__file__).read_text(encoding="utf-8").split(PLACEHOLDER)
    text = f'{before}WEIGHTS = """\n' + "\n".join(lines) + f'\n"""\n{after}'
    if not (deviation := _deviation_from_torch(checkpoint, text)) <= TOLERANCE:
        raise RuntimeError(f"the submission was not written: its outputs differ from PyTorch's by {deviation:.2g}")
    return text


def _deviation_from_torch(checkpoint: Checkpoint, text: str) -> float:
    """Return the largest deviation of a policy or win/draw/loss probability from PyTorch, on random boards; or NaN."""
    board, network = checkpoint.board, checkpoint.network
    own, occupied = random_stones(board, PROBE_BOARDS, np.random.default_rng(0))
    with torch.inference_mode():
        planes = make_planes(board, own, occupied, network.config.input_planes)
        expected = [torch.softmax(logits, 1).numpy() for logits in network(torch.from_numpy(planes))]
    program: dict[str, Any] = {}
    exec(text, program)
    guide = program["player_for"](board.rows, board.columns, board.run_length).guide
    with np.errstate(all="ignore"):  # outputs may be infinite
        outputs = [guide.predict(position) for position in zip(own.tolist(), occupied.tolist(), strict=True)]
        actual = softmax(np.stack([logits for logits, _ in outputs])), np.stack([wdl for _, wdl in outputs])
        return float(np.max([np.abs(a - e).max() for a, e in zip(actual, expected, strict=True)]))  # keeps NaN
