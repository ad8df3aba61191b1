"""How commands read their options, and the options that several of them have."""

import contextlib
import inspect
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import tyro

from alphac4.storage.journal import read_about
from alphac4.storage.records import BoardConfig

if TYPE_CHECKING:
    from alphac4.compute import Compute, Pool

Options = TypeVar("Options")
Device = Literal["auto", "cpu", "cuda"]


def read_arguments(
    kind: type[Options], arguments: Sequence[str], command: str, *, description: str | None = None
) -> Options:
    """The options of ``alphac4 COMMAND`` as a dataclass; tyro answers ``--help``, and what it cannot read.

    The ``description`` above the help is by default the dataclass's own.

    Raises:
        SystemExit: after ``--help``, and with code 2 after a complaint on the standard error.
    """
    if {"-h", "--help"} & set(arguments):
        prepare_help(kind)
        print(_wrapped(description or inspect.getdoc(kind) or ""), end="\n\n")
    return tyro.cli(
        kind,
        args=arguments,
        prog=f"alphac4 {command}",
        description="",  # it would leave long lines to the terminal, which breaks words
        config=(tyro.conf.DisallowNone,),  # or else its help says {None}|PATH
    )


def _wrapped(text: str) -> str:
    """The text with its paragraphs as wide as the terminal, and none of Sphinx's marks."""
    width = shutil.get_terminal_size().columns
    return "\n\n".join(
        part if part.startswith(" ") else textwrap.fill(part, width, break_long_words=False, break_on_hyphens=False)
        for part in text.replace("``", "`").split("\n\n")
    )


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


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where networks run."""

    device: Device = "auto"
    """Where networks run."""
    backend: str = "auto"
    """Inference backend; auto takes that of a record that goes on, or else the fastest here."""
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
        """What runs networks in this process."""
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
