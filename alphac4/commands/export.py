"""`alphac4 export`: networks in forms that run without this package."""

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from alphac4.checkpoint import load_checkpoint
from alphac4.commands.arguments import read_arguments
from alphac4.export.kaggle import export_kaggle
from alphac4.export.onnx import export_onnx
from alphac4.outputs import check_output
from alphac4.play.web.static_page import export_page

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Write a checkpoint's network in a form that runs without this package."""

    checkpoint: Annotated[Path, tyro.conf.Positional]
    """The network's file, such as checkpoints/quick.safetensors."""
    kaggle: Path | None = None
    """Write a submission for Kaggle's ConnectX, one Python file that needs only numpy, such as main.py."""
    onnx: Path | None = None
    """Write the network for ONNX runtimes, such as network.onnx, checked against PyTorch (extra alphac4[onnx])."""
    web: Path | None = None
    """Write a page that plays in the visitor's browser into this folder, for any web server to serve."""
    web_runtime: Path | None = None
    """With --web: onnxruntime-web-1.30.0.tgz from npm, for machines that cannot download it (33 MB, once)."""


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(read_arguments(ExportOptions, arguments, "export"))


def run(options: ExportOptions) -> int:
    """Write every form that was asked for."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    if options.kaggle is options.onnx is options.web is None:
        raise ValueError("nothing to do: say what to write: --kaggle main.py, --onnx network.onnx or --web page")
    check_output(options.kaggle)
    check_output(options.onnx)
    checkpoint = load_checkpoint(options.checkpoint)
    if options.kaggle is not None:
        export_kaggle(checkpoint, options.kaggle)
        _log.info("%s: a submission of %d KB", options.kaggle, options.kaggle.stat().st_size // 1000)
    if options.onnx is not None:
        _log.info("%s: converting the network ...", options.onnx)
        deviation = export_onnx(checkpoint, options.onnx)
        size = options.onnx.stat().st_size // 1000
        _log.info("%s: %d KB, probabilities as PyTorch's within %.1g", options.onnx, size, deviation)
    if options.web is not None:
        _log.info("%s: writing the page and converting the network, some ten seconds ...", options.web)
        export_page(checkpoint, options.checkpoint.stem, options.web, options.web_runtime)
        _log.info("%s: to play, python -m http.server --directory %s", options.web, options.web)
    return 0
