"""The `alphac4` command."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from alphac4 import __version__


@dataclass(frozen=True)
class Command:
    """A subcommand: its module in `alphac4.commands` and a line for the overview."""

    module: str
    summary: str


COMMANDS = {
    "train": Command("train", "train a network: self-play, learning, gating"),
    "selfplay": Command("selfplay", "let a checkpoint play itself and record the games"),
    "arena": Command("arena", "play matches between any players and rate them"),
    "evaluate": Command("evaluate", "measure a network or any player against exact play"),
    "prove": Command("prove", "judge every move that a player can ever have to make"),
    "positions": Command("positions", "make sets of positions with exact scores to evaluate on"),
    "play": Command("play", "play a game in the terminal"),
    "engine": Command("engine", "answer other programs over a line protocol"),
    "search": Command("search", "show what a search sees in a position, and draw its tree"),
    "curve": Command("curve", "draw how the networks of a run got better"),
    "solve": Command("solve", "score positions exactly"),
    "export": Command("export", "write a network in a form that runs without this package"),
    "benchmark": Command("benchmark", "measure rules, searches, inference and self-play"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit code: 2 for bad input, with one line on stderr."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: alphac4 COMMAND [options]\n\ncommands:")
        for name, command in COMMANDS.items():
            print(f"  {name:<10} {command.summary}")
        print("\nalphac4 COMMAND --help explains every option.")
        return 0
    if arguments[0] == "--version":
        print(f"alphac4 {__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        print(f"alphac4: no command {name!r}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    # Imported here: `alphac4 --help` should not wait for PyTorch.
    module: Any = import_module(f"alphac4.commands.{COMMANDS[name].module}")
    execute: Callable[[Sequence[str]], int] = module.main
    try:
        return execute(rest)
    except (ValueError, RuntimeError) as error:  # bad input: every such error says in one line what is wrong
        print(f"alphac4 {name}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        sys.stderr.close()
        return 0
    except OSError as error:  # an unwritable folder, a full disk
        place = f"{error.filename}: " if error.filename else ""
        print(f"alphac4 {name}: {place}{error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def script(name: str) -> None:
    """Entry of ``scripts/NAME.py``."""
    raise SystemExit(main([name, *sys.argv[1:]]))


if __name__ == "__main__":
    raise SystemExit(main())
