"""Arrays in one `safetensors` file with a JSON header and a SHA-256 over both. Nothing is unpickled."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from alphac4.storage.files import FileError, read_bytes, write_atomically
from alphac4.storage.records import first_line, parse_json, read_record

Arrays = dict[str, npt.NDArray[Any]]
Header = dict[str, Any]  # includes the file's "format"


def save_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]], header: Mapping[str, Any]) -> None:
    """Write arrays and a header with a "format" entry atomically."""
    text = json.dumps(header, sort_keys=True)
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    write_atomically(path, safetensors.numpy.save(whole, {"header": text, "sha256": digest_arrays(whole, text)}))


def load_arrays(path: Path, kind: str) -> tuple[Arrays, Header]:
    """Return a file's arrays and header; raise FileError if it is missing, damaged or not of the format ``kind``.

    The file is read, not mapped to memory. So a failing disk raises an OSError instead of ending the process by a
    signal, and is not mistaken for a damaged file.
    """
    try:
        content = read_bytes(path)
        arrays: Arrays = safetensors.numpy.load(content)
        metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
        header = read_record(Header, parse_json(metadata["header"]), "the header")
    except FileNotFoundError as error:
        raise FileError(f"{path}: no such file") from error
    except (safetensors.SafetensorError, ValueError) as error:
        reason = first_line(error).removeprefix("Error while deserializing header: ")
        raise FileError(f"{path}: truncated, or not a safetensors file ({reason})") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{path}: a safetensors file, but not written by alphac4") from error
    if header.get("format") != kind:
        raise FileError(f"{path}: contains {header.get('format')!r}, expected {kind!r}")
    if metadata.get("sha256") != digest_arrays(arrays, metadata["header"]):
        raise FileError(f"{path}: the digest does not match: the file was damaged or altered")
    return arrays, header


def digest_arrays(arrays: Mapping[str, npt.NDArray[Any]], header: str = "") -> str:
    """Return a SHA-256 of a header and of arrays with their names, types and shapes."""
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} torch.{array.dtype.name} {array.shape}".encode())  # PyTorch's names of types
        digest.update(array.tobytes())
    return digest.hexdigest()
