"""User functions that replace parts of the algorithm, and checks of their results.

Every entry of `Functions` is an argument of `alphac4.iterate` and `alphac4.train`. Functions are not settings: a run's
folder records their names, and the run resumes only with functions of the same names. Shapes: A moves, C cells, G
finished games, S samples.
"""

import contextlib
import functools
import hashlib
import inspect
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Real
from operator import attrgetter
from types import CellType
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from alphac4.game import Board, Position
from alphac4.game.planes import stones
from alphac4.game.position import column_name
from alphac4.game.rules import column_cells
from alphac4.mcts.simulation import Selection
from alphac4.nn.config import qualified_name
from alphac4.nn.network import Network, NetworkBuilder
from alphac4.selfplay.config import MAX_TEMPERATURE
from alphac4.selfplay.games import MAX_STARTS, Games
from alphac4.selfplay.samples import Samples, Target
from alphac4.storage.records import MAX_SIMULATIONS, did_you_mean, find_synonyms, first_line, setting_names
from alphac4.training.config import PRESETS, TrainConfig
from alphac4.training.losses import Losses

if TYPE_CHECKING:
    import torch
    from torch import nn

    from alphac4.arena.match import MatchResult

logger = logging.getLogger(__name__)

# Iterations allowed with the function `visits`. It is called for all of them before the run begins, which takes about a
# minute for this number.
MAX_PLANNED_ITERATIONS = 100_000
SUM_TOLERANCE = 1e-3  # largest difference between 1 and the sum of a target's probabilities

OptimizerBuilder = Callable[["nn.Module"], "torch.optim.Optimizer | Sequence[torch.optim.Optimizer]"]
"""Returns the optimisers of a network's parameters. The schedule multiplies each group's ``lr``."""

LearningSchedule = Callable[[int, int], float]
"""Returns the factor of all learning rates in gradient step ``step`` (from 0) of the run's ``steps``, like the function
of `torch.optim.lr_scheduler.LambdaLR`."""

PolicyTarget = Callable[[Games, np.random.Generator], npt.ArrayLike]
"""Returns policies [G, C, A] to learn at every ply of the G games of an iteration, each summing to 1. Plies before
the first search and after the end of a game are ignored."""

ValueTarget = Callable[[Games, np.random.Generator], npt.ArrayLike]
"""Returns probabilities [G, C, 3] of win, draw and loss to learn at every ply of the G games of an iteration, for the
side to move. Plies before the first search and after the end of a game are ignored."""

Targets = Callable[[Games, np.random.Generator], Mapping[str, Target]]
"""Returns further targets [G, C, ...] of the games of an iteration, by name; they reach the loss as ``batch.targets``.
Plies before the first search and after the end of a game are ignored."""

ExtraSamples = Callable[[int, Network, np.random.Generator], Samples]
"""Returns samples that join those of self-play, given the iteration (from 1), the best network and a generator.
Self-play records the rest of the iteration's samples."""

Visits = Callable[[int, int, bool], int]
"""Returns the root visits of a search, those of a reused tree included, given the iteration (from 1), the ply (from 0),
and whether it is a full search."""

Temperature = Callable[[int, int], float]
"""Returns the temperature of a move in self-play, at least 0, given the iteration (from 1) and the ply (from 0)."""

Noise = Callable[[int, int], float]
"""Returns the share of noise in the root's priors of a full search, from 0 to 1, given iteration and ply."""

StartPositions = Callable[[Samples | None, np.random.Generator], Sequence[Position | str]]
"""Returns start positions for an iteration's games; each game draws one uniformly. The first argument is the replay
window, or None in the first iteration. Depending on the settings, random opening moves follow the start position."""

SampleWeights = Callable[[Samples, np.random.Generator], npt.ArrayLike]
"""Returns weights [S], at least 0, with which the samples of the window are drawn for learning."""


class PlayGate(Protocol):
    """Function that plays a match of a candidate against the best network."""

    def __call__(self, *, pairs: int | None = None, simulations: int | None = None) -> "MatchResult":
        """Play ``pairs`` colour-swapped pairs of games with ``simulations`` per move, by default as in the settings."""


Gate = Callable[[PlayGate], bool]
"""Returns whether a candidate is promoted. Its argument is a function that plays a match and returns the report, in
which the candidate is ``player``; a gate may decide without a match."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """Numbers that a function must return, in an array with these axes."""

    axes: tuple[str, ...] = ()
    minimum: float = 0.0
    maximum: float = math.inf
    is_whole: bool = False
    sums_to_1: bool = False  # over the last axis

    def check(
        self,
        name: str,
        value: Any,
        sizes: tuple[int, ...] = (),  # of the axes
        used: npt.NDArray[np.bool_] | None = None,  # whether each entry is used, along the first axes; all by default
    ) -> npt.NDArray[Any]:
        """Return a result as an array of float64 or int64; a ValueError states what was expected."""
        expected = self._describe(sizes)
        try:
            if isinstance(value, np.ma.MaskedArray):
                raise ValueError("fill the masked values")
            array = np.asarray(value)
        except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a tensor with a gradient
            raise ValueError(
                f"{name} returned {type(value).__name__}; expected {expected}: {first_line(error)}"
            ) from error
        if array.shape != sizes or array.dtype.kind not in ("iu" if self.is_whole else "fiub"):
            actual = (
                f"{value!r:.80}" if array.ndim == 0 else f"{type(value).__name__} {array.dtype} {list(array.shape)}"
            )
            raise ValueError(f"{name} returned {actual}; expected {expected}")
        array = array.astype(np.int64 if self.is_whole else np.float64)
        good = np.isfinite(array) & (array >= self.minimum) & (array <= self.maximum)
        if self.sums_to_1:
            good = good.all(axis=-1) & (np.abs(array.sum(axis=-1) - 1) < SUM_TOLERANCE)
        if used is not None:
            good |= ~used.reshape(*used.shape, *[1] * (good.ndim - used.ndim))
        if not good.all():
            index = tuple(np.argwhere(~good)[0])
            actual = np.array2string(array[index], precision=3, separator=", ")
            place = ", ".join(f"{axis} {number}" for axis, number in zip(self.axes, index, strict=False))
            raise ValueError(f"{name} returned {actual}{place and f' in {place}'}; expected {expected}")
        return array

    def _describe(self, sizes: tuple[int, ...]) -> str:
        kind = "probabilities that sum to 1" if self.sums_to_1 else "finite numbers"
        kind = "whole numbers" if self.is_whole else kind
        text = kind if sizes else f"a {kind.removesuffix('s')}"
        if not self.sums_to_1 and self.minimum > -math.inf:
            text += f" from {self.minimum:,g}" + (f" to {self.maximum:,g}" if self.maximum < math.inf else "")
        return f"{text}, {list(sizes)} by {', '.join(self.axes)}" if sizes else text


RESULTS = {
    "schedule": Result(),
    "policy_target": Result(axes=("game", "ply", "column"), sums_to_1=True),
    "value_target": Result(axes=("game", "ply", "win/draw/loss"), sums_to_1=True),
    "targets": Result(axes=("game", "ply"), minimum=-math.inf),
    "visits": Result(minimum=1, maximum=MAX_SIMULATIONS, is_whole=True),
    "temperature": Result(maximum=MAX_TEMPERATURE),
    "noise": Result(maximum=1),
    "sample_weights": Result(axes=("sample",)),
}
"""Results of functions that return numbers, by argument."""

REPLACED = {
    "optimizer": (
        "learning.optimizer",
        "learning.learning_rate",
        "learning.final_learning_rate",
        "learning.weight_decay",
    ),
    "schedule": ("learning.final_learning_rate",),
    "value_target": ("selfplay.td_lambda", "selfplay.td_max_regret"),
    "selection_rule": ("search.c_init",),
    "visits": ("selfplay.full_visits", "selfplay.fast_visits"),
    "temperature": ("selfplay.temperature", "selfplay.temperature_end", "selfplay.temperature_halflife"),
    "noise": ("selfplay.dirichlet_fraction",),
    "gate": ("gate.threshold",),
}
"""By argument: the settings that have no effect if this function is given."""


class Functions(TypedDict, total=False):
    """Arguments of `alphac4.iterate` and `alphac4.train` that replace or extend a part of the algorithm.

    All are functions, except ``selection_rule``.
    """

    network: NetworkBuilder | None
    loss: Losses | None
    optimizer: OptimizerBuilder | None
    schedule: LearningSchedule | None
    policy_target: PolicyTarget | None
    value_target: ValueTarget | None
    targets: Targets | None
    extra_samples: ExtraSamples | None
    selection_rule: Selection | None
    """A NamedTuple of numbers with a method ``score`` and maybe ``final_score``, which Numba compiles; see `Puct`."""
    visits: Visits | None
    temperature: Temperature | None
    noise: Noise | None
    start_positions: StartPositions | None
    sample_weights: SampleWeights | None
    gate: Gate | None


def _setting_advice(name: str) -> str:
    """Return advice on a setting that was passed as an argument; "" if ``name`` is not that of a setting."""
    groups = [item.name for item in fields(TrainConfig)]
    found = find_synonyms(name, [*groups, *setting_names(TrainConfig)])
    text = "..."
    for part in reversed(found[0].split(".") if found else []):
        text = f"{{{part!r}: {text}}}"
    return f"; it is a setting: settings={text}" if found else ""


class Extensions:
    """User functions of a run."""

    def __init__(self, **functions: Unpack[Functions]) -> None:
        given = {name: function for name, function in functions.items() if function is not None}
        for name, function in given.items():
            if name not in Functions.__annotations__:
                advice = _setting_advice(name) or did_you_mean(name, Functions.__annotations__)
                raise TypeError(f"unknown argument {name!r}{advice}")
            if name != "selection_rule" and not callable(function):
                raise TypeError(f"{name} must be a function, not {function!r:.60}; see `alphac4.iterate`")
        optimizer = given.get("optimizer")
        if isinstance(optimizer, type):  # PyTorch's classes take parameters, not the module
            name = optimizer.__name__
            example = f"lambda module: {name}(module.parameters())"
            raise TypeError(f"optimizer must be a function of the module, such as {example}, not the class {name}")
        self.functions: Mapping[str, Any] = given  # without those that are None

    def __contains__(self, name: str) -> bool:
        return name in self.functions

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function that was given; if it raises an exception, add a note with the function's name."""
        try:
            return self.functions[name](*arguments)
        except Exception as error:
            error.add_note(f"raised by the function that was passed as `{name}`")
            raise

    def numbers(
        self, name: str, *arguments: Any, sizes: tuple[int, ...] = (), used: npt.NDArray[np.bool_] | None = None
    ) -> npt.NDArray[Any]:
        """Call a function that was given; return its result, checked by `Result.check`."""
        value = self.call(name, *arguments)
        are_numbers = all(isinstance(argument, int | float) for argument in arguments)
        called = f"{name}({', '.join(map(str, arguments))})" if are_numbers else name
        return RESULTS[name].check(called, value, sizes, used)

    def check_settings(self, config: TrainConfig) -> None:
        """Raise ValueError if the user has set a setting that a function replaces, because it would have no effect.

        A setting counts as set by the user if no preset has its value, and it is not the default either.
        """
        replaced = dict(REPLACED)
        if hasattr(self.functions.get("selection_rule"), "final_score"):
            replaced["selection_rule"] += REPLACED["temperature"]
            if "temperature" in self:
                raise ValueError(
                    "`selection_rule` has a final_score, which replaces `temperature`: leave out one of the two"
                )
        for name, settings in replaced.items():
            for setting in settings if name in self else ():
                value, *usual = (attrgetter(setting)(each) for each in (config, TrainConfig(), *PRESETS.values()))
                if value not in usual:
                    raise ValueError(
                        f"`{name}` replaces {setting}, which is {value!r} in the settings: leave out one of the two"
                    )

    def names(self) -> dict[str, str]:
        """Return names of the given functions with digests of their code, by argument, such as "mine.loss #0f3a".

        The name of a selection includes its numbers, as in "mine.Selection(c=1.5, prior_temperature=1.0)".
        """
        names = dict[str, str]()
        for argument, function in self.functions.items():
            name = qualified_name(function)
            if isinstance(function, tuple) and hasattr(function, "_asdict"):
                name += f"({', '.join(f'{field}={value}' for field, value in function._asdict().items())})"
            methods = [getattr(function, method, None) for method in ("score", "final_score")]
            parts = filter(None, methods) if argument == "selection_rule" else [function]
            source = "".join(map(_source, parts))
            names[argument] = f"{name} #{hashlib.sha256(source.encode()).hexdigest()[:16]}"
        return names


def _source(function: Any) -> str:
    """Return a text that identifies a function: its name, the values that it holds, and its source code, if any.

    The values are default values, enclosed variables and the arguments of a `functools.partial`. Numbers, texts and
    tuples are included; functions and other objects are represented by their names or types.
    """
    held: list[object] = []
    while isinstance(function, functools.partial):
        held += [function.args, *function.keywords.items()]
        function = function.func
    held += getattr(function, "__defaults__", None) or ()
    held += [cell.cell_contents for cell in getattr(function, "__closure__", None) or () if cell != CellType()]
    values = [value if isinstance(value, Real | str | tuple) else qualified_name(value) for value in held]
    text = re.sub(r" at 0x\w+", "", repr([qualified_name(function), *values]))
    with contextlib.suppress(OSError, TypeError):
        text += inspect.getsource(function if hasattr(function, "__qualname__") else type(function))
    return text


def make_schedule(
    extensions: Extensions,
    schedule: Callable[[int], float],  # of the settings
    steps: int,  # of the whole run
) -> Callable[[int], float]:
    """Return the factor of the learning rates by step: the user's, 1 for a user's optimiser, or that of the settings.

    The settings' schedule depends on their learning rates, which a user's optimiser does not have.
    """
    if "schedule" in extensions:
        return lambda step: float(extensions.numbers("schedule", step, steps))
    return (lambda _step: 1.0) if "optimizer" in extensions else schedule


def start_positions(
    starts: Sequence[Position | str], board: Board
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return ``own`` [N], the stones of the side to move, and ``occupied`` [N] of start positions, after checks."""
    if isinstance(starts, str) or not isinstance(starts, Iterable):
        raise ValueError(
            f"start_positions returned {starts!r:.80}; expected a list of positions or move strings such as '44'"
        )
    try:
        positions = [Position.from_moves(start, board) if isinstance(start, str) else start for start in starts]
    except ValueError as error:
        raise ValueError(f"start_positions returned an invalid position: {error}") from error
    if not 0 < len(positions) <= MAX_STARTS:
        raise ValueError(f"start_positions returned {len(positions)} positions; expected 1 to {MAX_STARTS:,}")
    for position in positions:
        if not isinstance(position, Position):
            raise ValueError(
                f"start_positions returned {position!r:.80}; expected positions or move strings such as '44'"
            )
        if position.board != board:
            raise ValueError("start_positions returned a position of another board than the run's")
        if position.outcome() is not None:
            raise ValueError(f"start_positions returned a finished game: {position.moves or position}")
    own, occupied = stones(positions)
    return own, occupied


def check_columns(
    policy: npt.NDArray[np.float64],  # [G, C, A] result of `policy_target`
    occupied: npt.NDArray[np.uint64],  # [G, C]
    used: npt.NDArray[np.bool_],  # [G, C]
    board: Board,
) -> None:
    """Raise ValueError for a policy with a probability above 0 in a full column."""
    cells = np.array([column_cells(board, column) for column in range(board.columns)], np.uint64)
    is_full = occupied[:, :, None] & cells == cells
    if (forbidden := used[:, :, None] & is_full & (policy > 0)).any():
        game, ply, column = np.argwhere(forbidden)[0]
        raise ValueError(
            f"policy_target returned {policy[game, ply, column]:.3g} for column {column_name(column)} in game {game}, "
            f"ply {ply}; expected 0, because the column is full"
        )


def own_targets(values: Any, used: npt.NDArray[np.bool_], board: Board) -> dict[str, Target]:
    """Return the result of `targets` in float32; raise ValueError if it is invalid in the plies ``used`` [G, C]."""
    if not isinstance(values, Mapping) or not all(isinstance(target, Target) for target in values.values()):
        raise ValueError(f"targets returned {values!r:.80}; expected a dictionary of names to alphac4.Target")
    targets = {}
    for name, target in values.items():
        sizes = (*used.shape, *np.shape(target.values)[2:])
        array = RESULTS["targets"].check(f"targets[{name!r}]", target.values, sizes, used)
        if target.per_column and sizes[2:][-1:] != (board.columns,):
            raise ValueError(f"targets[{name!r}] returned {list(sizes)} per column; expected the columns as last axis")
        targets[str(name)] = Target(array.astype(np.float32), bool(target.per_column))
    return targets


def check_samples(samples: Samples, like: Samples, name: str) -> None:
    """Raise ValueError unless samples from the function ``name`` are valid and have the board and types of ``like``."""
    if samples.board != like.board:
        raise ValueError(f"{name} returned samples of another board than the run's")
    forms = [
        {key: f"{array.dtype} {['S', *array.shape[1:]]}" for key, array in each.arrays().items()}
        for each in (samples, like)
    ]
    for key in sorted(forms[0].keys() | forms[1].keys()):
        actual, expected = (form.get(key, "nothing") for form in forms)
        if actual != expected:
            raise ValueError(f"{name} returned {actual} as {key}; expected {expected}, as in the run's other samples")
    if len({len(array) for array in samples.arrays().values()}) > 1:
        raise ValueError(f"{name} returned arrays of different lengths; expected one entry for each sample")
    for key in ("policy_target", "value_target"):
        values = getattr(samples, key)
        Result(axes=("sample",), sums_to_1=True).check(f"{name}().{key}", values, values.shape)


def as_probabilities(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return weights [S] of samples as probabilities [S]; raise ValueError if all are 0."""
    if not weights.any():
        raise ValueError("sample_weights returned only zeros; expected a weight above 0")
    weights = weights / weights.max()  # their sum may be too large for a float
    probabilities: npt.NDArray[np.float64] = weights / weights.sum()
    return probabilities


def check_optimizers(
    optimizers: "Sequence[torch.optim.Optimizer]", module: "nn.Module"
) -> "Sequence[torch.optim.Optimizer]":
    """Return the optimisers that a user's function built for a module; log parameters that none of them learns."""
    from torch.optim import Optimizer

    if not isinstance(optimizers, Sequence) or not optimizers or not all(isinstance(o, Optimizer) for o in optimizers):
        raise ValueError(f"optimizer returned {optimizers!r:.80}; expected a PyTorch optimizer or a list of them")
    for optimizer in optimizers:
        closure = inspect.signature(optimizer.step).parameters.get("closure")
        if closure is not None and closure.default is inspect.Parameter.empty:
            raise ValueError(f"optimizer returned {type(optimizer).__name__}; expected one whose step needs no closure")
    names = {id(parameter): name for name, parameter in module.named_parameters() if parameter.requires_grad}
    learned = [[id(p) for group in optimizer.param_groups for p in group["params"]] for optimizer in optimizers]
    for optimizer, parameters in zip(optimizers, learned, strict=True):
        if names.keys().isdisjoint(parameters):
            kind = type(optimizer).__name__
            raise ValueError(f"optimizer returned {kind} without a parameter of the module; expected its parameters")
    known = set().union(*learned)
    if len(known) < sum(map(len, learned)):
        raise ValueError("optimizer returned two optimizers of the same parameter; expected one for each parameter")
    if missing := [name for key, name in names.items() if key not in known]:
        logger.warning("optimizer: no optimizer learns %s; require no gradient of them if that is intended", missing)
    return optimizers


def check_names(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise ValueError unless a run resumes with functions of the same names as before."""
    for name in sorted({*before, *now}):
        expected = before.get(name, "no function").partition(" #")[0]
        actual = now.get(name, "none").partition(" #")[0]
        if expected != actual:
            raise ValueError(
                f"this run was trained with {expected} as `{name}`, but {actual} was given: pass the same again"
            )
