"""Networks on the Hugging Face hub."""

import logging
import os
import re
from functools import cache
from pathlib import Path

from alphac4.machine import install_advice, quiet_logging
from alphac4.storage.files import FileError
from alphac4.storage.records import quote

NETWORK_FILE = "model.safetensors"  # the default file of a repository


@cache  # a command calls it several times, and each time the hub's library sends a request
def hub_file(name: str) -> Path:
    """Return the file of a network on the hub; download it unless its latest version is in the hub's cache.

    ``OWNER/NAME`` is the file `NETWORK_FILE` of that repository, ``OWNER/NAME/FILE`` another one. The hub's library
    reads ``HF_ENDPOINT``, ``HF_HOME``, ``HF_HUB_CACHE``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE``. Without a connection,
    only files in the cache are available.
    """
    match = re.fullmatch("([^/]+/[^/]+)(?:/(.+))?", name)
    if match is None:
        raise FileError(
            f"{quote(f'hf://{name}')} is not a network on the hub; write hf://OWNER/NAME or hf://OWNER/NAME/FILE"
        )
    repository, file = match[1], match[2] or NETWORK_FILE
    shown = f"hf://{repository}"
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
