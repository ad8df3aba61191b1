"""A self-contained submission for Kaggle's ConnectX from a checkpoint."""

import ast
import base64
import dataclasses
import io
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor

from alphac4.mcts.puct import PuctConfig
from alphac4.nn.network import PolicyValueNetwork, fold_batch_norm
from alphac4.storage.checkpoints import Checkpoint
from alphac4.storage.files import write_atomically

PLACEHOLDER = 'WEIGHTS = ""\n'
LINE_LENGTH = 120
PACKAGE = "alphac4.export.submission"
MODULES = ("board", "tree", "player", "network", "rollouts", "agent")  # each needs only those before it


def export_kaggle(checkpoint: Checkpoint, path: Path) -> None:
    """Write `alphac4.export.submission` as one file, with the checkpoint's weights and the search's settings filled in.

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
    before, after = joined_modules().split(PLACEHOLDER)
    for name, value in dataclasses.asdict(puct or PuctConfig()).items():
        before, found = re.subn(rf"^{name.upper()} = .*$", f"{name.upper()} = {value!r}", before, flags=re.MULTILINE)
        assert found == 1, name
    return f'{before}WEIGHTS = """\n' + "\n".join(lines) + f'\n"""\n{after}'


def joined_modules() -> str:
    """The modules of the submission as the text of one; their docstrings and imports of one another are left out."""
    imports, bodies = set(), []
    for name in MODULES:
        text = files(PACKAGE).joinpath(f"{name}.py").read_text(encoding="utf-8")
        docstring, *statements = ast.parse(text).body
        found = [statement for statement in statements if isinstance(statement, ast.Import | ast.ImportFrom)]
        imports |= {line for line in map(ast.unparse, found) if PACKAGE not in line}
        start = max(statement.end_lineno or 0 for statement in (docstring, *found))
        bodies.append("".join(text.splitlines(keepends=True)[start:]).strip())
    head = files(PACKAGE).joinpath("__init__.py").read_text(encoding="utf-8")
    ordered = sorted(imports, key=lambda line: (line.startswith("from"), line))
    standard = "\n".join(line for line in ordered if "numpy" not in line)
    others = "\n".join(line for line in ordered if "numpy" in line)
    return "\n\n\n".join([f"{head.rstrip()}\n\n{standard}\n\n{others}", *bodies]) + "\n"


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
