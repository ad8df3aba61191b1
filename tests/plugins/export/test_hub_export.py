"""Folders for the Hugging Face hub."""

import contextlib
import dataclasses
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from alphac4.cli import main
from alphac4.compute import choose_compute
from alphac4.evaluation.positions import SETS, packaged_positions
from alphac4.game import Board, make_board
from alphac4.nn.network import PolicyValueNetwork
from alphac4.plugins.export import hub as export
from alphac4.storage.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from alphac4.storage.records import BoardConfig
from alphac4.training.config import from_dict

huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs ./scripts/setup.sh hub")

BOARD = make_board(4, 5, 3)
PROVENANCE = {"run": "mine", "iteration": 3, "seconds": 754, "games": 1234, "evaluations": 567890, "config": {}}
PROVENANCE |= {"started_from": {"checkpoint": "elsewhere.safetensors"}, "with_start": {"seconds": 1200, "games": 5000}}
STRENGTH = {"uct:1000": {"score": 0.845, "games": 100}}


def save_small(path: Path, board: Board = BOARD, channels: int = 4) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        sizes = {name: getattr(board, name) for name in ("rows", "columns", "run_length")}
        config = from_dict({"board": sizes, "network": {"channels": channels, "blocks": 1}}).network_config()
        network = PolicyValueNetwork(config).eval()
    save_checkpoint(path, Checkpoint(network=network, board=board, provenance=PROVENANCE, strength=STRENGTH))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small network, its export, and the report of an evaluation."""
    pytest.importorskip("onnxscript", reason="needs pip install 'alphac4[onnx]'")
    folder = tmp_path_factory.mktemp("exported")
    network, report = folder / "net.safetensors", folder / "report.json"
    save_small(network, make_board())
    evaluate = ["evaluate", str(network), "--simulations", "0,100", "--count", "3", "--no-untrained"]
    with report.open("w") as file, contextlib.redirect_stdout(file):
        assert main([*evaluate, "--backend", "torch-fp32", "--json"]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "packaged_positions", partial(packaged_positions, 3))
        patch.setattr(export, "choose_compute", partial(choose_compute, backend="torch-fp32"))
        assert main(["export", str(network), "--hub", str(folder / "ready"), "--license", "mit"]) == 0
    return folder


def test_the_exported_folder_has_the_network_in_two_formats_and_its_settings(exported: Path) -> None:
    ready = exported / "ready"
    original, loaded = load_checkpoint(exported / "net.safetensors"), load_checkpoint(ready / export.NETWORK_FILE)
    for name, tensor in original.network.state_dict().items():
        assert torch.equal(loaded.network.state_dict()[name], tensor)
    assert loaded.provenance == PROVENANCE
    pytest.importorskip("onnx").checker.check_model(ready / "model.onnx")
    config = json.loads((ready / "config.json").read_text())
    assert config["board"] == dataclasses.asdict(BoardConfig())
    assert config["network"] == json.loads(json.dumps(dataclasses.asdict(original.network.config)))
    assert (config["training"], config["strength"]) == (PROVENANCE, STRENGTH)
    assert not (ready / "LICENSE").exists()  # it names the authors of alphac4


def test_the_model_card_has_the_results_of_an_evaluation(exported: Path) -> None:
    ready = exported / "ready"
    card = huggingface_hub.ModelCard.load(ready / "README.md")
    assert (card.data.license, card.data.library_name, card.data.model_name) == ("mit", "alphac4", "ready")
    report = json.loads((exported / "report.json").read_text())
    expected = {
        (f"connect-four-{name}", f"move-error-rate-{budget['simulations']}"): figures["mistakes"]["value"]
        for budget in report["subjects"][0]["budgets"]
        for name, figures in budget["sets"].items()
    }
    actual = {(result.dataset_type, result.metric_type): result.metric_value for result in card.data.eval_results}
    assert actual == pytest.approx(expected, abs=1e-5)
    names = {(result.dataset_name, result.metric_type, result.metric_name) for result in card.data.eval_results}
    assert names == {
        (f"6 x 7 with runs of 4: {part}", f"move-error-rate-{simulations}", f"mistakes, {budget}")
        for part in ("all sets, 18 positions", *(f"{name}, 3 positions" for name in SETS))
        for simulations, budget in ((0, "raw network"), (100, "100 simulations"))
    }
    text = (ready / "README.md").read_text()
    for part in ("ready (4 channels x 1 block, by torch-fp32)", "within", "# ready: a Connect Four network"):
        assert part in text
    assert "{" not in text


def test_the_model_card_states_the_size_and_the_deviation(tmp_path: Path) -> None:
    """On a board without packaged positions, it has no results."""
    path = tmp_path / "net.safetensors"
    save_small(path)
    stem, block, heads = 8 * 4 * 9 + 2 * 4, 2 * (4 * 4 * 9 + 2 * 4), 4 * 8 + 2 * 8  # convolutions and their norms
    policy, value, ownership = 80 * 5 + 5, 80 * 8 + 8 + 8 * 3 + 3, 4 * 3 + 3  # with 4 channels on 20 cells
    size = f"4 channels x 1 residual block, {stem + block + heads + policy + value + ownership:,} parameters"
    card = export.model_card("net", load_checkpoint(path), "mit", None, 2.4e-6)
    for part in (size, "its probabilities are within 3e-06 of PyTorch's", "Not measured"):
        assert part in card


@pytest.mark.parametrize(
    "provenance", [{"functions": {"gate": "mine.gate"}}, {"started_from": {"functions": {"gate": "mine.gate"}}}]
)
def test_the_model_card_names_functions_of_the_training(provenance: dict[str, Any], checkpoint: Path) -> None:
    loaded, report = load_checkpoint(checkpoint), Mock(subjects=[Mock(budgets=[])])
    assert "it was not used in training" in export.model_card("net", loaded, "mit", report, 0.0)
    card = export.model_card("net", dataclasses.replace(loaded, provenance=provenance), "mit", report, 0.0)
    assert "it was not used in training" not in card
    assert "Functions of the user replaced parts of the training: `mine.gate`. The positions" in card


@pytest.mark.parametrize("kind", ["--license mit --hub", "--kaggle main.py --web"])
def test_an_existing_folder_is_not_replaced(
    kind: str, tmp_path: Path, error_line: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else is written either."""
    monkeypatch.chdir(tmp_path)
    save_small(tmp_path / "small.safetensors")
    assert f"{tmp_path} exists already" in error_line(f"export small.safetensors {kind}", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["small.safetensors"]


@pytest.mark.parametrize(
    ("license_options", "message"),
    [
        ("", "choose a licence"),
        ("--license MIT", "an identifier of the hub, such as mit or cc-by-4.0, not 'MIT'"),
        ("--license mit", "--hub needs huggingface_hub: ./scripts/setup.sh hub"),
    ],
)
def test_an_export_to_the_hub_needs_a_licence_and_its_library(
    license_options: str, message: str, tmp_path: Path, error_line: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them, no other form is written either."""
    save_small(tmp_path / "other.safetensors")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.chdir(tmp_path)
    assert message in error_line(f"export other.safetensors --kaggle main.py --hub out {license_options}")
    assert [path.name for path in tmp_path.iterdir()] == ["other.safetensors"]


@pytest.mark.parametrize(("license_id", "has_license"), [("mit", True), ("cc0-1.0", False)])
def test_a_shipped_network_comes_with_the_projects_license(
    license_id: str, has_license: bool, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "load_checkpoint", lambda _name: load_checkpoint(checkpoint))
    monkeypatch.setattr(export, "measure_strength", lambda *_args, **_options: Mock(subjects=[Mock()]))
    monkeypatch.setattr(export, "export_onnx", lambda *_args: 0.0)
    monkeypatch.setattr(export, "model_card", lambda *_args: "card")
    monkeypatch.setattr(dataclasses, "replace", lambda subject, **_changes: subject)
    export.export_hub(Path("quick"), tmp_path / "new", license_id)
    assert (tmp_path / "new" / "LICENSE").exists() == has_license
