import contextlib
import dataclasses
import io
import math
import re
import resource
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib import image
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

from alphac4.arena.match import MatchResult
from alphac4.game import make_board
from alphac4.runs.figures import game_figure
from alphac4.runs.reports import (
    HEADINGS,
    EvaluationReport,
    ExactPlayMetrics,
    IterationReport,
    TrainedRun,
    find_warnings,
    read_reports,
    time_shares,
)
from alphac4.runs.tensorboard import Monitor
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import Games, make_games
from alphac4.selfplay.samples import ActorStats, Block, join_blocks, make_samples
from alphac4.storage.records import to_json_line
from alphac4.training.config import TrainConfig
from alphac4.training.reports import GameRecord, LearningReport, SelfPlayReport, selfplay_report

# A game whose first two moves were random, and three iterations. The numbers are invented; related ones differ.
GAME = GameRecord(
    moves="4455667",
    opening_plies=2,
    values=[0.5, -0.25, 0.75, -0.5, 1.0],
    policies=[
        [0.0, 0.0, 0.0, 0.25, 0.75, 0.0, 0.0],
        [0.0, 0.04, 0.0, 0.0, 0.96, 0.0, 0.0],
        *([[0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.5]] * 3),
    ],
    outcome=1,
)
SELFPLAY = SelfPlayReport(
    games=8,
    samples=200,
    simulations=3000,
    evaluations=1500,
    cached_evaluations=500,
    seconds=2.0,
    network_share=0.5,
    tree_share=0.25,
    mean_plies=25.5,
    first_player_win_share=0.625,
    draw_share=0.125,
    first_moves=[1, 0, 0, 5, 2, 0, 0],
    openings={"4444": 3, "5555": 1},
    distinct_openings=6,
    target_entropy=1.25,
    policy_surprise=0.1875,
    value_calibration=[(-0.5, -0.75, 50), (0.25, 0.75, 150)],
    backend="torch-fp32",
    sample_games=[GAME],
)
LEARNING = LearningReport(
    steps=4,
    losses={"policy": 1.5, "value": 0.875},
    policy_entropy=1.625,
    gradient_norm=0.5625,
    learning_rate=0.004,
    window=300,
    seconds=3.0,
)
GATE = MatchResult(
    player="iteration 1",
    opponent="iteration 0",
    wins=5,
    draws=2,
    losses=1,
    seconds=1.0,
    promoted=True,
    pair_points=(2.0, 2.0, 1.5, 0.5),
)
CLASSIC = MatchResult(
    player="iteration 2",
    opponent="uct:1000",
    wins=6,
    draws=1,
    losses=3,
    seconds=0.5,
    pair_points=(2.0, 2.0, 1.5, 1.0, 0.0),
)
EVALUATION = EvaluationReport(
    positions=240,
    simulations=64,
    raw=ExactPlayMetrics(
        mistake_rate_by_set={"begin-hard": 0.5, "end-easy": 0.25},
        mistake_rate=0.375,
        ci_low=0.3,
        ci_high=0.45,
        value_error=0.6875,
    ),
    search=ExactPlayMetrics(
        mistake_rate_by_set={"begin-hard": 0.125, "end-easy": 0.0},
        mistake_rate=0.0625,
        ci_low=0.03,
        ci_high=0.1,
        value_error=0.4375,
    ),
)
FIRST = IterationReport(
    iteration=1,
    seconds_total=90.0,
    games_total=8,
    samples_total=200,
    evaluations_total=1500,
    selfplay=SELFPLAY,
    learning=LEARNING,
    gate=GATE,
    matches=[],
    best_iteration=1,
    memory_mb=800.0,
    time_shares={"learning": 0.375, "other": 0.6875},
    warnings=[],
    evaluation=EVALUATION,
    metrics={"temperature": 21.0},
)
SECOND = dataclasses.replace(
    FIRST,
    iteration=2,
    seconds_total=150.0,
    games_total=17,
    samples_total=401,
    evaluations_total=3003,
    matches=[CLASSIC, dataclasses.replace(CLASSIC, opponent="uct:9000", wins=2, losses=7)],
    best_iteration=2,
)
THIRD = dataclasses.replace(  # an iteration played elsewhere, without an evaluation and games of a gate
    SECOND,
    iteration=3,
    seconds_total=210.0,
    selfplay=dataclasses.replace(
        SELFPLAY,
        seconds_waited=1.5,
        statistics={"farm/nodes": 2, "farm/staleness": 0.75},
    ),
    gate=dataclasses.replace(GATE, wins=0, draws=0, losses=0, promoted=False),
    evaluation=None,
)
CURVES = {  # of the second iteration
    "Mistakes/raw": 0.375,
    "Mistakes/with search": 0.0625,
    "Mistakes/raw begin-hard": 0.5,
    "Mistakes/raw end-easy": 0.25,
    "Mistakes/with search begin-hard": 0.125,
    "Mistakes/with search end-easy": 0.0,
    "Strength/value error raw": 0.6875,
    "Strength/value error with search": 0.4375,
    "Strength/against uct:1000": 0.65,
    "Strength/against uct:9000": 0.25,
    "loss/policy": 1.5,
    "loss/value": 0.875,
    "metrics/temperature": 21.0,
    "learning/learning rate": 0.004,
    "learning/gradient norm": 0.5625,
    "learning/window": 300,
    "policy/target entropy": 1.25,
    "policy/network entropy": 1.625,
    "policy/surprise": 0.1875,
    "value/calibration error": (50 * 0.25 + 150 * 0.5) / 200,
    "games/plies": 25.5,
    "games/first player wins": 0.625,
    "games/draws": 0.125,
    "games/distinct openings": 6,
    "speed/simulations per second": 1500,
    "speed/evaluations per second": 750,
    "speed/cache hit share": 0.25,
    "speed/memory MB": 800,
    "gate/score": 0.75,
    "total/promotions": 2,
    "gate/best iteration": 2,
    "total/games": 17,
    "total/samples": 401,
    "total/evaluations": 3003,
    "total/minutes": 2.5,
    "time/learning": 0.375,
    "time/other": 0.6875,
}
LAST_CURVES = {  # further ones of the third iteration
    "Strength/closing match against uct:1000": 0.65,
    "farm/nodes": 2,
    "farm/staleness": 0.75,
}
CLOSING_TEXT = """\
Trained 3 iterations in 3.5 minutes: 17 games, 401 positions, 3,003 evaluations.
Mistakes by the exact solver: 37.5% raw, 6.2% with 64 simulations, in 240 positions.
At 100 simulations per move against uct:1000: 6 won, 1 drawn, 3 lost, 65.0% [31.4%, 98.6%].
2 of 3 candidates promoted.
The best network: best.safetensors"""


@pytest.mark.usefixtures("no_pictures")
def test_curves_have_the_values_of_the_reports(tmp_path: Path) -> None:
    monitor = Monitor(tmp_path, {}, make_board())
    for report in (FIRST, SECOND, THIRD):
        monitor.record(report)
    monitor.record_closing([CLASSIC], THIRD.iteration)
    monitor.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    points = {tag: {point.step: point.value for point in events.Scalars(tag)} for tag in events.Tags()["scalars"]}
    assert {tag: steps[2] for tag, steps in points.items() if 2 in steps} == pytest.approx(CURVES)
    assert {tag: steps[3] for tag, steps in points.items() if 2 not in steps} == pytest.approx(LAST_CURVES)
    assert points["total/promotions"] == {1: 1, 2: 2, 3: 2}
    assert points["Mistakes/raw"].keys() == points["gate/score"].keys() == {1, 2}
    layout = Layout.FromString(events.Tensors("custom_scalars__config__")[-1].tensor_proto.string_val[0])
    charts = {chart.title: list(chart.multiline.tag) for group in layout.category for chart in group.chart}
    assert {"Strength/against uct:1000", "Strength/closing match against uct:1000", "loss/policy"} < charts.keys()
    for title, patterns in charts.items():  # TensorBoard matches them at the beginning of a tag
        assert [tag for tag in points if any(re.match(pattern, tag) for pattern in patterns)] == [title]


def test_iteration_rows_are_aligned_with_the_headings() -> None:
    table = [*HEADINGS.splitlines(), FIRST.row(3), SECOND.row(4, FIRST), THIRD.row(3, FIRST), THIRD.row(13, FIRST)]
    assert table == [
        "                 mistakes points against          loss    evals            time",
        "iter    min    raw search  best  classic  policy value    per s  gate      left",
        "   1    1.5  37.5%   6.2%   75%            1.500 0.875      750  pass",
        "   2    2.5  37.5%   6.2%   75%  65% 25%   1.500 0.875      750  pass     2 min",
        "   3    3.5                      65% 25%   1.500 0.875      750",
        "   3    3.5                      65% 25%   1.500 0.875      750          10 min",  # without the first 90 s
    ]
    assert dataclasses.replace(SECOND, seconds_total=100.0).row(4, FIRST).endswith("  pass   < 1 min")


def test_closing_text_equals_the_text_written_by_hand() -> None:
    def text(*history: IterationReport, iterations: int | None = None) -> str:
        count = len(history) if iterations is None else iterations
        best, config = Path("best.safetensors"), TrainConfig()
        run = TrainedRun(
            folder=Path(),
            best_checkpoint=best,
            config=config,
            iterations=count,
            history=history,
            closing_matches=[CLASSIC],
        )
        return str(run)

    assert text(FIRST, SECOND, THIRD) == CLOSING_TEXT
    later = text(FIRST, SECOND, dataclasses.replace(THIRD, best_iteration=3))
    assert later == CLOSING_TEXT.replace("solver:", "solver after iteration 2:")
    assert text(FIRST).startswith("Trained 1 iteration in 1.5 minutes: 8 games,")
    assert text(SECOND, THIRD, iterations=3) == CLOSING_TEXT.replace("2 of 3 candidates promoted.\n", "")
    lost = "Trained 3 iterations; the report of the last one is missing.\nThe best network: best.safetensors"
    assert text(FIRST, SECOND, iterations=3) == text(iterations=3) == lost
    assert text() == "The best network: best.safetensors"


@pytest.mark.usefixtures("no_pictures")
def test_curves_of_a_resumed_run_do_not_depend_on_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run moves to a machine whose clock is behind, and then to one whose clock is between the two."""
    run = [dataclasses.replace(FIRST, iteration=number) for number in range(1, 7)]
    for clock, committed, recorded in ((2e9, 0, 3), (1e9, 2, 5), (1.5e9, 4, 6)):
        monkeypatch.setattr(time, "time", lambda now=clock: now)
        with contextlib.closing(Monitor(tmp_path, {}, make_board(), run[:committed])) as monitor:
            for report in run[committed:recorded]:
                monitor.record(report)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    points = [(point.step, point.wall_time) for point in events.Scalars("total/games")]
    assert points == [(1, 2e9), (2, 2e9), (3, 1e9), (4, 1e9), (5, 1.5e9), (6, 1.5e9)]


@pytest.mark.usefixtures("no_pictures")
def test_error_of_a_full_disk_names_the_folder_of_curves(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    monitor = Monitor(tmp_path, {}, make_board())
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (sum(path.stat().st_size for path in tmp_path.iterdir()), limits[1]))
        for write in (lambda: monitor.record_closing([CLASSIC], 1), monitor.close):
            with pytest.raises(OSError, match=rf"File too large: '{tmp_path}'"):
                write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_images_show_the_data_of_the_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *to, **how: (figures.append(figure), save(figure, *to, **how))
    )
    better = dataclasses.replace(EVALUATION, raw=EVALUATION.search, search=EVALUATION.raw)
    other = dataclasses.replace(FIRST, selfplay=dataclasses.replace(SELFPLAY, first_moves=[0, 0, 0, 0, 0, 0, 8]))
    monitor = Monitor(tmp_path, {}, make_board(), [other, dataclasses.replace(SECOND, evaluation=None)])
    monitor.record(dataclasses.replace(SECOND, iteration=3, evaluation=better))
    monitor.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    drawn = dict(zip(events.Tags()["images"], figures, strict=True))
    for tag, figure in drawn.items():
        (event,) = events.Images(tag)
        height, width, _ = image.imread(io.BytesIO(event.encoded_image_string)).shape
        assert (event.step, event.width, event.height) == (3, width, height)
        assert (figure.get_size_inches() * 100).round().tolist() == [width, height]
    assert list(drawn) == [
        "games/first moves",
        "games/openings",
        "value/calibration",
        "Mistakes/by set",
        "sample games/1",
    ]

    (axes,) = drawn["games/first moves"].axes
    assert [bar.get_height() for bar in axes.patches] == [12.5, 0, 0, 62.5, 25, 0, 0]  # % of 8 games
    assert (axes.get_title(), axes.get_ylabel()) == (
        "first move from the empty board",
        "% of games without random moves",
    )
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list("1234567")
    (axes,) = drawn["games/openings"].axes
    assert [bar.get_height() for bar in axes.patches] == [37.5, 12.5]  # 3 and 1 of 8 games
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["4444", "5555"]
    assert (axes.get_title(), axes.get_ylabel()) == ("the most frequent of 6 openings", "% of games")

    (axes,) = drawn["value/calibration"].axes
    (points,) = axes.collections
    assert np.asarray(points.get_offsets()).tolist() == [[-0.5, -0.75], [0.25, 0.75]]
    assert "root value" in axes.get_xlabel()
    assert "outcome" in axes.get_ylabel()

    panels = drawn["Mistakes/by set"].axes
    assert [axes.get_title() for axes in panels] == ["raw network", "64 simulations"]
    curves = [{line.get_label(): np.asarray(line.get_xydata()).tolist() for line in axes.lines} for axes in panels]
    assert curves == [
        {"all": [[1, 37.5], [3, 6.25]], "begin-hard": [[1, 50], [3, 12.5]], "end-easy": [[1, 25], [3, 0]]},
        {"all": [[1, 6.25], [3, 37.5]], "begin-hard": [[1, 12.5], [3, 50]], "end-easy": [[1, 0], [3, 25]]},
    ]


def test_boards_of_a_game_show_its_moves_policies_and_values() -> None:
    boards = game_figure(GAME, make_board(), moments=6, columns=2).axes
    assert [axes.get_title() for axes in boards] == [
        "3. red: +0.50",
        "4. yellow: -0.25",
        "5. red: +0.75",
        "6. yellow: -0.50",
        "7. red: +1.00",
        "end: red wins",
    ]
    red, yellow, white, empty = "#d7263d", "#f4c20d", "#ffffff", "#e9eef7"

    def circles(axes: Axes) -> list[tuple[tuple[float, float], str]]:
        """Return the centre (column, row from the bottom) and the colour of every circle that is not an empty cell."""
        every = [(patch.center, to_hex(patch.get_facecolor())) for patch in axes.patches if isinstance(patch, Circle)]
        return [(centre, colour) for centre, colour in every if colour != empty]

    assert circles(boards[0]) == [((3, 0), red), ((3, 1), yellow), ((3, 1), white)]  # a white dot marks the last move
    assert circles(boards[1]) == [((3, 0), red), ((4, 0), red), ((3, 1), yellow), ((4, 0), white)]
    for board, policy, colour in zip(boards[:2], GAME.policies, (red, yellow), strict=False):
        bars = [patch for patch in board.patches if isinstance(patch, Rectangle)][1:]  # after the board itself
        assert [bar.get_x() + bar.get_width() / 2 for bar in bars] == pytest.approx(range(7))
        assert [bar.get_height() / 2 for bar in bars] == pytest.approx(policy)
        assert {to_hex(bar.get_facecolor()) for bar in bars} == {colour}
    assert [(text.get_position()[0], text.get_text()) for text in boards[0].texts] == [(3, "25%"), (4, "75%")]
    assert [text.get_text() for text in boards[1].texts] == ["96%"]  # shares below 5 % have no label
    results = [
        game_figure(dataclasses.replace(GAME, outcome=outcome), make_board(), moments=2, columns=2).axes[-1]
        for outcome in (0, -1)
    ]
    assert [axes.get_title() for axes in results] == ["end: draw", "end: yellow wins"]


class TwoActors:
    """Two actors in this process."""

    backend, play_seconds, statistics = "torch-fp32", None, dict[str, float]()

    def __len__(self) -> int:
        return 2


def test_selfplay_report_agrees_with_computation_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check three games in two blocks, on a board of 2 x 4 cells with three in a row; they started 10 s ago."""
    board = make_board(2, 4, 3)
    games = make_games(3, board)
    for row, (moves, opening, outcome) in enumerate((("11223", 1, 1), ("12213", 3, 1), ("12341234", 0, 0))):
        games.plies[row], games.opening_plies[row], games.outcome[row] = len(moves), opening, outcome
        games.moves[row, : len(moves)] = [int(move) - 1 for move in moves]
    games.value[0, 1:5] = (-0.25, 0.5, -0.25, 1.0)  # for the side to move; the first player wins after 11223
    games.value[1, 3:5] = (-0.25, 1.0)
    games.surprise[:] = 0.25
    games.policy_target[:, :, 0] = 1.0
    games.policy_target[0, 1] = (0.5, 0.5, 0.0, 0.0)
    games.policy_target[1, :] = (0.25, 0.25, 0.25, 0.25)
    blocks = [
        Block(
            games=Games._make(array[rows] for array in games),
            stats=ActorStats(
                simulations=70, evaluations=40 + more, cached=20, network_seconds=6.0 + more, tree_seconds=3.0
            ),
        )
        for rows, more in ((slice(0, 1), 0), (slice(1, 3), 2))
    ]
    monkeypatch.setattr("alphac4.training.reports.time", SimpleNamespace(perf_counter=lambda: 110.0))
    actors: Any = TwoActors()
    samples = make_samples(board, SelfPlayConfig(), games)
    report = selfplay_report(board, join_blocks(blocks), samples, 100.0, actors)
    games_shown = sorted(report.sample_games, key=lambda game: game.moves)
    assert dataclasses.replace(report, sample_games=[], target_entropy=0.0) == SelfPlayReport(
        games=3,
        samples=4 + 2 + 8,
        simulations=140,
        evaluations=82,
        cached_evaluations=40,
        seconds=10.0,
        network_share=14.0 / 2 / 10,
        tree_share=6.0 / 2 / 10,
        mean_plies=18 / 3,
        first_player_win_share=2 / 3,
        draw_share=1 / 3,
        first_moves=[1, 0, 0, 0],  # without the games whose first move was random
        openings={"1122": 1, "1221": 1, "1234": 1},
        distinct_openings=3,
        target_entropy=0.0,
        policy_surprise=0.25,
        value_calibration=[(-0.25, -1.0, 3), (0.0, 0.0, 8), (0.5, 1.0, 1), (1.0, 1.0, 2)],
        backend="torch-fp32",
        sample_games=[],
    )
    assert report.target_entropy == pytest.approx((math.log(2) + 2 * math.log(4)) / 14)
    assert [(game.moves, game.opening_plies, game.outcome) for game in games_shown] == [
        ("11223", 1, 1),
        ("12341234", 0, 0),
    ]
    assert games_shown[0].values == [-0.25, 0.5, -0.25, 1.0]
    assert games_shown[0].policies == [[0.5, 0.5, 0, 0], *[[1, 0, 0, 0]] * 3]


def test_time_shares_agree_with_computation_by_hand() -> None:
    iteration: Any = SimpleNamespace(selfplay=SELFPLAY, learning=LEARNING, gate=GATE)
    assert time_shares(iteration, {"matches": 0.5}, 8.0) == {
        "self-play: network": 1.0 / 8,
        "self-play: tree": 0.5 / 8,
        "learning": 3.0 / 8,
        "gate": 1.0 / 8,
        "matches": 0.5 / 8,
        "other": 2.0 / 8,
    }
    iteration.selfplay = THIRD.selfplay
    shares = time_shares(iteration, {}, 8.0)
    assert (shares["self-play: waiting"], shares["other"]) == (1.5 / 8, 2.5 / 8)


def judged(error: float, iteration: int, like: IterationReport) -> IterationReport:
    """Return a report with the share ``error`` of mistakes in 240 positions, and half of it with search."""
    raw, search = (
        dataclasses.replace(EVALUATION.raw, mistake_rate=rate, ci_low=rate - half, ci_high=rate + half)
        for rate, half in ((rate, 1.96 * (rate * (1 - rate) / 240) ** 0.5) for rate in (error, error / 2))
    )
    evaluation = dataclasses.replace(EVALUATION, raw=raw, search=search)
    return dataclasses.replace(like, iteration=iteration, evaluation=evaluation)


def test_rise_of_mistakes_is_a_warning_if_the_gate_promotes() -> None:
    like = SECOND
    passed, refused = (dataclasses.replace(like.gate, promoted=accepted) for accepted in (True, False))
    history = [judged(0.3, 1, like), judged(0.05, 2, like), judged(0.1, 3, like)]
    warnings = find_warnings(dataclasses.replace(judged(0.2, 4, like), gate=passed), history)
    assert warnings == [
        f"the promoted network makes more mistakes: {change} after iteration 2"
        for change in (
            "raw, in 20.0% of the positions, up from 5.0%",
            "with 64 simulations, in 10.0% of the positions, up from 2.5%",
        )
    ]
    for gate, error in ((passed, 0.1), (refused, 0.2)):
        quiet = find_warnings(dataclasses.replace(judged(error, 4, like), gate=gate), history)
        assert not [warning for warning in quiet if "the promoted network makes more mistakes" in warning]


def test_a_lost_gate_is_a_warning_if_it_has_enough_games() -> None:
    like = SECOND
    for pairs, count in ((4, 0), (20, 1)):
        points = (0.0, 1.0) * (pairs // 2)
        gate = dataclasses.replace(like.gate, wins=pairs // 2, draws=0, losses=3 * pairs // 2, pair_points=points)
        found = find_warnings(dataclasses.replace(like, gate=gate), [])
        assert len([warning for warning in found if "it has become worse" in warning]) == count


def after_match(like: IterationReport, points: npt.NDArray[np.int_]) -> IterationReport:
    """Return a report with a match against classic MCTS; ``points`` [pairs] are those of its pairs of games."""
    wins, pairs = int(points.sum()), tuple(points.tolist())
    losses = 2 * len(points) - wins
    match = dataclasses.replace(like.gate, opponent="uct:1000", wins=wins, draws=0, losses=losses, pair_points=pairs)
    return dataclasses.replace(like, matches=[match])


def falls(run: list[IterationReport]) -> list[str]:
    return [line for index, now in enumerate(run) for line in find_warnings(now, run[:index]) if "fell" in line]


def test_falling_score_against_classic_mcts_is_a_warning() -> None:
    like = SECOND
    good, lucky, bad = (after_match(like, np.repeat([2, 0], [won, 10 - won])) for won in (8, 9, 2))
    none = dataclasses.replace(like, matches=[])
    assert falls([lucky, good, bad, none, good]) == ["score against uct:1000 fell to 0.20, from 0.90 at its highest"]
    (harder,) = (dataclasses.replace(match, opponent="uct:9000") for match in bad.matches)
    assert falls([dataclasses.replace(like, matches=[*lucky.matches, harder])] * 2) == []


def test_constant_score_against_classic_mcts_is_rarely_a_warning(rng: np.random.Generator) -> None:
    """The highest of several equal scores is biased upwards: warnings of any drop by 0.2 would fail 13 of 100 runs."""
    like = dataclasses.replace(SECOND, evaluation=None)
    runs = [[after_match(like, points) for points in rng.binomial(2, 0.5, (4, 20))] for _ in range(100)]
    assert sum(bool(falls(run)) for run in runs) <= 5


@pytest.mark.parametrize(
    ("part", "changes", "warning"),
    [
        ("selfplay", {"games": 50, "openings": {"4444": 30}}, None),
        ("selfplay", {"games": 49, "openings": {"4444": 49}}, None),
        (
            "selfplay",
            {"games": 50, "openings": {"1": 1, "4444": 31}},
            "62% of the games share one opening: exploration is collapsing",
        ),
        ("selfplay", {"target_entropy": 0.05}, None),
        (
            "selfplay",
            {"target_entropy": 0.049},
            "policy targets have an entropy of 0.049 nats: nothing is explored",
        ),
        (
            "learning",
            {"steps": 3, "skipped_steps": 1},
            "1 of 3 gradient steps were skipped: their loss or gradient was not finite",
        ),
        (
            "learning",
            {"rolled_back": True},
            "the weights were not finite after learning: they were rolled back to the earlier ones",
        ),
    ],
)
def test_failures_of_an_iteration_are_warnings(part: str, changes: dict[str, Any], warning: str | None) -> None:
    changed: Any = {part: dataclasses.replace(getattr(SECOND, part), **changes)}
    assert find_warnings(dataclasses.replace(SECOND, **changed), []) == ([] if warning is None else [warning])


def test_eight_iterations_without_a_promotion_are_a_warning() -> None:
    refused = dataclasses.replace(SECOND, gate=dataclasses.replace(GATE, promoted=False))
    warning = "no candidate has been promoted for 8 iterations"
    recent = [SECOND, *[refused] * 6]
    for history, expected in (
        ([refused] * 7, [warning]),
        ([refused] * 6, []),
        (recent, []),
        ([*recent, refused], [warning]),
    ):
        assert find_warnings(refused, history) == expected


def iterations(like: IterationReport, **changes: list[Any]) -> list[IterationReport]:
    """Return iterations of a run that improves, except for ``changes``."""
    figures = {"entropy": falling(1.2, 0.9), "loss": falling(1.5, 1.1), "error": falling(0.2, 0.05)} | changes
    quiet = dataclasses.replace(
        like,
        matches=[],
        evaluation=None,
        selfplay=dataclasses.replace(like.selfplay, openings={}),
        gate=dataclasses.replace(like.gate, wins=6, draws=0, losses=4, promoted=False),
    )
    return [
        dataclasses.replace(
            quiet if error is None else judged(error, number, quiet),
            selfplay=dataclasses.replace(quiet.selfplay, target_entropy=entropy),
            learning=dataclasses.replace(quiet.learning, losses={"policy": loss}),
        )
        for number, (entropy, loss, error) in enumerate(zip(*figures.values(), strict=True), start=1)
    ]


def falling(start: float, end: float) -> list[float]:
    return np.linspace(start, end, 36).tolist()


def warnings_of(run: list[IterationReport]) -> list[str]:
    """Return all warnings of a run, except those of missing promotions."""
    lines = [line for index, report in enumerate(run) for line in find_warnings(report, run[:index])]
    return [line for line in lines if "promoted" not in line]


@pytest.mark.parametrize(
    ("name", "figures", "message"),
    [
        ("entropy", falling(1.2, 0.4), "entropy of policy targets"),
        ("error", [0.4, 0.3, 0.2, *[0.1] * 33], "may overfit"),
    ],
)
def test_each_sign_of_stalling_is_reported_once(name: str, figures: list[float], message: str) -> None:
    (line,) = warnings_of(iterations(SECOND, **{name: figures}))
    assert message in line


def test_healthy_run_has_no_warnings() -> None:
    like = SECOND
    assert not warnings_of(iterations(like))
    stopped = {"loss": [1.5, 1.4, 1.3, 1.2, *[1.1] * 32], "error": [0.4, 0.3, 0.2, *[0.1] * 33]}
    assert not warnings_of(iterations(like, **stopped))  # both have stopped falling
    assert not warnings_of(iterations(like, error=[None] * 36))  # without evaluations


def test_the_last_report_of_a_repeated_iteration_counts(tmp_path: Path) -> None:
    path, again = tmp_path / "reports.jsonl", dataclasses.replace(SECOND, games_total=99)
    lines = [to_json_line(dataclasses.asdict(report)) for report in (FIRST, SECOND, again)]
    path.write_text("\n".join([*lines, ""]))
    assert read_reports(path) == [FIRST, again]
