"""Reading of options, and the options that several commands share."""

import contextlib
import inspect
import io
import itertools
import os
import shutil
import sys
import textwrap
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import tyro

from alphac4.storage.journal import read_about
from alphac4.storage.records import BoardConfig, similar

if TYPE_CHECKING:
    from alphac4.compute import Compute, Pool

Options = TypeVar("Options")
Device = Literal["auto", "cpu", "cuda"]

NUMBERS: dict[Any, tuple[type, str]] = {  # by the types of options that are numbers: what reads them, and in words
    **dict.fromkeys((int, int | None), (int, "a whole number")),
    **dict.fromkeys((float, float | None), (float, "a number")),
}


def read_arguments(
    kind: type[Options], arguments: Sequence[str], command: str, *, description: str | None = None
) -> Options:
    """The options of ``alphac4 COMMAND`` as a dataclass; tyro answers ``--help``, and what it cannot read.

    The ``description`` above the help is by default the dataclass's own.

    Raises:
        ValueError: in one line, for a misspelt option or choice, a bad number, a missing value, or options that do not
            go together.
        SystemExit: after ``--help``, and with code 2 after a complaint of tyro's on the standard error.
    """
    if {"-h", "--help"} & set(arguments):
        prepare_help(kind)
        if os.environ.get("NO_COLOR"):
            os.environ["TERM"] = "dumb"  # all that tyro asks about; help ends the process
        print(_paragraphs(description or inspect.getdoc(kind) or ""), end="\n\n")
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                kind,
                args=arguments,
                prog=f"alphac4 {command}",
                description="",  # it would leave long lines to the terminal, which breaks words
                config=(tyro.conf.DisallowNone,),  # or else its help says {None}|PATH
            )
    except SystemExit as end:
        if line := end.code and (unreadable(kind, arguments, command) or _own_words(end)):
            raise ValueError(line) from None
        sys.stderr.write(complaint.getvalue())
        raise


def unreadable(kind: type, arguments: Sequence[str], command: str) -> str:
    """Say what is wrong with an option's name or value, and what it is like; empty if nothing is."""
    known = dict(_types(kind))
    task, *marks = get_args(next(iter(get_type_hints(kind, include_extras=True).values()), None)) or (None,)
    if get_origin(task) is Literal and tyro.conf.Positional in marks and arguments:
        word, choices = arguments[0], get_args(task)
        if word not in choices and not word.startswith("-"):
            return f"no task {word!r}{similar(word, choices)}; there are {' and '.join(choices)}"
    for argument, *following in itertools.zip_longest(arguments, arguments[1:], arguments[2:], fillvalue="--"):
        written, equals, value = argument.partition("=")
        name = written.replace("_", "-")
        if not name.startswith("--") or name in ("--", "--help"):
            continue
        if name not in known:
            helps = ("help", "help-all") if command == "train" else ("help",)
            guess = similar(name[2:], [*helps, *(option[2:] for option in known)]).replace("(is it ", "(is it --")
            lists_all = helps[-1] if "." in name else helps[0]  # the short help of `train` lists few settings
            return f"no option {written!r}{guess}; `alphac4 {command} --{lists_all}` lists them"
        hint = known[name]
        if hint == tuple[float, float] | None and not all(_reads(float, each) for each in following):
            return f"{name} needs two numbers"
        value = value if equals else following[0]
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        read, wanted = (str, f"one of {', '.join(choices)}") if choices else NUMBERS.get(hint, (str, ""))
        if value.startswith("--") and hint is not bool and get_origin(hint) is not tuple:  # a tuple may be empty
            return f"{name} needs a value{wanted and ': '}{wanted}"
        if (choices and value not in choices) or not _reads(read, value):
            return f"{name} is {wanted}, not {value!r}{similar(value, choices)}"
    return ""


def _reads(kind: type, text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _types(kind: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The options of a dataclass by name, each with the type of its value."""
    hints = get_type_hints(kind, include_extras=True)
    for item in fields(kind):
        hint, *about = get_args(hints[item.name]) if get_origin(hints[item.name]) is Annotated else [hints[item.name]]
        named = next(
            (each.name for each in about if getattr(each, "name", None) is not None), item.name.replace("_", "-")
        )
        if is_dataclass(hint):  # its options stand among the others where it is named ""
            yield from _types(hint, f"{prefix}{named}." if named else prefix)
            continue
        yield f"--{prefix}{named}", hint
        if hint is bool:
            yield f"--{prefix}no-{named}", bool
        for alias in (alias for each in about for alias in getattr(each, "aliases", None) or ()):
            yield alias, hint


def _own_words(end: BaseException) -> str:
    """This package's own words on a value, which has made tyro end; empty if it was tyro that complained."""
    error = end.__cause__ or end.__context__
    while error is not None:
        where = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
        if isinstance(error, ValueError) and where[-1].startswith("alphac4."):
            return str(error)
        error = error.__cause__ or error.__context__
    return ""


def _paragraphs(text: str) -> str:
    """The text with its paragraphs as wide as the terminal, and none of Sphinx's marks."""
    width = shutil.get_terminal_size().columns
    return "\n\n".join(
        part if part.startswith(" ") else textwrap.fill(part, width, break_long_words=False, break_on_hyphens=False)
        for part in text.replace("``", "`").split("\n\n")
    )


def prepare_help(kind: Any) -> None:
    """Give tyro the text of each option in one line, where it would keep the breaks of the source.

    Defaults of None or an empty text are not shown: the option's own words say what happens then.
    """
    import docstring_parser  # a part of tyro that only help needs

    documented = [docstring_parser.parse_from_object(base).params for base in kind.__mro__ if is_dataclass(base)]
    texts = {item.arg_name: item.description or "" for items in documented for item in items}
    for item in fields(kind):
        if item.name in texts:
            item.metadata = MappingProxyType({"help": " ".join(texts[item.name].split())})
        if item.default in (None, "", (), MISSING) and item.default_factory is MISSING:
            owner = next(base for base in kind.__mro__ if item.name in inspect.get_annotations(base))
            owner.__annotations__[item.name] = Annotated[item.type, tyro.conf.arg(help_behavior_hint="")]
        part = getattr(item.type, "__origin__", item.type)  # of an Annotated one
        if is_dataclass(part):
            prepare_help(part)


Board = Annotated[BoardConfig, tyro.conf.arg(name="")]
"""The type of an option whose fields are options of the command itself."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Device and backend that run networks, and processes for them."""

    device: Device = "auto"
    """Device that runs networks."""
    backend: str = "auto"
    """Inference backend; auto takes the fastest here, and a record that goes on keeps its own."""
    cluster: str | None = None
    """Use the cores of a Ray cluster: HOST:PORT of its head, or auto for the one that this machine or job belongs to
    (docs/cluster.md)."""

    def __post_init__(self) -> None:
        if self.cluster is not None and self.device == "cuda":
            raise ValueError("--device cuda: with --cluster its cores do the work; leave one of the two out")

    def of_record(self, path: Path | None, kind: str) -> "Place":
        """This place with a record's backend, unless another is asked for: the last digits of two differ."""
        about = None if path is None else read_about(path, kind)
        return replace(self, backend=str(about.get("backend", "auto"))) if about and self.backend == "auto" else self

    def compute(self, threads: int | None = None) -> "Compute":
        """The compute that runs networks in this process."""
        from alphac4.compute import choose

        return choose(self.device if self.cluster is None else "cpu", self.backend, threads=threads)

    def pool(self) -> contextlib.AbstractContextManager["Pool | None"]:
        """The processes of the cluster until the end of the block, or None without one.

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
