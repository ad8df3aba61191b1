"""Gives every command thousands of arguments that cannot be right.

``PYTHONPATH=tests python -m campaigns.arguments --count 5000 --processes 20``

Each must be refused with exit code 2 and one line on the standard error that begins with the command's name: no
traceback, nothing on the standard output, and no work begun. Most run in this process, some in one of their own.
"""

import argparse
import contextlib
import io
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from alphac4.cli import COMMANDS, main
from alphac4.commands.arguments import metavars, written_by

PATIENCE = 60  # seconds in which a bad line must be refused; the first ones import PyTorch
NO_NUMBERS = ("x", "", "1.5.2", "--", "0x10", "½", "1,5", "٣x", "\x00", "a" * 3000, "\ud800", "$(reboot)", "%s%n")
NO_WHOLE_NUMBERS = (*NO_NUMBERS, "1.5", "nan", "inf", "1e3")
TOO_LARGE = ("9" * 30, "-" + "9" * 30, "1" + "0" * 400, "9" * 5000)
TOO_LARGE_NUMBERS = ("nan", "inf", "-inf", "1e999")
NO_MOVES = ("9", "0", "44x", "1111111", "11223344", " ", "4 4", "٣", "-4", "4" * 5000)
NO_PLAYERS = ("nobody", "uct:", "uct:0", "uct:x", "uct:1,roots=1000000000", "best@99999999999", "best@-1", "best@nans")
NO_PLAYERS = (
    *NO_PLAYERS,
    "negamax:-1",
    "negamax:9" + "9" * 50,
    "nothing.safetensors",
    "/dev/null.safetensors",
    "uct:1e9",
)
# What else stands on the line, so that a mistake that goes unnoticed does not write into the current folder.
NEEDED = {
    "train": ["--run", "{folder}/run"],
    "selfplay": ["--output", "{folder}/games", "--samples", "1"],
    "arena": ["random", "uct:1", "--games", "2"],
    "positions": ["{folder}/sets", "--count", "1"],
    "curve": ["{folder}", "--picture", "{folder}/curve.png"],
    "export": ["fast", "--kaggle", "{folder}/main.py"],
    "evaluate": ["random", "--count", "1"],
    "prove": ["random", "--plies", "1"],
    "solve": ["44"],
    "search": ["44", "--player", "uct:1"],
}
PLAYER_OPTIONS = {"play": "--first", "engine": "--player", "search": "--player"}
MOVE_OPTIONS = {"play": "--moves", "prove": "--start"}


class Mistakes:
    """Makes command lines with a mistake in each, by chance but the same for the same seed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.options = {name: _options(name) for name in COMMANDS}

    def line(self) -> tuple[list[str], str]:
        """A command line, and what is wrong with it."""
        command = self.random.choice(list(COMMANDS))
        options = self.options[command]
        kinds = [self.unknown_option, self.no_value, self.wrong_value, self.wrong_value, self.one_word_too_many]
        if command in PLAYER_OPTIONS or command in ("evaluate", "prove", "arena"):
            kinds.append(self.no_such_player)
        if command in MOVE_OPTIONS or command in ("solve", "search"):
            kinds.append(self.no_such_position)
        kind = self.random.choice(kinds)
        needed = [word.format(folder=self.folder) for word in NEEDED.get(command, [])]
        return [command, *kind(command, options, needed)], kind.__name__.replace("_", " ")

    def unknown_option(self, _command: str, options: dict[str, str], needed: list[str]) -> list[str]:
        """A real name with a letter changed, or none at all."""
        while True:
            name = self.random.choice([*options, "--"])
            at = self.random.randint(2, len(name))
            name = name[:at] + self.random.choice("qxz_.-é") + name[at:]
            if name.replace("_", "-") not in options and name.replace("_", "-").strip("-"):
                return [*needed, name, *self.random.choice([[], ["3"], ["x"]])]

    def no_value(self, _command: str, options: dict[str, str], needed: list[str]) -> list[str]:
        """An option at the end of the line that wants a value."""
        wanting = [name for name, metavar in options.items() if metavar and not metavar.startswith("[")]
        return [*needed, self.random.choice(wanting)]

    def wrong_value(self, command: str, options: dict[str, str], needed: list[str]) -> list[str]:
        """A value that the option cannot take: no number, or one beyond all bounds."""
        if command == "export":  # takes paths only
            return self.no_value(command, options, needed)
        values = {name: v for name, metavar in options.items() if (v := _wrong_values(metavar))}
        name = self.random.choice(list(values))
        value = self.random.choice(values[name])
        return [
            *needed,
            *([f"{name}={value}"] if value.startswith("-") or self.random.random() < 0.5 else [name, value]),
        ]

    def one_word_too_many(self, command: str, _options: dict[str, str], needed: list[str]) -> list[str]:
        """Words where none belong; the arena takes any number, but not twice the same."""
        return [*needed, *(["random"] * 2 if command == "arena" else ["word", "another", "third"])]

    def no_such_player(self, command: str, _options: dict[str, str], needed: list[str]) -> list[str]:
        """A player that does not exist, or cannot."""
        player = self.random.choice(NO_PLAYERS)
        if command in PLAYER_OPTIONS:
            return [*needed, PLAYER_OPTIONS[command], player]
        return [player, *needed[1:]]

    def no_such_position(self, command: str, _options: dict[str, str], needed: list[str]) -> list[str]:
        """Moves that the rules forbid."""
        moves = self.random.choice(NO_MOVES)
        if command in MOVE_OPTIONS:
            return [*needed, f"{MOVE_OPTIONS[command]}={moves}"]
        return ["--", moves] if moves.startswith("-") else [moves, *needed[1:]]


def _options(command: str) -> dict[str, str]:
    """What each option of a command takes."""
    return metavars(written_by(lambda: main([command, "--help"])))


def _wrong_values(metavar: str) -> tuple[str, ...]:
    """Values that an option of this kind must refuse."""
    if "FLOAT" in metavar:
        return (*NO_NUMBERS, *TOO_LARGE_NUMBERS)
    if "INT" in metavar:
        return (*NO_WHOLE_NUMBERS, *TOO_LARGE)
    return ("nothing-of-the-kind", "", "x" * 3000) if "," in metavar else ()


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    """Interrupt what takes too long."""

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"not refused within {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check(line: list[str], code: int, output: str, complaint: str) -> None:
    """Raise an AssertionError unless the line was refused as it should be."""
    shown = [word if len(word) < 80 else f"{word[:60]}... ({len(word)} characters)" for word in line]
    assert code == 2, f"exit code {code} for {shown}: {output[-300:]!r} {complaint[-300:]!r}"
    assert len(complaint.splitlines()) == 1, f"{len(complaint.splitlines())} lines for {shown}: {complaint[-500:]!r}"
    assert complaint.startswith(f"alphac4 {line[0]}: "), f"{complaint[:200]!r} for {shown}"
    assert "Traceback" not in complaint, complaint
    assert len(complaint) < 1500, f"{len(complaint)} characters for {shown}"
    assert output == "", f"{output[:300]!r} for {shown}"


def run(lines: int, processes: int, seed: int) -> Counter[str]:
    """Give so many lines, ``processes`` of them to a process each; how many of each kind.

    Raises:
        AssertionError: naming a line that was not refused as it should be.
    """
    seen = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        mistakes = Mistakes(Path(folder), seed)
        for number in range(lines):
            line, kind = mistakes.line()
            output, complaint = io.StringIO(), io.StringIO()
            try:
                with contextlib.redirect_stdout(output), contextlib.redirect_stderr(complaint), _patience():
                    code = main(line)
            except BaseException as error:
                raise AssertionError(f"{type(error).__name__} {error} for {line}") from error
            check(line, code, output.getvalue(), complaint.getvalue())
            seen[kind] += 1
            if number < processes and not any("\0" in word or "\ud800" in word for word in line):
                done = subprocess.run(
                    [sys.executable, "-m", "alphac4.cli", *line],
                    capture_output=True,
                    text=True,
                    timeout=300,
                    check=False,
                )
                check(line, done.returncode, done.stdout, done.stderr)
                seen["of them in processes of their own"] += 1
    return seen


def run_from_command_line() -> None:
    """Give lines as the options say, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5_000, help="command lines")
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started = time.perf_counter()
    seen = run(options.count, options.processes, options.seed)
    own = seen.pop("of them in processes of their own", 0)
    seconds = time.perf_counter() - started
    print(
        f"{options.count:,} command lines in {seconds:.0f} s, {own} of them in processes of their "
        f"own: each refused in one line ({', '.join(f'{count:,} {kind}' for kind, count in seen.most_common())})"
    )


if __name__ == "__main__":
    run_from_command_line()
