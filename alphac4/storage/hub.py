"""Names of shipped networks, and networks on the Hugging Face hub: hf://OWNER/NAME."""

import logging
import os
import re
from functools import cache
from pathlib import Path

from alphac4.machine import install_advice, quiet_logging
from alphac4.storage.files import FileError
from alphac4.storage.records import did_you_mean, quote, shorten

# Networks that come with the project.
SHIPPED = {
    "best": "best.safetensors",
    "standard": "standard.safetensors",
    "quick": "quick.safetensors",
    "gpu-best": "gpu-best.safetensors",
}
HUB_PREFIX = "hf://"
HUB_NAME_PATTERN = r"hf://[^@,]+"  # in a player's specification
NETWORK_FILE = "model.safetensors"  # the default file of a repository

_PARTS = re.compile(r"hf:/{1,2}(?P<repository>[^/]+/[^/]+)(?:/(?P<file>.+))?")  # `Path` removes one of the slashes


def is_hub_name(name: str) -> bool:
    """Return whether a name refers to the hub, also after a conversion to `Path`."""
    return name.startswith("hf:/")


def short_name(name: str) -> str:
    """Return the short name of a network on the hub: OWNER/NAME, or OWNER/NAME/FILE without the file's suffix."""
    match = _PARTS.fullmatch(name)
    if match is None:
        return name
    return match["repository"] + ("" if match["file"] is None else f"/{Path(match['file']).with_suffix('').as_posix()}")


def check_network(name: str) -> None:
    """Check that a network's file exists.

    Raises:
        ValueError: if not; the message suggests a similar shipped network.
    """
    if name not in SHIPPED and not is_hub_name(name) and (not Path(name).exists() or Path(name).is_dir()):
        problem = "is a folder, not a network's file" if Path(name).exists() else "no such file"
        raise ValueError(f"{shorten(name)}: {problem}{did_you_mean(name, SHIPPED)}")


@cache  # a command calls it several times, and each time the hub's library sends a request
def hub_file(name: str) -> Path:
    """Return the file of a network on the hub; download it unless it is in the hub's cache.

    ``hf://OWNER/NAME`` is the file `NETWORK_FILE` of that repository, ``hf://OWNER/NAME/FILE`` another one. The hub's
    library reads ``HF_ENDPOINT``, ``HF_HOME``, ``HF_HUB_CACHE``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE``. Without a
    connection, only files in the cache are available.

    Raises:
        FileError: if the name is invalid, the library or the file is missing, or there is no connection.
    """
    match = _PARTS.fullmatch(name)
    if match is None:
        raise FileError(
            f"{quote(name)} is not a network on the hub; write {HUB_PREFIX}OWNER/NAME or {HUB_PREFIX}OWNER/NAME/FILE"
        )
    repository, file = match["repository"], match["file"] or NETWORK_FILE
    shown = f"{HUB_PREFIX}{repository}"
    try:
        from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
    except ImportError as error:
        raise FileError(f"{shown} needs the package {error.name}: {install_advice('hub')}") from error
    # Passed to the library, which reads them only when it is imported.
    endpoint, cache = os.environ.get("HF_ENDPOINT"), os.environ.get("HF_HUB_CACHE")
    try:
        with quiet_logging(logging.INFO):  # its HTTP library logs every request
            # A request first: without a connection, a download would try for half a minute.
            get_hf_file_metadata(hf_hub_url(repository, file, endpoint=endpoint), endpoint=endpoint)
            return Path(hf_hub_download(repository, file, endpoint=endpoint, cache_dir=cache))
    except Exception as error:  # the types depend on the library's version
        cached = try_to_load_from_cache(repository, file, cache_dir=cache)
        if isinstance(cached, str):
            return Path(cached)
        raise FileError(f"{shown}: cannot download {file}: {' '.join(str(error).split())}") from error
