"""Metrics against exact play, sets of positions, the command `evaluate`, and `scripts/positions.py`."""

import dataclasses
import hashlib
import itertools
import json
import math
import re
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import naive
import numpy as np
import pytest
import torch
from helpers import Terminal, load_script, new_threads_end, save_untrained

from alphac4.arena.players import NetworkPlayer, RandomPlayer
from alphac4.bars import Bar
from alphac4.cli import main
from alphac4.compute import choose_compute
from alphac4.evaluation import metrics
from alphac4.evaluation.measurement import MeasurementPlan, measure_strength, untrained_copy
from alphac4.evaluation.metrics import (
    Estimate,
    Metrics,
    ReliabilityBin,
    ValueMetrics,
    collect_answers,
    judge,
    judge_sets,
    mean,
    proportion,
)
from alphac4.evaluation.pictures import draw
from alphac4.evaluation.positions import (
    SETS,
    choose_sets,
    join_sets,
    load_positions,
    packaged_positions,
    parse_positions,
)
from alphac4.evaluation.report import BudgetReport, StrengthReport, SubjectReport
from alphac4.game import Position, make_board
from alphac4.mcts.network_search import NetworkSearch, UniformEvaluator
from alphac4.mcts.puct import Puct
from alphac4.mcts.search import Budget
from alphac4.nn.config import NetworkConfig
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.solver import Solver
from alphac4.storage.checkpoints import Checkpoint
from alphac4.storage.files import FileError

# A won, a drawn, a lost and a won position; no move is a mistake in the last two. In the first, 4 completes the bottom
# row. The scores are invented for the test.
LINES = [
    "112233 -2 0 1 18 0 -3 -1",
    "4 -4 -2 0 0 0 -2 -4",
    "44 -1 -1 -2 -1 -3 -1 -1",
    "444444 1 2 3 . 3 2 1",
]


def scores_of(row: np.ndarray) -> list[int | None]:
    return [None if score == -128 else int(score) for score in row]


def test_move_metrics_agree_with_computation_by_hand() -> None:
    """A win given away, a draw kept, a loss made faster, a win made slower: one mistake in four moves."""
    positions = parse_positions(LINES, "lines", "by hand")
    assert positions.decisive.tolist() == [True, True, False, False]
    metrics = judge(positions, np.array([1, 2, 4, 0]))
    assert (metrics.mistakes.value, metrics.mistakes.count) == (0.25, 4)
    assert metrics.fastest_moves.value == 0.25  # only the draw
    assert metrics.score_loss.value == (18 + 0 + 2 + 2) / 4
    assert (metrics.mistakes_in_decisive.value, metrics.mistakes_in_decisive.count) == (0.5, 2)
    best = judge(positions, np.array([3, 3, 6, 4]))
    assert (best.mistakes.value, best.fastest_moves.value, best.score_loss.value) == (0.0, 1.0, 0.0)


def test_value_metrics_agree_with_computation_by_hand() -> None:
    """Outcomes 1, 0, -1, 1 against 0.5, 0.5, -1, 0.9: where 0.5 was predicted twice, the mean outcome is 0.5."""
    positions = parse_positions(LINES, "lines", "by hand")
    metrics = judge(positions, np.array([3, 3, 6, 4]), np.array([0.5, 0.5, -1.0, 0.9])).value
    assert metrics is not None
    assert metrics.absolute_error.value == pytest.approx((0.5 + 0.5 + 0.0 + 0.1) / 4)
    assert [(b.predicted, b.outcome, b.count) for b in metrics.bins] == [(-1.0, -1.0, 1), (0.5, 0.5, 2), (0.9, 1.0, 1)]
    assert metrics.calibration_error == pytest.approx(0.1 / 4)
    assert all(b.low <= b.predicted <= b.high for b in metrics.bins)


def test_intervals_agree_with_textbook_values() -> None:
    """Wilson's interval for 2 of 10 is [0.0567, 0.5098]; that of a mean is +- 1.96 standard errors."""
    two, none = proportion(np.arange(10) < 2), proportion(np.zeros(20, bool))
    assert (two.low, two.high, none.low, none.high) == pytest.approx((0.0567, 0.5098, 0.0, 0.1611), abs=1e-4)
    average = mean(np.array([1.0, 2.0, 3.0]))
    assert average.stderr == pytest.approx(1 / 3**0.5)
    assert average.high == pytest.approx(2 + 1.959964 / 3**0.5)
    assert proportion(np.zeros(0, bool)).count == 0


def test_moves_and_values_belong_to_their_positions(rng: np.random.Generator) -> None:
    """Their sign and order are those of the player, in any number of batches."""
    sets = packaged_positions(40)
    positions, outcomes = join_sets(sets).positions, join_sets(sets).best_outcome
    values = outcomes * rng.uniform(0, 1, len(positions))
    moves = [int(rng.choice(position.legal_columns())) for position in positions]
    answers = dict(zip(positions, zip(moves, values, strict=True), strict=True))

    class KnownPlayer(NetworkPlayer):
        def search(self, batch: Sequence[Position], _budget: Budget | None = None) -> SimpleNamespace:
            found = np.array([answers[position] for position in batch])
            return SimpleNamespace(moves=found[:, 0].astype(int), value=found[:, 1])

    player = KnownPlayer("known", NetworkSearch(UniformEvaluator()), Budget(simulations=1))
    batches: list[int] = []

    def on_batch(size: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        batches.append(size)

    for copies in (1, 3):
        batches.clear()
        found = collect_answers([player] * copies, sets, on_batch)
        assert len(batches) >= copies
        assert sum(batches) == len(found[0])
        np.testing.assert_array_equal(found[0], moves)
        np.testing.assert_array_equal(found[1], values)
    judged = judge_sets(sets, *found)["all"].value
    assert judged is not None
    assert judged.absolute_error.value == pytest.approx(np.abs(outcomes - values).mean())


def test_collecting_answers_ends_at_the_first_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for a player get one, so that all of them end."""

    class Failing(RandomPlayer):
        def choose(self, positions: Sequence[Position]) -> list[int]:
            raise RuntimeError(f"no idea about {len(positions)}")

    monkeypatch.setattr(metrics, "BATCH", 16)
    players = [Failing(np.random.default_rng(0)) for _ in range(2)]
    with new_threads_end(), pytest.raises(RuntimeError, match="no idea about 16"):
        collect_answers(players, packaged_positions(40))


def test_an_illegal_answer_is_rejected() -> None:
    """Without a check, column -1 would count as the last one."""

    class Odd(RandomPlayer):
        def choose(self, positions: Sequence[Position]) -> list[int]:
            return [-1] * len(positions)

    with pytest.raises(ValueError, match=r"illegal move -1 \(columns count from 0\).*player random"):
        collect_answers([Odd(np.random.default_rng(0))], packaged_positions(2))


@pytest.fixture(scope="module")
def maker() -> Any:
    return load_script("positions")


def test_packaged_sets_match_their_names_and_the_solvers_scores(maker: Any) -> None:
    """The sample has few early positions, because solving them takes long. Late outcomes agree with plain minimax."""
    sets, solver = packaged_positions(), Solver()
    assert [part.name for part in sets] == list(SETS)
    for part in sets:
        assert len(set(part.positions)) == len(part) >= 120
        names = {maker.set_of(p, int(best)) for p, best in zip(part.positions, part.best_score, strict=True)}
        assert names == {part.name}
        for index in range(0, len(part), len(part) if part.name.startswith("begin-") else 15):
            assert solver.analyze(part.positions[index]) == scores_of(part.scores[index])
    late = [index for index, position in enumerate(sets[5].positions) if position.plies >= 36]
    for index in late[:10]:
        board = naive.board_of(sets[5].positions[index].moves or "")
        assert naive.minimax(board, 6, 4)[0] == sets[5].best_outcome[index]


def test_wrong_scores_in_a_file_are_rejected(tmp_path: Path) -> None:
    """This holds for positions that are solved in milliseconds; the line and the exact score are named."""
    part = packaged_positions(1)[5]
    right = [str(score) if score != -128 else "." for score in part.scores[0]]
    column = next(column for column, text in enumerate(right) if text != ".")
    wrong = [*right[:column], str(int(right[column]) + 1), *right[column + 1 :]]
    path = tmp_path / "mine.columns"
    path.write_text(f"# mine\n{part.positions[0].moves} {' '.join(wrong)}\n")
    message = f"line 2: column {column + 1} has the score {wrong[column]}, but its exact score is {right[column]}"
    with pytest.raises(FileError, match=f"^{re.escape(f'{path}, {message}')}$"):
        load_positions(path)


def test_repeated_positions_in_a_file_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "mine.columns"
    path.write_text("112233 -2 -1 -1 18 -2 -2 -3\n44 -1 -1 -2 -1 -3 -1 -1\n332211 -2 -1 -1 18 -2 -2 -3\n")
    assert [position.moves for position in load_positions(path).positions] == ["112233", "44", "332211"]
    assert caplog.messages == [f"{path}: 1 of 3 lines repeat an earlier position; each line counts"]
    path.write_text("112233 -2 -1 -1 18 -2 -2 -3\n332211 -2 -1 -1 18 -2 -2 -4\n")
    with pytest.raises(FileError, match="line 2: an earlier line gives the same position other scores"):
        load_positions(path)


def test_making_positions_resumes_wherever_a_line_is_cut(
    maker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["positions.py", str(tmp_path), "--sets", "end-easy", "--count", "4"])
    path = tmp_path / "end-easy.columns"

    def write() -> str:
        maker.main()
        return path.read_text()

    text = write()
    assert len(load_positions(path)) == 4
    assert write() == text
    for end in range(0, len(text), 5):
        path.write_text(text[:end])
        assert write() == text


def test_sources_of_positions_are_files_named_after_public_sets(
    maker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "Test_L3_R1"
    source.write_text("2252576253462244111563365343671351441 -1\n7422341735647741166133573473242566 1\n4455 18\n")
    monkeypatch.setattr("sys.argv", ["positions.py", str(tmp_path), "--sources", str(source)])
    maker.main()
    made = load_positions(tmp_path / "end-easy.columns")
    assert {p.moves: best for p, best in zip(made.positions, made.best_score.tolist(), strict=True)} == {
        "2252576253462244111563365343671351441": -1,
        "7422341735647741166133573473242566": 1,
    }
    monkeypatch.setattr("sys.argv", ["positions.py", str(tmp_path), "--sources", str(tmp_path / "mine.txt")])
    with pytest.raises(SystemExit, match="2"):
        maker.main()


def test_report_is_printed_even_if_its_picture_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.svg"

    def fail(_report: object, path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("alphac4.evaluation.pictures.save_picture", fail)
    for option, expected in ([], "Mistakes"), (["--json"], '"subjects"'):
        assert main(["evaluate", "random", "--count", "1", *option, "--picture", str(path)]) == 2
        output = capsys.readouterr()
        assert expected in output.out
        assert output.err.startswith(f"alphac4 evaluate: {path}: No space left on device")


def test_evaluate_logs_once_how_long_it_takes_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("alphac4.bars.ESTIMATE_DELAY_S", 0.0)
    assert main(["evaluate", "random", "--references", "negamax:1", "--count", "2"]) == 0
    (message,) = (record.getMessage() for record in caplog.records if record.name == "alphac4.bars")
    assert re.fullmatch(r"about \d+ (seconds|minutes) left", message)


def test_bar_without_a_terminal_estimates_from_the_speed_so_far(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="alphac4.bars")
    clock = iter((100.0, 105.0, 160.0, 170.0))
    monkeypatch.setattr("alphac4.bars.time", SimpleNamespace(monotonic=lambda: next(clock)))
    with Bar(total=1000, initial=100, estimate=True) as bar:
        for done in (20, 80, 50):
            bar.update(done)
    assert caplog.messages == ["about 8 minutes left"]  # 800 more, where 100 took a minute


@pytest.fixture
def evaluate(run_command: Callable[..., str]) -> Callable[..., dict[str, Any]]:
    """Returns the JSON report of `alphac4 evaluate`; undefined numbers are null, never NaN."""

    def report(*arguments: object) -> dict[str, Any]:
        printed = run_command("evaluate --backend torch-fp32 --json", *arguments)
        return dict(json.loads(printed, parse_constant=lambda name: pytest.fail(name)))

    return report


def test_report_has_the_metrics_of_every_subject_set_and_budget(
    checkpoint: Path, network: PolicyValueNetwork, evaluate: Callable[..., dict[str, Any]]
) -> None:
    """They agree with those of the arena's player. Leaving out the untrained network changes nothing else."""
    arguments = [checkpoint, "--simulations", "8,0", "--count", "12", "--references", "random"]
    every = join_sets(packaged_positions(12))
    report = evaluate(*arguments)
    assert [subject["name"] for subject in report["subjects"]] == [str(checkpoint), "untrained", "random"]
    digest = hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    assert [subject["network_sha256"] for subject in report["subjects"]] == [digest, None, None]
    for subject in report["subjects"]:
        has_values = subject["name"] != "random"
        assert [budget["simulations"] for budget in subject["budgets"]] == ([0, 8] if has_values else [None])
        for budget in subject["budgets"]:
            assert list(budget["sets"]) == [*SETS, "all"]
        for budget, part in itertools.product(subject["budgets"], [*packaged_positions(12), every]):
            metrics = budget["sets"][part.name]
            decisive = part.decisive.sum()
            for kind, count in (
                ("mistakes", len(part)),
                ("fastest_moves", len(part)),
                ("mistakes_in_decisive", decisive),
            ):
                share = metrics[kind]
                assert 0 <= share["low"] <= share["value"] <= share["high"] <= 1
                assert share["count"] == count
            if has_values:
                assert sum(b["count"] for b in metrics["value"]["bins"]) == len(part)
            else:
                assert metrics["value"] is None

    sets, evaluator = packaged_positions(12), Evaluator(network, backend="torch-fp32", device="cpu")
    budgets = report["subjects"][0]["budgets"]
    for found in budgets:
        budget = Budget(simulations=found["simulations"])
        player = NetworkPlayer("x", NetworkSearch(evaluator), budget)
        for name, metrics in judge_sets(sets, *collect_answers([player], sets)).items():
            assert found["sets"][name]["mistakes"]["value"] == metrics.mistakes.value

    without, _ = evaluate(*arguments, "--no-untrained")["subjects"]
    assert [budget["sets"] for budget in without["budgets"]] == [budget["sets"] for budget in budgets]


def test_seed_of_an_evaluation_decides_random_choices() -> None:
    compute, sets = choose_compute("cpu", "torch-fp32", threads=1), packaged_positions(12)
    mistakes = []
    for seed in (0, 0, 1):
        measurement = MeasurementPlan(sets=sets, budgets=[0], seed=seed, compute=compute)
        (subject,) = measure_strength("random", measurement).subjects
        mistakes.append([figures.mistakes.value for figures in subject.budgets[0].sets.values()])
    assert mistakes[0] == mistakes[1] != mistakes[2]


def test_backend_of_a_measured_network_does_not_depend_on_references(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def order(config: NetworkConfig, *_arguments: object, **_options: object) -> list[str]:
        return ["torch-fp32" if config.channels == 32 else "torch-bf16"]

    monkeypatch.setattr("alphac4.nn.evaluator.backend_order", order)
    monkeypatch.setattr("alphac4.nn.evaluator.outputs_match", lambda *_: True)
    measurement = MeasurementPlan(sets=packaged_positions(2), budgets=[0], compute=choose_compute("cpu", threads=1))
    for references in ([], ["quick@1"]):
        report = measure_strength(str(checkpoint), measurement, references, untrained=False)
        backends = [subject.description.rpartition("by ")[2] for subject in report.subjects]
        assert backends == ["torch-bf16", "torch-fp32"][: 1 + len(references)]


@pytest.mark.parametrize("option", ["c-init=20", "proofs=off"])
def test_options_of_a_checkpoint_change_the_measured_search(
    option: str, checkpoint: Path, network: PolicyValueNetwork
) -> None:
    """The errors are those of a search with the same options, and differ from those with the defaults."""
    sets, budget = packaged_positions(8), Budget(simulations=200)
    measurement = MeasurementPlan(sets=sets, budgets=[200], compute=choose_compute("cpu", "torch-fp32", threads=1))
    evaluator = Evaluator(network, backend="torch-fp32", device="cpu")
    given: dict[str, Any] = {"c-init=20": {"selection": Puct(c_init=20)}, "proofs=off": {"proofs": False}}[option]
    expected = []
    for options in (given, {}):
        search = NetworkSearch(evaluator, **options)
        results = judge_sets(sets, *collect_answers([NetworkPlayer("x", search, budget)], sets))
        expected.append([errors(metrics) for metrics in results.values()])
    (subject,) = measure_strength(f"{checkpoint},{option}", measurement, untrained=False).subjects
    measured = [errors(metrics) for metrics in subject.budgets[0].sets.values()]
    np.testing.assert_allclose(measured, expected[0], rtol=1e-6)
    assert not np.allclose(measured, expected[1], rtol=1e-3)


def errors(metrics: Metrics) -> tuple[float, float]:
    """Return the rate of mistakes and the mean error of the values."""
    assert metrics.value is not None
    return metrics.mistakes.value, metrics.value.absolute_error.value


def test_untrained_copy_has_the_same_architecture_and_depends_only_on_the_seed(network: PolicyValueNetwork) -> None:
    """The global random state does not change."""
    state = torch.random.get_rng_state()
    first, again, other = (untrained_copy(Checkpoint(network=network), seed).network for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert first.config == network.config
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.policy.weight, other.policy.weight)
    assert not torch.equal(first.policy.weight, network.policy.weight)


def share(value: float, low: float, high: float, count: int) -> Estimate:
    return Estimate(value=value, low=low, high=high, stderr=math.nan, count=count)


def average(value: float, stderr: float) -> Estimate:
    return Estimate(value=value, low=math.nan, high=math.nan, stderr=stderr, count=20)


def a_bin(predicted: float, outcome: float, count: int) -> ReliabilityBin:
    return ReliabilityBin(low=math.nan, high=math.nan, predicted=predicted, outcome=outcome, count=count)


def report_by_hand() -> StrengthReport:
    """Return the report of a network with two budgets and a player without values, on one set; numbers are invented."""
    nothing = share(math.nan, math.nan, math.nan, 0)
    raw = Metrics(
        mistakes=share(0.25, 0.125, 0.5, 20),
        mistakes_in_decisive=share(0.375, 0.25, 0.5625, 16),
        fastest_moves=share(0.625, 0.5, 0.75, 20),
        score_loss=average(1.25, 0.5),
        value=ValueMetrics(
            absolute_error=average(0.3125, 0.0625),
            calibration_error=0.1875,
            bins=(a_bin(-0.5, -0.75, 12), a_bin(0.25, 0.5, 8)),
        ),
    )
    searched = Metrics(
        mistakes=share(0.05, 0.01, 0.08, 20),
        mistakes_in_decisive=share(0.0625, 0.01, 0.2, 16),
        fastest_moves=share(0.75, 0.5, 0.875, 20),
        score_loss=average(0.5, 0.25),
        value=ValueMetrics(
            absolute_error=average(0.125, 0.03), calibration_error=0.0625, bins=(a_bin(0.5, 0.625, 20),)
        ),
    )
    other = dataclasses.replace(raw, mistakes_in_decisive=nothing, value=None)
    budgets = [
        BudgetReport(simulations=number, sets={"end-easy": metrics, "all": metrics}, seconds=1.0)
        for number, metrics in ((0, raw), (64, searched), (None, other))
    ]
    return StrengthReport(
        subjects=[
            SubjectReport(name="best", description="8 channels", budgets=budgets[:2]),
            SubjectReport(name="random", description="", budgets=budgets[2:]),
        ]
    )


REPORT = """\
Mistakes in % of positions (± farther end of the 95 % interval)
simulations    end-easy         all
  positions          20          20
   decisive          16          16
best (8 channels)
    0 (raw) 25.0 ± 25.0 25.0 ± 25.0
         64   5.0 ± 4.0   5.0 ± 4.0
random
          - 25.0 ± 25.0 25.0 ± 25.0

The same in decisive positions, where at least one move is a mistake
simulations    end-easy         all
best (8 channels)
    0 (raw) 37.5 ± 18.8 37.5 ± 18.8
         64  6.2 ± 13.8  6.2 ± 13.8
random
          -           -           -

All positions together
simulations fastest too %  score lost value error calibration error
best (8 channels)
    0 (raw)   62.5 ± 12.5 1.25 ± 0.98 0.31 ± 0.12             0.188
         64   75.0 ± 25.0 0.50 ± 0.49 0.12 ± 0.06             0.062
random
          -   62.5 ± 12.5 1.25 ± 0.98           -                 -

Mistakes in 20 positions: 5.0 ± 4.0 % for best with 64 simulations, 25.0 ± 25.0 % for random."""


def test_report_equals_the_text_written_by_hand() -> None:
    report = report_by_hand()
    assert repr(report) == REPORT
    assert report.mistake_rates() == report.mistake_rates(64) == {"end-easy": 0.05, "all": 0.05}
    assert report.mistake_rates(0) == {"end-easy": 0.25, "all": 0.25}
    with pytest.raises(ValueError, match="measured with 0, 64 simulations, not with 8"):
        report.mistake_rates(8)


def test_picture_shows_the_data_of_the_report() -> None:
    easy, _, calibration = draw(report_by_hand()).axes[:3]
    assert easy.get_title() == "end-easy (20 positions)"
    ((curve, _, (bars,)),) = easy.containers
    assert np.asarray(curve.get_xydata()).tolist() == [[0, 25], [1, 5]]
    assert [tick.get_text() for tick in easy.get_xticklabels()] == ["raw", "64"]
    assert easy.get_ylim() == (0, 100)
    segments = [np.asarray(segment).ravel().tolist() for segment in bars.get_segments()]
    assert segments == [pytest.approx([0, 12.5, 0, 50]), pytest.approx([1, 1, 1, 8])]
    level = next(line for line in easy.lines if line.get_label() == "random")
    assert np.asarray(level.get_ydata()).tolist() == [25, 25]
    assert calibration.get_title() == "calibration: raw (dashed), 64"
    shown = [(line.get_linestyle(), np.asarray(line.get_xydata()).tolist()) for line in calibration.lines]
    assert shown[1:] == [("--", [[-0.5, -0.75], [0.25, 0.5]]), ("-", [[0.5, 0.625]])]  # after the diagonal
    assert "predicted value" in calibration.get_xlabel()
    assert "outcome" in calibration.get_ylabel()


def test_count_limits_the_positions_of_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.columns"
    path.write_text("\n".join([*LINES[:2], "a line that is not read"]))
    (part,) = choose_sets(files=[path], count=2)
    assert [position.moves for position in part.positions] == ["112233", "4"]
    assert part.scores.tolist() == [[-2, 0, 1, 18, 0, -3, -1], [-4, -2, 0, 0, 0, -2, -4]]


def test_report_for_another_board_is_printed_and_drawn(
    tmp_path: Path, evaluate: Callable[..., dict[str, Any]], run_command: Callable[..., str]
) -> None:
    path, positions = tmp_path / "small.safetensors", tmp_path / "my $_\\frac$.columns"  # not a formula
    save_untrained(path, make_board(4, 4, 3))
    positions.write_text("1234 4 3 4 -4\n11 2 2 3 -2\n")
    picture = tmp_path / "report.png"
    arguments = [path, "--positions", positions, "--simulations", "0,4"]
    budgets = evaluate(*arguments)["subjects"][0]["budgets"]
    assert [budget["sets"]["all"]["mistakes"]["count"] for budget in budgets] == [2, 2]
    assert "Mistakes in 2 positions:" in run_command("evaluate --backend torch-fp32 --picture", picture, *arguments)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_tables_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have all cells on any terminal; on a very narrow one they are split."""
    cells, heights = set(), []
    for width in (200, 80, 50):
        terminal = Terminal()
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setattr(sys, "stdout", terminal)
        assert main(["evaluate", "random", "--count", "2"]) == 0
        lines = terminal.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        rows = [line for line in lines if re.match(r" *- ", line)]
        cells.add(sum(line.count("±") for line in rows))
        heights.append(len(rows))
    assert len(cells) == 1
    assert heights[0] == heights[1] == 3 < heights[2]


def test_rate_is_null_in_a_set_without_decisive_positions(
    tmp_path: Path, checkpoint: Path, evaluate: Callable[..., dict[str, Any]]
) -> None:
    positions = tmp_path / "lost.columns"
    positions.write_text(f"{LINES[2]}\n")
    report = evaluate(checkpoint, "--positions", positions, "--simulations", "0")
    assert report["subjects"][0]["budgets"][0]["sets"]["lost"]["mistakes_in_decisive"]["value"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("other.safetensors", "standard board only; give files for other boards"),
        ("other.safetensors --positions seven.columns", "line 1: expected moves and a score for each of 6"),
        ("random --positions empty.columns", "empty.columns: contains no positions"),
    ],
)
def test_unsuitable_files_are_reported_in_one_line(
    arguments: str, message: str, error_line: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_untrained(Path("other.safetensors"), make_board(5, 6, 4))
    Path("seven.columns").write_text("44 1 1 1 1 1 1 1\n")
    Path("empty.columns").touch()
    assert message in error_line(f"evaluate {arguments}")


def test_evaluate_takes_the_sets_that_the_script_makes(
    maker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evaluate: Callable[..., dict[str, Any]]
) -> None:
    monkeypatch.setattr("sys.argv", f"positions.py {tmp_path} --sets end-easy middle-easy --count 5".split())
    maker.main()
    files = [tmp_path / f"{name}.columns" for name in ("end-easy", "middle-easy")]
    (subject,) = evaluate("solver", "--positions", *files)["subjects"]  # no untrained network
    assert list(subject["budgets"][0]["sets"]) == ["middle-easy", "end-easy", "all"]
    every = subject["budgets"][0]["sets"]["all"]
    assert (every["mistakes"]["value"], every["fastest_moves"]["value"]) == (0.0, 1.0)
