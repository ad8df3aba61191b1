"""Write the lists of settings, commands and players in docs/, which are made from the code.

Each list is between the comments `<!-- generated: NAME -->` and `<!-- end -->` of its page. With --check, only report
the pages whose lists differ from the code; the exit code is 1 if any do.
"""

import argparse
import contextlib
import dataclasses
import io
import os
import re
from pathlib import Path
from typing import Any

import docstring_parser  # a dependency of tyro

from alphac4 import cli
from alphac4.arena.registry import describe_players
from alphac4.commands import all_commands
from alphac4.training.config import PRESETS, TrainConfig

DOCS = Path(__file__).resolve().parents[1] / "docs"
WIDTH = 100  # characters per line of a help text
BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(\n<!-- end -->)", re.DOTALL)


def main() -> int:
    """Write all pages or, with --check, compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only report the pages that differ; exit code 1 if any do")
    only_check = parser.parse_args().check
    os.environ |= {"COLUMNS": str(WIDTH), "NO_COLOR": "1"}
    outdated = False
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        current = BLOCK.sub(lambda found: f"{found[1]}\n{GENERATORS[found[2]]()}\n{found[3]}", text)
        if current == text:
            continue
        if only_check:
            print(f"docs/{page.name} differs from the code: run python scripts/reference.py")
            outdated = True
        else:
            page.write_text(current, encoding="utf-8")
            print(f"Wrote docs/{page.name}")
    return int(outdated)


def settings() -> str:
    """Return every setting with its docstring and its value in each preset, as Markdown."""
    groups = {field.name: field for field in dataclasses.fields(TrainConfig) if dataclasses.is_dataclass(field.type)}
    parts = [_describe(TrainConfig, "", set(groups))]
    return "\n\n".join([*parts, *(_describe(field.type, name, set()) for name, field in groups.items())])


def _describe(config: Any, group: str, without: set[str]) -> str:
    """Return the settings of one dataclass: a heading, a table of values, and a list of meanings."""
    meanings = {
        item.arg_name: " ".join((item.description or "").replace("``", "`").split())
        for base in reversed(config.__mro__)
        if dataclasses.is_dataclass(base)
        for item in docstring_parser.parse_from_object(base).params
    }
    names = [field.name for field in dataclasses.fields(config) if field.name not in without]
    names_in_files = {name: f"{group}.{name}" if group else name for name in names}
    summary = " ".join((config.__doc__ or "").split()) if group else "Settings of the run itself."
    lines = [f"## {group or 'The run'}", "", summary, "", f"| option | {' | '.join(PRESETS)} |"]
    lines.append("|---" * (len(PRESETS) + 1) + "|")
    for name in names:
        values = [getattr(getattr(preset, group) if group else preset, name) for preset in PRESETS.values()]
        shown = (" ".join(map(str, value)) if isinstance(value, tuple) else str(value) for value in values)
        lines.append(f"| `--{names_in_files[name].replace('_', '-')}` | {' | '.join(shown)} |")
    return "\n".join([*lines, "", *(f"- **`{names_in_files[name]}`**: {meanings[name]}" for name in names)])


def commands() -> str:
    """Return the help of every command, as Markdown."""
    groups: dict[str, list[str]] = {}
    for name, command in all_commands().items():
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            cli.main([*name.split(), "--help"])
        summary = f"{command.summary[0].upper()}{command.summary[1:]}."
        part = f"### alphac4 {name}\n\n{summary}\n\n````text\n{shown.getvalue().strip()}\n````"
        groups.setdefault(command.group, [f"## {command.group}"]).append(part)
    return "\n\n".join(part for parts in groups.values() for part in parts)


def players() -> str:
    """Return all forms of players with their meanings, as Markdown."""
    return f"````text\n{describe_players(WIDTH)}\n````"


GENERATORS = {function.__name__: function for function in (settings, commands, players)}

if __name__ == "__main__":
    raise SystemExit(main())
