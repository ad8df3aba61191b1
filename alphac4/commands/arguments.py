"""How commands read their options, and the options that several of them have."""

import contextlib
import inspect
import io
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar

import tyro

from alphac4.storage.records import BoardConfig

if TYPE_CHECKING:
    from alphac4.compute import Pool

Options = TypeVar("Options")


def read_arguments(
    kind: type[Options],
    arguments: Sequence[str],
    command: str,
    *,
    description: str | None = None,
) -> Options:
    """The options of ``alphac4 COMMAND`` as a dataclass; tyro answers ``--help``, and what it cannot read.

    Args:
        kind: the dataclass.
        arguments: as given on the command line.
        command: the command's name.
        description: the text above the options; by default the dataclass's own.

    Raises:
        SystemExit: after ``--help``, and with code 2 after a complaint on the standard error.
        ValueError: of the dataclass itself.
    """
    asked = bool({"-h", "--help"} & set(arguments))
    if asked:
        prepare_help(kind)
    output = (
        _Help(sys.stdout) if asked or not sys.stdout else sys.stdout
    )  # tyro asks even a closed one for its encoding
    try:
        with contextlib.redirect_stdout(output):
            options: Options = tyro.cli(
                kind,
                args=arguments,
                prog=f"alphac4 {command}",
                description=description,
                config=(tyro.conf.DisallowNone,),  # or else its help says {None}|PATH
            )
    finally:
        if isinstance(output, _Help):
            print(output.wrapped(), end="")
    return options


class _Help(io.StringIO):
    """The help that tyro writes. It leaves the text above the options in long lines, which terminals break anywhere."""

    def __init__(self, stdout: TextIO | None) -> None:
        super().__init__()
        self._coloured = stdout is not None and stdout.isatty()
        self._encoding = getattr(stdout, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Whether there may be colours."""
        return self._coloured

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Which decides whether there are frames."""
        return self._encoding

    def wrapped(self) -> str:
        """The help with its lines broken between words, and none of Sphinx's marks."""
        text = self.getvalue()
        frame = re.search(r"^.*(╭|-{9})", text, re.MULTILINE)
        end = frame.start() if frame else len(text)
        about = re.sub(r"\n{3,}", "\n\n", text[:end].replace("``", "`"))
        width = shutil.get_terminal_size().columns
        lines = [
            line if "\x1b" in line else textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
            for line in about.split("\n")  # the first one may be coloured, and is short
        ]
        return "\n".join(lines) + text[end:]


def prepare_help(kind: Any) -> None:
    """Give tyro the text of each option in one line, where it would keep the breaks of the source.

    No default of None or an empty text is told: the option's own words say what happens then.
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

Cluster = Annotated[
    str | None,
    tyro.conf.arg(
        help="Use the cores of a Ray cluster: HOST:PORT of its head, or auto for the one that this machine or job "
        "belongs to (docs/cluster.md)."
    ),
]


def device_with(cluster: str | None, device: str) -> str:
    """Where a command thinks: on its own ``device``, or on the cores of a cluster.

    Raises:
        ValueError: in one line, for a GPU, which a cluster's cores do without.
    """
    if cluster is not None and device == "cuda":
        raise ValueError("--device cuda: with --cluster its cores do the work; leave one of the two out")
    return device if cluster is None else "cpu"


@contextlib.contextmanager
def pool_or_none(cluster: str | None) -> Iterator["Pool | None"]:
    """The processes of a cluster until the end of the block, or None without its address.

    Raises:
        RuntimeError: in one line, for a cluster that cannot be used.
        ValueError: in one line, for anything else than an address.
    """
    if cluster is None:
        yield None
    else:
        from alphac4.compute import choose_pool

        with contextlib.closing(choose_pool(cluster)) as pool:
            yield pool
