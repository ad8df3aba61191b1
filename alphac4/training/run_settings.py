"""Which settings a run has, and which of them may change while it goes on."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alphac4.storage.records import parse_json, read_value
from alphac4.training.config import TrainConfig, from_dict, to_dict
from alphac4.training.earlier_runs import completed
from alphac4.training.run_state import PREVIOUS_STATE_FILE, STATE_FILE, RunError, has_state, load_state

logger = logging.getLogger(__name__)

# Settings, or groups of them, that may differ when a run goes on: they do not change the meaning of its files.
CHANGEABLE = (
    "iterations",
    "device",
    "backend",
    "keep_checkpoints",
    "gate",
    "evaluation",
    "selfplay.device_games",
    "selfplay.device_streams",
)
CHANGEABLE_BEFORE_FIRST_COMMIT = ("start_from",)


def stored_settings(path: Path) -> dict[str, Any] | None:
    """The settings of the run in a folder, None if there is no run; those in its state if ``config.json`` is damaged.

    Raises:
        RunError: if they can be read nowhere.
    """
    config_path = path / "config.json"
    reason = ""
    try:
        settings = read_value(dict[str, Any], parse_json(config_path.read_bytes()), "the configuration")
        return to_dict(from_dict(completed(settings)))
    except FileNotFoundError:
        if not has_state(path):
            return None
        reason = "there is no such file"
    except (OSError, ValueError) as error:
        reason = str(error)
    for name in (STATE_FILE, PREVIOUS_STATE_FILE):
        try:
            settings = load_state(path / name).config
            if settings:
                logger.warning("%s: %s; the settings are taken from %s", config_path, reason, name)
                return to_dict(from_dict(completed(settings)))
        except ValueError:
            continue
    if not has_state(path):
        logger.warning("%s: %s; no iteration is whole, so it is written anew", config_path, reason)
        return None
    raise RunError(f"{config_path}: cannot be read: {reason}")


def check_changes(path: Path, before: Mapping[str, Any], config: TrainConfig) -> None:
    """Check that the run in a folder, whose settings were ``before``, may go on with ``config``.

    Raises:
        RunError: if a setting differs on which the meaning of its files depends.
    """
    allowed = CHANGEABLE if has_state(path) else (*CHANGEABLE, *CHANGEABLE_BEFORE_FIRST_COMMIT)
    changed = [
        name
        for name, old, new in _leaves(before, to_dict(config))
        if old != new and not any(name == known or name.startswith(f"{known}.") for known in allowed)
    ]
    if changed:
        raise RunError(f"{path} holds a run with other settings ({', '.join(changed)}): choose another folder")


def changes_of(before: TrainConfig, now: TrainConfig, iteration: int) -> list[dict[str, Any]]:
    """The settings that differ, as a run's provenance lists them; ``iteration`` was the last one with ``before``."""
    return [
        {"after_iteration": iteration, "setting": name, "from": old, "to": new}
        for name, old, new in _leaves(to_dict(before), to_dict(now))
        if old != new
    ]


def _leaves(old: Any, new: Any, prefix: str = "") -> list[tuple[str, Any, Any]]:
    """``(dotted name, old value, new value)`` of every setting."""
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        return [leaf for key in new for leaf in _leaves(old.get(key), new[key], f"{prefix}.{key}".lstrip("."))]
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return [(prefix, list(old), list(new))]
    return [(prefix, old, new)]
