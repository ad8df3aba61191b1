"""Export of a submission file for Kaggle's ConnectX: `alphac4.export.submission` with a network's weights."""

import base64
import io
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alphac4.export import submission
from alphac4.nn.network import fold_batch_norm
from alphac4.storage.checkpoints import Checkpoint

PLACEHOLDER = 'WEIGHTS = ""\n'
LINE_LENGTH = 120


def submission_text(checkpoint: Checkpoint) -> str:
    """Return the text of a submission file with the checkpoint's weights.

    Raises:
        ValueError: for a network trained without diagonals, or weights too large for half precision.
    """
    geometry = checkpoint.geometry
    if not geometry.diagonals and geometry.run_length <= min(geometry.rows, geometry.columns):
        raise ValueError("diagonals win in Kaggle's ConnectX, but this network was trained without them")
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "board": np.array([geometry.rows, geometry.columns, geometry.run_length])
    }
    for name, tensor in fold_batch_norm(checkpoint.network).state_dict().items():
        if tensor.ndim == 4:  # [outputs, inputs, rows, columns] of a convolution to [rows * columns * inputs, outputs]
            tensor = tensor.permute(2, 3, 1, 0).reshape(-1, tensor.shape[0])
        elif tensor.ndim == 2:
            tensor = tensor.T
        if tensor.abs().max() > np.finfo(np.float16).max:
            raise ValueError(f"{name}: a weight is too large for half precision")
        arrays[name] = tensor.numpy().astype(np.float16)
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
    encoded = base64.b64encode(packed.getvalue()).decode()
    lines = [encoded[start : start + LINE_LENGTH] for start in range(0, len(encoded), LINE_LENGTH)]
    before, after = Path(submission.__file__).read_text(encoding="utf-8").split(PLACEHOLDER)
    return f'{before}WEIGHTS = """\n' + "\n".join(lines) + f'\n"""\n{after}'
