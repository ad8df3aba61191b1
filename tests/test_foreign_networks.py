from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from alphac4.arena.players import PlayerError
from alphac4.arena.specifications import common_geometry, parse_player, parse_searching_player
from alphac4.checkpoint import Checkpoint
from alphac4.export.onnx import export_onnx
from alphac4.game import STANDARD, Position, make_geometry
from alphac4.mcts import Budget, NetworkSearch
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork
from alphac4.nn.onnx_evaluator import OnnxError, OnnxEvaluator
from alphac4.nn.quantization import random_boards

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

Array = npt.NDArray[np.float32]
POLICY: Array = np.random.default_rng(1).normal(size=(84, 7)).astype(np.float32)
VALUE: Array = np.random.default_rng(2).normal(size=(84, 3)).astype(np.float32) / 4

OUTPUTS: dict[str, tuple[list[Any], list[tuple[str, Sequence[str], str, dict[str, Any]]]]] = {
    # the output's shape after the batch, and the operators that make it of "flat" [B, 84]
    "logits": ([7], [("MatMul", ["flat", "policy_weights"], "logits", {})]),
    "chances": (
        [7],
        [("MatMul", ["flat", "policy_weights"], "_logits", {}), ("Softmax", ["_logits"], "chances", {"axis": 1})],
    ),
    "scalar": ([], [("MatMul", ["flat", "value_vector"], "_sum", {}), ("Tanh", ["_sum"], "scalar", {})]),
    "column": ([1], [("MatMul", ["flat", "value_column"], "_sum", {}), ("Tanh", ["_sum"], "column", {})]),
    "unbounded": ([1], [("MatMul", ["flat", "value_column"], "_sum", {}), ("Exp", ["_sum"], "unbounded", {})]),
    "wdl_logits": ([3], [("MatMul", ["flat", "value_weights"], "wdl_logits", {})]),
    "wdl_chances": (
        [3],
        [("MatMul", ["flat", "value_weights"], "_wdl", {}), ("Softmax", ["_wdl"], "wdl_chances", {"axis": 1})],
    ),
    "ownership": ([84], [("Sigmoid", ["flat"], "ownership", {})]),
}


def foreign(path: Path, outputs: Sequence[str], batch: int | str = "N", planes: int = 2, kind: str = "FLOAT") -> Path:
    """A linear network by another program's hands, with these outputs."""
    helper, tensor = onnx.helper, onnx.TensorProto
    constants = {
        "shape": np.array([-1, planes * 42], np.int64),
        "policy_weights": np.resize(POLICY, (planes * 42, 7)),
        "value_weights": np.resize(VALUE, (planes * 42, 3)),
        "value_column": np.resize(VALUE[:, :1], (planes * 42, 1)),
        "value_vector": np.resize(VALUE[:, 0], planes * 42),
    }
    nodes = [
        helper.make_node("Cast", ["board"], ["floats"], to=tensor.FLOAT),
        helper.make_node("Reshape", ["floats", "shape"], ["flat"]),
    ]
    infos = []
    for name in outputs:
        shape, operators = OUTPUTS[name]
        nodes += [helper.make_node(kind, inputs, [made], **more) for kind, inputs, made, more in operators]
        infos.append(helper.make_tensor_value_info(name, tensor.FLOAT, [batch, *shape]))
    board = helper.make_tensor_value_info("board", getattr(tensor, kind), [batch, planes, 6, 7])
    initial = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "foreign", [board], infos, initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def softmax(logits: Array) -> Array:
    """By numpy."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


@pytest.mark.parametrize("policy", ["logits", "chances"])
@pytest.mark.parametrize("value", ["scalar", "column", "wdl_logits", "wdl_chances"])
def test_other_programs_networks_are_understood(policy: str, value: str, tmp_path: Path) -> None:
    """Against the same products by numpy, whatever the outputs' order, and with one more that nothing asks for."""
    path = foreign(tmp_path / "net.onnx", [value, "ownership", policy])
    boards = random_boards(6, 7, 9, np.random.default_rng(3))
    flat = boards.reshape(9, -1)
    logits, wdl = OnnxEvaluator(path).evaluate(boards)
    np.testing.assert_allclose(softmax(logits), softmax(flat @ POLICY), atol=1e-5)
    expected = softmax(flat @ VALUE)
    if value in ("scalar", "column"):
        known = np.tanh(flat @ VALUE[:, 0])
        expected = np.stack([(1 + known) / 2, np.zeros(9), (1 - known) / 2], axis=1)
    np.testing.assert_allclose(wdl, expected, atol=1e-5)
    np.testing.assert_allclose(wdl.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(("batch", "kind"), [(1, "FLOAT"), (4, "FLOAT"), ("N", "FLOAT16"), ("N", "UINT8"), (4, "BOOL")])
def test_fixed_batches_and_other_numbers_answer_the_same(batch: int | str, kind: str, tmp_path: Path) -> None:
    """Nine positions by a file that takes one or four at a time, as halves, bytes or truth values."""
    boards = random_boards(6, 7, 9, np.random.default_rng(3))
    usual = OnnxEvaluator(foreign(tmp_path / "usual.onnx", ["logits", "scalar"])).evaluate(boards)
    other = OnnxEvaluator(foreign(tmp_path / "other.onnx", ["logits", "scalar"], batch, kind=kind)).evaluate(boards)
    for ours, theirs in zip(usual, other, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_our_own_export_plays_as_the_checkpoint(tmp_path: Path, rng: np.random.Generator) -> None:
    """On its own board, which the file names; as a player with options, under the file's name."""
    geometry = make_geometry(5, 6, 4, diagonals=False)
    network = PolicyValueNetwork(NetworkConfig(rows=5, columns=6, channels=8, blocks=1)).eval()
    path = tmp_path / "ours.onnx"
    export_onnx(Checkpoint(network=network, geometry=geometry), path)
    assert common_geometry(("random", f"{path}@5")) == geometry
    player = parse_searching_player(f"{path}@40,c-init=2", rng=rng, geometry=geometry)
    assert player.name == "ours@40,c-init=2"
    positions = [Position.from_moves(moves, geometry) for moves in ("", "33", "331")]
    found = player.search(positions, Budget(simulations=0))
    expected = Evaluator(network, backend="torch-fp32")
    logits, wdl = expected.evaluate(np.zeros((1, 2, 5, 6), np.float32))
    np.testing.assert_allclose(found.priors[0], softmax(logits)[0], atol=1e-4)
    assert found.value[0] == pytest.approx(wdl[0, 0] - wdl[0, 2], abs=1e-4)
    assert player.choose(positions) == list(player.search(positions).moves)
    assert NetworkSearch(expected, geometry=geometry, rng=rng).search(positions, Budget(simulations=5)).visits.sum() > 0
    with pytest.raises(PlayerError, match="5 x 6 with runs of 4 without diagonals, not on 6 x 7"):
        parse_player(str(path), rng=rng, geometry=STANDARD)


@pytest.mark.parametrize(
    ("outputs", "planes", "told"),
    [
        (["logits", "scalar"], 3, r"takes board \[N, 3, 6, 7\]; expected one input of planes \[B, 2, rows, columns\]"),
        (["logits"], 2, r"gives logits \[B, 7\] on 7 columns; expected .* a policy \[B, columns\]"),
        (["scalar", "ownership"], 2, r"gives scalar \[B\], ownership \[B, 84\] on 7 columns"),
        (["logits", "chances", "scalar"], 2, r"gives logits \[B, 7\], chances \[B, 7\], scalar \[B\]"),
        (["logits", "unbounded"], 2, r"gives values up to .*, expected within \[-1, 1\]"),
    ],
)
def test_what_is_not_understood_is_refused_in_one_line(
    outputs: list[str], planes: int, told: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    """With the shapes found and those expected."""
    path = foreign(tmp_path / "net.onnx", outputs, planes=planes)
    with pytest.raises(PlayerError, match=told) as error:
        parse_player(f"{path}@600", rng=rng)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_no_file_and_no_network_are_reported_in_one_line(tmp_path: Path) -> None:
    """A missing file, and one that holds something else."""
    with pytest.raises(OnnxError, match="no such file"):
        OnnxEvaluator(tmp_path / "missing.onnx")
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(OnnxError, match="cannot be read as ONNX") as error:
        OnnxEvaluator(tmp_path / "text.onnx")
    assert "\n" not in str(error.value)
