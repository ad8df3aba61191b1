"""Round robins from common openings: played in several processes, resumable and rated."""

import dataclasses
import json
import math
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from alphac4.arena.match import MatchResult, match_openings, play_match
from alphac4.arena.players import Player
from alphac4.arena.ratings import Rating, SprtState, choose_anchor, elo_interval, fit_ratings, pair_counts, sprt
from alphac4.arena.registry import find_network, parse_player, player_digest
from alphac4.bars import Bar
from alphac4.compute import choose_compute
from alphac4.game import Board, Position
from alphac4.game.rules import STANDARD, describe
from alphac4.machine import adapt_process, cores, format_table, picklable_errors, wrap_text
from alphac4.nn.backends import require_backend
from alphac4.storage.files import read_bytes
from alphac4.storage.journal import Journal
from alphac4.storage.records import finite_or_null, read_record, read_value

if TYPE_CHECKING:
    from alphac4.compute.pool import Pool

FORMAT = "alphac4-tournament"
PAIRS_PER_PART = 25  # pairs of games that a process plays in lockstep
SPRT_PAIRS_PER_PART = 10  # the same with a sequential test, which may end the pairing after any part

Pairing = tuple[str, str]
Results = dict[Pairing, MatchResult]
StartPart = Callable[["MatchPart"], Future[MatchResult]]


class NetworkFile(NamedTuple):
    """A network's file, for processes that lack it."""

    written: str  # its name in the player's specification
    suffix: str
    content: bytes


@dataclass(frozen=True, kw_only=True)
class Tournament:
    """Settings of a round robin; on one kind of processor, they determine all games of players without time limits."""

    players: tuple[str, ...]  # specifications
    pairs: int  # maximum number of colour-swapped pairs of games in each pairing
    seed: int = 0
    sprt: tuple[float, float] | None = None  # elo0 and elo1 of the sequential test that ends a pairing early
    board: Board = STANDARD
    backends: Mapping[str, str] = field(default_factory=dict)  # inference backends by player; "auto" for others
    device: str = "auto"

    @property
    def pairings(self) -> list[Pairing]:
        return list(combinations(self.players, 2))

    @property
    def part_pairs(self) -> int:
        """Pairs of games in a part, which one process plays; independent of the number of processes."""
        return PAIRS_PER_PART if self.sprt is None else SPRT_PAIRS_PER_PART

    @property
    def parts(self) -> int:
        return -(-self.pairs // self.part_pairs)

    @property
    def record_settings(self) -> dict[str, Any]:
        """Settings that the journal stores, with digests of files. `Journal` raises FileError if they have changed."""
        digests = {name: player_digest(name) for name in self.players}
        return {
            "players": self.players,
            "checkpoints": {name: digest for name, digest in digests.items() if digest is not None},
            "games": 2 * self.pairs,
            "seed": self.seed,
            "sprt": self.sprt,
            "board": describe(self.board),
            "backends": self.backends,
        }

    def openings(self) -> list[Position]:
        return match_openings(self.pairs, self.seed, self.board)

    def test(self, result: MatchResult) -> SprtState | None:
        """Return the state of a pairing's sequential test; None without one."""
        return None if self.sprt is None else sprt(pair_counts(result.pair_points), *self.sprt)

    def combine_parts(self, parts: Mapping[int, MatchResult]) -> tuple[MatchResult, bool]:
        """Return the result of a pairing from its finished parts, and whether the result is final.

        Parts after a missing one do not count, nor those after the one that decides the sequential test. So the result
        does not depend on the order in which processes finish.
        """
        result = MatchResult()
        for part in range(self.parts):
            if part not in parts:
                return result, False
            result += parts[part]
            test = self.test(result)
            if test is not None and test.accepted is not None:
                return result, True
        return result, True


@dataclass(frozen=True, kw_only=True)
class MatchPart:
    """A part of a pairing's games."""

    pairing: Pairing
    number: int  # from 0
    openings: tuple[Position, ...]


def read_part(entry: dict[str, Any]) -> tuple[tuple[Pairing, int], MatchResult]:
    """Return the pairing, the number and the result of a part from its entry in the journal."""
    part = read_value(int, entry.pop("part", None), "part")
    result = read_record(MatchResult, entry)
    return ((result.player, result.opponent), part), result


def play_round_robin(
    tournament: Tournament, output: Path | None = None, *, processes: int = 1, pool: "Pool | None" = None
) -> Results:
    """Play the parts that are missing in the journal ``output``, and record each of them there."""
    journal = Journal(output, FORMAT, tournament.record_settings)
    done: dict[Pairing, dict[int, MatchResult]] = {pairing: {} for pairing in tournament.pairings}
    for (pairing, number), result in journal.read(read_part):
        if pairing in done:
            done[pairing][number] = result
    missing = sum(tournament.parts - len(parts) for parts in done.values() if not tournament.combine_parts(parts)[1])
    recorded = sum(part.game_count for parts in done.values() for part in parts.values())
    games = 2 * tournament.pairs * len(done)
    with (
        _workers(tournament, min(processes, missing), pool) as (count, start),
        Bar(total=games, initial=recorded, unit="game", estimate=True) as bar,
    ):
        for part, result in _results_as_completed(_unplayed_parts(tournament, done), count, start):
            first, second = part.pairing
            # Records do not depend on where parts were played: a network's own name does, and so does the time.
            result = dataclasses.replace(result, player=first, opponent=second, seconds=0.0)
            done[part.pairing][part.number] = result
            journal.add({"part": part.number, **dataclasses.asdict(result)})
            bar.update(result.game_count)
    return {pairing: tournament.combine_parts(parts)[0] for pairing, parts in done.items()}


def _unplayed_parts(tournament: Tournament, done: Mapping[Pairing, Mapping[int, MatchResult]]) -> Iterator[MatchPart]:
    """Yield the missing parts. ``done`` grows meanwhile, and a decided pairing yields no further parts."""
    openings: list[Position] = []
    for pairing in tournament.pairings:
        for number in range(tournament.parts):
            if number not in done[pairing] and not tournament.combine_parts(done[pairing])[1]:
                openings = openings or tournament.openings()
                first = number * tournament.part_pairs
                part = tuple(openings[first : first + tournament.part_pairs])
                yield MatchPart(pairing=pairing, number=number, openings=part)


@contextmanager
def _workers(tournament: Tournament, processes: int, pool: "Pool | None") -> Iterator[tuple[int, StartPart]]:
    """Yield the number of parts to play at a time, and a function that starts a part in a process or plays it here."""
    if pool is not None:
        networks = pool.share({name: read_network(name) for name in tournament.players})
        yield pool.cores, lambda part: pool.submit(play_part, tournament, part, 1, networks)
        return
    if processes <= 1:
        yield 1, partial(_play_here, tournament)
        return
    threads = max(1, cores() // processes)
    context = multiprocessing.get_context("spawn")  # forking would copy locks that PyTorch's and Numba's threads hold
    executor = ProcessPoolExecutor(processes, mp_context=context, initializer=_prepare_process)
    try:
        yield processes, lambda part: executor.submit(_play_in_process, tournament, part, threads)
    except BrokenProcessPool as error:
        raise RuntimeError("a playing process was killed; rerun the command to resume") from error
    finally:
        for process in multiprocessing.active_children():  # after an interrupt or an error, some still play
            process.terminate()
        executor.shutdown(cancel_futures=True)


def _play_here(tournament: Tournament, part: MatchPart) -> Future[MatchResult]:
    played = Future[MatchResult]()
    played.set_result(play_part(tournament, part, cores()))
    return played


def _results_as_completed(
    waiting: Iterator[MatchPart], count: int, start: StartPart
) -> Iterator[tuple[MatchPart, MatchResult]]:
    """Start parts, ``count`` at a time, and yield each with its result when it is finished."""
    running: dict[Future[MatchResult], MatchPart] = {}
    while True:
        for part in islice(waiting, count - len(running)):
            running[start(part)] = part
        if not running:
            return
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in sorted(finished, key=lambda each: each.exception() is not None):  # record results before an error
            yield running.pop(future), future.result()


def play_part(
    tournament: Tournament,
    part: MatchPart,
    threads: int,
    networks: Callable[[], Mapping[str, NetworkFile | None]] | None = None,
) -> MatchResult:
    """Create both players and play; their random numbers depend only on the tournament and the part.

    In a process of a pool, ``networks`` returns the content of the networks' files by player.
    """
    files, players = None if networks is None else networks(), list[Player]()
    for side, name in enumerate(part.pairing):
        backend = tournament.backends.get(name) or "auto"
        there = (tournament.device, backend) if files is None else ("cpu", require_backend(backend))
        player = parse_player_with(
            None if files is None else files.get(name),
            name,
            rng=np.random.default_rng([tournament.seed, 2, part.number, side, *"\n".join(part.pairing).encode()]),
            board=tournament.board,
            threads=threads,
            compute=choose_compute(*there, threads=threads),
            batch_size=2 * len(part.openings),
        )
        players.append(player)
    challenger, opponent = players
    return play_match([challenger], [opponent], part.openings)


def read_network(specification: str) -> NetworkFile | None:
    """Return the file of the player's network; None for a player without a network."""
    network = find_network(specification)
    return None if network is None else NetworkFile(network.written, network.path.suffix, read_bytes(network.path))


def parse_player_with(network: NetworkFile | None, specification: str, **settings: Any) -> Player:
    """Call `parse_player`, with the content of ``network``, because this process may lack its file."""
    if network is None or not specification.startswith(network.written):
        return parse_player(specification, **settings)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"network{network.suffix}"
        path.write_bytes(network.content)
        return parse_player(f"{path}{specification.removeprefix(network.written)}", **settings)


def _prepare_process() -> None:
    """Set up a process to end immediately on Ctrl-C or with its parent, which reports and cleans up."""
    adapt_process()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout = sys.stderr  # only the parent prints results
    Bar.set_lock(threading.RLock())  # the default is a semaphore of the system, which a terminated process would leak
    threading.Thread(target=_end_with_parent, daemon=True).start()


@picklable_errors()
def _play_in_process(tournament: Tournament, part: MatchPart, threads: int) -> MatchResult:
    return play_part(tournament, part, threads)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def rate_players(results: Results) -> tuple[str, dict[str, Rating]]:
    """Return the player whose rating is 0, and all ratings."""
    points = {pairing: (result.points, result.game_count) for pairing, result in results.items()}
    anchor = choose_anchor(points)
    return anchor, fit_ratings(points, anchor)


def describe_results(tournament: Tournament, results: Results) -> str:
    """Return the crosstable and a line for each pairing, wrapped to the width of a terminal."""
    short = short_names(tournament.players)
    anchor, ratings = rate_players(results)
    lines = [
        crosstable(results, ratings),
        f"Elo by maximum likelihood, {short[anchor]} = 0, with 95 % intervals; scores in per cent.",
    ]
    elos = [rating.elo for rating in ratings.values()]
    if any(map(math.isinf, elos)):
        lines.append(f"+inf, -inf: the points between the player and {short[anchor]} went one way only.")
    if any(map(math.isnan, elos)):
        lines.append(f"?: the games do not compare the player with {short[anchor]}.")
    if tournament.sprt:
        lines.append("Scores and Elo of pairings that the sequential test ended early exaggerate the difference.")
    lines.append("")
    for (first, second), result in results.items():
        elo, test = elo_interval(result.interval), tournament.test(result)
        line = f"{short[first]} v. {short[second]}: {result}, Elo {elo.value:+z.0f} [{elo.low:+z.0f}, {elo.high:+z.0f}]"
        lines.append(wrap_text(line + (f"; {test}" if test else ""), sys.stdout))
    return "\n".join(lines)


def results_as_json(tournament: Tournament, results: Results) -> str:
    """Return pairings and ratings as JSON; infinite values, such as the Elo of a score of 0 or 1, are null."""
    pairings: list[dict[str, Any]] = []
    for pairing, result in results.items():
        score, elo, test = result.interval, elo_interval(result.interval), tournament.test(result)
        pairings.append(
            {
                "players": pairing,
                **{name: getattr(result, name) for name in ("wins", "draws", "losses", "score")},
                "interval": [score.low, score.high],
                "elo": elo.value,
                "elo_interval": [elo.low, elo.high],
                **({"sprt": dataclasses.asdict(test)} if test else {}),
            }
        )
    anchor, ratings = rate_players(results)
    rated = {name: dataclasses.asdict(rating) for name, rating in ratings.items()}
    return json.dumps(finite_or_null({"pairings": pairings, "anchor": anchor, "ratings": rated}), indent=2)


def crosstable(results: Mapping[Pairing, MatchResult], ratings: Mapping[str, Rating]) -> str:
    """Return a table of the players by rating: games, points, and the score in per cent against each other player."""
    points: dict[str, dict[str, tuple[float, int]]] = {name: {} for name in ratings}  # and games, by opponent
    for (a, b), result in results.items():
        if result.game_count:
            points[a][b] = result.points, result.game_count
            points[b][a] = result.game_count - result.points, result.game_count
    totals = {
        name: (sum(won for won, _ in own.values()), sum(played for _, played in own.values()))
        for name, own in points.items()
    }

    def strength(name: str) -> tuple[float, float]:
        elo, (won, played) = ratings[name].elo, totals[name]
        return -math.inf if math.isnan(elo) else elo, won / max(played, 1)

    order = sorted(ratings, key=strength, reverse=True)
    short = short_names(order)
    rows = [["", "player", "Elo", "±", "games", "points", *map(str, range(1, len(order) + 1))]]
    for row, name in enumerate(order, start=1):
        rating, own, (total, games) = ratings[name], points[name], totals[name]
        cells = [f"{100 * own[other][0] / own[other][1]:.0f}" if other in own else "-" for other in order]
        elo = "?" if math.isnan(rating.elo) else f"{rating.elo:+.0f}"
        error = "-" if math.isinf(rating.error) else f"{rating.error:.0f}"
        rows.append([str(row), short[name], elo, error, str(games), f"{total:.1f}", *cells])
    return "\n".join(format_table(rows, left=[1]))


def short_names(players: list[str] | tuple[str, ...]) -> dict[str, str]:
    """Return specifications without the folders and suffixes of network files, unless two would become the same."""
    short = {}
    for name in players:
        network = find_network(name)
        short[name] = name if network is None else name.replace(network.written, network.name, 1)
    return short if len(set(short.values())) == len(short) else {name: name for name in players}
