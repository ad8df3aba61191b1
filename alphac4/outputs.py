"""Whether results can be written where they are to go, asked before the work begins."""

import errno
import os
from pathlib import Path


def check_output(path: Path | None) -> None:
    """Raise what writing to a file would raise later: its folder can be made and written, and it is no folder itself.

    Raises:
        OSError: naming the file.
    """
    if path is None:
        return
    if path.is_dir():
        raise OSError(errno.EISDIR, "is a folder, not a file", str(path))
    if path.exists() and not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, "cannot be written", str(path))
    if not path.exists() or path.is_file():
        check_folder(path.parent, path)


def check_folder(folder: Path, asked: Path | None = None) -> None:
    """The same for a folder, which is made if it is not there.

    Args:
        folder: where files are to be written.
        asked: what to name in the error; by default the folder.

    Raises:
        OSError: naming ``asked``.
    """
    named = str(asked or folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".alphac4-{os.getpid()}"
        probe.touch(exist_ok=False)
        probe.unlink()
    except FileExistsError as error:
        raise OSError(errno.ENOTDIR, "is in a file's place: a folder is needed there", named) from error
    except OSError as error:
        raise OSError(error.errno, error.strerror, named) from error
