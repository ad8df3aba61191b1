"""Names of networks: shipped ones, and hf://OWNER/NAME for those on the Hugging Face hub."""

import logging
import os
import re
from functools import cache
from pathlib import Path

from alphac4.machine import install_advice
from alphac4.storage.files import FileError

# The networks that come with the project: the strongest, a fast one, and every file by its own name.
SHIPPED = {
    "best": "best.safetensors",
    "fast": "quick.safetensors",
    "standard": "standard.safetensors",
    "quick": "quick.safetensors",
    "gpu-best": "gpu-best.safetensors",
}
PREFIX = "hf://"
FORM = r"hf://[^@,]+"  # of a name within a player's specification
NETWORK_FILE = "model.safetensors"  # of a repository, where no file is named

_PARTS = re.compile(r"hf:/{1,2}(?P<repository>[^/]+/[^/]+)(?:/(?P<file>.+))?")  # a `Path` has lost one of the slashes


def is_hub_name(name: str) -> bool:
    """Return whether a name is of a network on the hub; it may have been a `Path`."""
    return name.startswith("hf:/")


def short_name(name: str) -> str:
    """Return the short name of a network on the hub: OWNER/NAME, or OWNER/NAME/FILE without the file's ending."""
    found = _PARTS.fullmatch(name)
    if found is None:
        return name
    return found["repository"] + ("" if found["file"] is None else f"/{Path(found['file']).with_suffix('').as_posix()}")


@cache  # a command asks several times, and the hub's library asks the hub each time
def hub_file(name: str) -> Path:
    """Return the file of a network on the hub, downloaded unless it is in the hub's cache.

    ``hf://OWNER/NAME`` is the file `NETWORK_FILE` of that repository, ``hf://OWNER/NAME/FILE`` another one. The hub's
    library reads ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE``. Without a connection, what has been
    downloaded before is used.

    Raises:
        FileError: for an invalid name, a missing library or file, or without a connection.
    """
    found = _PARTS.fullmatch(name)
    if found is None:
        raise FileError(f"{name!r} is not a network on the hub; write {PREFIX}OWNER/NAME or {PREFIX}OWNER/NAME/FILE")
    repository, file = found["repository"], found["file"] or NETWORK_FILE
    shown = f"{PREFIX}{repository}"
    try:
        from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
    except ImportError as error:
        raise FileError(f"{shown} needs the package {error.name}: {install_advice('hub')}") from error
    # The library reads these only when it is imported.
    endpoint, cache = os.environ.get("HF_ENDPOINT"), os.environ.get("HF_HUB_CACHE")
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.INFO))  # its HTTP library logs every request
    try:
        # First, because without a connection the download itself would try for half a minute.
        get_hf_file_metadata(hf_hub_url(repository, file, endpoint=endpoint), endpoint=endpoint)
        return Path(hf_hub_download(repository, file, endpoint=endpoint, cache_dir=cache))
    except Exception as error:  # the library's errors differ by its version; their text says what is wrong
        kept = try_to_load_from_cache(repository, file, cache_dir=cache)
        if isinstance(kept, str):
            return Path(kept)
        raise FileError(f"{shown}: the hub gives no {file}: {' '.join(str(error).split())}") from error
    finally:
        logging.disable(disabled)
