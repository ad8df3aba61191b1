"""The `alphac4` command."""

import contextlib
import io
import logging
import os
import signal
import sys
from collections.abc import Sequence

from alphac4.commands import EXIT_BAD_INPUT, EXIT_BROKEN_INSTALL, EXIT_SIGNAL, all_commands
from alphac4.machine import adapt_process, install_advice, raise_on_end_signals, wrap_text
from alphac4.storage.records import MAX_MESSAGE_LENGTH, did_you_mean, quote, shorten
from alphac4.version import __version__

HELP_WORDS = ("-h", "--help", "help")
EXAMPLES = """\
  alphac4 play 5                                  play against level 5 of 8
  alphac4 train --preset quick --run runs/mine    train a network in 8 to 18 minutes
  alphac4 evaluate runs/mine/checkpoints/best.safetensors    measure it against exact play"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit code.

    It is 1 for a broken installation, 2 for bad input, 130 after Ctrl-C, 143 after SIGTERM or SIGHUP, or the command's.
    Without ``arguments``, parse those of the process and adapt the process to the command.
    """
    if arguments is None:
        adapt_process()
        raise_on_end_signals()
        if "" not in sys.path:  # `python -m alphac4` adds it
            sys.path.insert(0, "")  # so that players written "module:Class" are found in the current folder
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for stream, mode in ("stdin", "r"), ("stdout", "w"), ("stderr", "w"):
        if getattr(sys, stream) is None:  # closed, as in a program without a terminal
            setattr(sys, stream, open(os.devnull, mode))  # noqa: PTH123, SIM115 - open until the process ends
    for text in (sys.stdin, sys.stdout):
        if isinstance(text, io.TextIOWrapper):  # the calling program may have replaced it
            with contextlib.suppress(io.UnsupportedOperation):  # if it was read before
                # Show characters that cannot be decoded or encoded as \xe9 instead of failing.
                text.reconfigure(errors="backslashreplace")
    name = f"alphac4 {arguments[0]}" if arguments and arguments[0] in all_commands() else "alphac4"
    try:
        try:
            return _dispatch(arguments)
        except SystemExit as end:  # after --help, or for invalid options
            return end.code if isinstance(end.code, int) else 0
        finally:
            sys.stdout.flush()  # so that a full disk is reported below
    except (ValueError, RuntimeError) as error:  # bad input, described by the message
        return _print_error(name, str(error))
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        _discard_output()
        return 0
    except OSError as error:  # an unwritable folder, a full disk
        _discard_output()
        return _print_error(name, f"{error.filename or 'the output'}: {error.strerror or error}")
    except (OverflowError, MemoryError) as error:
        return _print_error(name, f"too large for the memory of this machine: {error or 'out of memory'}")
    except ImportError as error:  # a required package is missing
        _print_error(name, f"the installation is broken; reinstall the package ({install_advice('')}): {error}")
        return EXIT_BROKEN_INSTALL
    except KeyboardInterrupt as interrupt:
        with contextlib.suppress(OSError):
            text = " ".join(["Stopped.", *getattr(interrupt, "__notes__", ())])
            print(f"\n{wrap_text(text, sys.stderr, indent='')}", file=sys.stderr)
        return EXIT_SIGNAL + (interrupt.args[0] if interrupt.args else signal.SIGINT)


def _dispatch(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] in HELP_WORDS:
        named = [word for word in arguments if word not in HELP_WORDS]
        arguments = [*named, "--help"] if named else []
    if not arguments:
        print(_overview())
        return 0
    if list(arguments) == ["--version"]:
        print(f"alphac4 {__version__}")
        return 0
    commands = all_commands()
    words = 2 if " ".join(arguments[:2]) in commands else 1
    name, rest = " ".join(arguments[:words]), arguments[words:]
    if name not in commands:
        guess = did_you_mean(name, commands)
        raise ValueError(f"unknown command {quote(name)}{guess}; the commands are {', '.join(commands)}")
    from alphac4.commands.arguments import read_arguments  # imports tyro, which the overview does not need

    kind = commands[name].load()
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    for module in "alphac4.bars", "alphac4.commands", kind.__module__:  # other modules only print warnings
        logging.getLogger(module).setLevel(logging.INFO)
    command = kind.read(rest) if hasattr(kind, "read") else read_arguments(kind, rest, name)
    return int(command())


def _overview() -> str:
    lines = ["usage: alphac4 COMMAND [options]"]
    groups: dict[str, list[str]] = {}
    for name, command in all_commands().items():
        groups.setdefault(command.group, []).append(f"  {name:<12} {command.summary}")
    for group, listed in groups.items():
        lines += ["", f"{group}:", *listed]
    lines += ["", "Examples:", EXAMPLES, "", "alphac4 COMMAND --help lists a command's options."]
    return "\n".join(lines)


def _print_error(name: str, message: str) -> int:
    """Print an error in one line, shortened; return the exit code of bad input."""
    line = shorten(" ".join(message.split()), MAX_MESSAGE_LENGTH)
    with contextlib.suppress(OSError):  # a full disk
        print(wrap_text(f"{name}: {line}", sys.stderr), file=sys.stderr)
    return EXIT_BAD_INPUT


def _discard_output() -> None:
    """Discard buffered output, because Python would try to write it again at exit and print a second error."""
    with contextlib.suppress(OSError, ValueError):  # a stream without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
