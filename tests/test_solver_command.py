import io
import signal
import threading
import time

import pytest

from alphac4 import cli
from alphac4.commands.solve import SolveOptions, main, run


def answer(monkeypatch: pytest.MonkeyPatch, lines: str, **options: bool) -> int:
    """Run ``alphac4 solve --batch`` on these lines of input."""
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    return run(SolveOptions(batch=True, **options))  # type: ignore[arg-type]


def test_a_position_is_shown_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Each column has a row with its score and what that means; the best are marked."""
    assert main(["2252576253462244111563365343671351441"]) == 0
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "1 . full" in rows
    assert "6 -1 loses in 2 moves *" in rows
    assert "7 -2 loses in 1 move" in rows


def test_a_finished_game_is_refused() -> None:
    """There is nothing to score; who has won is told."""
    with pytest.raises(ValueError, match="the game is over: x has won"):
        main(["1122334"])


def test_weak_scores_tell_only_who_wins(capsys: pytest.CaptureFixture[str]) -> None:
    """No number of moves is claimed."""
    assert main(["112233", "--weak"]) == 0
    assert "4      1  wins  *" in capsys.readouterr().out


def test_batch_writes_moves_and_score(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each line of input; empty lines are passed over."""
    assert answer(monkeypatch, "112233\n\n31415\n") == 0
    assert capsys.readouterr().out == "112233 18\n31415 -18\n"


def test_batch_writes_a_score_per_column(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Full columns are written as a dot."""
    moves = "2252576253462244111563365343671351441"
    assert answer(monkeypatch, f"{moves}\n", column_scores=True) == 0
    assert answer(monkeypatch, f"{moves}\n", column_scores=True, weak=True) == 0
    assert capsys.readouterr().out == f"{moves} . . . . . -1 -2\n{moves} . . . . . -1 -1\n"


def test_bad_lines_are_reported_and_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each bad line gets one message with its number; the rest is answered; the exit code is 2."""
    assert answer(monkeypatch, "112233\n48\n1111111\n31415\n") == 2
    output = capsys.readouterr()
    assert output.out == "112233 18\n31415 -18\n"
    first, second = output.err.splitlines()
    assert first.startswith("line 2:")
    assert "'8'" in first
    assert second.startswith("line 3:")
    assert "full" in second


@pytest.mark.slow
def test_ctrl_c_ends_a_long_solve(capsys: pytest.CaptureFixture[str]) -> None:
    """The empty board takes minutes without the book; exit code 130 within seconds, and no traceback."""
    run(SolveOptions(moves="112233"))  # whatever there is to load is loaded
    capsys.readouterr()
    timer = threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT))
    started = time.monotonic()
    timer.start()
    assert cli.main(["solve", "--no-book"]) == 130
    assert 0.4 < time.monotonic() - started < 10
    timer.join()
    assert capsys.readouterr() == ("", "")


def test_a_bad_position_is_an_error() -> None:
    """A single position has no line number; the command line reports the error."""
    with pytest.raises(ValueError, match="illegal move"):
        run(SolveOptions(moves="9"))


def test_a_book_is_built_on_request(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    """The book lies where the option says and nothing is printed to the standard output."""
    path = tmp_path / "small.book"
    arguments = ["--build-book", "--rows", "4", "--width", "4", "--book-plies", "2", "--output", str(path)]
    assert main(arguments) == 0
    assert path.exists()
    assert capsys.readouterr().out == ""


def test_without_arguments_the_empty_board_is_solved(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the centre alone wins, with the first player's last stone (Allis 1988)."""
    assert main([]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if line.endswith("*")] == ["     4      1  wins in 21 moves  *"]
