import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from alphac4.checkpoint import Checkpoint, save_checkpoint
from alphac4.cli import main
from alphac4.export import onnx as export
from alphac4.game import make_geometry
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")


def trained_a_little(rows: int, columns: int) -> PolicyValueNetwork:
    """A network whose batch norms and outputs are not those of a new one."""
    torch.manual_seed(0)
    network = PolicyValueNetwork(NetworkConfig(rows=rows, columns=columns, channels=8, blocks=2, ownership=True))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        network.train()(torch.rand(64, 2, rows, columns))
    return network.eval()


@pytest.mark.parametrize("board", [(6, 7, 4), (4, 5, 3)])
def test_the_file_answers_as_the_network(board: tuple[int, int, int], tmp_path: Path) -> None:
    """Logits and probabilities for batches of any size, each row for itself; the metadata say what is what."""
    geometry, network = make_geometry(*board), trained_a_little(*board[:2])
    source, target = tmp_path / "net.safetensors", tmp_path / "deep" / "net.onnx"
    save_checkpoint(source, Checkpoint(network=network, geometry=geometry))
    assert main(["export", str(source), "--onnx", str(target)]) == 0
    session = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])
    planes = (np.random.default_rng(0).random((7, 2, *board[:2])) < 0.3).astype(np.float32)
    for count in (1, 3, 7):
        batch = planes[:count]
        policy, wdl = session.run(None, {"planes": batch})
        expected_policy, expected_value = network(torch.from_numpy(batch))
        np.testing.assert_allclose(policy, expected_policy.detach().numpy(), atol=1e-4)
        np.testing.assert_allclose(wdl, torch.softmax(expected_value, 1).detach().numpy(), atol=1e-5)
    properties = {item.key: item.value for item in onnx.load(target).metadata_props}
    assert json.loads(properties["board"]) == {
        "rows": board[0], "columns": board[1], "run_length": board[2], "diagonals": 1,
    }  # fmt: skip
    assert [output.name for output in session.get_outputs()] == ["policy", "wdl"]


def test_a_file_that_would_answer_otherwise_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, and what was there before stays."""
    source, target = tmp_path / "net.safetensors", tmp_path / "net.onnx"
    save_checkpoint(source, Checkpoint(network=trained_a_little(6, 7)))
    target.write_text("old")
    other = export.onnx_bytes(Checkpoint(network=PolicyValueNetwork(NetworkConfig(channels=8, blocks=1)).eval()))
    monkeypatch.setattr(export, "onnx_bytes", lambda _checkpoint: other)
    assert main(["export", str(source), "--onnx", str(target)]) == 2
    assert "is not written: ONNX would answer otherwise" in capsys.readouterr().err.splitlines()[-1]
    assert target.read_text() == "old"


def test_without_the_packages_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And how to install them."""
    source = tmp_path / "net.safetensors"
    save_checkpoint(source, Checkpoint(network=trained_a_little(6, 7)))
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["export", str(source), "--onnx", str(tmp_path / "net.onnx")]) == 2
    assert "pip install 'alphac4[onnx]'" in capsys.readouterr().err.splitlines()[-1]
