"""User functions that replace parts of the algorithm, and checks of their results.

Every field of `Extensions` is an argument of `alphac4.iterate` and `alphac4.train`. Functions are not settings: a run's
folder records their names, and the run resumes only with the same ones. Shapes: A moves, C cells, G finished games, S
samples.
"""

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from types import CellType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from alphac4.game import Geometry, Position
from alphac4.game.planes import stones
from alphac4.game.position import column_name
from alphac4.game.rules import column_cells
from alphac4.mcts.simulation import Selection
from alphac4.nn.config import qualified_name
from alphac4.nn.network import NetworkBuilder
from alphac4.selfplay.games import MAX_STARTS, Games
from alphac4.selfplay.samples import Samples
from alphac4.storage.records import MAX_SIMULATIONS, first_line
from alphac4.training.losses import Losses

if TYPE_CHECKING:
    import torch
    from torch import nn

    from alphac4.training.reports import MatchReport

logger = logging.getLogger(__name__)

MAX_PLANNED_ITERATIONS = 100_000  # with budgets by a function: all are computed before the first iteration, in seconds
SUM_TOLERANCE = 1e-3  # largest difference between 1 and the sum of a target's probabilities

OptimizerBuilder = Callable[["nn.Module"], "torch.optim.Optimizer | Sequence[torch.optim.Optimizer]"]
"""Returns the optimisers of a network's parameters. The schedule multiplies each group's ``lr``."""

LearningSchedule = Callable[[int, int], float]
"""Returns the factor of all learning rates in gradient step ``step`` (from 0) of ``steps``, like the function of
`torch.optim.lr_scheduler.LambdaLR`."""

PolicyTarget = Callable[[Games, np.random.Generator], npt.ArrayLike]
"""Returns policies [G, C, A] to learn at every ply of the G games of an iteration, each summing to 1; plies that were
not played are ignored."""

ValueTarget = Callable[[Games, np.random.Generator], npt.ArrayLike]
"""Returns probabilities [G, C, 3] of win, draw and loss to learn at every ply of the G games of an iteration, for the
side to move; plies that were not played are ignored."""

Simulations = Callable[[int, int, bool], int]
"""Returns the simulations of a search, given the iteration (from 1), the ply (from 0), and whether it is a full
search."""

Starts = Callable[[Samples | None, np.random.Generator], Sequence[Position | str]]
"""Returns start positions for an iteration's games; each game draws one uniformly. The first argument is the replay
window, None before the first iteration. After the start position, random opening moves follow as the settings say."""

Sampler = Callable[[Samples, np.random.Generator], npt.ArrayLike]
"""Returns weights [S], at least 0, with which the samples of the window are drawn for learning."""


class PlayGate(Protocol):
    """Function that plays a match of a candidate against the best network."""

    def __call__(self, *, pairs: int | None = None, simulations: int | None = None) -> "MatchReport":
        """Play ``pairs`` of colour-swapped games with ``simulations`` per move; by default those of the settings."""


Gate = Callable[[PlayGate], bool]
"""Returns whether a candidate is promoted. Its argument is a function that plays a match and returns the report, in
which the candidate is ``player``; a gate may decide without a match."""


@dataclass(frozen=True, kw_only=True)
class Extensions:
    """User functions; each one that is not None replaces a function of the package."""

    network: NetworkBuilder | None = None
    loss: Losses | None = None
    optimizer: OptimizerBuilder | None = None
    schedule: LearningSchedule | None = None
    policy_target: PolicyTarget | None = None
    value_target: ValueTarget | None = None
    selection: Selection | None = None
    """A NamedTuple of numbers with a compiled method ``score``, such as `alphac4.Puct`."""
    simulations: Simulations | None = None
    starts: Starts | None = None
    sampler: Sampler | None = None
    gate: Gate | None = None

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if value is not None and item.name != "selection" and not callable(value):
                raise TypeError(f"{item.name} must be a function, not {value!r:.60}; see `alphac4.iterate`")
        if isinstance(self.optimizer, type):  # PyTorch's classes take parameters, not the module
            name = self.optimizer.__name__
            example = f"lambda module: {name}(module.parameters())"
            raise TypeError(f"optimizer must be a function of the module, such as {example}, not the class {name}")

    def names(self) -> dict[str, str]:
        """Return names of the given functions with digests of their code, by argument, such as "mine.loss #0f3a".

        The name of a selection includes its numbers, as in "mine.Rule(c=1.5, prior_temperature=1.0)".
        """
        names = dict[str, str]()
        for item in dataclasses.fields(self):
            function = getattr(self, item.name)
            if function is not None:
                name = qualified_name(function)
                if isinstance(function, tuple) and hasattr(function, "_asdict"):
                    name += f"({', '.join(f'{field}={value}' for field, value in function._asdict().items())})"
                source = _source(function if item.name != "selection" else getattr(function, "score", function))
                names[item.name] = f"{name} #{hashlib.sha256(source.encode()).hexdigest()[:16]}"
        return names


def _source(function: Any) -> str:
    """Return a function's source code, if there is one, and the numbers, texts and names of functions that it holds.

    It holds default values, enclosed variables and the arguments of a `functools.partial`.
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


def checked_schedule(schedule: LearningSchedule, steps: int) -> Callable[[int], float]:
    """Return the schedule as a function of the step only, which raises ValueError for an invalid factor."""

    def factor(step: int) -> float:
        value = schedule(step, steps)
        if not isinstance(value, Real) or not 0 <= value < math.inf:
            raise ValueError(f"schedule returned {value!r:.80} at step {step}; expected a finite number of at least 0")
        return float(value)

    return factor


def simulation_table(simulations: Simulations, iteration: int, geometry: Geometry) -> npt.NDArray[np.int64]:
    """Return the budgets [2, C] of an iteration's fast (0) and full (1) searches at each ply."""
    table = [[simulations(iteration, ply, full) for ply in range(geometry.cells)] for full in (False, True)]
    for budget in (budget for row in table for budget in row):
        if isinstance(budget, bool) or not isinstance(budget, int | np.integer) or not 1 <= budget <= MAX_SIMULATIONS:
            expected = f"a whole number from 1 to {MAX_SIMULATIONS:,}"
            raise ValueError(f"simulations returned {budget!r:.80} in iteration {iteration}; expected {expected}")
    return np.array(table, np.int64)


def start_positions(
    starts: Sequence[Position | str], geometry: Geometry
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return the stones ``(own, occupied)`` [N] of start positions, the first for the side to move."""
    if isinstance(starts, str) or not isinstance(starts, Iterable):
        raise ValueError(f"starts returned {starts!r:.80}; expected a list of positions or move strings such as '44'")
    positions = [Position.from_moves(start, geometry) if isinstance(start, str) else start for start in starts]
    for position in positions:
        if not isinstance(position, Position):
            raise ValueError(f"starts returned {position!r:.80}; expected positions or move strings such as '44'")
    if not 0 < len(positions) <= MAX_STARTS:
        raise ValueError(f"starts returned {len(positions)} positions; expected 1 to {MAX_STARTS:,}")
    for position in positions:
        if position.geometry != geometry:
            raise ValueError("starts returned a position of another board than the run's")
        if position.outcome() is not None:
            raise ValueError(f"starts returned a finished game: {position.moves or position}")
    own, occupied = stones(positions)
    return own, occupied


def open_columns(geometry: Geometry, occupied: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return for each position [...] whether each column has room, as [..., A]."""
    columns = [column_cells(geometry, column) for column in range(geometry.columns)]
    return np.stack([occupied & cells != cells for cells in columns], axis=-1)


def check_targets(
    values: npt.ArrayLike,
    allowed: npt.NDArray[np.bool_],  # whether a probability may be above 0: not that of a full column
    used: npt.NDArray[np.bool_],  # [G, C] plies at which the result must be probabilities
    name: str,
) -> Any:
    """Return a target function's result [G, C, A] or [G, C, 3] as float32; raise ValueError if it is invalid."""
    targets, shape = _as_array(values, np.float32, name), allowed.shape
    if targets.shape != shape:
        meaning = "games, plies, columns" if name == "policy_target" else "games, plies, win/draw/loss"
        raise ValueError(f"{name} returned shape {list(targets.shape)}; expected {list(shape)}: {meaning}")
    good = (targets >= 0).all(axis=-1) & (np.abs(targets.sum(axis=-1) - 1) < SUM_TOLERANCE)  # False for NaN
    if not good[used].all():
        game, ply = np.argwhere(used & ~good)[0]
        actual = np.array2string(targets[game, ply], precision=3, separator=", ")
        raise ValueError(
            f"{name} returned {actual} in game {game} at ply {ply}; expected probabilities: none negative, summing to 1"
        )
    if (forbidden := used[:, :, None] & ~allowed & (targets > 0)).any():
        game, ply, column = np.argwhere(forbidden)[0]
        raise ValueError(
            f"{name} returned {targets[game, ply, column]:.3g} for column {column_name(column)} in game {game} at ply "
            f"{ply}; expected 0, because the column is full"
        )
    return targets


def _as_array(values: npt.ArrayLike, dtype: npt.DTypeLike, name: str) -> npt.NDArray[Any]:
    """Convert the result of the function ``name``; raise ValueError if it is not an array of numbers."""
    try:
        if isinstance(values, np.ma.MaskedArray):
            raise ValueError("fill the masked values")
        return np.asarray(values, dtype)
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(values).__name__
        raise ValueError(f"{name} returned {kind}; expected an array of numbers: {first_line(error)}") from error


def check_weights(values: npt.ArrayLike, count: int) -> npt.NDArray[np.float64]:
    """Return a sampler's weights as probabilities [count]; raise ValueError if they are invalid."""
    weights = _as_array(values, np.float64, "sampler")
    if weights.shape != (count,):
        raise ValueError(f"sampler returned shape {list(weights.shape)}; expected one weight per sample, [{count}]")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError("sampler must return finite weights of at least 0, not all 0")
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
    """Raise ValueError unless a run resumes with the functions that it had."""
    for name in sorted({*before, *now}):
        expected = before.get(name, "no function").partition(" #")[0]
        actual = now.get(name, "none").partition(" #")[0]
        if expected != actual:
            raise ValueError(
                f"this run was trained with {expected} as `{name}`, but {actual} was given: pass the same again"
            )
