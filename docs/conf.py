"""Sphinx's settings for the documentation site; `scripts/docs.sh` builds it.

The pages are read from the repository's root, so that their relative links lead to the same files in the site as in
the plain files, and README and CONTRIBUTING need no copies.
"""

import re

from sphinx.application import Sphinx

from alphac4 import __version__

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


def setup(app: Sphinx) -> None:
    """Connect the change of links; Sphinx calls this."""
    app.connect("source-read", show_examples)
