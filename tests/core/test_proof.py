import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import DRAWN, save_untrained
from naive import Stacks, drop, minimax, wins

from alphac4.arena.players import AutoPlayer, NetworkPlayer, Player, RandomPlayer, TimeManagement
from alphac4.cli import main
from alphac4.evaluation.walks import FORMAT, KnownMoves, LevelReport, MoveKind, unpack_moves, walk_games
from alphac4.game import STANDARD, Position, make_board
from alphac4.game.walk import WalkScope, position_of
from alphac4.mcts.network_search import NetworkSearch, UniformEvaluator
from alphac4.mcts.search import Budget
from alphac4.storage.journal import Journal, read_about

ROWS, COLUMNS, RUN = 4, 4, 3
SMALL = make_board(ROWS, COLUMNS, RUN)


def walk(
    player: Player, path: Path | None, first: bool, plies: int = ROWS * COLUMNS, *, beyond: bool = False
) -> list[LevelReport]:
    known = KnownMoves(SMALL, path, {"player": player.name})
    games = WalkScope(board=SMALL, side="first" if first else "second")
    return list(walk_games([player], known, games, max_stones=plies, continue_after_mistakes=beyond))


def counts_of(reports: list[LevelReport]) -> dict[int, Counter[str]]:
    return {report.stones: Counter(MoveKind(kind).name for kind in report.kinds) for report in reports}


def naive_walk(path: Path, first: bool, plies: int, *, beyond: bool = False) -> dict[int, Counter[str]]:
    """Judge the moves of a journal by boards of strings and plain minimax; mirror images count once."""
    table: dict[Stacks, tuple[int, str]] = {}
    for moves in Journal(path, FORMAT, read_about(path, FORMAT) or {}).read(lambda entry: unpack_moves(entry, SMALL)):
        for key, column, kind in zip(*moves, strict=True):
            grid = position_of(SMALL, key).grid()
            stacks: Stacks = tuple("".join(".xo"[cell] for cell in stack if cell) for stack in grid.T)
            table[stacks] = int(column), MoveKind(kind).name
            table[stacks[::-1]] = COLUMNS - 1 - int(column), MoveKind(kind).name
    seen: dict[int, Counter[str]] = {}
    layer: set[Stacks] = {("",) * COLUMNS}
    for ply in range(plies + 1):
        side = "xo"[ply % 2]
        following: set[Stacks] = set()
        for stacks in layer:
            if (ply % 2 == 0) != first:
                replies = [drop(stacks, c, side) for c in range(COLUMNS) if len(stacks[c]) < ROWS]
                following |= {reply for reply in replies if not wins(reply, side, ROWS, RUN)}
                continue
            column, verdict = table[stacks]
            after = drop(stacks, column, side)
            if -minimax(after, ROWS, RUN)[0] < minimax(stacks, ROWS, RUN)[0]:
                expected = "MISTAKE"
                if beyond:
                    following.add(after)
            elif wins(after, side, ROWS, RUN):
                expected = "WINS"
            elif all(len(stack) == ROWS for stack in after):
                expected = "DRAWS"
            else:
                expected = verdict
                assert verdict in ("ANSWER", "PROOF")
                if verdict == "PROOF":
                    assert minimax(after, ROWS, RUN)[0] == -1
                else:
                    following.add(after)
            assert verdict == expected
            seen.setdefault(ply, Counter())[verdict] += 1
        going_on = {stacks for stacks in following if not all(len(stack) == ROWS for stack in stacks)}
        layer = {min(stacks, stacks[::-1]) for stacks in going_on}
    return seen


@pytest.mark.parametrize("beyond", [True, False])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("kind", ["random", "network"])
def test_walk_counts_and_judges_positions_like_minimax(
    kind: str, first: bool, beyond: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two players that make mistakes, one of which proves wins. Each level is judged in several batches."""
    monkeypatch.setattr("alphac4.evaluation.walks.MIN_JUDGED_BATCH", 5)
    monkeypatch.setattr("alphac4.evaluation.walks.JUDGED_PER_PLAYER", 1)
    rng = np.random.default_rng(3)
    player: Player = RandomPlayer(rng)
    if kind == "network":
        search = NetworkSearch(UniformEvaluator(), board=SMALL, rng=rng, reuse="proofs")
        player = NetworkPlayer("uniform", search, Budget(simulations=12))
    path = tmp_path / "moves.txt"
    plies = 7 if beyond else 9
    reports = walk(player, path, first, plies, beyond=beyond)
    expected = naive_walk(path, first, plies, beyond=beyond)
    assert counts_of(reports) == expected
    assert all(len(report.failures) == report.count(MoveKind.MISTAKE) for report in reports)
    assert any(report.failures for report in reports)
    assert any(report.count(MoveKind.PROOF) for report in reports) == (kind == "network")


def test_interrupted_walk_resumes(tmp_path: Path) -> None:
    """Recorded moves are not requested again, even if the last line is incomplete."""

    class Interrupted(RandomPlayer):
        left = 2

        def choose(self, positions: list[Position]) -> list[int]:  # type: ignore[override]
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().choose(positions)

    path = tmp_path / "moves.txt"
    with pytest.raises(KeyboardInterrupt):
        walk(Interrupted(np.random.default_rng(0)), path, True)
    before = path.read_text()
    path.write_text(before[:-4])
    reports = walk(RandomPlayer(np.random.default_rng(1)), path, True)
    assert path.read_text().startswith(before[:-4])
    assert len(reports) > 2
    assert naive_walk(path, True, 16) == counts_of(reports)


def test_audit_command_prints_a_verdict_and_keeps_existing_records(
    tmp_path: Path, run_command: Callable[..., str], error_line: Callable[..., str]
) -> None:
    late, path = "--moves 444444222222666666", tmp_path / "moves.txt"  # late in a game, so that it is quick
    assert "solver, moving first, makes no mistake in the " in run_command(f"audit solver {late} --max-stones 22")
    shown = run_command(f"audit random {late} --side second --max-stones 25 --output", path, status=1)
    assert re.search(r"random, moving second, makes \d+ mistakes in ", shown)
    assert "444444222222666666" in shown.splitlines()[-1]
    before = path.read_text()
    assert 'holds player "random", not "negamax:1"' in error_line(f"audit negamax:1 {late} --output", path)
    assert path.read_text() == before
    Journal(tmp_path / "less.txt", FORMAT, {"player": "random"})
    assert "less.txt holds side null, not" in error_line(f"audit random {late} --output", tmp_path / "less.txt")


def test_audit_command_prints_the_counts_of_minimax(tmp_path: Path, run_command: Callable[..., str]) -> None:
    player, path = f"{save_untrained(tmp_path / 'small.safetensors', SMALL)}@4", tmp_path / "moves.jsonl"
    command = f"audit {player} --max-stones 6 --continue-after-mistakes --backend torch-fp32 --output {path}"
    heading, *lines = run_command(command, status=1).splitlines()
    levels = naive_walk(path, True, 6, beyond=True)
    kinds = ("WINS", "PROOF", "DRAWS", "ANSWER", "MISTAKE")
    rows = [[stones, level.total(), *map(level.get, kinds, [0] * 5)] for stones, level in levels.items()]
    assert heading == "    stones  positions        won proven won      drawn  continued   mistakes"
    assert [[int(number) for number in line.split()] for line in lines[: len(rows)]] == rows
    _, positions, won, proven, *_, mistakes = map(sum, zip(*rows, strict=True))
    assert 0 < won != proven > 0
    assert mistakes > 1
    assert lines[len(rows)] == ""
    assert lines[len(rows) + 1] == (
        f"{player}, moving first, makes {mistakes} mistakes in the {positions} positions that an opponent can reach "
        f"with up to 6 stones (asked in one of two mirror images) ({100 * mistakes / positions:.2f}%)."
    )


FORCED = f"--moves {DRAWN[:36]}"  # only one column is open; the second player fills the board
BLUNDER = "--moves 44444422222266666 --side second --seed 0"  # the first move of `random` loses
PLACE = "\nMoves up to the mistakes, some mirrored: 444444222222666667"


@pytest.mark.parametrize(
    ("command", "result", "scope", "rest"),
    [
        (f"NETWORK@1 {FORCED}", "no mistake in the 3 positions", "", ". Every line was followed to its end: proven."),
        (f"NETWORK@1 {FORCED} --max-stones 39", "no mistake in the 2 positions", " with up to 38 stones", "."),
        (
            f"negamax:1 {FORCED} --side second",
            "no mistake in the 3 positions",
            "",
            ". It may move differently next time, so this is not a proof.",
        ),
        (
            f"random {BLUNDER} --max-stones 17 --continue-after-mistakes",
            "1 mistake in the 1 position",
            " with up to 17 stones",
            f" (100.00%).{PLACE}",
        ),
        (
            f"random {BLUNDER}",
            "1 mistake in the 1 position",
            "",
            f" (100.00%); lines stop at the first mistake.{PLACE}",
        ),
    ],
    ids=["complete", "cut off", "complete but unrepeatable", "cut off at a mistake", "complete after a mistake"],
)
def test_verdict_of_audit_distinguishes_complete_walks_from_those_cut_off(
    command: str, result: str, scope: str, rest: str, checkpoint: Path, run_command: Callable[..., str]
) -> None:
    command = command.replace("NETWORK", str(checkpoint))
    shown = run_command(f"audit {command} --backend torch-fp32", status=int("1 mistake" in result))
    side = "second" if "second" in command else "first"
    assert shown.partition("\n\n")[2] == (
        f"{command.split()[0]}, moving {side}, makes {result} that an opponent can reach{scope} "
        f"(asked in one of two mirror images){rest}\n"
    )


def test_lines_continue_after_proofs_that_the_player_does_not_follow() -> None:
    """The longer search of `@auto` proves the win here, but the next move is a new search, which makes a mistake."""
    evaluator, rng = UniformEvaluator(), np.random.default_rng(0)
    first, deeper = NetworkSearch(evaluator, reuse="proofs"), NetworkSearch(evaluator, rng=rng, reuse="trees")
    player = AutoPlayer("uniform@auto", first, deeper, TimeManagement())
    games = WalkScope(after="616156132153")
    reports = list(walk_games([player], KnownMoves(STANDARD), games, max_stones=14))
    assert not reports[0].count(MoveKind.PROOF)
    assert [position.moves for position in reports[1].failures] == ["616156132153473"]


def test_a_walk_is_not_resumed_with_another_backend(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["audit", f"{checkpoint}@2", "--moves", "444444222222666666", "--max-stones", "18"]
    command += ["--output", str(tmp_path / "moves.txt"), "--backend"]
    assert main([*command, "torch-fp32"]) in (0, 1)
    assert main([*command, "torch-bf16"]) == 2
    assert 'holds backend "torch-fp32", not "torch-bf16"' in capsys.readouterr().err
