"""The networks that specifications name: by their file, as one that comes with the project, or as one on the hub."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alphac4.arena import foreign
from alphac4.arena.options import NetworkOptions, parse_options
from alphac4.arena.players import PlayerError
from alphac4.game import Geometry
from alphac4.storage.checkpoints import SHIPPED, CheckpointError, checkpoint_geometry, named_file
from alphac4.storage.hub import FORM as HUB_FORM
from alphac4.storage.hub import PREFIX, is_hub_name, shown_name

if TYPE_CHECKING:  # PyTorch takes a second to import, which a command that only names a network need not wait for
    from alphac4.nn.onnx_evaluator import OnnxEvaluator
    from alphac4.storage.checkpoints import Checkpoint

ONNX = ".onnx"
FORM = re.compile(
    rf"(?P<network>{'|'.join(SHIPPED)}|{HUB_FORM}|.+\.(?:safetensors|onnx))(?P<limit>@[^,]*)?(?P<options>,.*)?",
    re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class NamedNetwork:
    """What a specification such as "runs/mine/best.safetensors@600,c-init=2" says of a network."""

    written: str  # "runs/mine/best.safetensors"
    name: str  # to show: "best", or the file's name without its ending; "mine/best" for runs/mine/checkpoints/best
    path: Path
    limit: str  # "600", "1s" or "0"; empty where none is given
    options: NetworkOptions

    @property
    def is_onnx(self) -> bool:
        """Whether it is an ONNX file, our own export or another program's, instead of a checkpoint."""
        return self.path.suffix == ONNX

    @property
    def geometry(self) -> Geometry:
        """The board that it plays on.

        Raises:
            PlayerError: if the file cannot be used.
        """
        try:
            if not self.is_onnx:
                return checkpoint_geometry(self.path)
            from alphac4.nn.onnx_evaluator import onnx_geometry

            return onnx_geometry(self.path)
        except ValueError as error:  # of either kind of file
            raise PlayerError(str(error)) from error

    def load(self) -> "Checkpoint":
        """The checkpoint.

        Raises:
            PlayerError: if the file is no checkpoint that can be used.
        """
        from alphac4.storage.checkpoints import load_checkpoint

        try:
            return load_checkpoint(self.path)
        except CheckpointError as error:
            raise PlayerError(str(error)) from error

    def load_onnx(self, threads: int) -> "OnnxEvaluator":
        """The network of an ONNX file, ready to evaluate.

        Raises:
            PlayerError: if its shapes are not understood.
        """
        from alphac4.nn.onnx_evaluator import OnnxError, OnnxEvaluator

        try:
            return OnnxEvaluator(self.path, threads)
        except OnnxError as error:
            raise PlayerError(str(error)) from error


def find_network(specification: str) -> NamedNetwork | None:
    """The network that a specification names; None for any other player.

    A name that comes with the project means that network, whatever lies in the current folder.

    Raises:
        PlayerError: for an unknown option.
    """
    found = FORM.fullmatch(specification)
    if found is None or specification.startswith("engine:") or foreign.FORM.fullmatch(specification):
        return None  # another program, or a player of one's own, may be given a file as well
    written = found["network"]
    try:
        options = parse_options((found["options"] or ",")[1:], NetworkOptions)
        path = named_file(Path(written))
    except (ValueError, CheckpointError) as error:
        raise PlayerError(f"{specification!r}: {error}") from error
    return NamedNetwork(
        written=written,
        name=written if written in SHIPPED else shown_name(written) if is_hub_name(written) else _shown_name(path),
        path=path,
        limit=(found["limit"] or "@")[1:],
        options=options,
    )


def _shown_name(path: Path) -> str:
    """A file's name without its ending; with its run's, where it would read like a network of the project."""
    if path.stem not in SHIPPED:
        return path.stem
    folders = [name for name in path.absolute().parts[1:-1] if name != "checkpoints"]
    return "/".join((*folders[-1:], path.stem))


def network_file(specification: str) -> Path | None:
    """The file of the network that a specification names; None for any other player."""
    network = find_network(specification)
    return None if network is None else network.path


def network_digest(specification: str) -> str | None:
    """The SHA-256 of that file, by which records know a network whatever it is called; None for any other player."""
    path = network_file(specification)
    return None if path is None else hashlib.sha256(path.read_bytes()).hexdigest()


def named_checkpoint(specification: str) -> NamedNetwork:
    """The network such as "best" or FILE.safetensors, not loaded yet; a limit is ignored.

    Raises:
        PlayerError: if a checkpoint is not named.
    """
    network = find_network(specification)
    if network is None or network.is_onnx:
        names = f"{' or '.join(SHIPPED)}, FILE.safetensors or {PREFIX}OWNER/NAME"
        raise PlayerError(f"a network is named {names}, not {specification!r}")
    return network


def load_network(specification: str) -> "tuple[str, Checkpoint]":
    """The name and the checkpoint of a network such as "best" or FILE.safetensors; a limit is ignored.

    Raises:
        PlayerError: if a checkpoint is not named, or cannot be used.
    """
    network = named_checkpoint(specification)
    return network.name, network.load()
