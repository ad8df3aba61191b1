"""Remembers which backend was the fastest here, since finding out takes seconds at every start.

A measurement holds for a machine, the versions of the libraries, a network, and how it is called. Whatever goes wrong
with the file, networks are measured again: it is never an error.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import platform
import time
from pathlib import Path
from typing import Any

import torch

from alphac4.machine import processor_name
from alphac4.nn.network import PolicyValueNetwork
from alphac4.storage.files import write_atomically
from alphac4.storage.folders import cache_folder
from alphac4.storage.records import parse_json
from alphac4.version import __version__

FILE = "backends.json"
MOST_REMEMBERED = 200  # measurements; the oldest go first
SECONDS_REMEMBERED = 30 * 24 * 3600.0  # a measurement may have been disturbed, so that it is repeated one day


def measurement_key(network: PolicyValueNetwork, **called: Any) -> str:
    """What a measurement depends on, as a short text; ``called`` are device, batch size and the like."""
    weights = hashlib.sha256()
    for tensor in network.state_dict().values():
        weights.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    facts = {
        "machine": processor_name(),
        "gpu": torch.cuda.get_device_name() if called.get("device") == "cuda" else "",
        "versions": [__version__, platform.python_version(), torch.__version__, _version("openvino")],
        "weights": weights.hexdigest(),
        **called,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def recall(key: str) -> str | None:
    """The backend that was the fastest when that was measured; None if it is not known, or too long ago."""
    entry = _read().get(key)
    if not isinstance(entry, dict) or not isinstance(entry.get("backend"), str):
        return None
    measured = entry.get("measured")
    fresh = isinstance(measured, int | float) and 0 <= time.time() - measured < SECONDS_REMEMBERED
    return entry["backend"] if fresh else None


def remember(key: str, backend: str) -> None:
    """Keep a measurement for later starts, where that is possible."""
    entries = _read()
    entries.pop(key, None)
    entries[key] = {"backend": backend, "measured": int(time.time())}
    kept = dict(list(entries.items())[-MOST_REMEMBERED:])
    with contextlib.suppress(OSError, RuntimeError):  # an unwritable folder, or no home: it is measured again
        write_atomically(_path(), json.dumps(kept, indent=1).encode())


def forget() -> None:
    """Let the next starts measure anew."""
    with contextlib.suppress(OSError, RuntimeError):
        _path().unlink()


def _read() -> dict[str, Any]:
    try:
        entries = parse_json(_path().read_bytes())
    except (OSError, RuntimeError, ValueError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _path() -> Path:
    return cache_folder() / FILE


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
