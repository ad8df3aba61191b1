"""The options of players that search, written behind their budget: ``uct:1000,exploration=1,final=rate``."""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.uct import UctConfig
from alphac4.mcts.uct_search import MOST_ROOTS


@dataclass(frozen=True, kw_only=True)
class UctOptions:
    """How a classic player searches, beyond its budget."""

    config: UctConfig = field(default_factory=UctConfig)
    tree: Literal["new", "keep"] = "new"  # a fresh tree each move, or the part that both sides' moves lead to
    roots: int = 1  # independent trees a position, which run in parallel and add up

    short_names: ClassVar[Mapping[str, str]] = {"c": "exploration"}
    example: ClassVar[str] = "final=rate"

    def __post_init__(self) -> None:
        if not 1 <= self.roots <= MOST_ROOTS:
            raise ValueError(f"roots must be at least 1 and at most {MOST_ROOTS}, not {self.roots}")
        if self.tree == "keep" and self.roots > 1:
            raise ValueError("several roots start anew each move: tree=keep needs roots=1")


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """How a player with a network searches, beyond its budget."""

    config: PuctConfig = field(default_factory=PuctConfig)
    temperature: float = 0.0  # of the choice among moves: 0 plays the best, above 0 others in proportion

    short_names: ClassVar[Mapping[str, str]] = {}
    example: ClassVar[str] = "c-init=2"

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise ValueError(f"temperature must not be negative, not {self.temperature:g}")


Options = TypeVar("Options", UctOptions, NetworkOptions)


def parse_options(text: str, kind: type[Options]) -> Options:
    """Read "exploration=1,final=rate" as options of a ``kind`` of player; nothing gives the defaults.

    Fields are written with dashes for underscores, those of the search's configuration beside the player's own.

    Raises:
        ValueError: in one line, naming an option or a value that does not exist, and those that do.
    """
    config, hints = type(kind().config), _hints(kind)
    given: dict[str, Any] = {}
    for part in text.split(",") if text else []:
        written, equals, value = part.partition("=")
        name = kind.short_names.get(written, written).replace("-", "_")
        if not part:
            raise ValueError("an option is missing before or after a comma")
        if not equals or name not in hints:
            known = ", ".join(name.replace("_", "-") for name in hints)
            raise ValueError(f"no option {part!r}; options are written {known}, as in {kind.example}")
        if name in given:
            raise ValueError(f"{written} is given twice")
        given[name] = _parse_value(written, value, hints[name])
    searching = {item.name for item in dataclasses.fields(config)}
    own = {name: value for name, value in given.items() if name not in searching}
    return kind(config=config(**{name: given[name] for name in given.keys() - own.keys()}), **own)


def describe_options(options: UctOptions | NetworkOptions) -> str:
    """What differs from the defaults, as `parse_options` reads it, each after a comma."""
    usual = _values(type(options)())
    changed = {name: value for name, value in _values(options).items() if value != usual[name]}
    return "".join(f",{name.replace('_', '-')}={_shown(value)}" for name, value in changed.items())


def _hints(kind: type[UctOptions] | type[NetworkOptions]) -> dict[str, Any]:
    """The type of each option, those of the search's configuration first."""
    hints: dict[str, Any] = {}
    for part in (type(kind().config), kind):
        types_of = typing.get_type_hints(part)
        hints |= {item.name: types_of[item.name] for item in dataclasses.fields(part) if item.name != "config"}
    return hints


def _values(options: UctOptions | NetworkOptions) -> dict[str, Any]:
    """The value of each option, in the order of `_hints`."""
    return {**vars(options.config), **{name: value for name, value in vars(options).items() if name != "config"}}


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value)


def _parse_value(name: str, text: str, hint: Any) -> Any:
    if isinstance(hint, types.UnionType):  # an optional number
        hint = next(option for option in typing.get_args(hint) if option is not type(None))
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        if text not in choices:
            raise ValueError(f"{name} is one of {', '.join(choices)}, not {text!r}")
        return text
    if hint is bool:
        if text not in ("on", "off"):
            raise ValueError(f"{name} is on or off, not {text!r}")
        return text == "on"
    try:
        number = hint(text)
    except ValueError as error:
        raise ValueError(f"{name} is a number, not {text!r}") from error
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite")
    return number
