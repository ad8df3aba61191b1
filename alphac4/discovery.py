"""Plugins: packages that register players and commands when they are imported.

This package's own plugins are in `alphac4.plugins`. Other packages name theirs as entry points, for example in
pyproject.toml::

    [project.entry-points."alphac4.plugins"]
    mine = "my_package"
"""

import contextlib
import functools
import logging
import pkgutil
import sys
from collections.abc import MutableMapping
from importlib import import_module
from pathlib import Path
from typing import TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

GROUP = "alphac4.plugins"  # the subpackage with this package's plugins, and the entry-point group of others


@functools.cache
def load_plugins() -> None:
    """Import all plugins, once. One that cannot be imported is left out, with a warning."""
    names = [f"{GROUP}.{name}" for _, name, _ in pkgutil.iter_modules([str(Path(__file__).with_name("plugins"))])]
    if _has_entry_points():
        from importlib.metadata import entry_points

        names += [entry.value for entry in entry_points(group=GROUP)]
    for name in names:
        try:
            import_module(name)
        except Exception as error:  # a plugin of another package may raise anything
            logger.warning("the plugin %s cannot be loaded: %s: %s", name, type(error).__name__, error)


def add_unique(registry: MutableMapping[str, T], name: str, value: T) -> None:
    """Add a value to a registry; raise ValueError if the name is taken, so that `load_plugins` skips the plugin."""
    if registry.setdefault(name, value) is not value:
        raise ValueError(f"the name {name!r} is taken: choose another one")


def _has_entry_points() -> bool:
    """Return whether a package on the path may have plugins. Asking `importlib.metadata` takes longer."""
    files = (file for folder in sys.path for file in Path(folder).glob("*-info/entry_points.txt"))
    with contextlib.suppress(OSError):
        return any(GROUP.encode() in file.read_bytes() for file in files)
    return True
