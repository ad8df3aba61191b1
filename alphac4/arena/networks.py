"""The networks that specifications name: by their file, or as one that comes with the project."""

import re
from dataclasses import dataclass
from pathlib import Path

from alphac4.arena.options import NetworkOptions, parse_options
from alphac4.arena.players import PlayerError
from alphac4.checkpoint import SHIPPED, Checkpoint, CheckpointError, load_checkpoint, shipped_checkpoint
from alphac4.game import Geometry
from alphac4.nn.onnx_evaluator import OnnxError, OnnxEvaluator, onnx_geometry

ONNX = ".onnx"
FORM = re.compile(
    rf"(?P<network>{'|'.join(SHIPPED)}|.+\.(?:safetensors|onnx))(?P<limit>@[^,]*)?(?P<options>,.*)?", re.DOTALL
)


@dataclass(frozen=True, kw_only=True)
class NamedNetwork:
    """What a specification such as "runs/mine/best.safetensors@600,c-init=2" says of a network."""

    written: str  # "runs/mine/best.safetensors"
    name: str  # to show: "best", or the file's name without its ending
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
        if not self.is_onnx:
            return self.load().geometry
        try:
            return onnx_geometry(self.path)
        except OnnxError as error:
            raise PlayerError(str(error)) from error

    def load(self) -> Checkpoint:
        """The checkpoint.

        Raises:
            PlayerError: if the file is no checkpoint that can be used.
        """
        try:
            return load_checkpoint(self.path)
        except CheckpointError as error:
            raise PlayerError(str(error)) from error

    def load_onnx(self, threads: int) -> OnnxEvaluator:
        """The network of an ONNX file, ready to evaluate.

        Raises:
            PlayerError: if its shapes are not understood.
        """
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
    if found is None:
        return None
    written = found["network"]
    try:
        options = parse_options((found["options"] or ",")[1:], NetworkOptions)
        path = shipped_checkpoint(written) if written in SHIPPED else Path(written)
    except (ValueError, CheckpointError) as error:
        raise PlayerError(f"{specification!r}: {error}") from error
    return NamedNetwork(
        written=written,
        name=written if written in SHIPPED else path.stem,
        path=path,
        limit=(found["limit"] or "@")[1:],
        options=options,
    )


def network_file(specification: str) -> Path | None:
    """The file of the network that a specification names; None for any other player."""
    network = find_network(specification)
    return None if network is None else network.path


def load_network(specification: str) -> tuple[str, Checkpoint]:
    """The name and the checkpoint of a network such as "best" or FILE.safetensors; a limit is ignored.

    Raises:
        PlayerError: if a checkpoint is not named, or cannot be used.
    """
    network = find_network(specification)
    if network is None or network.is_onnx:
        raise PlayerError(f"a network is named {' or '.join(SHIPPED)}, or FILE.safetensors, not {specification!r}")
    return network.name, network.load()
