"""Reads a command's options; whatever is wrong with them is reported in one line."""

import contextlib
import difflib
import io
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tyro

Options = TypeVar("Options")

_KINDS = {  # what tyro writes for a type, in words
    "INT": "a whole number",
    "FLOAT": "a number",
    "PATH": "a path",
    "STR": "a word",
    "[INT [INT ...]]": "whole numbers",
    "FLOAT FLOAT": "two numbers",
}


class UsageError(ValueError):
    """Options that cannot be read, and why, in one line."""


def read_arguments(
    kind: type[Options],
    arguments: Sequence[str],
    command: str,
    *,
    description: str | None = None,
    default: Options | None = None,
) -> Options:
    """The options of ``alphac4 COMMAND`` as a dataclass; prints and exits for ``--help``.

    Args:
        kind: the dataclass.
        arguments: as given on the command line.
        command: the command's name.
        description: the text above the options; by default the dataclass's own.
        default: values of the options that are not given; by default the dataclass's own.

    Raises:
        UsageError: for an option that does not exist, or a value that it does not take.
    """
    settings: dict[str, Any] = {"prog": f"alphac4 {command}", "description": description}
    if default is not None:
        settings["default"] = default
    refusal = ""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(sys.stdout or io.StringIO()):
        try:
            options: Options = tyro.cli(kind, args=arguments, **settings)
        except SystemExit as error:
            if error.code in (0, None):  # its help has been asked for
                raise
        except ValueError as error:  # tyro does not look at all that a dataclass refuses
            refusal = str(error)
        else:
            return options
    known = metavars(written_by(lambda: tyro.cli(kind, args=["--help"], **settings)))
    if refusal:
        raise UsageError(_name_option(refusal, known))
    raise UsageError(explain(written_by(lambda: tyro.cli(kind, args=arguments, **settings)), arguments, known))


class _Page(io.StringIO):
    """Takes what tyro writes; the encoding makes it draw the same boxes everywhere."""

    encoding = "utf-8"  # type: ignore[assignment]


def written_by(work: Callable[[], object]) -> str:
    """What ``work`` writes before it exits."""
    page = _Page()
    with contextlib.redirect_stdout(page), contextlib.redirect_stderr(page), contextlib.suppress(SystemExit):
        work()
    return page.getvalue()


def explain(box: str, arguments: Sequence[str], known: dict[str, str]) -> str:
    """One line for the box of several in which tyro says what is wrong.

    Args:
        box: what tyro has written.
        arguments: as given on the command line.
        known: what each option takes, as tyro writes it.
    """
    lines = [line.strip(" │") for line in box.splitlines() if line[:1] not in "╭╰"]
    text = " ".join(line for line in lines if line).partition(" ──")[0]
    if text.startswith("Unrecognized options"):
        return _explain_unknown(arguments, known, text)
    if found := re.match(r"Missing value for argument '([^']+)'", text):
        return f"{found[1]} needs a value: {_in_words(known.get(found[1], ''))}"
    if found := re.match(r"(?:invalid choice .* for argument '|Error parsing )(-[^:']+)", text):
        given = _value_of(found[1], arguments)
        return f"{found[1]} takes {_in_words(known.get(found[1], ''))}, not {given}"
    if found := re.match(r"Missing from [^:]*: (\S+)\s*(.*?)\s*\(required\)", text):
        choice = " or ".join(found[1].strip("{}").split(","))
        return f"{choice} is missing: {found[2][:1].lower()}{found[2][1:].rstrip('.')}"
    return _name_option(text, known)


def _name_option(text: str, known: dict[str, str]) -> str:
    """What a dataclass says of one of its fields, with the name of the field's option in place of the field's."""
    found = re.match(r"(?:Error parsing (\S*?): )?(\w+) (must .*)", text)
    if not found:
        return re.sub(r"^Error parsing \S+: ", "", text)
    group, field, rest = (found[1] or "").rpartition(".")[2], found[2].replace("_", "-"), found[3]
    options = [option for option in (f"--{group}.{field}", f"--{field}") if option in known]
    options = options or [option for option in known if option.endswith(f".{field}")]
    return f"{options[0] if options else found[2]} {rest}"


def _explain_unknown(arguments: Sequence[str], known: dict[str, str], text: str) -> str:
    """What was not recognised: an option, with those whose names are like it, or a word too many."""
    names = [argument.partition("=")[0] for argument in arguments if argument.startswith("--")]
    unknown = [name for name in names if name.replace("_", "-") not in known]
    if not unknown:
        return f"unexpected {text.partition(': ')[2]!r}; --help tells what the command takes"
    similar = difflib.get_close_matches(unknown[0].replace("_", "-"), known, n=3, cutoff=0.6)
    return f"no option {unknown[0]}; " + (f"is it {' or '.join(similar)}? " if similar else "") + "--help lists them"


def _value_of(option: str, arguments: Sequence[str]) -> str:
    """What was given for an option, shortened."""
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name.replace("_", "-") == option:
            rest = [value] if equals else arguments[index + 1 : _next_option(arguments, index + 1)]
            shown = " ".join(map(repr, rest))
            return shown if len(shown) <= 60 else f"{shown[:57]}..."
    return "what was given"


def _next_option(arguments: Sequence[str], start: int) -> int:
    """The index of the next argument that is an option's name."""
    return next((i for i in range(start, len(arguments)) if arguments[i].startswith("--")), len(arguments))


def metavars(page: str) -> dict[str, str]:
    """What each option takes, as tyro writes it, by the option's name; from the page that ``--help`` prints."""
    option = re.compile(r"│ (--[\w.-]+)(?:, (--[\w.-]+))?(?: (\S+(?: \S+)*))?(?: {2,}.*|│)?$")
    found = [match for line in page.splitlines() if (match := option.match(line))]
    return {name: match[3] or "" for match in found for name in match.groups()[:2] if name}


def _in_words(metavar: str) -> str:
    """What an option takes, for a sentence."""
    parts = [part.strip("{}") for part in re.split(r"\|(?![^{]*\})", metavar) if part != "{None}"]
    written = [f"one of {part.replace(',', ', ')}" if "," in part else _KINDS.get(part, part) for part in parts if part]
    return " or ".join(written) or "another value"
