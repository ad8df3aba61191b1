"""Names of networks: those that come with the project, and hf://OWNER/NAME for those on the Hugging Face hub."""

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
NETWORK_FILE = "model.safetensors"  # what a repository's network is called where no file is named

_PARTS = re.compile(r"hf:/{1,2}(?P<repository>[^/]+/[^/]+)(?:/(?P<file>.+))?")  # a `Path` has lost one of the slashes


def is_hub_name(name: str) -> bool:
    """Whether a network is named as one on the hub; also if the name has been a `Path`."""
    return name.startswith("hf:/")


def shown_name(name: str) -> str:
    """Name of a network on the hub: OWNER/NAME, or OWNER/NAME/FILE without the file's ending."""
    found = _PARTS.fullmatch(name)
    if found is None:
        return name
    return found["repository"] + ("" if found["file"] is None else f"/{Path(found['file']).with_suffix('').as_posix()}")


@cache  # a command asks several times, and the hub's library asks the hub each time
def hub_file(name: str) -> Path:
    """The file of a network on the hub, downloaded unless it is in the hub's cache already.

    ``hf://OWNER/NAME`` is the file `NETWORK_FILE` of that repository, ``hf://OWNER/NAME/FILE`` another one. The hub's
    library reads ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE``. Without a connection, what has been
    downloaded before is used.

    Raises:
        FileError: in one line, if the name is none, the library is missing, or there is no such file, or no connection.
    """
    found = _PARTS.fullmatch(name)
    if found is None:
        raise FileError(f"{name!r} is no network on the hub; write {PREFIX}OWNER/NAME or {PREFIX}OWNER/NAME/FILE")
    repository, file = found["repository"], found["file"] or NETWORK_FILE
    shown = f"{PREFIX}{repository}"
    try:
        from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
    except ImportError as error:
        raise FileError(f"{shown} needs the package {error.name}: {install_advice('hub')}") from error
    # The library reads these when it is imported, which may have been long ago in a notebook.
    endpoint, cache = os.environ.get("HF_ENDPOINT"), os.environ.get("HF_HUB_CACHE")
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.INFO))  # its HTTP library tells of every request
    try:
        # Asked first, since without a connection the download itself would try again for half a minute.
        get_hf_file_metadata(hf_hub_url(repository, file, endpoint=endpoint), endpoint=endpoint)
        return Path(hf_hub_download(repository, file, endpoint=endpoint, cache_dir=cache))
    except Exception as error:  # the library's errors differ by its version; their words say what is wrong
        kept = try_to_load_from_cache(repository, file, cache_dir=cache)
        if isinstance(kept, str):
            return Path(kept)
        raise FileError(f"{shown}: the hub gives no {file}: {' '.join(str(error).split())}") from error
    finally:
        logging.disable(disabled)
