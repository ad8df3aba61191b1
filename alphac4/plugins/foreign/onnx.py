"""Evaluator for networks of ONNX files, from any program."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alphac4.game.rules import Board, make_board
from alphac4.machine import import_onnxruntime, install_advice
from alphac4.nn.backends import random_boards
from alphac4.nn.foreign import FunctionEvaluator
from alphac4.storage.records import first_line

Array = npt.NDArray[np.float32]

EXPECTED = (
    "one input of planes [B, 2, rows, columns]; as outputs a policy [B, columns] and either a value [B] or [B, 1] in "
    "[-1, 1] or win/draw/loss [B, 3]"
)


class OnnxEvaluator(FunctionEvaluator):
    """Evaluator that runs an ONNX file. Several threads may call it concurrently.

    The planes are the stones of the side to move and those of its opponent, bottom row first; all outputs are for the
    side to move. The outputs on random boards decide whether the policy and win/draw/loss are read as logits or as
    probabilities. A value without win/draw/loss counts as a mixture of win and loss. By default, onnxruntime decides
    how many threads it uses.
    """

    def __init__(self, path: Path, threads: int | None = None) -> None:
        self.path = path
        self._session, self.board = _open(path, threads)
        boards = random_boards(self.board, 2, np.random.default_rng(0))
        try:
            outputs = self._run(boards)
        except Exception as error:  # onnxruntime raises many types
            raise ValueError(f"{path}: does not take planes {boards.shape}: {first_line(error)}") from error
        self._names = _output_names(path, outputs, self.board.columns)
        super().__init__(self._policy_and_value, name=str(path), probe_board=self.board)

    def _policy_and_value(self, planes: Array) -> tuple[Array, Array]:
        outputs = self._run(planes)
        return outputs[self._names[0]], outputs[self._names[1]]

    def _run(self, planes: Array) -> dict[str, Array]:
        """Return all outputs by name; a file with a fixed batch size gets the planes in such batches."""
        (board,), names = self._session.get_inputs(), [output.name for output in self._session.get_outputs()]
        size = board.shape[0] if isinstance(board.shape[0], int) else max(len(planes), 1)
        parts = []
        for first in range(0, max(len(planes), 1), size):
            batch = planes[first : first + size].astype(_dtype(board.type))
            padded = np.pad(batch, [(0, size - len(batch))] + [(0, 0)] * 3)
            outputs = self._session.run(names, {board.name: padded})
            for name, output in zip(names, outputs, strict=True):
                if np.shape(output)[:1] != (size,):
                    raise ValueError(f"output {name} has shape {np.shape(output)} for {size} positions")
            parts.append([np.asarray(output, np.float32)[: len(batch)] for output in outputs])
        return {name: np.concatenate(column) for name, column in zip(names, zip(*parts, strict=True), strict=True)}


def onnx_board(path: Path) -> Board:
    """Return the board of an ONNX file's network."""
    return _open(path, 1)[1]


def _open(path: Path, threads: int | None) -> tuple[Any, Board]:
    """Open a file in onnxruntime; return the session and the board.

    The metadata, which our export writes, give the board. Without them, it has the size of the planes and the usual
    rules.
    """
    try:
        onnxruntime = import_onnxruntime()
    except ImportError as error:
        raise ValueError(f"{path}: needs onnxruntime: {install_advice('onnx')}") from error
    if not os.path.isfile(path):  # noqa: PTH113 - no error for very long names
        raise ValueError(f"{path}: no such file")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised as well
    options.intra_op_num_threads = threads or 0
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # as above
        raise ValueError(f"{path}: cannot be read as ONNX: {first_line(error).rpartition('failed:')[2]}") from error
    inputs = session.get_inputs()
    actual = ", ".join(f"{item.name} {_format(item.shape)}" for item in inputs)
    planes = inputs[0].shape if len(inputs) == 1 else []
    if len(planes) != 4 or (isinstance(planes[1], int) and planes[1] != 2):
        raise ValueError(f"{path}: takes {actual}; expected {EXPECTED}")
    sizes = [size if isinstance(size, int) else usual for size, usual in zip(planes[2:], (6, 7), strict=True)]
    written = session.get_modelmeta().custom_metadata_map.get("board")
    try:
        _dtype(inputs[0].type)
        board = {"rows": sizes[0], "columns": sizes[1]} | (json.loads(written) if written else {})
        return session, make_board(**board)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: takes {actual} of {inputs[0].type}, which is not a board: {error}") from error


def _dtype(tensor: str) -> np.dtype[Any]:
    """Return NumPy's type for an ONNX type such as "tensor(float)". Raises TypeError if there is none."""
    name = tensor.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(name, name))


def _output_names(path: Path, outputs: Mapping[str, Array], columns: int) -> tuple[str, str]:
    """Return the names of the policy and the value output: those of our export, otherwise chosen by shape."""
    shapes = {name: output.shape[1:] for name, output in outputs.items()}
    if shapes.get("policy") == (columns,) and shapes.get("wdl") == (3,):
        return "policy", "wdl"
    policies = [name for name, shape in shapes.items() if shape == (columns,)]
    values = [name for name, shape in shapes.items() if shape in ((), (1,), (3,)) and name not in policies]
    if len(policies) != 1 or len(values) != 1:
        actual = ", ".join(f"{name} {_format(('B', *shape))}" for name, shape in shapes.items())
        raise ValueError(f"{path}: gives {actual} on {columns} columns; expected {EXPECTED}")
    return policies[0], values[0]


def _format(shape: Any) -> str:
    return f"[{', '.join(str(size) for size in shape)}]"
