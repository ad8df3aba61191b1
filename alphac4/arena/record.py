"""A tournament's file: JSON lines of finished games, from which the same tournament goes on."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alphac4.arena.match import MatchResult
from alphac4.arena.networks import network_file
from alphac4.files import append_line

FORMAT = "alphac4-tournament"


class TournamentError(ValueError):
    """A tournament's file that cannot be used, and why, in one line."""


class TournamentRecord:
    """Finished parts of pairings in a file whose first line says what tournament they belong to.

    A line that a kill cut short is passed over: its games are played again.

    Raises:
        TournamentError: if the file holds something else, or a tournament with other settings.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.parts: dict[tuple[tuple[str, str], int], MatchResult] = {}
        wanted = json.loads(json.dumps(dict(settings)))  # as JSON gives it back: lists, not tuples
        found = read_settings(path)
        if found is None:
            append_line(path, json.dumps({"format": FORMAT, "settings": wanted}))
            return
        for name in [*wanted, *(name for name in found if name not in wanted)]:
            if wanted.get(name) != found.get(name):
                raise TournamentError(
                    f"{path} holds a tournament with {name} {json.dumps(found.get(name))}, not "
                    f"{json.dumps(wanted.get(name))}: choose another file"
                )
        for line in _lines(path)[1:]:
            self._read(line)

    def add(self, pairing: tuple[str, str], part: int, result: MatchResult) -> None:
        """Append finished games."""
        self.parts[pairing, part] = result
        append_line(self.path, json.dumps({"players": pairing, "part": part, **dataclasses.asdict(result)}))

    def _read(self, line: str) -> None:
        try:
            data = json.loads(line)
            first, second = data.pop("players")
            part = data.pop("part")
            data["pair_scores"], data["games"] = tuple(data["pair_scores"]), tuple(data["games"])
            self.parts[(first, second), part] = MatchResult(**data)
        except (ValueError, KeyError, TypeError, AttributeError):
            return


def read_settings(path: Path) -> dict[str, Any] | None:
    """The settings of the tournament in a file; None if there is no file, or nothing in it.

    Raises:
        TournamentError: if the file holds something else.
    """
    lines = _lines(path)
    if not lines:
        return None
    try:
        header = json.loads(lines[0])
        if header["format"] == FORMAT:
            settings: dict[str, Any] = header["settings"]
            return settings
    except (ValueError, KeyError, TypeError):
        pass
    raise TournamentError(f"{path} is not a tournament's file: choose another")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []


def digests(players: tuple[str, ...]) -> dict[str, str]:
    """SHA-256 of every network's file among the players: a file that has changed since is another player."""
    paths = {name: network_file(name) for name in players}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in paths.items() if path is not None}
