"""`alphac4 export`."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from alphac4.commands.arguments import OutputFile, loading, metavar
from alphac4.storage.files import check_not_existing, check_output, ensure_folder, write_atomically
from alphac4.storage.networks import check_network
from alphac4.storage.records import CheckedSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ExportCommand(CheckedSettings):
    """Export a network for use without this package.

        alphac4 export best --kaggle main.py
        alphac4 export runs/mine/checkpoints/best.safetensors --onnx mine.onnx

    Choose at least one form: --kaggle, --onnx, --web or --hub.
    """

    checkpoint: Annotated[Path, tyro.conf.Positional, metavar("NETWORK")]
    """The network: a file such as runs/mine/checkpoints/best.safetensors, best, quick, or hf://OWNER/NAME."""
    kaggle: OutputFile = None
    """Write a submission for Kaggle's ConnectX: one Python file, such as main.py, that needs only NumPy."""
    onnx: OutputFile = None
    """Write an ONNX file, such as network.onnx, and check it against PyTorch (extra alphac4[onnx])."""
    overwrite: bool = False
    """Replace an existing file of --kaggle or --onnx; folders are never replaced."""
    web: Annotated[Path | None, metavar("FOLDER")] = None
    """Write to this folder a page that plays in the visitor's browser; any web server can serve it
    (extra alphac4[onnx])."""
    hub: Annotated[Path | None, metavar("FOLDER")] = None
    """Write a folder for the Hugging Face hub: the network as safetensors and ONNX, and a model card with its licence
    and its measured mistakes (extras alphac4[hub,onnx]). The measurement takes a minute. The card names the network
    after the folder."""
    license: Annotated[str | None, metavar("NAME")] = None
    """With --hub: the hub's identifier of the licence, such as cc-by-4.0; the project's networks have mit."""
    web_runtime: Annotated[Path | None, metavar("FILE")] = None
    """With --web: onnxruntime-web-1.30.0.tgz from npm, for machines that cannot download it (33 MB, once)."""

    def _check(self) -> None:
        super()._check()
        check_network(self.checkpoint.as_posix())

    def __call__(self) -> int:
        paths = [path.resolve() for path in (self.kaggle, self.onnx, self.web, self.hub) if path is not None]
        if not paths:
            raise ValueError("choose a form: --kaggle main.py, --onnx network.onnx, --web FOLDER or --hub FOLDER")
        if len(set(paths)) < len(paths):
            raise ValueError("each form needs a path of its own")
        check_output(self.kaggle, ".py", overwrite=self.overwrite)
        check_output(self.onnx, ".onnx", overwrite=self.overwrite)
        for folder in self.web, self.hub:
            if folder is not None:
                ensure_folder(folder.absolute().parent, folder)
                check_not_existing(folder)
        with loading():
            from alphac4.plugins.export.hub import checked_license, export_hub
            from alphac4.plugins.export.kaggle import submission_text
            from alphac4.plugins.export.onnx import export_onnx, format_bound, import_onnx
            from alphac4.plugins.export.web import export_page, read_runtime
            from alphac4.storage.checkpoints import load_checkpoint

            checkpoint = load_checkpoint(self.checkpoint)
            # Find what any form lacks before the first one is written.
            license_id = "" if self.hub is None else checked_license(self.checkpoint, self.license)
            runtime = b"" if self.web is None else read_runtime(self.web_runtime)
            if self.onnx is not None or self.hub is not None or self.web is not None:
                import_onnx()
        if self.kaggle is not None:
            write_atomically(self.kaggle, submission_text(checkpoint).encode())
            logger.info("%s: submission of %d KB", self.kaggle, self.kaggle.stat().st_size // 1000)
        if self.onnx is not None:
            logger.info("%s: converting the network ...", self.onnx)
            bound = format_bound(export_onnx(checkpoint, self.onnx))
            size = self.onnx.stat().st_size // 1000
            logger.info("%s: %d KB, probabilities equal to PyTorch's within %s", self.onnx, size, bound)
        if self.hub is not None:
            logger.info("%s: counting mistakes and converting the network ...", self.hub)
            export_hub(self.checkpoint, self.hub, license_id)
            logger.info("%s: publish it with: hf upload OWNER/NAME %s", self.hub, self.hub)
        if self.web is not None:
            logger.info("%s: writing the page and converting the network (about ten seconds) ...", self.web)
            export_page(checkpoint, self.checkpoint.stem, self.web, runtime)
            logger.info("%s: play with: python -m http.server --directory %s", self.web, self.web)
        return 0
