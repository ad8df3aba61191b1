"""The `alphac4` command."""

import contextlib
import io
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from alphac4.commands import BAD_INPUT, INTERRUPTED, UNSOUND
from alphac4.machine import adapt_process, install_advice, wrapped
from alphac4.storage.records import did_you_mean
from alphac4.version import __version__

MAX_MESSAGE_LENGTH = 1200  # characters

# Every command by group. The group's module in `alphac4.commands` has a class for each, such as PlayWebCommand.
GROUPS = {
    "Play": {
        "play": "play a game in the terminal",
        "play web": "play in the browser",
        "play puzzles": "solve puzzles: positions where one move alone wins",
        "review": "judge every move of a game, and show where it turned",
        "search": "show what a search sees in a position, and draw its tree",
        "solve": "score positions exactly",
        "puzzles": "make puzzles",
        "players": "list the players that commands take",
    },
    "Train": {
        "train": "train a network: self-play, learning, gating",
        "selfplay": "let a checkpoint play itself and record the games",
    },
    "Judge": {
        "arena": "play matches between any players and rate them",
        "evaluate": "measure a network or any player against exact play",
        "prove": "judge every move that a player can ever have to make",
        "certificate": "make or check a proof that a player wins against every reply",
        "positions": "make sets of positions with exact scores to evaluate on",
    },
    "Ship": {
        "export": "write a network in a form that runs without this package",
        "engine": "answer other programs over a line protocol",
        "doctor": "check the installation, and measure how fast this machine is",
    },
}
COMMANDS = [name for group in GROUPS.values() for name in group]
EXAMPLES = """\
  alphac4 play 5                                  play against the shipped network
  alphac4 train --preset quick --run runs/mine    train one in 8 to 24 minutes
  alphac4 evaluate runs/mine/checkpoints/best.safetensors    measure it against exact play"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit code: 2 for bad input, with one line on stderr.

    Without ``arguments`` they are those of the process, which is then the command's own, and set up for it.
    """
    if arguments is None:
        adapt_process()
        if "" not in sys.path:  # with `python -m alphac4` it is there
            sys.path.insert(0, "")  # players of one's own, written "module:Class", may be in the current folder
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for stream, mode in ("stdin", "r"), ("stdout", "w"), ("stderr", "w"):
        if getattr(sys, stream) is None:  # it is closed, as in a program without a terminal
            setattr(sys, stream, open(os.devnull, mode))  # noqa: PTH123, SIM115 - until the end of the process
    for text in (sys.stdin, sys.stdout):
        if isinstance(text, io.TextIOWrapper):  # another program may have put something else in its place
            with contextlib.suppress(io.UnsupportedOperation):  # it has been read from
                # Show input that cannot be decoded, and output that cannot be encoded, as \xe9 instead of ending.
                text.reconfigure(errors="backslashreplace")
    name = f"alphac4 {arguments[0]}" if arguments and arguments[0] in COMMANDS else "alphac4"
    try:
        try:
            return _dispatch(arguments)
        except SystemExit as end:  # --help, or options that cannot be read
            return end.code if isinstance(end.code, int) else 0
        finally:
            sys.stdout.flush()  # here, where a full disk can still be reported
    except (ValueError, RuntimeError) as error:  # bad input: every such error says in one line what is wrong
        return _refuse(name, str(error))
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        _forget_output()
        return 0
    except OSError as error:  # an unwritable folder, a full disk
        _forget_output()
        return _refuse(name, f"{error.filename or 'the output'}: {error.strerror or error}")
    except (OverflowError, MemoryError) as error:
        return _refuse(name, f"more than this machine can hold: {error or 'no memory is left'}")
    except ImportError as error:  # of a package that every installation has: no mistake of the user's
        _refuse(name, f"the installation is not sound, install it anew ({install_advice('')}): {error}")
        return UNSOUND
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            print("\nStopped.", file=sys.stderr)
        return INTERRUPTED


def _dispatch(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if arguments[0] == "--version":
        print(f"alphac4 {__version__}")
        return 0
    words = 2 if " ".join(arguments[:2]) in COMMANDS else 1
    name, rest = " ".join(arguments[:words]), arguments[words:]
    if name not in COMMANDS:
        raise ValueError(f"no command {name!r}{did_you_mean(name, COMMANDS)}; there are {', '.join(COMMANDS)}")
    from alphac4.commands.arguments import read_arguments  # with tyro, which the overview does without

    group = next(group for group, commands in GROUPS.items() if name in commands)
    module = import_module(f"alphac4.commands.{group.lower()}")
    kind = getattr(module, f"{name.title().replace(' ', '')}Command")
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    command = kind.read(rest) if hasattr(kind, "read") else read_arguments(kind, rest, name)
    return int(command())


def _overview() -> str:
    lines = ["usage: alphac4 COMMAND [options]"]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {name:<12} {summary}" for name, summary in commands.items())]
    lines += ["", "Examples:", EXAMPLES, "", "alphac4 COMMAND --help explains a command's options."]
    return "\n".join(lines)


def _refuse(name: str, message: str) -> int:
    """Print in one line what is wrong, with very long input shortened to its ends."""
    line = " ".join(message.split())
    if len(line) > MAX_MESSAGE_LENGTH:
        line = f"{line[: MAX_MESSAGE_LENGTH // 2]} ... {line[-MAX_MESSAGE_LENGTH // 2 :]}"
    print(wrapped(f"{name}: {line}", sys.stderr), file=sys.stderr)
    return BAD_INPUT


def _forget_output() -> None:
    """Discard what is still to be written; at exit Python would otherwise try again, and complain."""
    with contextlib.suppress(OSError, ValueError):  # a stream without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
