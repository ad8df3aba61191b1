"""`alphac4 export`: networks in forms that run without this package."""

import dataclasses
import logging
from pathlib import Path

from alphac4.commands.options import ExportOptions
from alphac4.storage.checkpoints import Checkpoint, load_checkpoint
from alphac4.storage.files import check_folder, check_output
from alphac4.storage.hub import SHIPPED

_log = logging.getLogger(__name__)


def run(options: ExportOptions) -> int:
    """Write every form that was asked for."""
    if options.kaggle is options.onnx is options.web is options.hub is None:
        raise ValueError(
            "nothing to do: say what to write: --kaggle main.py, --onnx network.onnx, --web page or --hub folder"
        )
    for given, needs in (("evaluation", "hub"), ("notes", "hub"), ("license", "hub"), ("web_runtime", "web")):
        if getattr(options, given) is not None and getattr(options, needs) is None:
            raise ValueError(f"--{given.replace('_', '-')} has no effect without --{needs}")
    check_output(options.kaggle)
    check_output(options.onnx)
    for folder in options.web, options.hub:
        if folder is not None:
            check_folder(folder.absolute().parent, folder)
    checkpoint = load_checkpoint(options.checkpoint)
    if options.kaggle is not None:
        from alphac4.export.kaggle import export_kaggle

        export_kaggle(checkpoint, options.kaggle)
        _log.info("%s: a submission of %d KB", options.kaggle, options.kaggle.stat().st_size // 1000)
    if options.onnx is not None:
        from alphac4.export.onnx import export_onnx

        _log.info("%s: converting the network ...", options.onnx)
        deviation = export_onnx(checkpoint, options.onnx)
        size = options.onnx.stat().st_size // 1000
        _log.info("%s: %d KB, probabilities as PyTorch's within %.1g", options.onnx, size, deviation)
    if options.hub is not None:
        _export_hub(options, options.hub, checkpoint)
    if options.web is not None:
        from alphac4.play.web.pages import export_page

        _log.info("%s: writing the page and converting the network, some ten seconds ...", options.web)
        export_page(checkpoint, options.checkpoint.stem, options.web, options.web_runtime)
        _log.info("%s: to play, python -m http.server --directory %s", options.web, options.web)
    return 0


def _read_notes(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text file") from error


def _export_hub(options: ExportOptions, folder: Path, checkpoint: Checkpoint) -> None:
    """Measure the network and write the folder; what is wrong with the options is told before anything is measured."""
    from alphac4.arena.specifications import network_digest
    from alphac4.export import hub

    shipped = str(options.checkpoint) in SHIPPED
    license_id = options.license or (hub.PROJECT_LICENSE if shipped else "")
    if not license_id:
        raise ValueError("say under which licence you give the network: --license mit, or another that the hub knows")
    hub.check_export(folder)
    notes = "" if options.notes is None else _read_notes(options.notes)
    digest = network_digest(str(options.checkpoint))
    rates = None if options.evaluation is None else hub.read_rates(options.evaluation, digest)
    _log.info("%s: measuring errors and converting the network ...", folder)
    figures = hub.measure_figures(checkpoint)
    if rates is not None:
        source = f"Measured by `alphac4 evaluate`, whose report is `{hub.EVALUATION_FILE}`."
        figures = dataclasses.replace(figures, rates=rates, source=source)
    export = hub.HubExport(
        name=options.checkpoint.stem,
        checkpoint=checkpoint,
        license_id=license_id,
        license_text=hub.project_license() if shipped and license_id == hub.PROJECT_LICENSE else "",
        figures=figures,
        notes=notes,
        evaluation=options.evaluation,
    )
    hub.export_hub(export, folder)
    _log.info("%s: to publish it, hf upload OWNER/NAME %s", folder, folder)
