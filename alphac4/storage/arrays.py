"""Arrays in one `safetensors` file with a JSON header and a SHA-256 over both. Nothing is unpickled."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from alphac4.storage.files import FileError, write_atomically
from alphac4.storage.records import first_line, parse_json, read_record

Arrays = dict[str, npt.NDArray[Any]]
Header = dict[str, Any]  # includes the file's "format"


def save_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]], header: Mapping[str, Any]) -> None:
    """Write arrays and a header with a "format" entry atomically."""
    write_atomically(path, pack_arrays(arrays, header))


def pack_arrays(arrays: Mapping[str, npt.NDArray[Any]], header: Mapping[str, Any]) -> bytes:
    """Return the content of a file with arrays and a header."""
    text = json.dumps(header, sort_keys=True)
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return safetensors.numpy.save(whole, {"header": text, "sha256": digest_arrays(whole, text)})


def load_arrays(path: Path, kind: str) -> tuple[Arrays, Header]:
    """Return the arrays and the header of a file with the format ``kind``.

    Raises:
        FileError: if the file is missing, truncated, altered, or has another format.
    """
    with _opened(path, kind) as (file, header):
        metadata = file.metadata()
        arrays: Arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    if metadata.get("sha256") != digest_arrays(arrays, metadata["header"]):
        raise FileError(f"{path}: the digest does not match: the file was damaged or altered")
    return arrays, header


def load_header(path: Path, kind: str) -> Header:
    """Return the header of a file with the format ``kind``, without reading the arrays.

    Raises:
        FileError: if the file is missing, truncated, or has another format.
    """
    with _opened(path, kind) as (_, header):
        return header


@contextlib.contextmanager
def _opened(path: Path, kind: str) -> Iterator[tuple[Any, Header]]:
    """Open a `safetensors` file of a format; turn errors in the block into a FileError that names the file."""
    try:
        with safetensors.safe_open(path, framework="np") as file:
            header = read_record(Header, parse_json(file.metadata()["header"]), "the header")
            if header["format"] != kind:
                raise FileError(f"{path}: contains {header['format']!r}, expected {kind!r}")
            yield file, header
    except FileError:
        raise
    except FileNotFoundError as error:
        raise FileError(f"{path}: no such file") from error
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error}") from error
    except (safetensors.SafetensorError, ValueError) as error:
        reason = first_line(error).removeprefix("Error while deserializing header: ")
        raise FileError(f"{path}: truncated, or not a safetensors file ({reason})") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{path}: a safetensors file, but not written by alphac4") from error


def digest_arrays(arrays: Mapping[str, npt.NDArray[Any]], header: str = "") -> str:
    """Return a SHA-256 of a header and of arrays with their names, types and shapes."""
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} torch.{array.dtype.name} {array.shape}".encode())  # PyTorch's names of types
        digest.update(array.tobytes())
    return digest.hexdigest()
