"""What a checkpoint's file tells without PyTorch, which takes a second to import: where it is and its board."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import safetensors

from alphac4.game.rules import Geometry, make_geometry
from alphac4.hub import HubError, hub_file, is_hub_name
from alphac4.json_files import parse_json, read_value
from alphac4.shipped import shipped_file

SCHEMA_VERSION = 2
FORMAT = "alphac4-checkpoint"

# The networks that come with the project: two by what they are for, and every file by its own name.
SHIPPED = {
    "best": "grown.safetensors",
    "fast": "quick.safetensors",
    "grown": "grown.safetensors",
    "standard": "standard.safetensors",
    "former-standard": "former-standard.safetensors",
    "quick": "quick.safetensors",
}


class CheckpointError(ValueError):
    """A file that cannot be used as a checkpoint, and why, in one line."""


def shipped_checkpoint(name: str = "best") -> Path:
    """The file of a network that comes with the project, by one of the names in `SHIPPED`.

    Raises:
        CheckpointError: for another name, or if the package was copied without its networks.
    """
    if name not in SHIPPED:
        raise CheckpointError(f"no network {name!r} is shipped; there are {', '.join(SHIPPED)}")
    path = shipped_file(SHIPPED[name])
    if not path.exists():
        raise CheckpointError(f"the shipped network {name!r} is not here ({path}); name a checkpoint file")
    return path


def named_file(name: Path) -> Path:
    """The file of a network that is named in one of three ways: a name in `SHIPPED`, hf://OWNER/NAME, or its path.

    A name always means the shipped network, whatever the current folder holds; a file that happens to be called
    "best" is read by its absolute path.

    Raises:
        CheckpointError: for a shipped network that is not there, or one that the hub does not give.
    """
    if str(name) in SHIPPED:
        return shipped_checkpoint(str(name))
    if not is_hub_name(name):
        return name
    try:
        return hub_file(name)
    except HubError as error:
        raise CheckpointError(str(error)) from error


def checkpoint_geometry(path: Path) -> Geometry:
    """The board that a checkpoint's network plays on, by its header; the weights are not looked at.

    Raises:
        CheckpointError: if the file is missing, cut short, of another format or a newer schema.
    """
    with opened(path, "numpy") as file:
        header = read_header(file)
        check_format(path, header, FORMAT, SCHEMA_VERSION)
        try:
            return read_geometry(header["geometry"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path}: its header describes no board: {str(error).splitlines()[0]}") from error


def read_geometry(described: object) -> Geometry:
    """The board that a header describes by its numbers, by name.

    Raises:
        TypeError, ValueError: if it describes none.
    """
    hints = {"rows": int, "columns": int, "run_length": int, "diagonals": bool}
    board = read_value(dict[str, Any], described, "the board")
    return make_geometry(**{name: read_value(hints.get(name, Any), value, name) for name, value in board.items()})


def read_header(file: Any) -> dict[str, Any]:
    """The header of an opened file.

    Raises:
        KeyError, TypeError, ValueError: if it has none; `opened` tells that in a line.
    """
    header: dict[str, Any] = read_value(dict[str, Any], parse_json((file.metadata() or {})["header"]), "the header")
    if "format" not in header:
        raise KeyError("format")
    return header


def check_format(path: Path, header: dict[str, Any], expected_format: str, schema_version: int) -> None:
    """Refuse what this program does not read.

    Raises:
        CheckpointError: for another format or schema.
    """
    if header["format"] != expected_format:
        raise CheckpointError(f"{path}: holds {header['format']!r}, expected {expected_format!r}")
    if header.get("schema_version") != schema_version:
        raise CheckpointError(
            f"{path}: schema version {header.get('schema_version')!r}, this program reads {schema_version}"
        )


@contextlib.contextmanager
def opened(path: Path, framework: str) -> Iterator[Any]:
    """A `safetensors` file; ``framework`` is what its tensors are read as.

    Raises:
        CheckpointError: in one line that names the file, also for what goes wrong while it is read.
    """
    try:
        with safetensors.safe_open(path, framework=framework) as file:
            yield file
    except CheckpointError:
        raise
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: no such file") from error
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    except (safetensors.SafetensorError, ValueError) as error:
        found = str(error).splitlines()[0].removeprefix("Error while deserializing header: ")
        raise CheckpointError(f"{path}: truncated, or no safetensors file ({found})") from error
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: a safetensors file, but not one of alphac4") from error
