"""Names of networks: shipped ones, and those with a scheme such as "SCHEME://NAME", which plugins find."""

from collections.abc import Callable
from pathlib import Path

from alphac4.discovery import add_unique, load_plugins
from alphac4.storage.records import did_you_mean, shorten

# Networks that come with the project.
SHIPPED = {
    "best": "best.safetensors",  # the strongest
    "quick": "quick.safetensors",  # the fastest
}

_finders: dict[str, Callable[[str], Path]] = {}


def register_scheme(scheme: str, find: Callable[[str], Path]) -> None:
    """Add a new scheme, for networks with names such as "SCHEME://NAME".

    ``find(NAME)`` returns the local file, or raises a `FileError`.
    """
    add_unique(_finders, scheme, find)


def find_with_scheme(name: str) -> Callable[[], Path] | None:
    """Return the function that finds the file of a name with a known scheme; None for any other name."""
    scheme, separator, rest = name.partition(":/")  # `Path` removes one of the slashes
    if not separator:
        return None
    load_plugins()
    find = _finders.get(scheme)
    return None if find is None else lambda: find(rest.removeprefix("/"))


def check_network(name: str) -> None:
    """Raise a `ValueError` unless a network's file exists; names such as ``hf://OWNER/NAME`` are not looked up here."""
    if name not in SHIPPED and find_with_scheme(name) is None and (not Path(name).exists() or Path(name).is_dir()):
        problem = "is a folder, not a network's file" if Path(name).exists() else "no such file"
        raise ValueError(f"{shorten(name)}: {problem}{did_you_mean(name, SHIPPED)}")
