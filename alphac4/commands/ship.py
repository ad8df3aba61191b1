"""Commands of the group "Ship": networks and moves for other programs, and the state of the installation."""

import logging
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from alphac4.arena.syntax import check_network
from alphac4.commands import UNSOUND
from alphac4.commands.arguments import Board, Device, loading
from alphac4.storage.files import check_folder, check_not_existing, check_output, write_atomically
from alphac4.storage.records import MAX_SIMULATIONS, BoardConfig, check_ranges

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ExportCommand:
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
    """Write a folder ready for the Hugging Face hub: model card with mistakes and licence, and the network as
    safetensors and ONNX (extras alphac4[hub,onnx]). Measuring the mistakes takes a minute."""
    license: str | None = None
    """With --hub: the licence as the hub abbreviates it, such as mit or cc-by-4.0; the project's networks have mit."""
    web_runtime: Path | None = None
    """With --web: onnxruntime-web-1.30.0.tgz from npm, for machines that cannot download it (33 MB, once)."""

    def __post_init__(self) -> None:
        check_network(self.checkpoint.as_posix())

    def __call__(self) -> int:
        """Write every form that was asked for."""
        if self.kaggle is self.onnx is self.web is self.hub is None:
            raise ValueError("choose what to write: --kaggle main.py, --onnx network.onnx, --web page or --hub folder")
        for given, needs in (("license", "hub"), ("web_runtime", "web")):
            if getattr(self, given) is not None and getattr(self, needs) is None:
                raise ValueError(f"--{given.replace('_', '-')} has no effect without --{needs}")
        check_output(self.kaggle)
        check_output(self.onnx)
        for folder in self.web, self.hub:
            if folder is not None:
                check_folder(folder.absolute().parent, folder)
                check_not_existing(folder)
        with loading():
            from alphac4.storage.checkpoints import load_checkpoint

            checkpoint = load_checkpoint(self.checkpoint)
        if self.kaggle is not None:
            from alphac4.export.kaggle import submission_text

            write_atomically(self.kaggle, submission_text(checkpoint).encode())
            logger.info("%s: a submission of %d KB", self.kaggle, self.kaggle.stat().st_size // 1000)
        if self.onnx is not None:
            from alphac4.export.onnx import export_onnx

            logger.info("%s: converting the network ...", self.onnx)
            deviation = export_onnx(checkpoint, self.onnx)
            size = self.onnx.stat().st_size // 1000
            logger.info("%s: %d KB, probabilities as PyTorch's within %.1g", self.onnx, size, deviation)
        if self.hub is not None:
            from alphac4.export.hub import export_hub

            logger.info("%s: counting mistakes and converting the network ...", self.hub)
            export_hub(self.checkpoint, self.hub, self.license)
            logger.info("%s: to publish it, hf upload OWNER/NAME %s", self.hub, self.hub)
        if self.web is not None:
            from alphac4.play.web.pages import export_page

            logger.info("%s: writing the page and converting the network, some ten seconds ...", self.web)
            export_page(checkpoint, self.checkpoint.stem, self.web, self.web_runtime)
            logger.info("%s: to play, python -m http.server --directory %s", self.web, self.web)
        return 0


@dataclass(frozen=True, kw_only=True)
class EngineCommand:
    """Read commands from the standard input and answer on the standard output, in the manner of chess's UCI.

    The commands are c4i, isready, setoption, newgame, position, go, stop, exact, d, help and quit; `help` lists what
    they do, and docs/ENGINE.md describes them. Unknown input is answered by a line that begins with "error".
    """

    player: str = "best"
    """Player that searches: best, fast, a checkpoint's file, or uct with its options."""
    nodes: int = 600
    """Simulations where "go" names no limit."""
    board: Board = field(default_factory=BoardConfig)

    def __post_init__(self) -> None:
        check_ranges(self, nodes=(1, MAX_SIMULATIONS))

    def __call__(self) -> int:
        """Answer until "quit" or the end of the input."""
        with loading():
            from alphac4.play.analysis import Analyst
            from alphac4.play.engine import Engine
        geometry = self.board.geometry()
        analyst = Analyst.named(self.player, geometry=geometry)
        engine = Engine(lambda line: print(line, flush=True), analyst, self.nodes, geometry)
        try:
            for line in sys.stdin.buffer:
                if not engine.handle(line.decode(errors="replace")) or engine.abandoned:
                    break
            engine.finish()
        finally:
            engine.close()
        if engine.abandoned:
            raise BrokenPipeError
        return 0


@dataclass(frozen=True, kw_only=True)
class DoctorCommand:
    """Check the installation, and measure how fast networks run here and how long training takes.

    All of it takes about two minutes on two idle cores. The first time on a machine, code is compiled as well. The exit
    code is 1 if something that every installation needs does not work.

        alphac4 doctor --only checks
        alphac4 doctor --only inference --network mine.safetensors
    """

    only: tuple[str, ...] = ("checks", "inference", "presets")
    """Parts to run: checks; inference, which measures a network by every backend; presets, which estimates the time of
    training."""
    network: Path = Path("best")
    """The network that inference measures: best, fast, or a checkpoint's file."""
    device: Device = "auto"
    """Device that presets train on; auto takes CUDA where there is one."""
    json: bool = False
    """Print the result as JSON."""

    def __post_init__(self) -> None:
        check_network(self.network.as_posix())

    def __call__(self) -> int:
        """Print each result as it comes; 1 if a check fails."""
        with loading():
            from alphac4.commands.doctor import diagnose
        return 0 if diagnose(self) else UNSOUND
