"""Where the files are that come with the project."""

from pathlib import Path


def shipped_file(name: str) -> Path:
    """A file of the `checkpoints` folder, be it there or not.

    A wheel carries that folder inside the package; a checkout has it at the top, where an editable installation finds
    it too.
    """
    package = Path(__file__).resolve().parent
    places = [folder / "checkpoints" / name for folder in (package, package.parent)]
    return next((path for path in places if path.exists()), places[-1])
