"""Parsing of command-line options, and the options that several commands share."""

import contextlib
import inspect
import io
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import tyro

from alphac4.arena.registry import check_players
from alphac4.compute.registry import DeviceCheck, device_forms
from alphac4.machine import notify_if_slow
from alphac4.play.levels import LEVELS_BY_NAME
from alphac4.storage.records import deferred_checks, did_you_mean, find_synonyms, quote, setting_names

if TYPE_CHECKING:
    from alphac4.compute.cores import Compute

Options = TypeVar("Options")


def read_arguments(
    kind: type[Options], arguments: Sequence[str], command: str, default: Options | None = None
) -> Options:
    """Parse the options of ``alphac4 COMMAND`` into a dataclass; ``--help`` prints its docstring first."""
    if {"-h", "--help"} & set(arguments):
        _join_lines(kind)
        missing = "Unset PYTHONOPTIMIZE to see what the command does: with -OO, Python discards that text."
        print(_paragraphs(inspect.getdoc(kind) or "" if sys.flags.optimize < 2 else missing), end="\n\n")
    known = [f"--{name.replace('_', '-')}" for name in setting_names(kind)]
    for word in (word.partition("=")[0] for word in arguments if word.startswith("--")):
        if word.replace("_", "-") not in known and find_synonyms(word, known):
            raise ValueError(f"unknown option {word}{did_you_mean(word, known)}")
    message = io.StringIO()
    try:
        with contextlib.redirect_stderr(message), deferred_checks():
            options = tyro.cli(
                kind,
                args=arguments,
                prog=f"alphac4 {command}",
                description="",  # printed above, because tyro does not wrap long lines between words
                default=cast(Options, default),
                config=(tyro.conf.DisallowNone,),  # otherwise the help shows {None}|PATH
            )
    except SystemExit:
        sys.stderr.write(message.getvalue())
        raise
    return options


def given_options(arguments: Sequence[str]) -> set[str]:
    """Return the names of the options that a command line contains, such as "selfplay.full_visits"."""
    return {word[2:].partition("=")[0].replace("-", "_") for word in arguments if word.startswith("--")}


def _paragraphs(text: str) -> str:
    """Wrap the paragraphs of a docstring to the terminal's width; indented ones, such as examples, stay as they are."""
    width = shutil.get_terminal_size().columns
    return "\n\n".join(
        part if part.startswith(" ") else textwrap.fill(part, width, break_long_words=False, break_on_hyphens=False)
        for part in text.replace("``", "`").split("\n\n")
    )


def _join_lines(kind: Any) -> None:
    """Join the lines of each option's documentation, because tyro keeps line breaks."""
    import docstring_parser  # a dependency of tyro

    for base in filter(is_dataclass, kind.__mro__):
        texts = {item.arg_name: item.description or "" for item in docstring_parser.parse_from_object(base).params}
        for item in fields(kind):
            if item.name in texts:
                item.metadata = MappingProxyType({"help": " ".join(texts[item.name].split())})
            if is_dataclass(part := getattr(item.type, "__origin__", item.type)):  # Annotated[part, ...]
                _join_lines(part)


@contextlib.contextmanager
def loading(*, at_once: bool = False) -> Iterator[None]:
    """Announce slow imports in the block, and compilations after it, on a terminal.

    The line about imports appears after a second, or ``at_once``.
    """
    text = "loading; the first start takes longer ..."
    if at_once and sys.stderr.isatty():
        _note(text)
        yield
    else:
        with notify_if_slow(lambda: _note(text), sys.stderr):
            yield
    if "numba" in sys.modules and sys.stderr.isatty():
        from alphac4.compiled import announce_compilation

        announce_compilation(_note_compilation)


def _note_compilation() -> None:
    _note("compiling once for this machine, for up to a minute ...")


def _note(text: str) -> None:
    """Print a line to the standard error, above a progress bar if there is one."""
    if "alphac4.bars" in sys.modules:
        from alphac4.bars import Bar

        Bar.write(text, file=sys.stderr)
    else:
        print(text, file=sys.stderr)


def metavar(text: str) -> Any:
    """Return an annotation: the help shows ``text`` in place of an option's value, and no default if that is empty."""
    return tyro.conf.arg(metavar=text, help_behavior_hint=_default_hint)


def _default_hint(default: str) -> str:
    return "" if default in ("", "''", "None") else f"(default: {default})"


NO_PREFIX: Any = tyro.conf.arg(name="")
"""Annotation of a dataclass whose fields are options of the command itself."""


@dataclass(frozen=True)
class PlayerCheck:
    """Annotation of options that name players. Only their kinds are checked, because the rest takes longer."""

    others: tuple[str, ...] = ()  # further words that the option accepts

    def check(self, name: str, value: str | tuple[str, ...]) -> None:  # noqa: ARG002 - as `Range.check`
        """Check the player in ``value``, or each of several; an empty text, a command's default, is valid."""
        players = {value} if isinstance(value, str) else set(value)
        for level in LEVELS_BY_NAME.keys() & players - set(self.others):
            raise ValueError(f"{quote(level)} is a level of `alphac4 play`, not a player; `alphac4 players` lists them")
        check_players(*players, others=self.others)


Count = Annotated[int | None, metavar("N")]
PlayerName = Annotated[str, metavar("PLAYER"), PlayerCheck()]
NetworkName = Annotated[str, metavar("NETWORK")]
Moves = Annotated[str, metavar("MOVES")]
Device = Annotated[str, metavar("|".join(device_forms())), DeviceCheck()]
OutputFile = Annotated[Path | None, metavar("FILE")]
OutputFolder = Annotated[Path, metavar("FOLDER")]


@dataclass(frozen=True, kw_only=True)
class ComputeOptions:
    """Device and backend that run networks."""

    device: Device = "auto"
    """Device that runs networks. Devices on other machines are only for the games of train, selfplay and arena."""
    backend: Annotated[str, metavar("NAME")] = "auto"
    """Inference backend; auto chooses by a fixed rule for this processor, without 8-bit integers."""

    def choose(self, threads: int | None = None) -> "Compute":
        """Return the compute that runs networks in this process."""
        from alphac4.compute import choose_compute

        return choose_compute(self.device, self.backend, threads=threads)
