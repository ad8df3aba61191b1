"""Arrays in one `safetensors` file with a digest over them and what is said about them."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from alphac4.storage.files import write_atomically

Arrays = dict[str, npt.NDArray[Any]]


class ArrayFileError(ValueError):
    """A file that cannot be used, and why, in one line."""


def save_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, str]) -> None:
    """Write arrays and facts about them, among them the "format", atomically."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    metadata = {**facts, "sha256": _digest(whole, facts)}
    write_atomically(path, safetensors.numpy.save(whole, metadata))


def load_arrays(path: Path, kind: str, *, unsigned: tuple[str, ...] = ()) -> tuple[Arrays, dict[str, str]]:
    """Arrays and facts of a file of some format.

    Args:
        path: the file.
        kind: the format that it must have.
        unsigned: earlier formats without a digest, which are read as well.

    Raises:
        ArrayFileError: if it is missing, truncated, altered, or has another format.
    """
    try:
        with safetensors.safe_open(path, framework="np") as file:
            facts: dict[str, str] = file.metadata() or {}
            arrays: Arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (safetensors.SafetensorError, OSError, TypeError, ValueError, AttributeError) as error:
        raise ArrayFileError(f"{path}: damaged: {(str(error) or type(error).__name__).splitlines()[0]}") from error
    if facts.get("format") in unsigned:
        return arrays, facts
    if facts.get("format") != kind:
        raise ArrayFileError(f"{path}: holds {facts.get('format')!r}, expected {kind!r}")
    signed = facts.pop("sha256", None)
    if signed != _digest(arrays, facts):
        raise ArrayFileError(f"{path}: damaged: the digest does not match")
    return arrays, facts


def _digest(arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(facts), sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
