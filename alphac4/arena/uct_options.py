"""The options of a classic player, written behind its budget: ``uct:1000,exploration=1,final=rate,tree=keep``."""

import dataclasses
import math
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal

from alphac4.mcts.uct import UctConfig


@dataclass(frozen=True, kw_only=True)
class UctOptions:
    """How a classic player searches, beyond its budget."""

    config: UctConfig
    tree: Literal["new", "keep"] = "new"  # a fresh tree each move, or the part that both sides' moves lead to
    roots: int = 1  # independent trees a position, which run in parallel and add up


def _fields() -> dict[str, tuple[str, Any]]:
    """Each option's name as written, with the field and its type."""
    hints = typing.get_type_hints(UctConfig)
    return {item.name.replace("_", "-"): (item.name, hints[item.name]) for item in dataclasses.fields(UctConfig)}


def parse_uct_options(text: str) -> UctOptions:
    """Read "exploration=1,final=rate"; nothing gives the defaults.

    Raises:
        ValueError: naming an option or a value that does not exist, and those that do.
    """
    known = _fields()
    settings: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        name = "exploration" if name == "c" else name
        if not equals or (name not in known and name not in ("tree", "roots")):
            raise ValueError(
                f"no option {part!r}; options are written {', '.join([*known, 'tree', 'roots'])}, as in final=rate"
            )
        if name == "tree":
            others[name] = _parse_value(name, value, Literal["new", "keep"])
        elif name == "roots":
            others[name] = _parse_value(name, value, int)
            if others[name] < 1:
                raise ValueError(f"roots must be at least 1, not {value}")
        else:
            field, hint = known[name]
            settings[field] = _parse_value(name, value, hint)
    if others.get("tree") == "keep" and others.get("roots", 1) > 1:
        raise ValueError("several roots start anew each move: tree=keep needs roots=1")
    return UctOptions(config=UctConfig(**settings), **others)


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


def describe_uct_options(options: UctOptions) -> str:
    """What differs from the defaults, as `parse_uct_options` reads it, each after a comma."""
    parts = []
    default = UctConfig()
    for name, (field, _) in _fields().items():
        value = getattr(options.config, field)
        if value != getattr(default, field):
            shown = {True: "on", False: "off"}[value] if isinstance(value, bool) else value
            parts.append(f"{name}={shown:g}" if isinstance(shown, float) else f"{name}={shown}")
    if options.tree != "new":
        parts.append(f"tree={options.tree}")
    if options.roots != 1:
        parts.append(f"roots={options.roots}")
    return "".join(f",{part}" for part in parts)
