"""Networks that are not ours: any function on planes, and ONNX files, our own export or another program's."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alphac4.game.rules import Geometry, make_geometry
from alphac4.machine import install_advice
from alphac4.mcts.network_search import NotFiniteError
from alphac4.mcts.results import root_wdl
from alphac4.nn.backends import random_boards
from alphac4.nn.evaluator import softmax
from alphac4.storage.records import first_line

Array = npt.NDArray[np.float32]

PROBED_BOARDS = 32
TOLERANCE = 1e-3  # of sums of probabilities, and of values beyond 1
MIN_PROBABILITY = 1e-9
EXPECTED = (
    "one input of planes [B, 2, rows, columns]; as outputs a policy [B, columns] and either a value [B] or [B, 1] in "
    "[-1, 1] or win/draw/loss [B, 3]"
)


class FunctionEvaluator:
    """Evaluates positions by a function of planes [B, 2, R, C], all seen by the side to move.

    The planes hold the stones of the side to move, then its opponent's, bottom row first. The function returns policy
    logits [B, C], and either values [B] in [-1, 1] or probabilities of win, draw and loss [B, 3].
    """

    def __init__(self, function: Callable[[Array], Any]) -> None:
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self._function = function

    def evaluate(self, planes: Array) -> tuple[Array, Array]:
        """Policy logits [B, C] and win/draw/loss probabilities [B, 3].

        Raises:
            NotFiniteError: for NaN, or a value or highest logit that is infinite.
            ValueError: for answers of another shape, or win, draw and loss that do not add up to 1.
        """
        count, columns = len(planes), planes.shape[3]
        try:
            policy, value = (np.asarray(answer, np.float32) for answer in self._function(planes))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{self.name} must return a policy and a value for planes {planes.shape}: {error}"
            ) from error
        if policy.shape != (count, columns) or value.shape not in ((count,), (count, 1), (count, 3)):
            raise ValueError(
                f"{self.name} returned a policy {policy.shape} and a value {value.shape} for {count} positions; "
                f"expected ({count}, {columns}), and ({count},) or ({count}, 3)"
            )
        is_open = planes[:, :, -1, :].sum(axis=1) == 0
        highest = np.where(is_open, policy, -np.inf).max(axis=1, initial=-np.inf)
        if not np.isfinite(highest[is_open.any(axis=1)]).all() or np.isnan(policy).any():
            raise NotFiniteError(f"{self.name} returned a policy without a largest finite logit")
        if value.shape != (count, 3):
            if not np.isfinite(value).all():
                raise NotFiniteError(f"{self.name} returned a value that is not finite")
            # Nothing is known of draws, so that all is win or loss.
            return policy, root_wdl(np.clip(value.reshape(-1), -1, 1), np.zeros(count)).astype(np.float32)
        if not np.isfinite(value).all():
            raise NotFiniteError(f"{self.name} returned win, draw and loss that are not finite")
        if not (np.all(value >= 0) and np.allclose(value.sum(axis=1), 1, atol=0.01)):
            raise ValueError(
                f"{self.name} returned win, draw and loss that are no probabilities: they must add up to 1"
            )
        return policy, value


class OnnxEvaluator(FunctionEvaluator):
    """Evaluates positions by an ONNX file; safe to call from several threads at once.

    The planes hold the stones of the side to move, then its opponent's, bottom row first, and all answers are seen by
    the side to move. Whether the policy and win/draw/loss are logits or probabilities shows on some random boards. A
    value alone says nothing of draws, and is taken to be of a win or a loss.

    Args:
        path: the file.
        threads: cores to use; by default onnxruntime decides.

    Raises:
        ValueError: in one line, if the file cannot be read, or its shapes are not understood.
    """

    def __init__(self, path: Path, threads: int | None = None) -> None:
        super().__init__(self._opinion)
        self.path, self.name = path, str(path)
        self._session, self.geometry = _open(path, threads)
        boards = random_boards(self.geometry, PROBED_BOARDS, np.random.default_rng(0))
        try:
            answers = self._run(boards)
        except Exception as error:  # onnxruntime has a tree of its own
            raise ValueError(f"{path}: does not take planes {boards.shape}: {first_line(error)}") from error
        self._policy, self._value = _policy_and_value(path, answers, self.geometry.columns)
        policy, value = answers[self._policy], answers[self._value]
        if not (np.isfinite(policy).all() and np.isfinite(value).all()):
            raise ValueError(f"{path}: its answers are not finite numbers")
        self._policy_is_logits = not _are_probabilities(policy)
        self._value_is_logits = value.shape[-1:] == (3,) and not _are_probabilities(value)
        if value.shape[-1:] != (3,) and np.abs(value).max() > 1 + TOLERANCE:
            raise ValueError(f"{path}: gives values up to {np.abs(value).max():.3g}, expected within [-1, 1]")

    def _opinion(self, planes: Array) -> tuple[Array, Array]:
        """Policy logits [B, C], and values [B] or [B, 1], or win/draw/loss probabilities [B, 3]."""
        answers = self._run(planes)
        policy, value = answers[self._policy], answers[self._value]
        if not self._policy_is_logits:
            policy = np.log(np.maximum(policy, MIN_PROBABILITY))
        return policy, softmax(value) if self._value_is_logits else value

    def _run(self, planes: Array) -> dict[str, Array]:
        """Every output by name; a file made for batches of one size gets the planes in such batches."""
        (given,), names = self._session.get_inputs(), [output.name for output in self._session.get_outputs()]
        size = given.shape[0] if isinstance(given.shape[0], int) else max(len(planes), 1)
        parts = []
        for first in range(0, max(len(planes), 1), size):
            batch = planes[first : first + size].astype(_dtype(given.type))
            padded = np.pad(batch, [(0, size - len(batch))] + [(0, 0)] * 3)
            answers = self._session.run(names, {given.name: padded})
            for name, answer in zip(names, answers, strict=True):
                if np.shape(answer)[:1] != (size,):
                    raise ValueError(f"output {name} has shape {np.shape(answer)} for {size} positions")
            parts.append([np.asarray(answer, np.float32)[: len(batch)] for answer in answers])
        return {name: np.concatenate(column) for name, column in zip(names, zip(*parts, strict=True), strict=True)}


def onnx_geometry(path: Path) -> Geometry:
    """The board that an ONNX file is made for.

    Raises:
        ValueError: if it cannot be read, or does not take boards.
    """
    return _open(path, 1)[1]


def _open(path: Path, threads: int | None) -> tuple[Any, Geometry]:
    """The file in onnxruntime, and its board: the one that our export names, or else its planes' with the usual rules.

    It has one input of four dimensions, two planes and a type that planes can be given in.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise ValueError(f"{path}: needs onnxruntime: {install_advice('onnx')}") from error
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised, so they need not be logged too
    options.intra_op_num_threads = threads or 0
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a tree of its own
        raise ValueError(f"{path}: cannot be read as ONNX: {first_line(error).rpartition('failed:')[2]}") from error
    inputs = session.get_inputs()
    found = ", ".join(f"{item.name} {_shown(item.shape)}" for item in inputs)
    planes = inputs[0].shape if len(inputs) == 1 else []
    if len(planes) != 4 or (isinstance(planes[1], int) and planes[1] != 2):
        raise ValueError(f"{path}: takes {found}; expected {EXPECTED}")
    sizes = [size if isinstance(size, int) else usual for size, usual in zip(planes[2:], (6, 7), strict=True)]
    written = session.get_modelmeta().custom_metadata_map.get("board")
    try:
        _dtype(inputs[0].type)
        board = {"rows": sizes[0], "columns": sizes[1]} | (json.loads(written) if written else {})
        return session, make_geometry(**board)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: takes {found} of {inputs[0].type}, which are no board: {error}") from error


def _dtype(tensor: str) -> np.dtype[Any]:
    """NumPy's name of a type such as "tensor(float)"; TypeError if it has none."""
    name = tensor.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(name, name))


def _policy_and_value(path: Path, answers: Mapping[str, Array], columns: int) -> tuple[str, str]:
    """The names of the policy and the value output: those of our export, else found by their shapes."""
    shapes = {name: answer.shape[1:] for name, answer in answers.items()}
    if shapes.get("policy") == (columns,) and shapes.get("wdl") == (3,):
        return "policy", "wdl"
    policies = [name for name, shape in shapes.items() if shape == (columns,)]
    values = [name for name, shape in shapes.items() if shape in ((), (1,), (3,)) and name not in policies]
    if len(policies) != 1 or len(values) != 1:
        found = ", ".join(f"{name} {_shown(('B', *shape))}" for name, shape in shapes.items())
        raise ValueError(f"{path}: gives {found} on {columns} columns; expected {EXPECTED}")
    return policies[0], values[0]


def _are_probabilities(answers: Array) -> bool:
    return bool((answers >= 0).all() and (np.abs(answers.sum(axis=1) - 1) < TOLERANCE).all())


def _shown(shape: Any) -> str:
    return f"[{', '.join(str(size) for size in shape)}]"
