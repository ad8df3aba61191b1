"""`alphac4 export`: networks in forms that run without this package."""

import logging

from alphac4.commands.options import ExportOptions
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.storage.files import check_folder, check_new, check_output, write_atomically

_log = logging.getLogger(__name__)


def run(options: ExportOptions) -> int:
    """Write every form that was asked for."""
    if options.kaggle is options.onnx is options.web is options.hub is None:
        raise ValueError("choose what to write: --kaggle main.py, --onnx network.onnx, --web page or --hub folder")
    for given, needs in (("license", "hub"), ("web_runtime", "web")):
        if getattr(options, given) is not None and getattr(options, needs) is None:
            raise ValueError(f"--{given.replace('_', '-')} has no effect without --{needs}")
    check_output(options.kaggle)
    check_output(options.onnx)
    for folder in options.web, options.hub:
        if folder is not None:
            check_folder(folder.absolute().parent, folder)
            check_new(folder)
    checkpoint = load_checkpoint(options.checkpoint)
    if options.kaggle is not None:
        from alphac4.export.kaggle import submission_text

        write_atomically(options.kaggle, submission_text(checkpoint).encode())
        _log.info("%s: a submission of %d KB", options.kaggle, options.kaggle.stat().st_size // 1000)
    if options.onnx is not None:
        from alphac4.export.onnx import export_onnx

        _log.info("%s: converting the network ...", options.onnx)
        deviation = export_onnx(checkpoint, options.onnx)
        size = options.onnx.stat().st_size // 1000
        _log.info("%s: %d KB, probabilities as PyTorch's within %.1g", options.onnx, size, deviation)
    if options.hub is not None:
        from alphac4.export.hub import export_hub

        _log.info("%s: counting mistakes and converting the network ...", options.hub)
        export_hub(options.checkpoint, options.hub, options.license)
        _log.info("%s: to publish it, hf upload OWNER/NAME %s", options.hub, options.hub)
    if options.web is not None:
        from alphac4.play.web.pages import export_page

        _log.info("%s: writing the page and converting the network, some ten seconds ...", options.web)
        export_page(checkpoint, options.checkpoint.stem, options.web, options.web_runtime)
        _log.info("%s: to play, python -m http.server --directory %s", options.web, options.web)
    return 0
