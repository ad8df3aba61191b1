"""Names of networks: those that come with the project, and hf://OWNER/NAME for those on the Hugging Face hub."""

import errno
import logging
import os
import re
from functools import cache
from pathlib import Path

from alphac4.machine import install_advice
from alphac4.storage.records import first_line

# The networks that come with the project: two by what they are for, and every file by its own name.
SHIPPED = {
    "best": "grown.safetensors",
    "fast": "quick.safetensors",
    "grown": "grown.safetensors",
    "standard": "standard.safetensors",
    "former-standard": "former-standard.safetensors",
    "quick": "quick.safetensors",
}
PREFIX = "hf://"
FORM = r"hf://[^@,]+"  # of a name within a player's specification
NETWORK_FILE = "model.safetensors"  # what a repository's network is called where no file is named

_NO_PLACE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.ENOTDIR)  # what a cache's disk may answer

_PARTS = re.compile(r"hf:/{1,2}(?P<repository>[^/]+/[^/]+)(?:/(?P<file>.+))?")  # a `Path` has lost one of the slashes


class HubError(ValueError):
    """A network that the hub did not give, and why, in one line."""


def is_hub_name(name: str | Path) -> bool:
    """Whether a network is named as one on the hub; also if the name has been made a `Path`."""
    return (name.as_posix() if isinstance(name, Path) else name).startswith("hf:/")


def shown_name(name: str) -> str:
    """Name of a network on the hub: OWNER/NAME, or OWNER/NAME/FILE without the file's ending."""
    found = _PARTS.fullmatch(name)
    if found is None:
        return name
    return found["repository"] + ("" if found["file"] is None else f"/{Path(found['file']).with_suffix('').as_posix()}")


def hub_file(name: str | Path) -> Path:
    """The file of a network on the hub, downloaded unless it is in the hub's cache already.

    ``hf://OWNER/NAME`` is the file `NETWORK_FILE` of that repository, ``hf://OWNER/NAME/FILE`` another one. The hub's
    library reads ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE``. Without a connection, what has been
    downloaded before is used.

    Raises:
        HubError: in one line, if the name is none, the library is missing, or there is no such file, or no connection.
    """
    return _download(name.as_posix() if isinstance(name, Path) else name)


@cache  # a command asks several times, and the hub's library asks the hub each time
def _download(name: str) -> Path:
    found = _PARTS.fullmatch(name)
    if found is None:
        raise HubError(f"{name!r} is no network on the hub; write {PREFIX}OWNER/NAME or {PREFIX}OWNER/NAME/FILE")
    repository, file = found["repository"], found["file"] or NETWORK_FILE
    shown = f"{PREFIX}{repository}"
    try:
        from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
        from huggingface_hub.errors import (
            EntryNotFoundError,
            GatedRepoError,
            HfHubHTTPError,
            HFValidationError,
            RepositoryNotFoundError,
        )
    except ImportError as error:
        raise HubError(f"{shown} needs the package {error.name}: {install_advice('hub')}") from error
    # The library reads these when it is imported, which may have been long ago in a notebook.
    endpoint, cache = os.environ.get("HF_ENDPOINT"), os.environ.get("HF_HUB_CACHE")
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.INFO))  # its HTTP library tells of every request
    try:
        # Asked first, since without a connection the download itself would try again for half a minute.
        get_hf_file_metadata(hf_hub_url(repository, file, endpoint=endpoint), endpoint=endpoint)
        return Path(hf_hub_download(repository, file, endpoint=endpoint, cache_dir=cache))
    except (HFValidationError, HfHubHTTPError) as error:
        for kind, words in (
            (HFValidationError, f"no name that the hub has: {first_line(error)}"),
            (GatedRepoError, "its owner has to let you in first, and HF_TOKEN to say who you are"),
            (RepositoryNotFoundError, "no such repository on the hub, or a private one that HF_TOKEN does not open"),
            (EntryNotFoundError, f"it has no file {file!r}; name one that it has: {shown}/best.safetensors, or so"),
        ):
            if isinstance(error, kind):
                raise HubError(f"{shown}: {words}") from error
        raise HubError(f"{shown}: the hub refused: {first_line(error)}") from error
    except Exception as error:  # the library's way of saying that there is no connection differs by its version
        kept = try_to_load_from_cache(repository, file, cache_dir=cache)
        if isinstance(kept, str):
            return Path(kept)
        if isinstance(error, OSError) and error.errno in _NO_PLACE:
            raise HubError(
                f"{shown}: {file} cannot be kept in the hub's cache, which HF_HUB_CACHE names: {first_line(error)}"
            ) from error
        raise HubError(
            f"{shown}: no connection to the hub ({first_line(error)}), and {file} was not downloaded before"
        ) from error
    finally:
        logging.disable(disabled)
