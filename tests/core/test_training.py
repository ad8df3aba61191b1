import contextlib
import copy
import dataclasses
import io
import itertools
import json
import logging
import math
import os
import signal
import tempfile
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from campaigns.tiny_run import SETTINGS, tiny_run
from helpers import as_if_trained
from hypothesis import given
from hypothesis import strategies as st

import alphac4
from alphac4.arena.match import MatchResult
from alphac4.arena.players import SearchingPlayer, backends_of
from alphac4.cli import main
from alphac4.compute import choose_compute
from alphac4.game import STANDARD, Board, Position
from alphac4.mcts.puct import Puct
from alphac4.nn.backends import INT8
from alphac4.nn.config import NetworkConfig
from alphac4.nn.evaluator import Evaluator
from alphac4.runs.costs import CostCounter
from alphac4.runs.folder import RunFolder
from alphac4.runs.reports import read_reports
from alphac4.runs.session import TrainingSession, find_config
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import Games
from alphac4.selfplay.replay import find_shards
from alphac4.selfplay.samples import Samples, make_samples
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.training.config import PRESETS, GateConfig, TrainConfig, from_dict, load_config
from alphac4.training.extensions import Extensions
from alphac4.training.loop import Progress, iterate
from alphac4.training.matches import Contender, Matches, PlayerProvider


def test_settings_round_trip_through_json_and_errors_name_the_setting(tmp_path: Path) -> None:
    for preset in PRESETS.values():
        assert from_dict(json.loads(json.dumps(dataclasses.asdict(preset)))) == preset
    for settings, message in (
        ({"learning": {"batch_sise": 3}}, r"learning\.batch_sise"),
        ({"search": {"c_init": "much"}}, r"search\.c_init must be float"),
        ({"selfplay": {"policy_target": "vibes"}}, "policy_target"),
        ({"selfplay": {"full_search_prob": 1.5}}, "full_search_prob"),
        ({"selfplay": {"temperature": math.inf}}, "temperature"),
        ({"search": {"c_init": math.nan}}, "c_init"),
        ({"evaluation": {"interval": -1}}, "interval"),
        ({"gate": {"threshold": 1.0}}, "threshold must be at most 0.999999999"),
    ):
        with pytest.raises(ValueError, match=message):
            from_dict(settings)
    for content, message in (
        ("{", "not JSON"),
        ('{"iterations": 2, "iterations": 3}', "/bad.json: 'iterations' occurs twice"),
        ("[" * 200_000, "/bad.json.*nested too deeply"),
    ):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(ValueError, match=message):
            load_config(tmp_path / "bad.json")


BASE = dataclasses.asdict(tiny_run(iterations=1))
VALUES: dict[type, list[Any]] = {  # for settings of each type; sizes are small or impossible
    bool: [True, False, 1],
    int: [0, 1, 2, 3, 9, -1, 1.5, "many", None],
    float: [0.0, 1e-9, 0.01, 1.0, 1.5, 10.0, -1.0, math.nan, math.inf],
    str: ["nonsense", "", None],
    list: [[], [2], [1, 3], [0], 5],
}
SPECIAL: dict[str, list[Any]] = {
    "seed": [0, 2**31, -1, 2**70],
    "board": [{"rows": 4, "columns": 5}, {"rows": 5, "run_length": 3}, {"rows": 9}, {"columns": 1}, {"rows": -6}, []],
    "network.channels": [1, 3, 16, 0, 100_000, -4],
    "network.blocks": [0, 2, 100_000, -1],
    "selfplay.policy_target": ["visits", "completed_q", "best"],
    "selfplay.max_opening_plies": [0, 3, 60, -1],
    "search.c_init": [0.1, 0.0, -1.0],
    "learning.optimizer": ["adamw", "muon", "sgd"],
}
UNCHANGED = {"iterations", "machine.device", "start_from", "baseline.simulations", "evaluation.interval"}


def choices() -> list[tuple[str, Any]]:
    """Return all pairs of a setting and a value to test."""
    groups = {group: values for group, values in BASE.items() if isinstance(values, dict) and group != "board"}
    flat = {name: value for name, value in BASE.items() if not isinstance(value, dict)}
    flat |= {f"{group}.{name}": value for group, values in groups.items() for name, value in values.items()}
    values = {name: VALUES.get(type(value), []) for name, value in flat.items() if name not in UNCHANGED} | SPECIAL
    return [(name, value) for name, options in values.items() for value in options]


@given(st.lists(st.sampled_from(choices()), min_size=1, max_size=3, unique_by=lambda change: change[0]))
def test_any_settings_train_or_are_rejected_before_anything_is_written(changes: list[tuple[str, Any]]) -> None:
    settings, error = copy.deepcopy(BASE), io.StringIO()
    for name, value in changes:
        group, _, leaf = name.rpartition(".")
        (settings[group] if group else settings)[leaf] = value
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("alphac4.runs.tensorboard.Monitor._figures", lambda *_: {})
        command = train_command(Path(folder), **settings)
        with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
            status = main(command)
        assert "Traceback" not in error.getvalue()
        if status:
            assert status == 2
            assert [path.name for path in Path(folder).iterdir()] == ["settings.json"]
            assert len([line for line in error.getvalue().splitlines() if line.startswith("alphac4 train:")]) == 1


def test_settings_override_those_of_the_named_preset_or_of_the_run(tmp_path: Path) -> None:
    run, file, change = tmp_path / "run", tmp_path / "part.json", {"gate": {"pairs": 3}}
    run.mkdir()
    stored = dataclasses.replace(PRESETS["quick"], iterations=40, seed=7)
    (run / "config.json").write_text(json.dumps(dataclasses.asdict(stored)))
    file.write_text(json.dumps(change))
    for settings in (change, file):
        assert find_config(run, None, settings) == from_dict(change, stored)
        again = find_config(run, "quick", settings)
        assert (again.iterations, again.gate.pairs, again.seed) == (
            40,
            3,
            0,
        )  # the seed cannot change, which is an error
        assert find_config(tmp_path / "new", "quick", settings) == from_dict(change, PRESETS["quick"])
        assert find_config(tmp_path / "new", None, settings) == from_dict(change, PRESETS["standard"])


def train_command(folder: Path, **changes: object) -> list[str]:
    settings = folder / "settings.json"
    settings.write_text(json.dumps(SETTINGS | changes))
    return ["train", "--run", str(folder / "run"), "--settings", str(settings)]


@pytest.mark.usefixtures("no_pictures")
def test_finished_run_prints_the_option_that_continues_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that was ended by a full disk resumes with its own settings."""
    real, calls = os.fsync, itertools.count()
    monkeypatch.setattr("os.fsync", lambda file: real(file) if next(calls) < 9 else real(-1))
    assert main(train_command(tmp_path, iterations=2)) == 2
    monkeypatch.setattr("os.fsync", real)
    command = ["train", "--run", str(tmp_path / "run")]
    assert main(command) == 0
    assert [report.iteration for report in read_reports(tmp_path / "run" / "reports.jsonl")] == [1, 2]
    capsys.readouterr()
    monkeypatch.setattr("alphac4.runs.session.TrainingSession", None)  # a finished run needs no session
    assert main(command) == 0
    output = capsys.readouterr()
    assert "is finished after 2 iterations. To train longer, set iterations to 4" in output.err
    assert "Trained 2 iterations" in output.out
    (tmp_path / "run" / "reports.jsonl").unlink()
    assert main(command) == 0
    assert "The best network: " in capsys.readouterr().out


@pytest.mark.usefixtures("no_pictures")
def test_python_training_prints_the_table_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table has a row per iteration, or is not printed without ``progress``; logging is not changed."""
    assert main(train_command(tmp_path, iterations=2)) == 0
    shown: dict[str, str] = {"command": capsys.readouterr().err}
    loggers = [(log, log.level, list(log.handlers)) for log in (logging.getLogger(), logging.getLogger("alphac4"))]
    for name, progress in (("python", True), ("silent", False)):
        for _ in range(2):  # the second call finds a finished run
            alphac4.train(run=tmp_path / name, settings=SETTINGS | {"iterations": 2}, progress=progress)
        shown[name] = capsys.readouterr().err
    assert [(log, log.level, list(log.handlers)) for log, *_ in loggers] == loggers
    assert not shown["silent"]
    table, finished = shown["python"].splitlines()[:-1], shown["python"].splitlines()[-1]
    assert [line.split()[:1] for line in table] == [line.split()[:1] for line in shown["command"].splitlines()]
    assert [line.split()[0] for line in table[-2:]] == ["1", "2"]
    assert "is finished" in finished


def test_ctrl_c_stops_training_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, first = CostCounter.on_progress, [True]

    def on_progress(costs: CostCounter, progress: Progress) -> None:
        real(costs, progress)
        if progress.games and first:
            first.clear()
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(CostCounter, "on_progress", on_progress)
    assert main(train_command(tmp_path, positions_per_iteration=10**6)) == 130
    assert "Stopped. Rerun the command to resume." in capsys.readouterr().err


def test_selfplay_command_depends_on_the_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    games = []
    for name, seed in (("a", "1"), ("b", "2")):
        options = ["--samples", "60", "--parallel-games", "8", "--full-visits", "8", "--fast-visits", "4"]
        options += ["--seed", seed, "--output", str(tmp_path / name), "--backend", "torch-fp32"]
        assert main(["selfplay", *options]) == 0
        games.append(sorted((tmp_path / name / "games.txt").read_text().split()))
    assert games[0] != games[1]
    assert all(7 <= len(game) <= 42 for game in games[0])
    assert "simulations/s" in capsys.readouterr().out


def test_selfplay_command_adds_only_to_games_of_the_same_settings(
    tmp_path: Path, run_command: Callable[..., str], error_line: Callable[..., str]
) -> None:
    line = "selfplay quick --samples 1 --parallel-games 2 --full-visits 2 --fast-visits 1 --backend torch-fp32"
    for seed in (1, 2):
        run_command(line, "--output", tmp_path / "games", "--seed", seed)
    assert len(find_shards(tmp_path / "games" / "replay")) == 2
    refused = "settings.json holds c_init 1.25, not 2.0: choose another output"
    assert refused in error_line(f"{line} --c-init 2 --output {tmp_path / 'games'}")
    (tmp_path / "games" / "settings.json").unlink()
    assert "has samples of a run: choose another output" in error_line(f"{line} --output {tmp_path / 'games'}")
    assert len(find_shards(tmp_path / "games" / "replay")) == 2


def test_selfplay_command_keeps_no_games_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., str]
) -> None:
    made: list[weakref.ref[Any]] = []

    def tracked(board: Board, config: SelfPlayConfig, games: Games) -> Samples:
        assert not [reference for reference in made[:-2] if reference()]  # all but those of the last block are gone
        result = make_samples(board, config, games)
        made.extend((weakref.ref(games.own), weakref.ref(result)))
        return result

    monkeypatch.setattr("alphac4.selfplay.samples.make_samples", tracked)
    options = "--samples 200 --parallel-games 1 --full-visits 2 --fast-visits 1 --backend torch-fp32 --output"
    shown = run_command("selfplay quick", *options.split(), tmp_path)
    assert len(made) > 4
    games = (tmp_path / "games.txt").read_text().split()
    assert f"Added {len(games)} games with " in shown
    lengths = sum(map(len, games)) / len(games)
    assert f"drawn, {lengths:.1f} plies" in shown


@pytest.mark.usefixtures("no_pictures")
def test_matches_and_evaluation_never_use_int8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Record the backend of every evaluation of a run, on a machine where int8 is the fastest one."""
    pytest.importorskip("openvino")
    monkeypatch.setattr("alphac4.nn.evaluator.backend_order", lambda *_args, int8: [INT8] if int8 else ["torch-fp32"])
    monkeypatch.setattr("alphac4.nn.evaluator.outputs_match", lambda *_: True)  # int8 may be too coarse
    used: list[str] = []
    evaluate = Evaluator.evaluate

    def seen(evaluator: Evaluator, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        used.append(evaluator.backend)
        return evaluate(evaluator, planes)

    monkeypatch.setattr(Evaluator, "evaluate", seen)
    baseline = {"interval": 1, "simulations": [20], "pairs": 1}
    for name in ("runs.judge.POSITIONS_PER_SET", "runs.judge.SIMULATIONS", "runs.session.CLOSING_PAIRS"):
        monkeypatch.setattr(f"alphac4.{name}", 2)
    config = tiny_run(iterations=1, machine={"device": "cpu"}, baseline=baseline, evaluation={"interval": 1})
    with TrainingSession(RunFolder(tmp_path, config)) as session:
        record_games, played = session.loop.actors.play, []

        def play(*arguments: Any, **options: Any) -> None:
            used.clear()
            record_games(*arguments, **options)
            played.extend(used)
            used.clear()

        monkeypatch.setattr(session.loop.actors, "play", play)
        (report,) = session.train()
        closing = session.play_closing_matches()
    assert set(played) == {INT8} == {report.selfplay.backend}
    assert report.evaluation is not None
    strength = load_checkpoint(tmp_path / "checkpoints" / "best.safetensors").strength
    reported = {part.backend for part in (report.gate, report.evaluation, *report.matches, *closing)}
    assert {strength["uct:20"]["backend"], *reported} == set(used) == {"torch-fp32"}


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_candidate_with_infinite_outputs_loses_without_playing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    learning = SETTINGS["learning"] | {"learning_rate": 1e30}
    with TrainingSession(RunFolder(tmp_path, tiny_run(iterations=1, learning=learning))) as session:
        (report,) = session.train()
    assert (report.gate.wins, report.gate.draws, report.gate.losses) == (0, 0, 2)
    assert report.gate.promoted is False
    assert all(len(game) <= 5 for game in report.gate.games)  # the openings
    lost = [message for message in caplog.messages if "loses every game" in message]
    reason = "the network returned numbers that are not finite"
    assert lost == [f"iteration 1 loses every game of the match: {reason}"]


def recorded_matches(
    monkeypatch: pytest.MonkeyPatch, config: GateConfig
) -> tuple[Matches, list[tuple[Any, Any, list[str | None]]]]:
    """Return a run's matches without games, and a list that gets the players and openings of each."""
    played: list[tuple[Any, Any, list[str | None]]] = []

    def play(players: Any, opponents: Any, openings: Any, _on_games: Any) -> MatchResult:
        played.append((players[0], opponents[0], [opening.moves for opening in openings]))
        evaluators = {"backend": backends_of(players), "opponent_backend": backends_of(opponents)}
        points = (1.1,) * 10  # draws count half: 11 of 20 points
        return MatchResult(wins=10, draws=2, losses=8, pair_points=points, **evaluators)

    monkeypatch.setattr("alphac4.training.matches.play_match", play)

    def players(backend: str, network: Any, _name: str, budget: int) -> list[Mock]:
        return [Mock(network=network, simulations=budget, inference_backend=backend)]

    providers = [Mock(), Mock()]
    for provider, backend in zip(providers, ("torch-fp32", "torch-bf16"), strict=True):
        provider.players.side_effect = partial(players, backend)
    return Matches(providers, config, STANDARD, 0), played


@pytest.mark.parametrize(("threshold", "promoted"), [(0.55, True), (0.56, False)])
def test_gate_matches_the_candidate_against_the_best_network_and_accepts_at_its_threshold(
    threshold: float, promoted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    matches, played = recorded_matches(monkeypatch, GateConfig(pairs=10, threshold=threshold))
    candidate, best = Contender(network=Mock(), iteration=2), Contender(network=Mock(), iteration=1)
    report = matches.gate(candidate, best)
    assert report.promoted is promoted
    assert (report.backend, report.opponent_backend) == ("torch-fp32", "torch-bf16")  # of those that played
    assert (report.wins, report.draws, report.losses) == (10, 2, 8)
    half = 1.959964 * ((10 * 0.55**2 + 1 - 6.5**2 / 12) / 11 / 12) ** 0.5  # with a pair of each extreme
    assert (report.interval.low, report.interval.high) == pytest.approx((0.55 - half, 0.55 + half))
    assert [(ours.network, theirs.network) for ours, theirs, _ in played] == [(candidate.network, best.network)]


def test_gate_gives_both_networks_the_same_simulations_and_each_iteration_other_openings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matches, played = recorded_matches(monkeypatch, GateConfig(pairs=10, simulations=48))
    best = Contender(network=Mock(), iteration=0)
    for iteration in (1, 2, 1):
        matches.gate(Contender(network=Mock(), iteration=iteration), best)
    assert [(ours.simulations, theirs.simulations) for ours, theirs, _ in played] == [(48, 48)] * 3
    first, second, again = (openings for _, _, openings in played)
    assert first == again
    assert len(set(first) - set(second)) >= 5


def test_matches_against_classic_mcts_have_the_documented_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The printed result of a run names the network's 100 simulations per move, whatever those of the gate."""
    matches, played = recorded_matches(monkeypatch, GateConfig(simulations=48))
    best = Contender(network=Mock(), iteration=3)
    reports = matches.against_classic(best, 3, [20, 50], 4)
    assert [(report.backend, report.opponent_backend) for report in reports] == [("torch-bf16", "")] * 2
    assert [ours.network for ours, _, _ in played] == [best.network] * 2
    assert [ours.simulations for ours, _, _ in played] == [100] * 2
    assert [theirs.budget.simulations for _, theirs, _ in played] == [20, 50]
    matches.against_classic(best, 4, [20], 4)
    openings = [openings for _, _, openings in played]
    assert [len(each) for each in openings] == [4] * 3
    assert openings[0] != openings[1]
    assert openings[0] != openings[2]  # of another iteration


@pytest.mark.usefixtures("no_pictures")
def test_iterate_produces_the_networks_of_a_run_in_a_folder(tmp_path: Path) -> None:
    """The networks are bit-identical, and `iterate` writes no files."""
    config = tiny_run(iterations=2, machine=SETTINGS["machine"] | {"keep_checkpoints": 5})
    with TrainingSession(RunFolder(tmp_path / "run", config)) as session:
        history = session.train()
    numbers = []
    for iteration, report in zip(iterate(config), history, strict=True):
        numbers.append(iteration.number)
        saved = load_checkpoint(tmp_path / "run" / "checkpoints" / f"{iteration.number:06d}.safetensors").network
        for name, value in iteration.candidate.network.state_dict().items():
            assert torch.equal(value, saved.state_dict()[name])
        assert iteration.gate.games == report.gate.games
        assert iteration.best.iteration == report.best_iteration
    assert numbers == [1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_preset_accepts_changes_of_settings_and_groups() -> None:
    quick = TrainConfig.preset("quick")
    changed = TrainConfig.preset("quick", iterations=3, learning={"replay_ratio": 1.0}, gate=GateConfig(pairs=7))
    assert (changed.iterations, changed.learning.replay_ratio, changed.gate) == (3, 1.0, GateConfig(pairs=7))
    assert changed.learning.weight_decay == quick.learning.weight_decay
    assert changed.selfplay == quick.selfplay
    for changes, message in (
        ({"iteration": 3}, "iteration"),
        ({"learning": {"batchsize": 3}}, "learning.batchsize"),
        ({"learning": GateConfig()}, "unknown entry 'learning.pairs'"),
        ({"learning": {"lr": 1.0}}, r"unknown entry 'learning.lr' \(is it learning_rate\?\)"),
        ({"search": {"cpuct": 1.0}}, r"unknown entry 'search.cpuct' \(is it c_init\?\)"),
        ({"batch": 64}, r"unknown entry 'batch' \(is it learning.batch_size\?\)"),
    ):
        with pytest.raises(ValueError, match=message):
            TrainConfig.preset("quick", **changes)
    with pytest.raises(ValueError, match=r"unknown preset 'quik' \(is it quick\?\)"):
        TrainConfig.preset("quik")
    with pytest.raises(ValueError, match="start_from"):
        next(iterate(TrainConfig.preset("quick", start_from="best")))


@pytest.mark.usefixtures("no_pictures")
def test_actors_and_matches_get_promoted_candidates_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    updates, accepted, measured = list[Any](), iter([True, False, True]), list[int]()
    baseline = SETTINGS["baseline"] | {"interval": 1, "simulations": [2], "pairs": 1}
    config = tiny_run(iterations=3, baseline=baseline, machine=SETTINGS["machine"] | {"keep_checkpoints": 5})
    with TrainingSession(RunFolder(tmp_path, config)) as session:
        loop = session.loop
        against = loop.matches.against_classic
        monkeypatch.setattr(
            loop.matches,
            "against_classic",
            lambda player, *match: (measured.append(player.iteration), against(player, *match))[1],
        )
        gate, update = loop.matches.gate, loop.actors.update
        monkeypatch.setattr(
            loop.matches, "gate", lambda *match: dataclasses.replace(gate(*match), promoted=next(accepted))
        )
        monkeypatch.setattr(loop.actors, "update", lambda network: (updates.append(network), update(network)))
        session.train()
    assert measured == [1, 1, 3]
    assert len(updates) == 2
    for iteration, network in zip((1, 3), updates, strict=True):
        saved = load_checkpoint(tmp_path / "checkpoints" / f"{iteration:06d}.safetensors").network
        assert all(torch.equal(value, saved.state_dict()[name]) for name, value in network.state_dict().items())
    best = load_checkpoint(tmp_path / "checkpoints" / "best.safetensors").network
    assert torch.equal(best.policy.weight, updates[-1].policy.weight)


@pytest.mark.parametrize(
    ("settings", "selection"),
    [({"c_init": 20.0}, None), ({}, Puct(c_init=20.0))],
    ids=["of the settings", "of a function"],
)
def test_gate_search_uses_the_rule_of_selfplay(
    settings: dict[str, float], selection: Puct | None, tmp_path: Path
) -> None:
    games = []
    gate = SETTINGS["gate"] | {"simulations": 12, "pairs": 3}
    for number, (search, rule) in enumerate((({}, None), (settings, selection))):
        config, extensions = tiny_run(gate=gate, search=search), Extensions(selection_rule=rule)
        with TrainingSession(RunFolder(tmp_path / str(number), config, extensions)) as session:
            with torch.no_grad():
                session.loop.best.network.policy.bias.copy_(
                    torch.linspace(0, 3, 7)
                )  # untrained, it would have no opinion
            contender = Contender(network=session.loop.best.network, iteration=1)
            games.append(session.loop.matches.gate(contender, contender).games)
    assert games[0] != games[1]
    assert [game[:2] for game in games[0]] == [game[:2] for game in games[1]]  # from the same openings


class LocalPool:
    """Pool that calls functions in this process."""

    cores = 1

    def share(self, value: object) -> Callable[[], object]:
        return lambda: value

    def call(self, _index: int, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)


def test_players_in_a_pool_search_like_those_of_this_process() -> None:
    """They use the latest weights, although all players have the same number, backend, rule and budget."""
    networks = [as_if_trained(NetworkConfig(channels=8, blocks=1), seed) for seed in (3, 4)]
    compute, rule, pool = choose_compute("cpu", "torch-fp32", threads=1), Puct(c_init=20.0), LocalPool()
    here = PlayerProvider(compute, networks[0], STANDARD, rule)
    there = PlayerProvider(compute, networks[0], STANDARD, rule, pool, number=2)  # type: ignore[arg-type]
    for simulations in (0, 50):
        results = []
        for network in networks:
            (ours,), (theirs,) = (each.players(network, "network", simulations) for each in (here, there))
            assert isinstance(ours, SearchingPlayer)
            assert isinstance(theirs, SearchingPlayer)
            expected, actual = ours.search([Position()]), theirs.search([Position()])
            results.append((actual.visits.tolist(), actual.priors.tolist()))
            assert results[-1] == (expected.visits.tolist(), expected.priors.tolist())
        assert results[0] != results[1]


@pytest.mark.parametrize("pool", [None, LocalPool()], ids=["here", "in a pool"])
def test_classic_players_of_a_match_draw_different_random_numbers(pool: Any) -> None:
    matches, positions = Matches([Mock(), Mock()], GateConfig(), STANDARD, 0, pool=pool), [Position()] * 20
    first, second = matches._classic_players(10, 2, np.random.default_rng(0))
    assert first.choose(positions) != second.choose(positions)
