"""Sphinx's settings for the documentation site; `scripts/docs.sh` builds it.

The pages are read from the repository's root, so that their relative links lead to the same files in the site as in
the plain files, and README and CONTRIBUTING need no copies. A comment such as `<!-- settings -->` in three of the pages
is replaced by text made from the code.
"""

import dataclasses
import os
import re
import subprocess
import sys
from typing import Any

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

from alphac4 import __version__
from alphac4.arena.registry import describe_players
from alphac4.commands import all_commands
from alphac4.training.config import PRESETS, TrainConfig

project = "alphac4"
author = "The alphac4 authors"
project_copyright = author
version = release = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["*.md", "checkpoints/README.md", "docs/**.md", "docs/notebooks/*.ipynb"]
exclude_patterns = [".*", "build", "dist", "runs", "alphac4"]

# A line in single backticks is code in docstrings, as it is on every page.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"

myst_heading_anchors = 3

nb_execution_mode = "force"  # execute on every build, so that the results are those of the present code
nb_execution_raise_on_error = True
nb_execution_timeout = 300  # seconds per cell
nb_merge_streams = True

html_theme = "furo"
html_title = f"alphac4 {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
html_logo = html_favicon = "static/logo.svg"  # the icon of the playing page, whose blue is the accent here
_ACCENT = {"color-brand-primary": "#2456a6", "color-brand-content": "#2456a6", "color-brand-visited": "#5b3fa0"}
_ACCENT_DARK = {"color-brand-primary": "#8ab4f3", "color-brand-content": "#8ab4f3", "color-brand-visited": "#b9a2ee"}
html_theme_options = {"light_css_variables": _ACCENT, "dark_css_variables": _ACCENT_DARK}
html_copy_source = False
html_extra_path = ["static/root"]  # the page at the top, which redirects to the site


def show_examples(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Point links to the folder of examples to the page that shows them, because a site has no folders to browse."""
    source[0] = re.sub(r"\]\((\.\./)*examples(/ideas)?\)", "](/docs/examples.md)", source[0])


def settings_reference() -> str:
    """Return every setting with its docstring and its value in each preset, as Markdown."""
    groups = {field.name: field for field in dataclasses.fields(TrainConfig) if dataclasses.is_dataclass(field.type)}
    parts = [_describe(TrainConfig, "", set(groups))]
    return "\n\n".join([*parts, *(_describe(field.type, name, set()) for name, field in groups.items())])


def _describe(config: Any, group: str, without: set[str]) -> str:
    """Return the settings of one dataclass: a heading, a table of values, and a list of meanings."""
    owners = [base for base in config.__mro__ if dataclasses.is_dataclass(base)]
    docs = {
        name: " ".join(lines).strip()
        for base in reversed(owners)
        for (owner, name), lines in ModuleAnalyzer.for_module(base.__module__).find_attr_docs().items()
        if owner == base.__name__
    }
    names = [field.name for field in dataclasses.fields(config) if field.name not in without]
    options = {name: (f"{group}.{name}" if group else name).replace("_", "-") for name in names}
    summary = " ".join((config.__doc__ or "").split()) if group else "Settings of the run itself."
    lines = [f"## {group or 'The run'}", "", summary, "", f"| option | {' | '.join(PRESETS)} |"]
    lines.append("|---" * (len(PRESETS) + 1) + "|")
    for name in names:
        values = [getattr(getattr(preset, group) if group else preset, name) for preset in PRESETS.values()]
        shown = (" ".join(map(str, value)) if isinstance(value, tuple) else str(value) for value in values)
        lines.append(f"| `--{options[name]}` | {' | '.join(shown)} |")
    return "\n".join([*lines, "", *(f"- **`{options[name]}`**: {docs[name]}" for name in names)])


def command_reference() -> str:
    """Return the `--help` of every command, as Markdown."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    groups: dict[str, list[str]] = {}
    for name, command in all_commands().items():
        words = [sys.executable, "-m", "alphac4", *name.split(), "--help"]
        shown = subprocess.run(words, env=environment, capture_output=True, check=True, encoding="utf-8").stdout
        summary = f"{command.summary[0].upper()}{command.summary[1:]}."
        part = f"### alphac4 {name}\n\n{summary}\n\n````text\n{shown.strip()}\n````"
        groups.setdefault(command.group, [f"## {command.group}"]).append(part)
    return "\n\n".join(part for parts in groups.values() for part in parts)


REFERENCES = {
    "<!-- settings -->": settings_reference,
    "<!-- commands -->": command_reference,
    "<!-- players -->": lambda: f"````text\n{describe_players(120)}\n````",
}


def insert_references(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Replace the comments of `REFERENCES` in a page."""
    for mark, reference in REFERENCES.items():
        if f"\n{mark}\n" in source[0]:
            source[0] = source[0].replace(mark, reference())


def setup(app: Sphinx) -> None:
    """Connect the changes to pages; Sphinx calls this."""
    app.connect("source-read", show_examples)
    app.connect("source-read", insert_references)
