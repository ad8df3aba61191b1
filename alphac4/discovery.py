"""Plugins: packages that register players and commands when they are imported.

The package's own are in `alphac4.plugins`. Those of other packages are named by their entry points, for example in a
pyproject.toml::

    [project.entry-points."alphac4.plugins"]
    mine = "my_package"
"""

import functools
import logging
import pkgutil
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

logger = logging.getLogger(__name__)

GROUP = "alphac4.plugins"  # the package of the own plugins, and the group of entry points of others


@functools.cache
def load_plugins() -> None:
    """Import all plugins, once. One that cannot be imported is left out, with a warning."""
    own = [(name, f"{GROUP}.{name}") for _, name, _ in pkgutil.iter_modules([str(Path(__file__).with_name("plugins"))])]
    for name, module in own + [(entry.name, entry.value) for entry in entry_points(group=GROUP)]:
        try:
            import_module(module)
        except Exception as error:  # also somebody else's code
            logger.warning("the plugin %s cannot be loaded: %s: %s", name, type(error).__name__, error)
