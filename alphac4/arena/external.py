"""Players of users: an importable class or function, such as ``package.module:Class``."""

import importlib.util
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

from alphac4.arena import PlayerError
from alphac4.arena.players import Player, is_player
from alphac4.storage.records import quote, read_literal, shorten


def make_external_player(found: re.Match[str], **offered: Any) -> Player:
    """Create a player by calling the class or function of a specification such as "module:Class,depth=4".

    The function gets the arguments of the specification, which are Python literals or text, and those of ``offered``
    that it has parameters for. On the command line, the module may also be in the current folder.
    """
    specification = found.string
    arguments = _arguments(specification, found["arguments"])
    try:
        factory: Any = pkgutil.resolve_name(f"{found['module']}:{found['name']}")
        parameters = inspect.signature(factory).parameters
        takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        if unknown := [name for name in arguments if not takes_all and name not in parameters]:
            raise PlayerError(
                f"{quote(specification)}: {found['name']} takes {', '.join(parameters)}, not {unknown[0]}"
            )
        if found["limit"] is not None and not takes_all and "budget" not in parameters:
            raise PlayerError(f"{quote(specification)}: {found['name']} takes no budget")
        usable = {name: value for name, value in offered.items() if takes_all or name in parameters}
        player = factory(**(usable | arguments))
    except PlayerError:
        raise
    except Exception as error:  # somebody else's code
        message = " ".join(f"{type(error).__name__}: {error}".split())
        raise PlayerError(f"{quote(specification)} cannot be created: {shorten(message)}") from error
    if not is_player(player):
        raise PlayerError(
            f"{quote(specification)} returned a {type(player).__name__}; a player has a name and choose(positions)"
        )
    return player  # type: ignore[no-any-return]


def module_files(module: str) -> list[Path]:
    """Return a module's file, but not those of the modules that it imports; [] if it is missing or has no file."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # of the package of a missing module
        return []
    return [] if spec is None or spec.origin is None or not spec.has_location else [Path(spec.origin)]


def _arguments(specification: str, text: str | None) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for part in text.split(",") if text else []:
        name, equals, value = part.partition("=")
        if not equals or not name.isidentifier():
            raise PlayerError(f"{quote(specification)}: invalid argument {quote(part)}; write name=value")
        arguments[name] = read_literal(value)
    return arguments
