"""A network as a folder that can be uploaded to the Hugging Face hub as it is."""

import dataclasses
import json
import shutil
from importlib import metadata
from pathlib import Path

from alphac4.export.card_figures import CardFigures
from alphac4.export.model_card import ONNX_FILE, CardFacts, model_card
from alphac4.export.onnx import export_onnx
from alphac4.storage.checkpoints import Checkpoint, save_checkpoint
from alphac4.storage.files import write_atomically
from alphac4.storage.folders import check_replaceable, foreign_file, place_to_build, put_in_place, seal
from alphac4.storage.hub import NETWORK_FILE

CARD = "README.md"
EVALUATION_FILE = "evaluation.json"
PROJECT_LICENSE = "mit"


def check_folder_is_ours(folder: Path) -> None:
    """Refuse a folder that holds anything but an earlier export.

    Raises:
        ValueError: naming a file that this program did not write, or that was changed since; or for the current folder.
    """
    check_replaceable(folder)
    if folder.exists() and (foreign := foreign_file(folder.resolve(), None)):
        raise ValueError(f"{folder} holds {foreign}, which this program did not write as it is: choose a new folder")


def export_hub(
    checkpoint: Checkpoint,
    name: str,
    folder: Path,
    *,
    license_id: str,
    license_text: str,
    figures: CardFigures | None,
    notes: str = "",
    evaluation: Path | None = None,
) -> bool:
    """Write the folder; an earlier export in it is replaced as a whole.

    Returns whether the hub's own library has read the card; without the extra ``hub`` nobody has.

    Args:
        checkpoint: the network.
        name: what the card calls it.
        folder: new, empty, or an earlier export.
        license_id: the licence as the hub abbreviates it, such as "mit".
        license_text: of the file LICENSE, which is left out where this is empty.
        figures: the network's errors, if they are known.
        notes: Markdown of the owner's for the card.
        evaluation: the report that ``figures`` are from, which comes along.

    Raises:
        ValueError: if ``folder`` holds something else, or the hub's library refuses the card.
        RuntimeError: if a package for ONNX is missing.
    """
    check_folder_is_ours(folder)
    target = folder.resolve()  # a link stays, and what it names is replaced
    building = place_to_build(target)
    building.mkdir(parents=True)
    try:
        save_checkpoint(building / NETWORK_FILE, checkpoint)
        deviation = export_onnx(checkpoint, building / ONNX_FILE)
        facts = CardFacts(
            name=name,
            checkpoint=checkpoint,
            license_id=license_id,
            license_file=bool(license_text),
            figures=figures,
            notes=notes,
            deviation=deviation,
        )
        write_atomically(building / CARD, model_card(facts).encode())
        geometry = checkpoint.geometry
        board = {key: getattr(geometry, key) for key in ("rows", "columns", "run_length", "diagonals")}
        config = {"model_type": "alphac4", "board": board, "network": dataclasses.asdict(checkpoint.network.config)}
        write_atomically(building / "config.json", (json.dumps(config, indent=1) + "\n").encode())
        if evaluation is not None:
            write_atomically(building / EVALUATION_FILE, evaluation.read_bytes())
        if license_text:
            write_atomically(building / "LICENSE", license_text.encode())
        checked = check_card(building / CARD)
        seal(building)
        put_in_place(building, target)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return checked


def check_card(path: Path) -> bool:
    """Let the hub's library read a card and its metadata; False if that is not installed.

    Raises:
        ValueError: in one line, if it refuses the card.
    """
    try:
        from huggingface_hub import ModelCard
    except ImportError:
        return False
    try:
        card = ModelCard.load(path)
        json.dumps(card.data.to_dict())
    except Exception as error:  # whatever YAML and the hub's library raise
        raise ValueError(f"the hub's library refuses the card: {str(error).splitlines()[0]}") from error
    return True


def project_license() -> str:
    """The text of the project's licence, MIT, which is also that of the networks that come with it."""
    beside_package = Path(__file__).resolve().parents[2] / "LICENSE"
    if beside_package.is_file():
        return beside_package.read_text(encoding="utf-8")
    found = metadata.distribution("alphac4").read_text("licenses/LICENSE")
    if found is None:
        raise ValueError("the installation lacks its licence")
    return found
