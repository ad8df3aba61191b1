"""Reading of a command's options, and the options that several commands share."""

import contextlib
import inspect
import io
import shutil
import sys
import textwrap
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import tyro

from alphac4.arena.syntax import check_players
from alphac4.machine import notify_if_slow
from alphac4.play.levels import LEVELS_BY_NAME
from alphac4.storage.journal import read_about
from alphac4.storage.records import BoardConfig

if TYPE_CHECKING:
    from alphac4.compute import Compute, Pool

Options = TypeVar("Options")
Device = Literal["auto", "cpu", "cuda"]
NOBODY = "none"  # in place of a player whose opinion a review shows


def read_arguments(
    kind: type[Options], arguments: Sequence[str], command: str, default: Options | None = None
) -> Options:
    """Return the options of ``alphac4 COMMAND`` as a dataclass, whose docstring is printed above the help.

    Raises:
        ValueError: in one line, for values that the dataclass refuses, and for unknown players.
        SystemExit: after ``--help``, and with code 2 after tyro's message on the standard error.
    """
    if {"-h", "--help"} & set(arguments):
        _join_lines(kind)
        print(_paragraphs(inspect.getdoc(kind) or ""), end="\n\n")
    message = io.StringIO()
    try:
        with contextlib.redirect_stderr(message):
            options = tyro.cli(
                kind,
                args=arguments,
                prog=f"alphac4 {command}",
                description="",  # tyro would not break its long lines between words
                default=cast(Options, default),
                config=(tyro.conf.DisallowNone,),  # or else the help shows {None}|PATH
            )
    except SystemExit as end:
        if refusal := _refusal(end):
            raise ValueError(refusal) from None
        sys.stderr.write(message.getvalue())
        raise
    for name in ("player", "players", "reference") if command != "play" else ():
        value = getattr(options, name, ())
        players = [value] if isinstance(value, str) else value
        if level := next((player for player in players if player in LEVELS_BY_NAME), None):
            raise ValueError(f"{level!r} is a level of `alphac4 play`, not a player; see `alphac4 players`")
        check_players(*players, others=[NOBODY])
    return options


def _refusal(end: BaseException) -> str:
    """The message of the ValueError of this package that made tyro exit; empty if there is none."""
    error = end.__cause__ or end.__context__
    while error is not None:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        if isinstance(error, ValueError) and frames[-1].f_globals.get("__name__", "").startswith("alphac4."):
            return str(error)
        error = error.__cause__ or error.__context__
    return ""


def _paragraphs(text: str) -> str:
    """The text with its paragraphs as wide as the terminal, and without Sphinx's marks."""
    width = shutil.get_terminal_size().columns
    return "\n\n".join(
        part if part.startswith(" ") else textwrap.fill(part, width, break_long_words=False, break_on_hyphens=False)
        for part in text.replace("``", "`").split("\n\n")
    )


def _join_lines(kind: Any) -> None:
    """Join the lines of each option's documentation, whose breaks tyro would keep."""
    import docstring_parser  # a part of tyro that only the help needs

    for base in filter(is_dataclass, kind.__mro__):
        texts = {item.arg_name: item.description or "" for item in docstring_parser.parse_from_object(base).params}
        for item in fields(kind):
            if item.name in texts:
                item.metadata = MappingProxyType({"help": " ".join(texts[item.name].split())})
            if is_dataclass(part := getattr(item.type, "__origin__", item.type)):  # of an Annotated one
                _join_lines(part)


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """On a terminal, explain a long wait: for the imports in this block, and for a compilation that follows."""
    with notify_if_slow(lambda: _note("loading; the first start takes longer ..."), sys.stderr):
        yield
    if "numba" in sys.modules and sys.stderr.isatty():
        from alphac4.compiled import announce_compilation

        announce_compilation(_note_compilation)


def _note_compilation() -> None:
    _note("compiling once for this machine: 5 to 40 seconds ...")


def _note(text: str) -> None:
    """Write a line to the standard error, above a progress bar if there is one."""
    if "tqdm" in sys.modules:
        from tqdm import tqdm

        tqdm.write(text, file=sys.stderr)
    else:
        print(text, file=sys.stderr)


Board = Annotated[BoardConfig, tyro.conf.arg(name="")]
"""The type of an option whose fields are options of the command itself."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Device and backend that run networks, and processes for them."""

    device: Device = "auto"
    """Device that runs networks."""
    backend: str = "auto"
    """Inference backend; auto takes the fastest here, or that of the record which resumes."""
    cluster: str | None = None
    """Use the cores of a Ray cluster: HOST:PORT of its head, or auto for the one that this machine or job belongs to
    (docs/cluster.md)."""

    def __post_init__(self) -> None:
        if self.cluster is not None and self.device == "cuda":
            raise ValueError("--device cuda: with --cluster its cores do the work; leave one of the two out")

    def of_record(self, path: Path | None, kind: str) -> "Place":
        """Return this place with a record's backend, unless another is named: the last digits of two differ."""
        about = None if path is None else read_about(path, kind)
        return replace(self, backend=str(about.get("backend", "auto"))) if about and self.backend == "auto" else self

    def compute(self, threads: int | None = None) -> "Compute":
        """Return the compute that runs networks in this process."""
        from alphac4.compute import choose

        return choose(self.device if self.cluster is None else "cpu", self.backend, threads=threads)

    def pool(self) -> contextlib.AbstractContextManager["Pool | None"]:
        """Return the processes of the cluster until the end of the block, or None without one.

        Raises:
            RuntimeError: in one line, for a cluster that cannot be used.
            ValueError: in one line, for anything else than an address.
        """
        if self.cluster is None:
            return contextlib.nullcontext()
        from alphac4.compute import choose_pool

        return contextlib.closing(choose_pool(self.cluster))


Placed = Annotated[Place, tyro.conf.arg(name="")]
"""As `Board`, the options of a `Place`."""
