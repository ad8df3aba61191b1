"""Validated records: dataclasses from JSON, numbers and their ranges, and the board in files and options."""

import ast
import contextlib
import dataclasses
import difflib
import json
import math
import re
import types
import typing
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from alphac4.game import Geometry

MAX_SEED = 2**63 - 1
MAX_SIMULATIONS = 10_000_000  # per search of a command; each takes about 130 bytes
MAX_NUMBER = 1_000_000_000_000  # larger numbers must be typing errors
MIN_POSITIVE = 1e-9  # of numbers that must be above 0
MAX_QUOTE_LENGTH = 200  # characters of a user's input in a message
MAX_MESSAGE_LENGTH = 1200
MAX_NUMBER_LENGTH = 30  # characters
NUMBER_FORM = re.compile(r"-?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")

_T = TypeVar("_T")


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

    def geometry(self) -> "Geometry":
        """Return the geometry for compiled code; raise ValueError for an impossible board."""
        from alphac4.game.rules import make_geometry  # imports Numba, which options do not need

        return make_geometry(self.rows, self.columns, self.run_length, self.diagonals)


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

    A ValueError names the entry of ``name`` that is missing, unknown or of another type.
    """
    return typing.cast(_T, read_value(record, data, name))


def read_value(hint: Any, value: Any, name: str) -> Any:
    """Convert a value from JSON to the type ``hint``; a ValueError names the entry and the expected type."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _read_dataclass(hint, value, name)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if value not in inner:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, inner))}, not {value!r:.80}")
        return value
    if origin in (list, tuple):
        return _read_sequence(origin, inner, value, name)
    if origin is dict:
        if not isinstance(value, dict):
            raise ValueError(f"{name} must be an object, not {value!r:.80}")
        return {key: read_value(inner[1], item, f"{name}.{key}") for key, item in value.items()}
    if origin in (typing.Union, types.UnionType):
        return None if value is None else read_value(next(t for t in inner if t is not types.NoneType), value, name)
    if hint is Any:
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"{name} must be float, not such a large number") from None
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ValueError(f"{name} must be {hint.__name__}, not {value!r:.80}")
    return value


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
    matches = difflib.get_close_matches(word, list(known), n=1)
    return f" (is it {matches[0]}?)" if matches else ""


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
    """Return the first line of an error's message, or its type if the message is empty."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _read_sequence(origin: type, inner: tuple[Any, ...], value: Any, name: str) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} must be a list, not {value!r:.80}")
    if origin is tuple and inner[-1] is not Ellipsis:
        if len(value) != len(inner):
            raise ValueError(f"{name} must have {len(inner)} items, not {len(value)}")
        return tuple(read_value(hint, item, name) for hint, item in zip(inner, value, strict=True))
    return origin(read_value(inner[0], item, name) for item in value)


def _read_dataclass(record: type, value: Any, name: str) -> Any:
    prefix = f"{name}." if name else ""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name or record.__name__} must be an object, not {value!r:.80}")
    hints = typing.get_type_hints(record)
    fields = {item.name: item for item in dataclasses.fields(record)}
    if unknown := [key for key in value if key not in fields]:
        first, dot, rest = str(unknown[0]).partition(".")
        advice = did_you_mean(str(unknown[0]), fields)
        if dot and first in fields:
            advice = f"; write {{{first!r}: {{{rest!r}: ...}}}}"
        raise ValueError(f"unknown entry {prefix + str(unknown[0])!r:.80}{advice:.200}")
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
        """Raise a ValueError that names the field for a number, or one of a tuple, out of range; None is valid."""
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and not self.minimum <= number <= self.maximum:  # NaN is not within any range
                limit = f"at most {self.maximum:,}" if number > self.maximum else f"at least {self.minimum:,}"
                raise ValueError(f"{name} must be {limit}, not {number!s:.80}")


class CheckedSettings:
    """Base class of dataclasses whose values are checked when they are created."""

    def __post_init__(self) -> None:
        unchecked = _unchecked.get()
        if unchecked is None:
            self._check()
        else:
            unchecked.append(self)

    def _check(self) -> None:
        """Convert the fields to their types, and check them by annotations with a method ``check``, such as `Range`."""
        annotated, hints = typing.get_type_hints(type(self), include_extras=True), typing.get_type_hints(type(self))
        for name, hint in hints.items():
            value = getattr(self, name)
            if not dataclasses.is_dataclass(hint):
                value = read_value(hint, value, name)
                object.__setattr__(self, name, value)  # the dataclass is frozen
            elif type(value) is not hint:
                raise ValueError(f"{name} must be its group of settings, not {quote(value)}")
            for part in getattr(annotated[name], "__metadata__", ()):
                if hasattr(part, "check"):
                    part.check(name, value)


@contextlib.contextmanager
def deferred_checks() -> Iterator[None]:
    """Check settings of the block at its end, so that a parser in the block does not report their errors as its own."""
    unchecked: list[CheckedSettings] = []
    token = _unchecked.set(unchecked)
    try:
        yield
    finally:
        _unchecked.reset(token)
    for settings in unchecked:
        settings._check()
