import dataclasses
import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from hub_stand_in import serve_hub

from alphac4 import hub
from alphac4.checkpoint import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint, shipped_checkpoint
from alphac4.cli import main
from alphac4.compute import choose
from alphac4.evaluation import positions
from alphac4.evaluation.positions import packaged_positions
from alphac4.export import card_figures
from alphac4.export.model_card import CardFacts, model_card
from alphac4.game import make_geometry
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork

huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs pip install 'alphac4[hub]'")
pytest.importorskip("onnx", reason="needs pip install 'alphac4[onnx]'")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

PROJECT = Path(__file__).resolve().parents[1]

PROVENANCE = {
    "run": "mine",
    "iteration": 3,
    "seconds": 754,
    "games": 1234,
    "evaluations": 567890,
    "config": {"seed": 5},
}


def save_small(path: Path, rows: int = 6, columns: int = 7, run_length: int = 4, channels: int = 4) -> None:
    """A network that has learned nothing."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        network = PolicyValueNetwork(NetworkConfig(rows=rows, columns=columns, channels=channels, blocks=1)).eval()
    strength = {"elo": {"value": 1.0, "error": 2.0}, "uct:1000": {"games": 100, "score": 0.845}}
    geometry = make_geometry(rows, columns, run_length)
    save_checkpoint(path, Checkpoint(network=network, geometry=geometry, provenance=PROVENANCE, strength=strength))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small network, with the report of an evaluation beside it."""
    folder = tmp_path_factory.mktemp("exported")
    save_small(folder / "net.safetensors")
    notes = folder / "notes.md"
    notes.write_text("It plays **too fast** after 4444.")
    report = folder / "report.json"
    evaluate = ["evaluate", str(folder / "net.safetensors"), "--simulations", "0,4", "--count", "20", "--no-twin"]
    assert main([*evaluate, "--backend", "torch-fp32", "--json", str(report)]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(card_figures, "packaged_positions", partial(packaged_positions, 3))
        patch.setattr(card_figures, "choose", partial(choose, backend="torch-fp32"))
        options = ["--license", "mit", "--notes", str(notes), "--evaluation", str(report)]
        assert main(["export", str(folder / "net.safetensors"), "--hub", str(folder / "ready"), *options]) == 0
    return folder


def test_the_hubs_library_reads_the_card(exported: Path) -> None:
    """Its metadata hold licence, library and an error rate for every set and budget, which are the evaluation's."""
    card = huggingface_hub.ModelCard.load(exported / "ready" / "README.md")
    assert (card.data.license, card.data.library_name, card.data.model_name) == ("mit", "alphac4", "net")
    assert {"alphazero", "connect-four", "onnx"} <= set(card.data.tags)
    report = json.loads((exported / "report.json").read_text())
    expected = {
        (f"connect-four-{name}", f"move-error-rate-{budget['simulations']}"): figures["moves"]["error"]["value"]
        for budget in report["subjects"][0]["budgets"]
        for name, figures in budget["sets"].items()
    }
    found = {(result.dataset_type, result.metric_type): result.metric_value for result in card.data.eval_results}
    assert found == pytest.approx(expected, abs=1e-5)
    assert json.loads((exported / "ready" / "evaluation.json").read_text()) == report


def test_the_card_tells_what_the_checkpoint_records(exported: Path) -> None:
    """Cost, closing match and the owner's notes; of a licence that is the owner's there is no text."""
    text = (exported / "ready" / "README.md").read_text()
    assert "3 iterations, 12.6 minutes, 1,234 games, 567,890 network evaluations" in text
    assert "84.5 % of the points against `uct:1000` in 100 games" in text
    assert "It plays **too fast** after 4444." in text
    assert not (exported / "ready" / "LICENSE").exists()


def cost_on_card(checkpoint: Checkpoint) -> str:
    """What the card says of how its training began."""
    facts = CardFacts(
        name="net", checkpoint=checkpoint, license_id="mit", license_file=False, figures=None, notes="", deviation=0.0
    )
    return next(line for line in model_card(facts).splitlines() if line.startswith("The run began"))


def test_the_card_tells_what_a_shipped_network_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the cost that `checkpoints/README.md` has for it; a network whose start is unknown, or not here, says so."""
    best = load_checkpoint(Path("best"))
    text = cost_on_card(best)
    figures = (PROJECT / "checkpoints" / "README.md").read_text().partition("## former-standard.safetensors")[2]
    minutes, games = re.findall(r"took \| ([\d.]+) minutes: .*?, ([\d,]+) games", figures)[0]
    assert f"the shipped `former-standard`: 44 iterations, {minutes} minutes, {games} games" in text
    assert f"both together took {(4958 + 3463) / 60:.1f} minutes" in text
    unknown = "The run began with a network then called `best`, whose cost is not recorded here."
    assert cost_on_card(dataclasses.replace(best, provenance={**best.provenance, "run": "mine"})) == unknown

    def missing(name: str) -> Path:
        if name == "former-standard":
            raise CheckpointError("not here")
        return shipped_checkpoint(name)

    monkeypatch.setattr("alphac4.export.model_card.shipped_checkpoint", missing)
    assert cost_on_card(best) == unknown


def test_the_known_errors_are_errors(exported: Path) -> None:
    """By the scores in the package's files, for each move that the card lists; there is at least one."""
    sets = Path(positions.__file__).parent / "sets"
    lines = [line.split(" ") for path in sets.glob("*.columns") for line in path.read_text().splitlines()]
    scores = {moves: rest for moves, *rest in lines}
    text = (exported / "ready" / "README.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `") and "which" in line]
    assert rows
    does = {"wins": 1, "draws": 0, "loses": -1}
    for moves, plays, which, better in rows:
        signs = {
            column: (int(score) > 0) - (int(score) < 0)
            for column, score in enumerate(scores[moves.strip("`")], start=1)
            if score != "."
        }
        columns, _, outcome = better.partition(", which ")
        keep = {column for column, sign in signs.items() if sign == does[outcome]}
        assert signs[int(plays)] == does[which]
        assert does[which] < does[outcome] == max(signs.values())
        assert {int(column) for column in columns.split(", ")} == keep


def test_an_uploaded_folder_is_a_network_by_its_name(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file is as it was exported; the ONNX file runs on its own."""
    files = {path.name: path.read_bytes() for path in (exported / "ready").iterdir()}
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    hub._download.cache_clear()
    with serve_hub({"me/net": files}) as (address, _):
        monkeypatch.setenv("HF_ENDPOINT", address)
        loaded = load_checkpoint(Path("hf://me/net"))
    hub._download.cache_clear()
    original = load_checkpoint(exported / "net.safetensors")
    for name, tensor in original.network.state_dict().items():
        assert torch.equal(loaded.network.state_dict()[name], tensor)
    assert loaded.provenance == PROVENANCE
    session = onnxruntime.InferenceSession(files["model.onnx"], providers=["CPUExecutionProvider"])
    assert [node.name for node in session.get_outputs()] == ["policy", "wdl"]
    assert json.loads(files["config.json"])["board"] == {"rows": 6, "columns": 7, "run_length": 4, "diagonals": True}


def test_an_earlier_export_is_replaced_and_nothing_else(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A card that its owner has changed stays; a network of another board is told to be not measured."""
    save_small(tmp_path / "small.safetensors", 4, 5, 3)
    arguments = ["export", str(tmp_path / "small.safetensors"), "--license", "mit", "--hub", str(tmp_path / "ready")]
    shutil.copytree(exported / "ready", tmp_path / "ready")
    assert main(arguments) == 0
    text = (tmp_path / "ready" / "README.md").read_text()
    assert "Not measured" in text
    assert "4 x 5 with runs of 3" in text
    assert 'agent.search("", simulations=600)' in text
    assert "alphac4 evaluate" not in text.partition("## Errors")[0]
    (tmp_path / "ready" / "README.md").write_text(text + "My own words.")
    assert main(arguments) == 2
    assert "holds README.md, which this program did not write as it is" in capsys.readouterr().err.splitlines()[-1]
    assert (tmp_path / "ready" / "README.md").read_text().endswith("My own words.")


@pytest.mark.parametrize("kind", ["--hub", "--web"])
def test_the_folder_that_one_stands_in_is_not_replaced(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor one above it: whatever runs there would find itself nowhere."""
    save_small(tmp_path / "small.safetensors", 4, 5, 3)
    (tmp_path / "here" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / "below")
    for name in (".", "..", str(tmp_path / "here")):
        licence = ["--license", "mit"] if kind == "--hub" else []
        assert main(["export", str(tmp_path / "small.safetensors"), kind, name, *licence]) == 2
        assert f"{name} would be replaced while you are in it" in capsys.readouterr().err
    assert Path.cwd() == tmp_path / "here" / "below"


def test_bad_input_is_told_before_anything_is_measured(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No licence, a report of another network, and a file that is no report: one line each, and no folder."""
    save_small(tmp_path / "other.safetensors", channels=8)
    twin = json.loads((exported / "report.json").read_text())
    assert len(twin["subjects"][0]["network"]) == 64
    twin["subjects"][0]["description"] = "8 channels x 1 blocks, by torch-fp32"
    (tmp_path / "twin.json").write_text(json.dumps(twin))
    (tmp_path / "broken.json").write_text('{"format": "alphac4 strength report 1", "subjects": [{"description": 3}]}')
    cases = [
        ([], "say under which licence"),
        (["--license", "mit", "--evaluation", str(exported / "report.json")], "not this network of 8 channels x 1"),
        (["--license", "mit", "--evaluation", str(tmp_path / "twin.json")], "measures the network of another file"),
        (["--license", "mit", "--evaluation", str(tmp_path / "broken.json")], "broken.json: description must be str"),
        (["--license", "mit", "--evaluation", str(tmp_path / "none.json")], "none.json: cannot be read"),
    ]
    for options, words in cases:
        assert main(["export", str(tmp_path / "other.safetensors"), "--hub", str(tmp_path / "out"), *options]) == 2
        assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out").exists()
