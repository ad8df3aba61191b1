"""Save and load a network with its configuration, provenance and measured strength.

A checkpoint is one `safetensors` file. Its metadata holds a JSON header and a SHA-256 over the header and the
tensors, so that a truncated, altered or foreign file is refused. Nothing is unpickled.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from alphac4.checkpoint_header import (
    FORMAT,
    SCHEMA_VERSION,
    check_format,
    named_file,
    opened,
    read_geometry,
    read_header,
)
from alphac4.checkpoint_header import (
    SHIPPED as SHIPPED,
)
from alphac4.checkpoint_header import (
    CheckpointError as CheckpointError,
)
from alphac4.checkpoint_header import (
    shipped_checkpoint as shipped_checkpoint,
)
from alphac4.files import write_atomically
from alphac4.game.rules import STANDARD, Geometry
from alphac4.json_files import read_record
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A network and what is known about it."""

    network: PolicyValueNetwork  # in evaluation mode, on the CPU
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
        "geometry": {name: getattr(geometry, name) for name in ("rows", "columns", "run_length", "diagonals")},
        "architecture": dataclasses.asdict(checkpoint.network.config),
        "provenance": dict(checkpoint.provenance),
        "strength": dict(checkpoint.strength),
    }
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.network.state_dict().items()}
    return pack_tensors(tensors, header)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, which may be one of the names that `named_file` knows, such as "best" or "hf://OWNER/NAME".

    Raises:
        CheckpointError: if the file is missing, truncated, altered, of another format or a newer schema.
    """
    path = named_file(path)
    header, tensors = unpack_tensors(path, FORMAT, SCHEMA_VERSION)
    try:
        geometry = read_geometry(header["geometry"])
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


def _check_shapes(config: NetworkConfig, tensors: Mapping[str, Tensor]) -> None:
    """Compare the file's tensors with those of the network that the header describes, before any memory is taken."""
    with torch.device("meta"):  # shapes without numbers
        expected = PolicyValueNetwork(config).state_dict()
    for name in sorted({*expected, *tensors}):
        if name not in tensors:
            raise ValueError(f"{name} is missing")
        if name not in expected:
            raise ValueError(f"{name} is not a part of the network")
        if tensors[name].shape != expected[name].shape:
            raise ValueError(f"{name} has {tuple(tensors[name].shape)} numbers, not {tuple(expected[name].shape)}")


def pack_tensors(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> bytes:
    """The bytes of a `safetensors` file with a JSON header and a digest over both."""
    text = json.dumps(header, sort_keys=True)
    metadata = {"header": text, "sha256": _digest(tensors, text)}
    return safetensors.torch.save(dict(tensors), metadata)


def unpack_tensors(path: Path, expected_format: str, schema_version: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file that `pack_tensors` made.

    Raises:
        CheckpointError: in one line that names the file and what is wrong with it.
    """
    with opened(path, "pt") as file:
        header, metadata = read_header(file), file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    check_format(path, header, expected_format, schema_version)
    if metadata.get("sha256") != _digest(tensors, metadata["header"]):
        raise CheckpointError(f"{path}: the digest does not match: the file was damaged or altered")
    return header, tensors


def _digest(tensors: Mapping[str, Tensor], header: str) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(np.asarray(tensor.reshape(-1).view(torch.uint8)).tobytes())
    return digest.hexdigest()
