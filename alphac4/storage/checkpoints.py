"""Checkpoints: files with a network's weights, configuration, provenance and measured strength.

PyTorch, which takes a second to import, is only imported to load weights.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alphac4.game.rules import STANDARD, Board, board_settings
from alphac4.storage.arrays import Arrays, Header, digest_arrays, load_arrays, save_arrays
from alphac4.storage.files import FileError
from alphac4.storage.networks import SHIPPED, find_with_scheme
from alphac4.storage.records import BoardConfig, first_line, read_record

if TYPE_CHECKING:
    from alphac4.nn.network import Network, NetworkBuilder

SCHEMA_VERSION = 2
FORMAT = "alphac4-checkpoint"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A network with its board, provenance and strength."""

    network: "Network"  # in evaluation mode, on the CPU
    board: Board = STANDARD
    provenance: Mapping[str, Any] = field(default_factory=dict)  # how the network was trained, see docs/files.md
    strength: Mapping[str, Any] = field(default_factory=dict)  # measured


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    header = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "geometry": board_settings(checkpoint.board),
        "architecture": dataclasses.asdict(checkpoint.network.config),
        "provenance": dict(checkpoint.provenance),
        "strength": dict(checkpoint.strength),
    }
    save_arrays(path, _weights(checkpoint.network), header)


def weights_digest(network: "Network") -> str:
    """Return a SHA-256 of a network's weights with their names and shapes."""
    return digest_arrays(_weights(network))


def _weights(network: "Network") -> Arrays:
    return {name: tensor.detach().cpu().numpy() for name, tensor in network.state_dict().items()}


def load_checkpoint(path: Path, build: "NetworkBuilder | None" = None) -> Checkpoint:
    """Load a checkpoint from a path, or by a name such as "best" or "hf://OWNER/NAME".

    ``build`` is the function that built the network, if the package did not build it.
    """
    import torch

    from alphac4.nn.config import NetworkConfig
    from alphac4.nn.network import build_network, torch_seed

    path = checkpoint_file(path)
    arrays, header = load_arrays(path, FORMAT)
    board = _read_board(path, header)
    try:
        config = read_record(NetworkConfig, header["architecture"], "architecture")
        if (config.rows, config.columns) != (board.rows, board.columns):
            raise ValueError("the network and the header have different boards")
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        # The package's own network is built without weights, on the device "meta"; the file's are then assigned.
        with torch_seed(0), torch.device("cpu" if config.is_custom else "meta"):
            network = build_network(config, build)
        network.load_state_dict(tensors, assign=not config.is_custom)
        provenance, strength = dict(header["provenance"]), dict(header["strength"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[-1].strip()  # PyTorch begins with a heading
        raise FileError(f"{path}: the weights do not fit the header: {reason}") from error
    if not all(torch.isfinite(tensor).all() for tensor in tensors.values() if tensor.is_floating_point()):
        raise FileError(f"{path}: the weights are not finite numbers")
    return Checkpoint(network=network.eval(), board=board, provenance=provenance, strength=strength)


def checkpoint_board(path: Path) -> Board:
    """Return the board of a checkpoint, without loading PyTorch."""
    return _read_board(path, load_arrays(path, FORMAT)[1])


def _read_board(path: Path, header: Header) -> Board:
    if (version := header.get("schema_version")) != SCHEMA_VERSION:
        raise FileError(f"{path}: schema version {version!r}; this program reads version {SCHEMA_VERSION}")
    try:
        return read_record(BoardConfig, header["geometry"], "geometry").make()
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path}: invalid board in the header: {first_line(error)}") from error


def checkpoint_file(name: Path) -> Path:
    """Return the file of a network that is given by a name in `SHIPPED`, a name with a scheme, or a path.

    A name in `SHIPPED` always means the shipped network. For another file called "best", give an absolute path.
    """
    if str(name) not in SHIPPED:
        find = find_with_scheme(name.as_posix())
        return name if find is None else find()
    path = shipped_file(SHIPPED[str(name)])
    if not path.exists():  # the package was copied without its networks
        raise FileError(f"the shipped network {str(name)!r} is missing ({path}); name a checkpoint file")
    return path


def shipped_file(name: str) -> Path:
    """Return a file's path in the folder `checkpoints`, which a wheel has in the package and a clone next to it."""
    package = Path(__file__).resolve().parents[1]
    candidates = [folder / "checkpoints" / name for folder in (package, package.parent)]
    return next((path for path in candidates if path.exists()), candidates[-1])
