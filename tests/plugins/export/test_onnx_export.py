"""ONNX files: exported networks."""

import json
import random
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import as_if_trained, assert_leaves_no_trace
from naive import naive_planes, random_board

from alphac4.cli import main
from alphac4.game import make_board
from alphac4.nn.backends import random_boards
from alphac4.nn.config import NetworkConfig, NetworkSize, PlanesName
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.plugins.export import onnx as export
from alphac4.storage.checkpoints import Checkpoint, save_checkpoint

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


def trained(rows: int = 6, columns: int = 7, planes: PlanesName = "stones") -> PolicyValueNetwork:
    size = NetworkSize(planes=planes, channels=8, blocks=2)
    return as_if_trained(NetworkConfig(rows=rows, columns=columns, ownership=True, **asdict(size)))


@pytest.mark.parametrize("shape", [(6, 7, 4, True), (4, 4, 3, True), (5, 6, 4, False), (31, 2, 4, True)])
def test_planes_of_lines_agree_with_a_naive_reading_of_the_board(shape: tuple[int, int, int, bool]) -> None:
    rows, columns, run, diagonals = shape
    to_lines, rng = export.LinePlanes(make_board(*shape)), random.Random(1)
    for plies in [rng.randrange(rows * columns + 1) for _ in range(250)]:
        stacks, _ = random_board(rng, rows, columns, plies)
        expected = torch.tensor(naive_planes(stacks, rows, run, diagonals))
        assert torch.equal(to_lines(expected[None, :2])[0], expected)


@pytest.mark.parametrize(("shape", "kind"), [((6, 7, 4, True), "stones"), ((4, 5, 3, False), "lines")])
def test_an_exported_file_evaluates_as_the_network(
    shape: tuple[int, int, int, bool], kind: PlanesName, tmp_path: Path
) -> None:
    """Batches have any size. The file names its board, and takes planes of stones for all networks."""
    board, network = make_board(*shape), trained(*shape[:2], kind)
    source, target = tmp_path / "net.safetensors", tmp_path / "deep" / "ours.onnx"
    save_checkpoint(source, Checkpoint(network=network, board=board))
    assert main(["export", str(source), "--onnx", str(target)]) == 0
    session = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["policy", "wdl"]
    planes = random_boards(board, 7, np.random.default_rng(0), network.config.input_planes)
    exact = Evaluator(network, backend="torch-fp32", device="cpu")
    for count in (1, 3, 7):
        for ours, theirs in zip(
            session.run(None, {"planes": planes[:count, :2]}), exact.evaluate(planes[:count]), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert b".py" not in target.read_bytes(), "it has no paths of the machine that wrote it"
    properties = {item.key: item.value for item in onnx.load(target).metadata_props}
    assert json.loads(properties["board"]) == dict(
        zip(("rows", "columns", "run_length", "diagonals"), shape, strict=True)
    )


@pytest.mark.parametrize("head", ["policy", "value"])
def test_a_file_with_different_outputs_is_not_written(
    head: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error_line: Callable[..., str]
) -> None:
    """One logit of one head is a little too large."""
    source, target = tmp_path / "net.safetensors", tmp_path / "net.onnx"
    network = trained()
    save_checkpoint(source, Checkpoint(network=network))
    with torch.no_grad():
        getattr(network, head).bias[0] += 0.01
    other = export.onnx_bytes(Checkpoint(network=network))
    target.write_bytes(other)
    monkeypatch.setattr(export, "onnx_bytes", lambda _checkpoint: other)
    assert "was not written: the outputs of ONNX differ" in error_line(f"export {source} --overwrite --onnx {target}")
    assert target.read_bytes() == other


def test_a_missing_package_is_noticed_before_any_file_is_written(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error_line: Callable[..., str]
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    error = error_line(f"export {checkpoint} --kaggle {tmp_path}/main.py --onnx {tmp_path}/net.onnx")
    assert error.endswith("ONNX needs onnxscript: ./scripts/setup.sh onnx")
    assert list(tmp_path.iterdir()) == [checkpoint]


def test_a_file_with_outputs_that_are_not_finite_is_not_written(tmp_path: Path, error_line: Callable[..., str]) -> None:
    """The weights are finite, but their products overflow. The policy is correct."""
    network, source = trained(), tmp_path / "net.safetensors"
    torch.nn.init.constant_(network.value.weight, 3e38)
    save_checkpoint(source, Checkpoint(network=network))
    assert "was not written: the outputs of ONNX differ" in error_line(f"export {source} --onnx {tmp_path}/net.onnx")
    assert not (tmp_path / "net.onnx").exists()


@pytest.mark.parametrize(
    ("deviation", "text"), [(1.31e-6, "2e-06"), (1e-6, "1e-06"), (9.01e-7, "1e-06"), (0.0, "0e+00")]
)
def test_the_bound_of_a_deviation_is_rounded_up(deviation: float, text: str) -> None:
    assert export.format_bound(deviation) == text
    assert float(text) >= deviation


def test_an_export_uses_onnxruntime_without_its_telemetry(tmp_path: Path) -> None:
    """Otherwise it writes an identifier and an open database to the user's folder."""
    assert_leaves_no_trace("from alphac4.plugins.export import onnx; onnx.import_onnx().IR_VERSION", tmp_path / "home")
