"""Validated records: dataclasses from JSON, numbers and their ranges, and the board in files and options."""

import ast
import contextlib
import dataclasses
import difflib
import functools
import inspect
import json
import math
import re
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec, TypeVar

if TYPE_CHECKING:
    from alphac4.game import Board

MAX_SEED = 2**63 - 1
MAX_SIMULATIONS = 10_000_000  # per search of a command; each takes about 130 bytes
MAX_NUMBER = 1_000_000_000_000  # larger numbers must be typing errors
MIN_POSITIVE = 1e-9  # of numbers that must be above 0
MAX_QUOTE_LENGTH = 200  # characters of a user's input in a message
MAX_REASON_LENGTH = 300  # characters of a library's error in a message
MAX_MESSAGE_LENGTH = 1200
MAX_NUMBER_LENGTH = 30  # characters
NUMBER_FORM = re.compile(r"-?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_SIMULATIONS = "num_simulations n_simulations num_mcts_sims num_sims sims playouts n_playout visits max_visits rollouts"
SYNONYMS = {
    "audit": "prove verify",
    "batch_size": "batch bs minibatch",
    "blocks": "num_blocks res_blocks num_res_blocks residual_blocks depth layers",
    "c_init": "c_puct puct pb_c_init exploration exploration_constant",
    "channels": "num_channels filters num_filters width",
    "checkpoint": "network net model weights",
    "dirichlet_concentration": "dirichlet_alpha alpha noise_alpha root_dirichlet_alpha",
    "dirichlet_fraction": "epsilon dirichlet_epsilon noise noise_fraction root_exploration_fraction",
    "ema_decay": "ema swa",
    "final_learning_rate": "final_lr min_lr lr_min eta_min",
    "fast_visits": "fast_simulations",
    "full_visits": f"full_simulations simulations {_SIMULATIONS}",
    "iterations": "num_iterations num_iters epochs generations",
    "learning_rate": "lr lr_init max_lr",
    "base_window": "window window_size buffer_size replay_size replay_buffer_size",
    "pairs": "games num_games",
    "parallel_games": "games num_games episodes num_eps actors num_actors",
    "positions_per_iteration": "samples num_samples samples_per_iteration",
    "sample_weights": "sampler",
    "selection_rule": "selection puct",
    "simulations": _SIMULATIONS,
    "start_positions": "starts",
    "temperature": "temp tau",
    "temperature_halflife": "temp_threshold temperature_threshold temperature_moves",
    "threshold": "update_threshold win_rate",
    "visits": "simulations",
    "weight_decay": "wd l2 l2_reg l2_weight",
}
"""Names of settings, arguments and commands in other programs and in earlier versions."""

_T = TypeVar("_T")
_P = ParamSpec("_P")


_unchecked: ContextVar["list[CheckedSettings] | None"] = ContextVar("unchecked", default=None)


@dataclass(frozen=True, kw_only=True)
class BoardConfig:
    """The board and the winning condition."""

    rows: int = 6
    """Rows of the board."""
    columns: int = 7
    """Columns of the board."""
    run_length: int = 4
    """Stones in a row that win."""
    diagonals: bool = True
    """Whether diagonal rows win."""

    def make(self) -> "Board":
        """Return the board for compiled code; raise ValueError for an impossible board."""
        from alphac4.game.rules import make_board  # imports Numba, which options do not need

        return make_board(self.rows, self.columns, self.run_length, self.diagonals)


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; raise ValueError, in one line, for invalid JSON or a key that occurs twice."""
    try:
        return json.loads(text, object_pairs_hook=_without_repeated_keys)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}: {error.msg}" if text.strip() else "it is empty"
        raise ValueError(f"not JSON: {where}") from None
    except UnicodeDecodeError:
        raise ValueError("not JSON: it is not text") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        repeated = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"{quote(repeated)} occurs twice")
    return entries


def finite_or_null(data: Any) -> Any:
    """Replace NaN and infinities, which JSON lacks, by None."""
    if isinstance(data, dict):
        return {key: finite_or_null(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite_or_null(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def to_json_line(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"))


def read_record(record: type[_T], data: Any, name: str = "") -> _T:
    """Return an instance of a dataclass, or of a type that `read_value` accepts, from parsed JSON.

    A ValueError names the missing, unknown or wrongly typed entry; ``name`` is the prefix of the entry's name.
    """
    return typing.cast(_T, read_value(record, data, name))


class WrongTypeError(TypeError, ValueError):
    """Error for a value of another type: a TypeError for callers of functions, a ValueError for readers of files."""


def read_value(hint: Any, value: Any, name: str) -> Any:
    """Convert a value from JSON, or an argument of a function, to the type ``hint``.

    Numbers and arrays of NumPy and PyTorch become Python's. In ``Annotated[type, ...]``, an object with a method
    ``check``, such as `Range`, checks the value, and a text describes the type in messages.

    Raises:
        WrongTypeError: for another type; the message names the entry and the expected type.
        ValueError: for a value that an annotation rejects, a wrong number of items, or an unknown or missing entry.
    """
    if hint is Any:
        return value
    origin, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    value = value.tolist() if hasattr(value, "tolist") else value
    if origin is Annotated:
        return _read_annotated(hint, value, name)
    if origin is Literal and value in inner:
        return value
    if origin in (list, tuple, Sequence) and isinstance(value, Sequence) and not isinstance(value, str):
        return _read_sequence(origin, inner, value, name)
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return {key: read_value(inner[1], item, f"{name}.{key}") for key, item in value.items()}
    if origin in (typing.Union, types.UnionType):
        return _read_union(hint, value, name)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return _read_dataclass(hint, value, name)
    if origin is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise WrongTypeError(f"{name} must be float, not such a large number") from None
    is_subclass = (origin is int and isinstance(value, bool)) or (origin is Sequence and isinstance(value, str))
    if origin is Literal or is_subclass or not isinstance(value, origin):
        raise _wrong_type(hint, value, name)
    return value


def checked(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Check and convert the arguments of each call of a public function by their annotations, as `read_value` does.

    An argument whose annotation is in quotes, because its type takes long to import, is left to the function.
    """
    signature = inspect.signature(function)
    hints = {name: item.annotation for name, item in signature.parameters.items()}
    hints = {name: hint for name, hint in hints.items() if not isinstance(hint, str) and hint is not signature.empty}

    @functools.wraps(function)
    def call(*arguments: _P.args, **keywords: _P.kwargs) -> _T:
        try:
            bound = signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise TypeError(f"{function.__name__}: {error}") from None
        for name in hints.keys() & bound.arguments.keys():
            bound.arguments[name] = read_value(hints[name], bound.arguments[name], name)
        return function(*bound.args, **bound.kwargs)

    return call


def read_literal(text: str) -> Any:
    """Return the value of a Python literal, such as a number; any other text as it is."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def read_number(text: str) -> int | float:
    """Return a number written in ASCII digits, such as 600, 0.5 or 1e-3; raise ValueError for any other text.

    `int` and `float` would also take spaces, underscores, plus signs and the digits of other scripts.
    """
    if len(text) > MAX_NUMBER_LENGTH or not NUMBER_FORM.fullmatch(text):
        raise ValueError(f"{text!r:.60} is not a number; write 600 or 0.5")
    return float(text) if set(text) & set(".eE") else int(text)


def is_whole_number(text: str, minimum: int, maximum: int) -> bool:
    """Return whether a text is a whole number from ``minimum`` to ``maximum`` in ASCII digits."""
    # `int` raises its own error for thousands of digits.
    is_short = text.isascii() and text.isdecimal() and len(text) <= len(str(maximum))
    return is_short and minimum <= int(text) <= maximum


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a suggestion for a misspelt word, as " (is it ...?)", or "" if no known word is close."""
    names = list(known)
    matches = find_synonyms(word, names) or difflib.get_close_matches(word, names, n=1)
    return f" (is it {matches[0]}?)" if matches else ""


def find_synonyms(word: str, known: Iterable[str]) -> list[str]:
    """Return the known settings that ``word`` means in another program or group, those of the word's group first."""
    group, _, name = word.rpartition(".")
    spelt = _spelling(name)
    matches = [path for path in known if spelt in _spellings(path.rpartition(".")[2])]
    return sorted(matches, key=lambda path: path.rpartition(".")[0] != group)


def _spellings(setting: str) -> set[str]:
    return {_spelling(setting), *map(_spelling, SYNONYMS.get(setting.strip("-").replace("-", "_"), "").split())}


def _spelling(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def setting_names(record: Any, prefix: str = "") -> Iterator[str]:
    """Yield the names of a dataclass's settings; a group's name precedes those of its settings: "learning.batch_size".

    A group whose type is `Annotated` adds no name, as on the command line.
    """
    for item in dataclasses.fields(record):
        kind = getattr(item.type, "__origin__", item.type)
        if dataclasses.is_dataclass(kind):
            yield from setting_names(kind, prefix if kind is not item.type else f"{prefix}{item.name}.")
        else:
            yield prefix + item.name


def shorten(text: str, length: int = MAX_QUOTE_LENGTH) -> str:
    """Return a text for a message; one of more than ``length`` characters is cut in the middle."""
    return text if len(text) <= length else f"{text[: length // 2]} ... {text[-length // 2 :]}"


def quote(value: object) -> str:
    """Return the repr of a user's input for a message, shortened."""
    try:
        return shorten(repr(value))
    except ValueError:  # an integer with thousands of digits
        return "such a large number"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, shortened, or its type if the message is empty."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return shorten(line, MAX_REASON_LENGTH)  # a library's message may quote a whole file


def _wrong_type(hint: Any, value: Any, name: str) -> WrongTypeError:
    return WrongTypeError(f"{name or 'the record'} must be {_describe(hint)}, not {quote(value)}")


def _describe(hint: Any) -> str:
    """Return a type as words, such as "int or a list of str"."""
    origin, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin is Annotated:
        return next((part for part in inner[1:] if isinstance(part, str)), _describe(inner[0]))
    if origin is Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_describe(kind) for kind in inner if kind is not types.NoneType)
    if origin in (list, tuple, Sequence):
        return "a list" if inner[0] is Any else f"a list of {_describe(inner[0])}"
    if origin in (dict, Mapping):
        return "an object"
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return f"an object with the fields of {hint.__name__}"
    return "a function" if origin is Callable else str(origin.__name__)


def _read_annotated(hint: Any, value: Any, name: str) -> Any:
    kind, *parts = typing.get_args(hint)
    try:
        value = read_value(kind, value, name)
    except WrongTypeError:
        if not any(isinstance(part, str) for part in parts):
            raise
        raise _wrong_type(hint, value, name) from None
    for part in parts:
        if hasattr(part, "check"):
            part.check(name, value)
    return value


def _read_union(hint: Any, value: Any, name: str) -> Any:
    kinds = typing.get_args(hint)
    if value is None and types.NoneType in kinds:
        return None
    first, *others = (kind for kind in kinds if kind is not types.NoneType)
    if not others:
        return read_value(first, value, name)
    for kind in (first, *others):
        with contextlib.suppress(WrongTypeError):
            return read_value(kind, value, name)
    raise _wrong_type(hint, value, name)


def _read_sequence(origin: Any, inner: tuple[Any, ...], value: Sequence[Any], name: str) -> Any:
    hints = inner if origin is tuple and inner[-1] is not Ellipsis else inner[:1] * len(value)
    if len(value) != len(hints):
        raise ValueError(f"{name} must have {len(hints)} items, not {len(value)}")
    items = [
        read_value(hint, item, f"{name}[{row}]") for row, (hint, item) in enumerate(zip(hints, value, strict=True))
    ]
    return tuple(items) if origin is tuple else items


def _read_dataclass(record: type, value: Mapping[str, Any], name: str) -> Any:
    prefix = f"{name}." if name else ""
    hints = typing.get_type_hints(record)
    fields = {item.name: item for item in dataclasses.fields(record)}
    if unknown := [key for key in value if key not in fields]:
        word, inner = str(unknown[0]), value[unknown[0]]
        first, dot, rest = word.partition(".")
        if dot and first in fields:
            advice = f"; write {{{first!r}: {{{rest!r}: ...}}}}"
        else:
            word = f"{word}.{next(iter(inner))}" if isinstance(inner, Mapping) and inner else word
            advice = did_you_mean(word, [*fields, *setting_names(record)])
        raise ValueError(f"unknown entry {prefix + word!r:.80}{advice:.200}")
    for item in fields.values():
        optional = item.default is not dataclasses.MISSING or item.default_factory is not dataclasses.MISSING
        if item.name not in value and not optional:
            raise ValueError(f"{prefix}{item.name} is missing")
    return record(**{key: read_value(hints[key], item, prefix + key) for key, item in value.items()})


@dataclass(frozen=True)
class Range:
    """Smallest and largest value of a field, or of the items of a tuple: ``Annotated[int, Range(1, 64)]``."""

    minimum: float
    maximum: float

    def check(self, name: str, value: Any) -> None:
        """Raise a ValueError that names the field if a number, or one of a tuple, is out of range; None is valid."""
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and not self.minimum <= number <= self.maximum:  # NaN is not within any range
                limit = f"at most {self.maximum:,}" if number > self.maximum else f"at least {self.minimum:,}"
                raise ValueError(f"{name} must be {limit}, not {number!s:.80}")


Seed = Annotated[int, Range(0, MAX_SEED)]


class CheckedSettings:
    """Base class of dataclasses whose values are checked when they are created."""

    def __post_init__(self) -> None:
        unchecked = _unchecked.get()
        if unchecked is None:
            self._check()
        else:
            unchecked.append(self)

    def _check(self) -> None:
        """Convert and check the fields as `read_value` does."""
        for name, hint in typing.get_type_hints(type(self), include_extras=True).items():
            object.__setattr__(self, name, read_value(hint, getattr(self, name), name))  # the dataclass is frozen


@contextlib.contextmanager
def deferred_checks() -> Iterator[None]:
    """Check the settings that the block creates at its end; a parser that creates them would alter their errors."""
    unchecked: list[CheckedSettings] = []
    token = _unchecked.set(unchecked)
    try:
        yield
    finally:
        _unchecked.reset(token)
    for settings in unchecked:
        settings._check()
