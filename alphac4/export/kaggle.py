"""A self-contained submission for Kaggle's ConnectX from a checkpoint."""

import base64
import dataclasses
import io
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor

from alphac4.checkpoint import Checkpoint
from alphac4.files import write_atomically
from alphac4.mcts.puct import PuctConfig
from alphac4.nn.network import PolicyValueNetwork, fold_batch_norm

PLACEHOLDER = 'WEIGHTS = ""\n'
LINE_LENGTH = 120


def export_kaggle(checkpoint: Checkpoint, path: Path) -> None:
    """Write `alphac4.export.submission` with the checkpoint's weights and the settings of the search filled in.

    Raises:
        ValueError: for a network of a game that Kaggle's ConnectX is not.
    """
    write_atomically(path, submission_text(checkpoint).encode())


def submission_text(checkpoint: Checkpoint, puct: PuctConfig | None = None) -> str:
    """The text of a submission file, which searches with the settings ``puct``."""
    geometry = checkpoint.geometry
    if not geometry.diagonals and geometry.run_length <= min(geometry.rows, geometry.columns):
        raise ValueError("diagonal runs count in Kaggle's ConnectX; this network was trained without them")
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "board": np.array([geometry.rows, geometry.columns, geometry.run_length])
    }
    for name, weights in numpy_weights(checkpoint.network).items():
        if np.abs(weights).max() > np.finfo(np.float16).max:
            raise ValueError(f"{name}: a weight is too large for half precision")
        arrays[name] = weights.astype(np.float16)
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
    encoded = base64.b64encode(packed.getvalue()).decode()
    lines = [encoded[start : start + LINE_LENGTH] for start in range(0, len(encoded), LINE_LENGTH)]
    template = files("alphac4.export").joinpath("submission.py").read_text()
    before, after = template.split(PLACEHOLDER)
    for name, value in dataclasses.asdict(puct or PuctConfig()).items():
        before, found = re.subn(rf"^{name.upper()} = .*$", f"{name.upper()} = {value!r}", before, flags=re.MULTILINE)
        assert found == 1, name
    return f'{before}WEIGHTS = """\n' + "\n".join(lines) + f'\n"""\n{after}'


def numpy_weights(network: PolicyValueNetwork) -> dict[str, npt.NDArray[np.float32]]:
    """The weights as the submission multiplies by them: [inputs, outputs], batch norm folded in.

    The inputs of a 3 x 3 convolution are ordered by kernel row, kernel column, channel.
    """
    weights = {}
    for name, tensor in fold_batch_norm(network).state_dict().items():
        weights[name] = _as_matrix(tensor).numpy()
    return weights


def _as_matrix(tensor: Tensor) -> Tensor:
    if tensor.ndim == 4:  # a convolution's [outputs, inputs, kernel rows, kernel columns]
        return tensor.permute(2, 3, 1, 0).reshape(-1, tensor.shape[0])
    return tensor.T if tensor.ndim == 2 else tensor
