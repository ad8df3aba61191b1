"""A tournament's file: JSON lines of finished games, from which the same tournament goes on."""

import dataclasses
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alphac4.arena.match import MatchResult
from alphac4.arena.networks import network_digest
from alphac4.storage.files import append_line, read_lines
from alphac4.storage.records import read_record, read_signed_line, read_value, sign_line

logger = logging.getLogger(__name__)

FORMAT = "alphac4-tournament"


class TournamentError(ValueError):
    """A tournament's file that cannot be used, and why, in one line."""


class TournamentRecord:
    """Finished parts of pairings in a file whose first line says what tournament they belong to.

    Every line has a checksum; files of earlier versions have none. A line that is damaged, or that a kill cut short, is
    reported and left out: its games are played again.

    Raises:
        TournamentError: if the file holds something else, or a tournament with other settings.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.parts: dict[tuple[tuple[str, str], int], MatchResult] = {}
        wanted = json.loads(json.dumps(dict(settings)))  # as JSON gives it back: lists, not tuples
        header = _read_header(path)
        if header is None:
            append_line(path, sign_line({"format": FORMAT, "settings": wanted}))
            return
        found, signed = header
        for name in [*wanted, *(name for name in found if name not in wanted)]:
            if wanted.get(name) != found.get(name):
                raise TournamentError(
                    f"{path} holds a tournament with {name} {json.dumps(found.get(name)):.200}, not "
                    f"{json.dumps(wanted.get(name))}: choose another file"
                )
        for number, line in enumerate(read_lines(path)[1:], start=2):
            if line.strip():
                self._read(line, number, signed)

    def add(self, pairing: tuple[str, str], part: int, result: MatchResult) -> None:
        """Append finished games."""
        self.parts[pairing, part] = result
        append_line(self.path, sign_line({"players": pairing, "part": part, **dataclasses.asdict(result)}))

    def _read(self, line: str, number: int, signed: bool) -> None:
        try:
            data, has_checksum = read_signed_line(line)
            if signed and not has_checksum:
                raise ValueError("the checksum is missing")
            pairing = read_value(tuple[str, str], data.pop("players", None), "players")
            part = read_value(int, data.pop("part", None), "part")
            result = read_record(MatchResult, data)
            if not _adds_up(result):
                raise ValueError("its figures do not add up")
        except ValueError as error:
            logger.warning("%s: line %d is damaged and left out: %s", self.path, number, error)
        else:
            self.parts[pairing, part] = result


def read_settings(path: Path) -> dict[str, Any] | None:
    """The settings of the tournament in a file; None if there is no file, or nothing in it.

    Raises:
        TournamentError: if the file holds something else.
    """
    header = _read_header(path)
    return None if header is None else header[0]


def _read_header(path: Path) -> tuple[dict[str, Any], bool] | None:
    """The settings and whether the file's lines have checksums; None if there is no file, or nothing in it."""
    lines = read_lines(path)
    if not any(lines):
        return None
    try:
        header, signed = read_signed_line(lines[0])
        if header.keys() == {"format", "settings"} and header["format"] == FORMAT:
            return read_value(dict[str, Any], header["settings"], "settings"), signed
        reason = "its first line is none of ours"
    except ValueError as error:
        reason = str(error)
    raise TournamentError(f"{path} is not a tournament's file, or damaged ({reason}): choose another")


def _adds_up(result: MatchResult) -> bool:
    counts = (result.wins, result.draws, result.losses)
    return (
        min(counts) >= 0
        and len(result.games) == result.played == 2 * len(result.pair_scores)
        and all(0 <= score <= 2 and (2 * score).is_integer() for score in result.pair_scores)
        and sum(result.pair_scores) == result.points
    )


def digests(players: tuple[str, ...]) -> dict[str, str]:
    """SHA-256 of every network's file among the players: a file that has changed since is another player."""
    return {name: digest for name in players if (digest := network_digest(name)) is not None}
