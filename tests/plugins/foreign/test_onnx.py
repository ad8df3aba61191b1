"""Networks of ONNX files, from any program."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from helpers import as_if_trained, assert_leaves_no_trace

import alphac4
from alphac4.arena.registry import common_board, parse_player, parse_searching_player
from alphac4.arena.tournament import parse_player_with, read_network
from alphac4.game import STANDARD, Position, make_board
from alphac4.game.planes import make_planes
from alphac4.mcts.search import Budget
from alphac4.nn.backends import random_boards
from alphac4.nn.config import NetworkConfig, PlanesName
from alphac4.nn.evaluator import Evaluator, softmax
from alphac4.plugins.foreign.onnx import OnnxEvaluator
from alphac4.storage.checkpoints import Checkpoint

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

Array = npt.NDArray[np.float32]
POLICY: Array = np.random.default_rng(1).normal(size=(84, 7)).astype(np.float32)
VALUE: Array = np.random.default_rng(2).normal(size=(84, 3)).astype(np.float32) / 4

OUTPUTS: dict[str, tuple[list[int], list[tuple[str, list[str], dict[str, int]]]]] = {
    # shape without the batch, and operators that compute it from "flat" [B, 84]
    "logits": ([7], [("MatMul", ["flat", "policy_weights"], {})]),
    "chances": ([7], [("MatMul", ["flat", "policy_weights"], {}), ("Softmax", [], {"axis": 1})]),
    "scalar": ([], [("MatMul", ["flat", "value_vector"], {}), ("Tanh", [], {})]),
    "column": ([1], [("MatMul", ["flat", "value_column"], {}), ("Tanh", [], {})]),
    "unbounded": ([1], [("MatMul", ["flat", "value_column"], {}), ("Exp", [], {})]),
    "wdl_logits": ([3], [("MatMul", ["flat", "value_weights"], {})]),
    "wdl_chances": ([3], [("MatMul", ["flat", "value_weights"], {}), ("Softmax", [], {"axis": 1})]),
    "ownership": ([84], [("Sigmoid", ["flat"], {})]),
}


def foreign(path: Path, outputs: Sequence[str], batch: int | str = "N", planes: int = 2, kind: str = "FLOAT") -> Path:
    """Write a linear network with these outputs, as another program might."""
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
        for index, (operator, inputs, attributes) in enumerate(operators):
            result = name if index == len(operators) - 1 else f"_{name}"
            nodes.append(helper.make_node(operator, inputs or [f"_{name}"], [result], **attributes))
        infos.append(helper.make_tensor_value_info(name, tensor.FLOAT, [batch, *shape]))
    board = helper.make_tensor_value_info("board", getattr(tensor, kind), [batch, planes, 6, 7])
    initial = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "foreign", [board], infos, initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("policy", ["logits", "chances"])
@pytest.mark.parametrize("value", ["scalar", "column", "wdl_logits", "wdl_chances"])
def test_networks_of_other_programs_are_evaluated(policy: str, value: str, tmp_path: Path) -> None:
    """The outputs match numpy's, in any order of the outputs, and with an unused one."""
    path = foreign(tmp_path / "net.onnx", [value, "ownership", policy])
    boards = random_boards(STANDARD, 9, np.random.default_rng(3))
    flat = boards.reshape(9, -1)
    logits, wdl = OnnxEvaluator(path).evaluate(boards)
    np.testing.assert_allclose(softmax(logits), softmax(flat @ POLICY), atol=1e-5)
    expected = softmax(flat @ VALUE)
    if value in ("scalar", "column"):
        value_only = np.tanh(flat @ VALUE[:, 0])
        expected = np.stack([(1 + value_only) / 2, np.zeros(9), (1 - value_only) / 2], axis=1)
    np.testing.assert_allclose(wdl, expected, atol=1e-5)


@pytest.mark.parametrize(("batch", "kind"), [(4, "FLOAT"), ("N", "FLOAT16"), (4, "BOOL")])
def test_fixed_batches_and_other_types_have_the_same_outputs(batch: int | str, kind: str, tmp_path: Path) -> None:
    """Nine positions are evaluated by files for one or four at a time, of half-precision floats, bytes or Booleans."""
    boards = random_boards(STANDARD, 9, np.random.default_rng(3))
    usual = OnnxEvaluator(foreign(tmp_path / "usual.onnx", ["logits", "scalar"])).evaluate(boards)
    other = OnnxEvaluator(foreign(tmp_path / "other.onnx", ["logits", "scalar"], batch, kind=kind)).evaluate(boards)
    for ours, theirs in zip(usual, other, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize(
    ("outputs", "planes", "message"),
    [
        (["logits", "scalar"], 3, r"takes board \[N, 3, 6, 7\]; expected one input of planes \[B, 2, rows, columns\]"),
        (["scalar", "ownership"], 2, r"gives scalar \[B\], ownership \[B, 84\] on 7 columns"),
        (["logits", "unbounded"], 2, r"net\.onnx returned a value of size .*; expected -1 \(lost\) to 1 \(won\)"),
    ],
)
def test_unsuitable_files_are_rejected_with_actual_and_expected_shapes(
    outputs: list[str], planes: int, message: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    path = foreign(tmp_path / "net.onnx", outputs, planes=planes)
    with pytest.raises(ValueError, match=message):
        parse_player(f"{path}@600", rng=rng)
    path.write_text("hello")
    with pytest.raises(ValueError, match=r"net\.onnx: cannot be read as ONNX"):
        parse_player(f"{path}@600", rng=rng)


@pytest.mark.parametrize(("shape", "kind"), [((6, 7, 4, True), "stones"), ((4, 5, 3, False), "lines")])
def test_an_exported_file_plays_as_the_network(
    shape: tuple[int, int, int, bool], kind: PlanesName, tmp_path: Path, rng: np.random.Generator
) -> None:
    """The file names its board."""
    export = pytest.importorskip("alphac4.plugins.export.onnx")
    pytest.importorskip("onnxscript")
    board, target = make_board(*shape), tmp_path / "ours.onnx"
    network = as_if_trained(
        NetworkConfig(rows=shape[0], columns=shape[1], ownership=True, planes=kind, channels=8, blocks=2)
    )
    export.export_onnx(Checkpoint(network=network, board=board), target)
    exact = Evaluator(network, backend="torch-fp32", device="cpu")
    assert common_board(("random", f"{target}@5")) == board
    player = parse_searching_player(f"{target}@40,c-init=2", rng=rng, board=board)
    positions = [Position.from_moves(moves, board) for moves in ("", "33", "331")]
    result = player.search(positions, Budget(simulations=0))
    nothing = np.zeros(1, np.uint64)
    logits, wdl = exact.evaluate(make_planes(board, nothing, nothing, network.config.input_planes))
    np.testing.assert_allclose(result.priors[0], softmax(logits)[0], atol=1e-4)
    assert result.value[0] == pytest.approx(wdl[0, 0] - wdl[0, 2], abs=1e-4)
    assert player.choose(positions) == list(player.search(positions).moves)


def test_missing_file_with_a_very_long_name_is_reported() -> None:
    pytest.importorskip("onnxruntime", reason="needs pip install 'alphac4[onnx]'")
    with pytest.raises(ValueError, match="no such file"):
        alphac4.load("x" * 5000 + ".onnx")


def test_network_is_sent_to_processes_that_lack_its_file(tmp_path: Path) -> None:
    path = foreign(tmp_path / "net.onnx", ["logits", "scalar"])
    network = read_network(f"{path}@5")
    here = parse_player(f"{path}@5", rng=np.random.default_rng(0)).choose([Position()])
    path.unlink()
    there = parse_player_with(network, f"{path}@5", rng=np.random.default_rng(0))
    assert (there.name, there.choose([Position()])) == ("network@5", here)


def test_onnxruntime_loads_a_network_without_its_telemetry(tmp_path: Path) -> None:
    """Otherwise it writes an identifier and an open database to the user's folder."""
    path = foreign(tmp_path / "net.onnx", ["logits", "scalar"])
    assert_leaves_no_trace("import alphac4; alphac4.load(sys.argv[1] + '@2').search('44')", tmp_path / "home", path)
