"""Round robins: everyone against everyone from common openings, resumable, rated."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from alphac4.arena.match import MatchResult, play_match
from alphac4.arena.players import Player
from alphac4.arena.ratings import Rating, fit_ratings
from alphac4.files import append_line
from alphac4.game import Position

Results = dict[tuple[str, str], MatchResult]


class TournamentError(ValueError):
    """A tournament's file that cannot be used, and why, in one line."""


def play_round_robin(
    players: Mapping[str, Callable[[], Player]],
    openings: Sequence[Position],
    output: Path | None,
    settings: Mapping[str, object],
) -> Results:
    """Play every pairing; with ``output``, each is appended as a JSON line, and those found there are not replayed.

    Raises:
        TournamentError: if ``output`` holds a tournament of other settings.
    """
    results = read_results(output, settings) if output is not None else {}
    if output is not None and not output.exists():
        append_line(output, json.dumps({"settings": settings}))
    made: dict[str, Player] = {}
    for first, second in combinations(players, 2):
        if (first, second) in results:
            continue
        for name in (first, second):
            made.setdefault(name, players[name]())
        result = play_match(made[first], made[second], openings)
        results[first, second] = result
        if output is not None:
            append_line(output, json.dumps({"players": [first, second], **dataclasses.asdict(result)}))
    return results


def read_results(output: Path, settings: Mapping[str, object]) -> Results:
    """The pairings that a file already holds.

    Raises:
        TournamentError: if it holds a tournament of other settings, or something else.
    """
    if not output.exists():
        return {}
    results: Results = {}
    for number, line in enumerate(output.read_text().splitlines()):
        try:
            data = json.loads(line)
            if number == 0:
                if data["settings"] != json.loads(json.dumps(settings)):
                    raise TournamentError(f"{output} holds a tournament with other settings: choose another file")
                continue
            first, second = data.pop("players")
            data["pair_scores"], data["games"] = tuple(data["pair_scores"]), tuple(data["games"])
            results[first, second] = MatchResult(**data)
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            if number == 0:
                raise TournamentError(f"{output} is not a tournament's file") from error
            continue  # a line that a kill cut short: its pairing is played again
    return results


def rate(results: Results, anchor: str) -> dict[str, Rating]:
    """Maximum-likelihood ratings with ``anchor`` at 0."""
    table = {
        pair: (result.wins + 0.5 * result.draws, result.wins + result.draws + result.losses)
        for pair, result in results.items()
    }
    return fit_ratings(table, anchor)


def crosstable(results: Results, ratings: Mapping[str, Rating]) -> str:
    """Players by rating, with their scores in per cent against each of the others."""
    order = sorted(ratings, key=lambda name: -ratings[name].elo)
    width = max(len(name) for name in order)
    lines = [" " * (width + 21) + "".join(f"{index + 1:>5}" for index in range(len(order)))]
    for index, name in enumerate(order):
        cells = []
        for other in order:
            if (name, other) in results:
                cells.append(f"{100 * results[name, other].score:5.0f}")
            elif (other, name) in results:
                cells.append(f"{100 - 100 * results[other, name].score:5.0f}")
            else:
                cells.append("    -")
        rating = ratings[name]
        lines.append(f"{index + 1:>2} {name:<{width}}  {rating.elo:+6.0f} ± {rating.error:<4.0f}  " + "".join(cells))
    return "\n".join(lines)
