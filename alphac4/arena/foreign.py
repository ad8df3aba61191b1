"""Players from other people's modules, named as ``package.module:Class``."""

import ast
import importlib
import inspect
import re
import sys
from typing import Any

from alphac4.arena.players import Player, PlayerError

FORM = re.compile(
    r"(?P<module>[A-Za-z_]\w+(?:\.\w+)*):(?P<name>[A-Za-z_]\w*)(?:@(?P<limit>[^,]*))?(?:,(?P<arguments>.*))?", re.DOTALL
)


def make_foreign_player(found: re.Match[str], **offered: Any) -> Player:
    """Call the class or function that a match of `FORM`, such as "module:Class,depth=4", names.

    It gets the arguments written, as Python reads them or else as text, and of those ``offered`` the ones that it has
    parameters for. The current folder is searched for the module, too.

    Raises:
        PlayerError: if it cannot be imported or called, or what it makes is no player.
    """
    specification = found.string
    factory = _import(specification, found["module"], found["name"])
    arguments = _arguments(specification, found["arguments"])
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError) as error:
        raise PlayerError(f"{specification!r}: {found['name']} cannot be called: {error}") from error
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if unknown := [name for name in arguments if not takes_all and name not in parameters]:
        raise PlayerError(f"{specification!r}: {found['name']} takes {', '.join(parameters)}, not {unknown[0]}")
    if found["limit"] is not None and not takes_all and "budget" not in parameters:
        raise PlayerError(f"{specification!r}: {found['name']} takes no budget")
    usable = {name: value for name, value in offered.items() if takes_all or name in parameters}
    try:
        player = factory(**(usable | arguments))
    except PlayerError:
        raise
    except Exception as error:  # somebody else's code
        raise PlayerError(f"{specification!r}: {found['name']} failed: {_describe(error)}") from error
    if not isinstance(getattr(player, "name", None), str) or not callable(getattr(player, "choose", None)):
        raise PlayerError(
            f"{specification!r} makes a {type(player).__name__}; a player has a name and choose(positions)"
        )
    return player  # type: ignore[no-any-return]


def _import(specification: str, module_name: str, name: str) -> Any:
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m alphac4` does by itself
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # somebody else's code
        raise PlayerError(f"{specification!r}: {module_name} cannot be imported: {_describe(error)}") from error
    if not hasattr(module, name):
        raise PlayerError(f"{specification!r}: {module_name} has no {name}")
    return getattr(module, name)


def _arguments(specification: str, text: str | None) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for part in text.split(",") if text else []:
        name, equals, value = part.partition("=")
        if not equals or not name.isidentifier():
            raise PlayerError(f"{specification!r}: arguments are written name=value, not {part!r}")
        try:
            arguments[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            arguments[name] = value
    return arguments


def _describe(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
