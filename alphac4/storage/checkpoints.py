"""Networks in files, with their configuration, provenance and measured strength, and the networks that have names.

A checkpoint is one `safetensors` file. Its metadata holds a JSON header and a SHA-256 over the header and the
tensors, so that a truncated, altered or foreign file is refused. Nothing is unpickled. PyTorch, which takes a second to
import, is loaded for the weights alone, not for names and headers.
"""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors

from alphac4.game.board import BoardConfig
from alphac4.game.rules import STANDARD, Geometry
from alphac4.storage.files import write_atomically
from alphac4.storage.hub import HubError, hub_file, is_hub_name
from alphac4.storage.records import parse_json, read_record, read_value

if TYPE_CHECKING:
    from torch import Tensor

    from alphac4.nn.network import NetworkConfig, PolicyValueNetwork

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


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A network and what is known about it."""

    network: "PolicyValueNetwork"  # in evaluation mode, on the CPU
    geometry: Geometry = STANDARD
    provenance: Mapping[str, Any] = field(default_factory=dict)  # how it was trained
    strength: Mapping[str, Any] = field(default_factory=dict)  # what was measured


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically."""
    write_atomically(path, pack_checkpoint(checkpoint))


def pack_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The bytes of a checkpoint's file."""
    geometry = checkpoint.geometry
    header = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "geometry": {item.name: getattr(geometry, item.name) for item in dataclasses.fields(BoardConfig)},
        "architecture": dataclasses.asdict(checkpoint.network.config),
        "provenance": dict(checkpoint.provenance),
        "strength": dict(checkpoint.strength),
    }
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.network.state_dict().items()}
    return pack_tensors(tensors, header)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, which may be one of the names that `named_file` knows, such as "best" or "hf://OWNER/NAME".

    Raises:
        CheckpointError: if the file is missing, truncated, altered, or of another format or schema.
    """
    import torch

    from alphac4.nn.network import NetworkConfig, PolicyValueNetwork

    path = named_file(path)
    header, tensors = unpack_tensors(path, FORMAT, SCHEMA_VERSION)
    try:
        geometry = read_record(BoardConfig, header["geometry"], "geometry").geometry()
        config = read_record(NetworkConfig, header["architecture"], "architecture")
        if (config.rows, config.columns) != (geometry.rows, geometry.columns):
            raise CheckpointError(f"{path}: the network is for another board than the header says")
        _check_shapes(config, tensors)
        network = PolicyValueNetwork(config)
        network.load_state_dict(tensors)
        provenance, strength = dict(header["provenance"]), dict(header["strength"])
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path}: the weights do not fit the header: {str(error).splitlines()[0]}") from error
    if not all(torch.isfinite(tensor).all() for tensor in tensors.values() if tensor.is_floating_point()):
        raise CheckpointError(f"{path}: the weights are not finite numbers")
    return Checkpoint(network=network.eval(), geometry=geometry, provenance=provenance, strength=strength)


def checkpoint_geometry(path: Path) -> Geometry:
    """The board that a checkpoint's network plays on, by its header; the weights are not looked at.

    Raises:
        CheckpointError: if the file is missing, cut short, or of another format or schema.
    """
    with _opened(path, "numpy") as file:
        header = _read_header(file)
        _check_format(path, header, FORMAT, SCHEMA_VERSION)
        try:
            return read_record(BoardConfig, header["geometry"], "geometry").geometry()
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path}: its header describes no board: {str(error).splitlines()[0]}") from error


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


def shipped_file(name: str) -> Path:
    """A file of the `checkpoints` folder, be it there or not.

    A wheel carries that folder inside the package; a checkout has it at the top, where an editable installation finds
    it too.
    """
    package = Path(__file__).resolve().parents[1]
    places = [folder / "checkpoints" / name for folder in (package, package.parent)]
    return next((path for path in places if path.exists()), places[-1])


def pack_tensors(tensors: Mapping[str, "Tensor"], header: Mapping[str, Any]) -> bytes:
    """The bytes of a `safetensors` file with a JSON header and a digest over both."""
    from safetensors.torch import save

    text = json.dumps(header, sort_keys=True)
    metadata = {"header": text, "sha256": _digest(tensors, text)}
    return save(dict(tensors), metadata)


def unpack_tensors(path: Path, expected_format: str, schema_version: int) -> tuple[dict[str, Any], dict[str, "Tensor"]]:
    """Header and tensors of a file that `pack_tensors` made.

    Raises:
        CheckpointError: in one line that names the file and what is wrong with it.
    """
    with _opened(path, "pt") as file:
        header, metadata = _read_header(file), file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    _check_format(path, header, expected_format, schema_version)
    if metadata.get("sha256") != _digest(tensors, metadata["header"]):
        raise CheckpointError(f"{path}: the digest does not match: the file was damaged or altered")
    return header, tensors


def _check_shapes(config: "NetworkConfig", tensors: Mapping[str, "Tensor"]) -> None:
    """Compare the file's tensors with those of the network that the header describes, before any memory is taken."""
    import torch

    from alphac4.nn.network import PolicyValueNetwork

    with torch.device("meta"):  # shapes without numbers
        expected = PolicyValueNetwork(config).state_dict()
    for name in sorted({*expected, *tensors}):
        if name not in tensors:
            raise ValueError(f"{name} is missing")
        if name not in expected:
            raise ValueError(f"{name} is not a part of the network")
        if tensors[name].shape != expected[name].shape:
            raise ValueError(f"{name} has {tuple(tensors[name].shape)} numbers, not {tuple(expected[name].shape)}")


def _digest(tensors: Mapping[str, "Tensor"], header: str) -> str:
    import torch

    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(np.asarray(tensor.reshape(-1).view(torch.uint8)).tobytes())
    return digest.hexdigest()


def _read_header(file: Any) -> dict[str, Any]:
    """The header of an opened file.

    Raises:
        KeyError, TypeError, ValueError: if it has none; `_opened` tells that in a line.
    """
    header: dict[str, Any] = read_value(dict[str, Any], parse_json((file.metadata() or {})["header"]), "the header")
    if "format" not in header:
        raise KeyError("format")
    return header


def _check_format(path: Path, header: dict[str, Any], expected_format: str, schema_version: int) -> None:
    if header["format"] != expected_format:
        raise CheckpointError(f"{path}: holds {header['format']!r}, expected {expected_format!r}")
    if header.get("schema_version") != schema_version:
        raise CheckpointError(
            f"{path}: schema version {header.get('schema_version')!r}, this program reads {schema_version}"
        )


@contextlib.contextmanager
def _opened(path: Path, framework: str) -> Iterator[Any]:
    """A `safetensors` file, whose tensors are read as those of a framework.

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
