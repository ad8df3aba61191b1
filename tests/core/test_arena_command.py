import json
import math
import os
import re
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import save_untrained

from alphac4.arena import tournament as module
from alphac4.arena.match import MatchResult, balanced_openings
from alphac4.arena.tournament import (
    MatchPart,
    Tournament,
    describe_results,
    play_part,
    play_round_robin,
    results_as_json,
    short_names,
)
from alphac4.cli import main
from alphac4.commands.measure import ArenaCommand

PLAYERS = ("negamax:3", "negamax:1", "random")


def arena(path: Path | None = None, **options: Any) -> None:
    """Play in this process, with `PLAYERS` and 60 games unless other options are given."""
    defaults: dict[str, Any] = {"players": PLAYERS, "games": 60, "processes": 1, "output": path}
    assert ArenaCommand(**(defaults | options))() == 0


def recorded(path: Path) -> dict[str, list[str]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:] if line.endswith("}")]
    return {f"{line['player']} {line['opponent']} {line['part']}": line["games"] for line in lines}


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[MatchPart]:
    """The parts that are played, in the order of their starts."""
    parts: list[MatchPart] = []

    def counting(tournament: Tournament, part: MatchPart, threads: int) -> MatchResult:
        parts.append(part)
        return play_part(tournament, part, threads)

    monkeypatch.setattr(module, "play_part", counting)
    return parts


def test_all_pairs_play_and_all_players_are_rated(capsys: pytest.CaptureFixture[str]) -> None:
    arena(games=20, json=True)
    result = json.loads(capsys.readouterr().out)
    first, second, third = PLAYERS
    assert [pairing["players"] for pairing in result["pairings"]] == [[first, second], [first, third], [second, third]]
    assert all(pairing["wins"] + pairing["draws"] + pairing["losses"] == 20 for pairing in result["pairings"])
    ratings = [result["ratings"][name]["elo"] for name in PLAYERS]
    assert ratings[0] > ratings[1] > ratings[2] == 0  # the last player is the anchor


def test_results_of_an_arena_equal_those_computed_by_hand() -> None:
    """The interval of the score adds a won and a lost pair to the ten pairs."""
    player, pair_points = "runs/a.safetensors@9", (2.0, 1.5, 1.0, 1.0, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0)
    tournament = Tournament(players=(player, "b"), pairs=10)
    results = {(player, "b"): MatchResult(wins=4, draws=6, losses=10, pair_points=pair_points)}
    assert describe_results(tournament, results).splitlines() == [
        "   player   Elo    ±  games  points   1   2",
        "1  b         +0    0     20    13.0   -  65",
        "2  a@9     -108  160     20     7.0  35   -",
        "Elo by maximum likelihood, b = 0, with 95 % intervals; scores in per cent.",
        "",
        "a@9 v. b: 4 won, 6 drawn, 10 lost, 35.0% [13.7%, 56.3%], Elo -108 [-320, +44]",
    ]
    report = json.loads(results_as_json(tournament, results))
    (pairing,) = report["pairings"]
    assert pairing["players"] == [player, "b"]
    assert [pairing[name] for name in ("wins", "draws", "losses", "score")] == [4, 6, 10, 0.35]
    half = 1.959964 * (1.5625 / 11 / 12) ** 0.5
    assert pairing["interval"] == pytest.approx([0.35 - half, 0.35 + half], abs=1e-6)
    elos = [400 * math.log10(score / (1 - score)) for score in (0.35, 0.35 - half, 0.35 + half)]
    assert [pairing["elo"], *pairing["elo_interval"]] == pytest.approx(elos, abs=1e-3)
    rated = report["ratings"][player]
    assert (rated["elo"], rated["error"]) == pytest.approx((400 * math.log10(7 / 13), 159.6198), abs=1e-3)


def test_ratings_that_the_games_do_not_determine_are_infinite_or_unknown() -> None:
    """Here b and c scored against each other, a won every game, x lost every game, and e only played x."""
    wins = {("a", "x"): 10, ("b", "x"): 10, ("b", "c"): 5, ("c", "x"): 10, ("a", "b"): 10, ("e", "x"): 10}
    tournament = Tournament(players=("x", "e", "a", "b", "c"), pairs=5)
    results = {pair: MatchResult(wins=won, draws=0, losses=10 - won, pair_points=()) for pair, won in wins.items()}
    lines = describe_results(tournament, results).splitlines()
    assert [line.split()[1:4] for line in lines[1:6]] == [
        ["a", "+inf", "-"],
        ["c", "+0", "0"],  # before b, because c has the greater share of the points
        ["b", "+0", "215"],
        ["e", "?", "-"],
        ["x", "-inf", "-"],
    ]
    assert lines[7:9] == [
        "+inf, -inf: the points between the player and c went one way only.",
        "?: the games do not compare the player with c.",
    ]
    report = json.loads(results_as_json(tournament, results), parse_constant=pytest.fail)
    rated = report["ratings"]
    assert report["anchor"] == "c"
    assert rated["a"] == rated["e"] == {"elo": None, "error": None}


def test_short_names_that_would_be_equal_are_not_shortened() -> None:
    both = ("runs/a/best.safetensors", "older/a/best.safetensors")
    assert short_names(both) == {name: name for name in both}


def test_a_sequential_test_ends_a_pairing_early(
    tmp_path: Path, begun: list[MatchPart], capsys: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {"players": PLAYERS[::2], "games": 400, "sprt": (0, 200)}
    arena(tmp_path / "t.jsonl", **options)
    assert 0 < len(begun) <= 5  # of 20
    line = capsys.readouterr().out.splitlines()[-1]
    assert "accepted, log-likelihood ratio" in line
    begun.clear()
    arena(tmp_path / "t.jsonl", **options)
    assert not begun


def test_an_interrupted_tournament_resumes_without_replaying_parts(
    tmp_path: Path, begun: list[MatchPart], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = tmp_path / "stopped.jsonl", tmp_path / "whole.jsonl"
    arena(whole)
    every = begun.copy()
    assert len(recorded(whole)) == len(every) == 6
    play = module.play_part

    def interrupted(tournament: Tournament, part: MatchPart, threads: int) -> MatchResult:
        if part == every[3]:
            raise KeyboardInterrupt
        return play(tournament, part, threads)

    with monkeypatch.context() as patch:
        patch.setattr(module, "play_part", interrupted)
        with pytest.raises(KeyboardInterrupt):
            arena(path)
    lines = path.read_text().splitlines()
    assert len(lines) == 4
    path.write_text("\n".join(lines[:3]) + "\n" + lines[3][: len(lines[3]) // 2])  # as after a kill
    begun.clear()
    arena(path)
    assert begun == every[2:]
    assert recorded(path) == recorded(whole)
    begun.clear()
    arena(path)
    assert not begun


@pytest.mark.slow
def test_a_match_in_processes_ends_without_warnings() -> None:
    """Terminated processes leave no semaphores, which Python would report."""
    command = [sys.executable, "-m", "alphac4", "arena", "random", "negamax:1", "--games", "100", "--processes", "2"]
    played = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    assert played.stderr == ""


@pytest.mark.slow
def test_games_depend_on_the_seed_but_not_on_the_number_of_processes(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.jsonl" for number in range(3)]
    for path, seed, processes in zip(files, (3, 3, 4), (1, 2, 1), strict=True):
        arena(path, seed=seed, processes=processes)
    assert recorded(files[0]) == recorded(files[1]) != recorded(files[2])


def test_players_of_each_part_and_seed_draw_their_own_random_numbers() -> None:
    pair, openings = ("random", "uct:5"), tuple(balanced_openings(4, np.random.default_rng(0)))
    games = {
        play_part(
            Tournament(players=pair, pairs=8, seed=seed), MatchPart(pairing=pair, number=number, openings=openings), 1
        ).games
        for seed, number in ((0, 0), (0, 0), (1, 0), (0, 1))
    }
    assert len(games) == 3


def test_a_record_of_other_options_or_a_changed_checkpoint_is_rejected(tmp_path: Path) -> None:
    net, path = tmp_path / "net.safetensors", tmp_path / "t.jsonl"
    options: dict[str, Any] = {"players": (f"{net}@0", "random"), "games": 4}
    save_untrained(net)
    arena(path, **options)
    before = path.read_bytes()
    backends = json.loads(before.splitlines()[0])["about"]["backends"]
    assert backends.pop("random") == ""
    assert not {"", "auto"} & set(backends.values())  # another run may decide "auto" differently
    arena(path, **options)
    for name, value, message in (("seed", 1, "0, not 1"), ("games", 6, "4, not 6"), ("sprt", (0, 9), "null, not")):
        with pytest.raises(match=f"{name} {message}"):
            arena(path, **(options | {name: value}))
    save_untrained(net)
    with pytest.raises(match="checkpoints"):
        arena(path, **options)
    assert path.read_bytes() == before


def test_a_record_of_another_backend_is_not_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.jsonl"
    command = ["arena", f"{save_untrained(tmp_path / 'net.safetensors')}@0", "random", "--output", str(path)]
    assert main([*command, "--games", "2", "--processes", "1"]) == 0
    path.write_text(re.sub('("backends":{"[^"]+":)"[^"]+"', r'\1"another"', path.read_text()))
    before = path.read_bytes()
    capsys.readouterr()
    assert main([*command, "--games", "2"]) == 2
    assert re.search(f'{path} holds backends .*"another", .*: choose another output', capsys.readouterr().err)
    assert path.read_bytes() == before


def test_a_record_of_a_changed_module_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, source = tmp_path / "t.jsonl", tmp_path / "digest_player.py"
    source.write_text("from alphac4.arena.players import RandomPlayer as First")
    monkeypatch.syspath_prepend(tmp_path)
    command = ["arena", "digest_player:First", "random", "--games", "2", "--processes", "1", "--output", str(path)]
    assert main(command) == 0
    before = path.read_bytes()
    assert main(command) == 0
    capsys.readouterr()
    source.write_text("from alphac4.arena.players import RandomPlayer as First  # changed")
    assert main(command) == 2
    assert "digest_player:First" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_results_do_not_depend_on_the_order_in_which_parts_finish() -> None:
    # Parts after a gap do not count yet, and those after the decision never do.
    tournament = Tournament(players=("a", "b"), pairs=60, sprt=(0, 100))
    sweep = MatchResult(wins=20, pair_points=(2.0,) * 10)
    defeat = MatchResult(losses=20, pair_points=(0.0,) * 10)
    assert tournament.combine_parts({1: sweep, 2: sweep}) == (MatchResult(), False)
    decided = tournament.combine_parts({0: sweep, 1: sweep})
    assert (decided[0].wins, decided[1]) == (40, True)
    assert tournament.combine_parts({0: sweep, 1: sweep, 2: defeat, 3: defeat}) == decided


def test_finished_parts_are_yielded_before_the_error_of_another() -> None:
    failed, played = Future[MatchResult](), Future[MatchResult]()
    failed.set_exception(RuntimeError("an engine was too slow"))
    played.set_result(MatchResult(wins=2))
    parts = [MatchPart(pairing=("a", "b"), number=number, openings=()) for number in range(2)]
    results = module._results_as_completed(iter(parts), 2, lambda part: (failed, played)[part.number])
    assert next(results) == (parts[1], MatchResult(wins=2))
    with pytest.raises(RuntimeError, match="too slow"):
        next(results)


@pytest.mark.slow
def test_a_killed_process_raises_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_prepare_process", _die)  # as if the system had killed it
    with pytest.raises(RuntimeError, match="a playing process was killed"):
        play_round_robin(Tournament(players=PLAYERS, pairs=1), processes=2)


def _die() -> None:
    os._exit(9)
