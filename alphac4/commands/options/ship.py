"""Options of the commands that ship."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from alphac4.commands.arguments import Board
from alphac4.storage.records import MAX_SIMULATIONS, BoardConfig, check_ranges


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Write a checkpoint's network in a form that runs without this package."""

    checkpoint: Annotated[Path, tyro.conf.Positional]
    """The network's file, such as checkpoints/quick.safetensors; or best, fast, or hf://OWNER/NAME."""
    kaggle: Path | None = None
    """Write a submission for Kaggle's ConnectX, one Python file that needs only numpy, such as main.py."""
    onnx: Path | None = None
    """Write the network for ONNX runtimes, such as network.onnx, checked against PyTorch (extra alphac4[onnx])."""
    web: Path | None = None
    """Write a page that plays in the visitor's browser into this folder, for any web server to serve."""
    hub: Path | None = None
    """Write a folder ready for the Hugging Face hub: model card with its errors, cost and licence, and the network as
    safetensors and ONNX (extras alphac4[hub,onnx]). Its errors in the package's positions are measured in a minute."""
    evaluation: Path | None = None
    """With --hub: a report of `alphac4 evaluate --json` on this network, whose table the card gets."""
    notes: Path | None = None
    """With --hub: a file of Markdown for the card, such as errors that you know of, or the machine."""
    license: str | None = None
    """With --hub: the licence as the hub abbreviates it, such as mit or cc-by-4.0; the project's networks have mit."""
    web_runtime: Path | None = None
    """With --web: onnxruntime-web-1.30.0.tgz from npm, for machines that cannot download it (33 MB, once)."""


@dataclass(frozen=True, kw_only=True)
class EngineCommandOptions:
    """Read commands from the standard input and answer on the standard output, in the manner of chess's UCI.

    The commands are c4i, isready, setoption, newgame, position, go, stop, exact, d, help and quit; `help` lists what
    they do, and docs/ENGINE.md describes them. Unknown input is answered by a line that begins with "error".
    """

    player: str = "best"
    """Who searches: best, fast, a checkpoint's file, or uct with its options."""
    nodes: int = 600
    """Simulations where "go" names no limit."""
    board: Board = field(default_factory=BoardConfig)
    """The board."""

    def __post_init__(self) -> None:
        check_ranges(self, nodes=(1, MAX_SIMULATIONS))


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """Check the installation, and measure how fast this machine is and how long training takes here.

    Checks take some ten seconds, measurements about a minute on two idle cores, longer where other programs run; the
    first time on a machine, code is compiled besides. The exit code is 1 if something that every installation needs
    does not work.
    """

    measure: bool = True
    """Whether to measure; the checks alone take some ten seconds."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to measure; auto takes CUDA where there is one."""
