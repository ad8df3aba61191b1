"""Networks that are not ours: functions on planes, PyTorch modules, and ONNX files from us or other programs."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alphac4.game.planes import PLANES
from alphac4.game.rules import Geometry, make_geometry
from alphac4.machine import install_advice
from alphac4.mcts.network_search import NotFiniteError
from alphac4.mcts.results import root_wdl
from alphac4.nn.backends import random_boards
from alphac4.nn.evaluator import softmax
from alphac4.storage.records import first_line

if TYPE_CHECKING:
    from torch import nn

Array = npt.NDArray[np.float32]

PROBE_BOARDS = 32
TOLERANCE = 1e-3  # of sums of probabilities, and of values beyond 1
MIN_PROBABILITY = 1e-9
EXPECTED = (
    "one input of planes [B, 2, rows, columns]; as outputs a policy [B, columns] and either a value [B] or [B, 1] in "
    "[-1, 1] or win/draw/loss [B, 3]"
)


class FunctionEvaluator:
    """Evaluates positions by a function of planes [B, P, R, C], all seen by the side to move.

    The first two planes hold the stones of the side to move, then its opponent's, bottom row first. The function
    returns policy logits [B, C], and either values [B] or [B, 1] in [-1, 1], or probabilities of win, draw and loss
    [B, 3]: as NumPy arrays, lists, or PyTorch tensors.

    Args:
        function: the network.
        input_planes: P; see `alphac4.game.planes`.
        name: of the network in error messages.
        probed: the board on which to find out, by random positions, whether the function returns logits or
            probabilities; by default it must return what is said above.
    """

    def __init__(
        self,
        function: Callable[[Array], Any],
        input_planes: int = PLANES["stones"],
        *,
        name: str = "",
        probed: Geometry | None = None,
    ) -> None:
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.input_planes = input_planes
        self._function = function
        self._policy_is_logits, self._value_is_logits = True, False
        if probed is not None:
            boards = random_boards(probed, PROBE_BOARDS, np.random.default_rng(0), input_planes)
            policy, value = self._answer(boards)
            self._policy_is_logits = not _are_probabilities(policy)
            self._value_is_logits = value.shape[1:] == (3,) and not _are_probabilities(value)
            self.evaluate(boards)  # raises for numbers that no search can use

    def evaluate(self, planes: Array) -> tuple[Array, Array]:
        """Policy logits [B, C] and win/draw/loss probabilities [B, 3].

        Raises:
            NotFiniteError: for NaN, or a value or highest logit that is infinite.
            ValueError: for an error of the function, or answers of another shape or range.
        """
        count = len(planes)
        policy, value = self._answer(planes)
        is_open = planes[:, :2, -1, :].sum(axis=1) == 0
        highest = np.where(is_open, policy, -np.inf).max(axis=1, initial=-np.inf)
        if not np.isfinite(highest[is_open.any(axis=1)]).all() or np.isnan(policy).any():
            raise NotFiniteError(f"{self.name} returned a policy without a largest finite logit")
        if value.shape != (count, 3):
            if not np.isfinite(value).all():
                raise NotFiniteError(f"{self.name} returned a value that is not finite")
            if (size := np.abs(value).max(initial=0)) > 1 + TOLERANCE:
                raise ValueError(
                    f"{self.name} returned a value of size {size:.3g}; expected -1 (lost) to 1 (won), such as by tanh"
                )
            # Nothing is known of draws, so that all is win or loss.
            return policy, root_wdl(np.clip(value.reshape(-1), -1, 1), np.zeros(count)).astype(np.float32)
        if not np.isfinite(value).all():
            raise NotFiniteError(f"{self.name} returned win, draw and loss that are not finite")
        if not (np.all(value >= 0) and np.allclose(value.sum(axis=1), 1, atol=0.01)):
            raise ValueError(
                f"{self.name} returned win, draw and loss that are no probabilities: they must add up to 1"
            )
        return policy, value

    def _answer(self, planes: Array) -> tuple[Array, Array]:
        """The function's policy logits [B, C], and its values [B] or [B, 1], or probabilities [B, 3]."""
        count, columns = len(planes), planes.shape[3]
        try:
            answer = self._function(planes)
        except Exception as error:
            text = f"{type(error).__name__}: {first_line(error)}"
            raise ValueError(f"{self.name} failed on planes {list(planes.shape)} with {text}") from error
        expected = f"a policy [{count}, {columns}] and a value [{count}] or [{count}, 3]"
        is_pair = isinstance(answer, tuple | list) and len(answer) == 2
        try:
            policy, value = map(_as_array, answer if is_pair else ())
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(
                f"{self.name} returned {_describe_answer(answer)} for {count} positions; expected {expected}"
            ) from None
        if policy.shape != (count, columns) or value.shape not in ((count,), (count, 1), (count, 3)):
            raise ValueError(
                f"{self.name} returned a policy {list(policy.shape)} and a value {list(value.shape)} for {count} "
                f"positions; expected {expected}"
            )
        return (
            policy if self._policy_is_logits else np.log(np.maximum(policy, MIN_PROBABILITY)),
            softmax(value) if self._value_is_logits else value,
        )


class ModuleEvaluator(FunctionEvaluator):
    """Evaluates positions by a PyTorch module, on the device of its parameters and in evaluation mode.

    It gets a tensor of planes [B, P, R, C] and returns a policy [B, C] and a value: [B] or [B, 1] in [-1, 1], or win,
    draw and loss [B, 3]. Whether the policy and win/draw/loss are logits or probabilities is found on random boards.

    Args:
        module: the network.
        geometry: the board.
        input_planes: P; by default the number of channels that the first layer takes, or else 2.

    Raises:
        ValueError: if the module takes other planes, or does not return such answers.
    """

    def __init__(self, module: "nn.Module", geometry: Geometry, input_planes: int | None = None) -> None:
        self._module = module
        planes = input_planes or _first_channels(module, geometry)
        super().__init__(self._run, planes, name=type(module).__name__, probed=geometry)

    def _run(self, planes: Array) -> Any:
        import torch

        like = next(self._module.parameters(), torch.empty(0))
        was_training = self._module.training
        self._module.eval()
        try:
            with torch.inference_mode():
                return self._module(torch.from_numpy(planes).to(like.device, like.dtype))
        finally:
            self._module.train(was_training)


def _first_channels(module: "nn.Module", geometry: Geometry) -> int:
    """The number of planes that the first convolution or linear layer takes; 2 if there is neither.

    Raises:
        ValueError: for a number that is none of `PLANES`.
    """
    for layer in module.modules():
        channels = getattr(layer, "in_channels", None) or getattr(layer, "in_features", 0) / geometry.cells
        if channels:
            if channels not in PLANES.values():
                known = " or ".join(f"{count} ({name})" for name, count in PLANES.items())
                raise ValueError(
                    f"{type(module).__name__}: its first layer takes {channels:g} planes; expected {known}"
                )
            return int(channels)
    return PLANES["stones"]


def _as_array(answer: Any) -> Array:
    """A float32 array of an array, a list, or a tensor on any device, with a gradient or without."""
    tensor = answer.detach().cpu().float() if hasattr(answer, "detach") else answer
    return np.asarray(tensor, np.float32)


def _describe_answer(answer: Any) -> str:
    """What a function has returned, in a few words."""
    if isinstance(answer, tuple | list):
        return f"{type(answer).__name__} of {len(answer)} ({', '.join(map(_describe_answer, answer[:3]))})"
    return f"{type(answer).__name__} {list(answer.shape)}" if hasattr(answer, "shape") else type(answer).__name__


class OnnxEvaluator(FunctionEvaluator):
    """Evaluates positions by an ONNX file; safe to call from several threads at once.

    The planes hold the stones of the side to move, then its opponent's, bottom row first, and all answers are seen by
    the side to move. Whether the policy and win/draw/loss are logits or probabilities is found on random boards. A
    value without win/draw/loss is taken to be of a win or a loss.

    Args:
        path: the file.
        threads: cores to use; by default onnxruntime decides.

    Raises:
        ValueError: in one line, if the file cannot be read, or its shapes are not understood.
    """

    def __init__(self, path: Path, threads: int | None = None) -> None:
        self.path = path
        self._session, self.geometry = _open(path, threads)
        boards = random_boards(self.geometry, 2, np.random.default_rng(0))
        try:
            answers = self._run(boards)
        except Exception as error:  # onnxruntime has a tree of its own
            raise ValueError(f"{path}: does not take planes {boards.shape}: {first_line(error)}") from error
        self._outputs = _policy_and_value(path, answers, self.geometry.columns)
        super().__init__(self._policy_and_value, name=str(path), probed=self.geometry)

    def _policy_and_value(self, planes: Array) -> tuple[Array, Array]:
        answers = self._run(planes)
        return answers[self._outputs[0]], answers[self._outputs[1]]

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
