import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from alphac4 import cli
from alphac4.arena import tournament as module
from alphac4.arena.match import MatchResult
from alphac4.arena.record import TournamentError, TournamentRecord
from alphac4.arena.tournament import (
    Part,
    Tournament,
    crosstable,
    play_part,
    play_round_robin,
    rate_players,
    short_names,
)
from alphac4.checkpoint import Checkpoint, save_checkpoint
from alphac4.commands.arena import ArenaOptions, run
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork

PLAYERS = ("negamax:3", "negamax:1", "random")


def recorded(path: Path) -> dict[str, list[str]]:
    """The games of a tournament's file by part."""
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return {f"{line['players']} {line['part']}": line["games"] for line in lines}


@pytest.fixture
def count_parts(monkeypatch: pytest.MonkeyPatch) -> list[Part]:
    """The parts that are played, noted as they begin."""
    parts: list[Part] = []

    def counting(tournament: Tournament, part: Part, threads: int) -> MatchResult:
        parts.append(part)
        return play_part(tournament, part, threads)

    monkeypatch.setattr(module, "play_part", counting)
    return parts


def test_everyone_plays_everyone_and_is_rated(capsys: pytest.CaptureFixture[str]) -> None:
    """The deeper search above the shallow one above chance; the last player is the anchor."""
    assert run(ArenaOptions(players=PLAYERS, games=20, processes=1, json=True)) == 0
    result = json.loads(capsys.readouterr().out)
    assert [pairing["players"] for pairing in result["pairings"]] == [
        ["negamax:3", "negamax:1"],
        ["negamax:3", "random"],
        ["negamax:1", "random"],
    ]
    assert all(pairing["wins"] + pairing["draws"] + pairing["losses"] == 20 for pairing in result["pairings"])
    ratings = {name: rating["elo"] for name, rating in result["ratings"].items()}
    assert ratings["negamax:3"] > ratings["negamax:1"] > ratings["random"] == 0


def test_the_table_shows_ranks_points_and_mutual_scores() -> None:
    """Worked by hand: b takes 3 of 4 points from a folder's checkpoint."""
    results = {("runs/a.safetensors@9", "b"): MatchResult(wins=1, draws=0, losses=3)}
    head, first, second = crosstable(results, rate_players(results, "b")).splitlines()
    assert head.split() == ["player", "Elo", "±", "games", "points", "1", "2"]
    assert first.split()[:2] == ["1", "b"]
    assert first.split()[4:] == ["4", "3.0", "-", "75"]
    assert second.split()[:2] == ["2", "a@9"]
    assert second.split()[4:] == ["4", "1.0", "25", "-"]


def test_names_are_only_shortened_while_that_keeps_them_apart() -> None:
    """Two runs of one name both have a best network."""
    assert short_names(["runs/a/best.safetensors@9", "uct:10"])["runs/a/best.safetensors@9"] == "a/best@9"
    both = ["runs/a/best.safetensors", "older/a/best.safetensors"]
    whole = "uct:300,reward=2/1/0,final=ucb"
    names = short_names([whole, "runs/a.b/mine.safetensors@9,c-init=2", "best@5"])
    assert list(names.values()) == [whole, "mine@9,c-init=2", "best@5"]
    assert short_names(both) == {name: name for name in both}


def test_the_text_tells_score_and_elo_with_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    """One line a pairing, and where a sequential test stands."""
    assert run(ArenaOptions(players=PLAYERS[::2], games=40, processes=1, sprt=(0, 200))) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("negamax:3 v. random: ")
    assert "Elo +" in line
    assert "accepted, log-likelihood ratio" in line


def test_a_tournament_goes_on_where_it_stopped(tmp_path: Path, count_parts: list[Part]) -> None:
    """Finished parts are read; one cut short by a kill is played again, with the same games."""
    path = tmp_path / "t.jsonl"
    options = ArenaOptions(players=PLAYERS, games=60, processes=1, output=path)
    run(options)
    whole = recorded(path)
    assert len(whole) == len(count_parts) == 6
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:4]) + "\n" + lines[4][: len(lines[4]) // 2])
    count_parts.clear()
    run(options)
    assert [(part.pairing, part.number) for part in count_parts] == [
        (("negamax:3", "random"), 1),
        (("negamax:1", "random"), 0),
        (("negamax:1", "random"), 1),
    ]
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines() if line.endswith("}")))
    assert recorded(path) == whole
    count_parts.clear()
    run(options)
    assert not count_parts


@pytest.mark.slow
def test_games_that_were_played_count_though_others_failed() -> None:
    """Three parts end at the same time, one of them with an error: the other two come first."""
    parts = [Part(pairing=("a", "b"), number=number, openings=()) for number in range(3)]

    def begin(part: Part) -> Future[MatchResult]:
        future: Future[MatchResult] = Future()
        if part.number == 1:
            future.set_exception(RuntimeError("an engine was too slow"))
        else:
            future.set_result(MatchResult(wins=part.number))
        return future

    results = module._as_they_finish(iter(parts), 3, begin)
    finished = [next(results), next(results)]
    assert sorted((part.number, result.wins) for part, result in finished) == [(0, 0), (2, 2)]
    with pytest.raises(RuntimeError, match="too slow"):
        next(results)


def test_a_killed_tournament_loses_only_what_was_under_way(tmp_path: Path) -> None:
    """Killed for good in the middle, the same command ends with the games of an undisturbed one."""
    killed, whole = tmp_path / "killed.jsonl", tmp_path / "whole.jsonl"
    players = ("uct:600", "negamax:4", "random")
    arguments = ["arena", *players, "--games", "100", "--processes", "1", "--output", str(killed)]
    process = subprocess.Popen([sys.executable, "-m", "alphac4.cli", *arguments], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while (not killed.exists() or len(killed.read_text().splitlines()) < 3) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert cli.main(arguments) == 0
    assert cli.main([*arguments[:-1], str(whole)]) == 0
    assert recorded(killed) == recorded(whole)


@pytest.mark.slow
def test_several_processes_play_the_games_of_one(tmp_path: Path) -> None:
    """The seed alone decides, not who plays what when."""
    options = {"players": PLAYERS, "games": 60, "seed": 3}
    for processes in (1, 2):
        run(ArenaOptions(**options, processes=processes, output=tmp_path / f"{processes}.jsonl"))  # type: ignore[arg-type]
    assert recorded(tmp_path / "1.jsonl") == recorded(tmp_path / "2.jsonl")


def test_another_seed_plays_other_games(tmp_path: Path) -> None:
    """From other openings."""
    for seed in (1, 2):
        run(ArenaOptions(players=PLAYERS, games=4, seed=seed, processes=1, output=tmp_path / f"{seed}.jsonl"))
    assert recorded(tmp_path / "1.jsonl") != recorded(tmp_path / "2.jsonl")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"games": 6}, "games 4, not 6"),
        ({"seed": 1}, "seed 0, not 1"),
        ({"players": ("negamax:1", "random")}, r'players \["negamax:2", "random"\], not'),
        ({"sprt": (0.0, 50.0)}, r"sprt null, not \[0.0, 50.0\]"),
    ],
)
def test_a_file_of_other_options_is_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    """In one line that tells what differs; the file stays as it is."""
    options: dict[str, Any] = {"players": ("negamax:2", "random"), "games": 4, "output": tmp_path / "t.jsonl"}
    run(ArenaOptions(**options, processes=1))
    before = (tmp_path / "t.jsonl").read_bytes()
    with pytest.raises(TournamentError, match=told):
        run(ArenaOptions(**{**options, **change}, processes=1))
    assert (tmp_path / "t.jsonl").read_bytes() == before


def test_a_changed_checkpoint_is_another_player(tmp_path: Path) -> None:
    """Its file is recognised by its content; the backend chosen at first is kept."""
    path, output = tmp_path / "net.safetensors", tmp_path / "t.jsonl"
    options = ArenaOptions(players=(f"{path}@0", "random"), games=4, processes=1, output=output)
    save_checkpoint(path, Checkpoint(network=PolicyValueNetwork(NetworkConfig(channels=8, blocks=1)).eval()))
    run(options)
    run(options)
    assert json.loads(output.read_text().splitlines()[0])["settings"]["backend"] != "auto"
    save_checkpoint(path, Checkpoint(network=PolicyValueNetwork(NetworkConfig(channels=8, blocks=1)).eval()))
    with pytest.raises(TournamentError, match="checkpoints"):
        run(options)


@pytest.mark.parametrize("content", ["# Notes\n", '{"moves": "44"}\n', "[1]\n", "\xff\xfe\n"])
def test_a_foreign_file_is_refused(tmp_path: Path, content: str) -> None:
    """It might be somebody's work."""
    path = tmp_path / "notes.md"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(TournamentError, match="not a tournament's file"):
        TournamentRecord(path, {})
    assert path.read_text(encoding="latin-1") == content


def test_a_sequential_test_ends_a_pairing_early(tmp_path: Path, count_parts: list[Part]) -> None:
    """A one-sided one after far fewer games than allowed; finished, it is not taken up again."""
    options = ArenaOptions(players=PLAYERS[::2], games=400, processes=1, sprt=(0, 200), output=tmp_path / "t.jsonl")
    run(options)
    assert 0 < len(count_parts) <= 5
    count_parts.clear()
    run(options)
    assert not count_parts


def test_the_order_in_which_parts_finish_does_not_matter() -> None:
    """Parts after a gap do not count yet, and those after the decision never do."""
    tournament = Tournament(players=("a", "b"), pairs=60, sprt=(0, 100))
    sweep = MatchResult(wins=20, pair_scores=(2.0,) * 10)
    defeat = MatchResult(losses=20, pair_scores=(0.0,) * 10)
    assert tournament.counted({1: sweep, 2: sweep}) == (MatchResult(), False)
    decided = tournament.counted({0: sweep, 1: sweep})
    assert decided[0].wins == 40
    assert decided[1]
    assert tournament.counted({0: sweep, 1: sweep, 2: defeat, 3: defeat}) == decided


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "two different players"),
        (["random", "random"], "two different players"),
        (["random", "uct:10", "--games", "3"], "--games must be an even number, not 3"),
        (["random", "uct:10", "--processes", "0"], "--processes must be at least 1"),
        (["random", "uct:10", "--sprt", "30", "0"], "ELO0 below ELO1"),
        (["random", "nobody"], "unknown player 'nobody'"),
        (["random", "missing.safetensors"], "missing.safetensors: no such file"),
    ],
)
def test_bad_input_is_reported_in_one_line(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On the standard error, with exit code 2."""
    assert cli.main(["arena", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert told in output.err
    assert output.err.count("\n") == 1


@pytest.mark.slow
def test_a_player_that_is_killed_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a system without memory."""
    monkeypatch.setattr(module, "_prepare_process", _die)
    with pytest.raises(RuntimeError, match="a playing process was killed"):
        play_round_robin(Tournament(players=PLAYERS, pairs=1), processes=2)


def _die(_: object) -> None:
    os._exit(9)
