"""Execute the notebooks of docs/notebooks and store their output in them, for readers on the web.

    python scripts/notebooks.py               # all, in about five minutes on two cores
    python scripts/notebooks.py judging kaggle

It needs the extra notebook or docs.
"""

import argparse
import hashlib
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
TIMEOUT_S = 600  # per cell
TEMPORARY = re.compile(r"/tmp/tmp\w{8}\b")  # folders that `tempfile.mkdtemp` made, which differ each time
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def code_digest(notebook: dict[str, Any]) -> str:
    """Return the hash of a notebook's code, which a test compares with that of the executed code."""
    sources = ("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    return hashlib.sha256("\0".join(sources).encode()).hexdigest()


def execute(path: Path) -> None:
    """Execute a notebook in its folder and replace its output; an error in a cell leaves the file unchanged."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    options: dict[str, Any] = {"timeout": TIMEOUT_S, "record_timing": False, "coalesce_streams": True}
    NotebookClient(notebook, resources={"metadata": {"path": path.parent}}, **options).execute()
    notebook.metadata = METADATA | {"executed": code_digest(notebook)}
    path.write_text(f"{TEMPORARY.sub('/tmp/example', nbformat.writes(notebook))}\n", encoding="utf-8")


def main() -> None:
    """Execute the notebooks that the command line names, or all."""
    names = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    parser = argparse.ArgumentParser(description="Execute the notebooks of docs/notebooks and store their output.")
    parser.add_argument("names", nargs="*", choices=[*names, []], metavar="NAME", help=", ".join(names))
    for name in parser.parse_args().names or names:
        print(name, flush=True)
        execute(FOLDER / f"{name}.ipynb")


if __name__ == "__main__":
    main()
