"""`alphac4 export`: networks in forms that run without this package."""

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from alphac4.checkpoint import load_checkpoint
from alphac4.export.kaggle import export_kaggle

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Write a checkpoint's network in a form that runs without this package."""

    checkpoint: Annotated[Path, tyro.conf.Positional]
    """The network's file, such as checkpoints/quick.safetensors."""
    kaggle: Path | None = None
    """Write a submission for Kaggle's ConnectX, one Python file that needs only numpy, such as main.py."""


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(tyro.cli(ExportOptions, args=arguments, prog="alphac4 export"))


def run(options: ExportOptions) -> int:
    """Write every form that was asked for."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    if options.kaggle is None:
        raise ValueError("nothing to do: say what to write, such as --kaggle main.py")
    checkpoint = load_checkpoint(options.checkpoint)
    if options.kaggle is not None:
        export_kaggle(checkpoint, options.kaggle)
        _log.info("%s: a submission of %d KB", options.kaggle, options.kaggle.stat().st_size // 1000)
    return 0
