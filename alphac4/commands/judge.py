"""Commands of the group "Judge": matches, mistakes by exact play, and proofs."""

import contextlib
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from alphac4.commands.arguments import Board, Device, Place, Placed, loading
from alphac4.machine import cores, wrap_text
from alphac4.storage.files import check_output
from alphac4.storage.locks import lock_file, lock_folder
from alphac4.storage.records import MAX_NUMBER, MAX_SEED, MAX_SIMULATIONS, BoardConfig, check_ranges
from alphac4.version import __version__

if TYPE_CHECKING:
    from alphac4.arena.players import NetworkPlayer
    from alphac4.arena.tournament import Results, Tournament
    from alphac4.compute import Compute
    from alphac4.evaluation.walks import LevelReport
    from alphac4.game import Geometry

logger = logging.getLogger(__name__)

MAX_ELO = 2000  # of an advantage that a sequential test asks about: beyond about 6,000 a score rounds to 1
SHOWN_FAILURES = 10
CERTIFICATE_BATCH = 256  # positions that a network usually evaluates together


@dataclass(frozen=True, kw_only=True)
class ArenaCommand:
    """Play a round robin and rate the players.

    Games are colour-swapped pairs from a common set of openings.
    """

    players: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Two or more of the players that `alphac4 players` lists; with one, the shipped network is its opponent."""
    games: int = 100
    """Games in each pairing, an even number; with --sprt, the most there may be."""
    seed: int = 0
    """Seed of openings and players; games between players limited by time still differ from run to run."""
    output: Path | None = None
    """A file of JSON lines for results and games; rerun the command with it to resume."""
    processes: int | None = None
    """Processes that play; by default one per core."""
    sprt: tuple[float, float] | None = None
    """ELO0 ELO1: end each pairing once a sequential test decides whether the first is ELO1 or only ELO0 stronger."""
    board: Board = field(default_factory=BoardConfig)
    place: Placed = field(default_factory=Place)
    json: bool = False
    """Print the result as JSON instead of a table."""

    def __post_init__(self) -> None:
        check_ranges(self, games=(2, 1_000_000), seed=(0, MAX_SEED), processes=(1, 1024), sprt=(-MAX_ELO, MAX_ELO))
        if self.games % 2:
            raise ValueError(
                f"--games must be an even number, not {self.games}: every opening is played with both colours"
            )
        if self.place.cluster is not None and self.processes is not None:
            raise ValueError("--processes are those of this machine; on a cluster there is one per core")
        if self.sprt is not None and self.sprt[0] >= self.sprt[1]:
            raise ValueError(f"--sprt needs ELO0 below ELO1, not {self.sprt[0]:g} and {self.sprt[1]:g}")

    def __call__(self) -> int:
        """Play what is not recorded yet; print the crosstable, and each pairing's score with its interval."""
        with loading():
            from alphac4.arena.tournament import describe_results, results_as_json
        players = self.players if len(self.players) > 1 else ("best", *self.players)
        if len(players) < 2 or len(set(players)) < len(players):
            raise ValueError("an arena needs two different players or more")
        with lock_file(self.output), contextlib.redirect_stdout(sys.stderr):  # players of the user's own may print
            tournament, results = self._play(players)
        print((results_as_json if self.json else describe_results)(tournament, results))
        return 0

    def _play(self, players: tuple[str, ...]) -> "tuple[Tournament, Results]":
        """The tournament, and the results recorded before and now."""
        import numpy as np

        from alphac4.arena.specifications import common_geometry, find_network, parse_player
        from alphac4.arena.tournament import FORMAT, PAIRS_PER_PART, Tournament, play_round_robin

        geometry = common_geometry(players, self.board.geometry())
        place = self.place.of_record(self.output, FORMAT)
        processes = self.processes or place.compute().streams
        compute = place.compute(threads=max(1, cores() // processes))
        networks = [network for network in map(find_network, players) if network is not None and not network.is_onnx]
        if networks:  # chooses the fastest backend for all, once: games of two backends may differ
            compute.evaluator(networks[0].load().network, batch_size=2 * PAIRS_PER_PART)
        tournament = Tournament(
            players=players,
            pairs=self.games // 2,
            seed=self.seed,
            sprt=self.sprt,
            geometry=geometry,
            backend=compute.backend if networks else place.backend,
            device=place.device,
        )
        for name in players:  # report a bad specification before hours of games, not after
            parse_player(name, rng=np.random.default_rng(0), geometry=geometry, compute=compute)
        with place.pool() as pool:
            return tournament, play_round_robin(tournament, self.output, processes=processes, pool=pool)


@dataclass(frozen=True, kw_only=True)
class EvaluateCommand:
    """Measure a network, or any player, against exact play.

    A move is a mistake if its outcome (win, draw or loss) is worse than the best move's. The package brings six sets of
    positions with exact scores, by the stage of the game and by how far its end is.
    """

    player: Annotated[str, tyro.conf.Positional] = "best"
    """A checkpoint (FILE.safetensors, best or fast), which is measured with every budget, or any other of the players
    that `alphac4 players` lists."""
    simulations: tuple[str, ...] = ("0", "1", "32", "100", "600", "1600")
    """Simulations per position, for networks, such as 0 100 or 0,100; each is measured. 0 is the raw network, without
    any look ahead."""
    positions: tuple[Path, ...] = ()
    """Files to take instead of the package's six sets: lines with moves, then a score for each column."""
    count: int | None = None
    """Only the first N positions of each set."""
    reference: tuple[str, ...] = ()
    """Other players to measure beside it."""
    twin: bool = True
    """Measure a checkpoint's untrained twin as well, for comparison; it takes as long as the checkpoint."""
    json: bool = False
    """Print the report as JSON instead of the tables."""
    picture: Path | None = None
    """A file for the report as a picture, such as strength.png."""
    seed: int = 0
    """Seed of searches and the untrained network."""
    place: Placed = field(default_factory=Place)

    def __post_init__(self) -> None:
        check_ranges(self, count=(1, MAX_NUMBER), seed=(0, MAX_SEED))

    def __call__(self) -> int:
        """Measure, then print the tables or JSON."""
        from alphac4.arena.specifications import common_geometry
        from alphac4.evaluation.positions import choose_sets

        sets = choose_sets(common_geometry((self.player,)), self.positions, self.count)
        words = [word.strip() for word in ",".join(self.simulations).split(",")]
        if not all(word.isascii() and word.isdecimal() and int(word) <= MAX_SIMULATIONS for word in words):
            text = f"--simulations takes numbers such as 0 100 or 0,100, not {','.join(words)!r:.60}"
            raise ValueError(f"{text}; {MAX_SIMULATIONS:,} is the most")
        if self.picture is not None:
            from alphac4.evaluation.pictures import check_picture, save_picture  # with Matplotlib

            check_picture(self.picture)
        check_output(self.picture)
        with loading():
            from alphac4.evaluation.measurement import Measurement, measure_strength  # with PyTorch

        with self.place.pool() as pool, contextlib.redirect_stdout(sys.stderr):  # players of the user's own may print
            measurement = Measurement(
                sets=sets,
                budgets=sorted(set(map(int, words))),
                seed=self.seed,
                compute=self.place.compute(),
                pool=pool,
            )
            report = measure_strength(self.player, measurement, self.reference, twin=self.twin)
        if self.picture is not None:
            save_picture(report, self.picture)
        if self.json:
            print(report.to_json())
        else:
            tables, newline, summary = str(report).rpartition("\n")
            print(tables + newline + wrap_text(summary, sys.stdout))
        return 0


@dataclass(frozen=True, kw_only=True)
class ProveCommand:
    """Judge every move that a player makes against any opponent, by the exact solver.

    A move is a mistake if it gives away a win, or a draw in a position that is not won. If there is none and every line
    is followed to its end, this proves that a network makes none, if simulations limit it. Any other player may move
    differently in the next game. A line ends early once the player's own search has proven that it wins: it plays on
    from that tree. The number of positions grows about threefold with every two plies, so begin with --plies 10.
    """

    player: Annotated[str, tyro.conf.Positional] = "best@600"
    """Any player that `alphac4 players` lists."""
    side: Literal["first", "second"] = "first"
    """Whether the player has the first move of the game or the second."""
    start: str = ""
    """Moves from which the games begin, such as 44."""
    plies: int | None = None
    """Look no further than positions with that many stones; by default to the end of every game."""
    beyond_mistakes: bool = False
    """Continue after a mistake, so that players can be compared by their share of mistakes."""
    record: Path | None = None
    """A file for the player's move in each position. If interrupted, rerun the command to resume."""
    seed: int = 0
    """Seed of a player that plays at random."""
    place: Placed = field(default_factory=Place)

    def __post_init__(self) -> None:
        check_ranges(self, plies=(0, 64), seed=(0, MAX_SEED))

    def __call__(self) -> int:
        """Walk and print a line for each number of stones, then the verdict; 1 if the player makes a mistake."""
        with lock_file(self.record):
            reports = self._walk()
        print(self._verdict(reports))
        return int(any(report.failures for report in reports))

    def _walk(self) -> "list[LevelReport]":
        """Walk, and print a line for each number of stones."""
        with loading():
            import numpy as np
            from tqdm import tqdm

            from alphac4.arena.specifications import (
                LEAVES,
                common_geometry,
                find_network,
                network_digest,
                parse_player,
                pool_players,
            )
            from alphac4.certificate.walk import Claim
            from alphac4.evaluation.answers import BATCH
            from alphac4.evaluation.walks import FORMAT, KnownMoves, MoveKind, outcome_solver, walk_games

        claim = Claim(geometry=common_geometry((self.player,)), side=self.side, after=self.start)
        start, geometry = claim.start, claim.geometry
        plies = geometry.cells if self.plies is None else self.plies
        if plies < start.plies:
            raise ValueError(f"--plies {plies}: the start has {start.plies} stones already")
        if plies == start.plies and start.first_to_move != (self.side == "first"):
            raise ValueError(f"--plies {plies}: {self.player}, moving {self.side}, has its first move after that")
        place = self.place.of_record(self.record, FORMAT)
        compute = place.compute(threads=1)
        is_network, is_here = find_network(self.player) is not None, place.cluster is None
        one_per_core = is_network and is_here and compute.learning_device.type == "cpu"
        players = [
            parse_player(
                self.player,
                rng=np.random.default_rng(self.seed),
                geometry=geometry,
                threads=1 if one_per_core or not is_here else None,
                compute=compute,
                batch_size=BATCH,
            )
            for _ in range(cores() if one_per_core else 1)
        ]
        backend = compute.backend
        columns = {
            "won": MoveKind.WINS,
            "proven won": MoveKind.PROOF,
            "drawn": MoveKind.DRAWS,
            "go on": MoveKind.ANSWER,
            "mistakes": MoveKind.MISTAKE,
        }
        reports: list[LevelReport] = []
        with place.pool() as pool, tqdm(unit="pos", disable=None, leave=False) as bar:
            if pool is not None:
                players = pool_players(
                    pool, self.player, players[0], geometry=geometry, backend=backend, seed=self.seed
                )
            about = {name: getattr(self, name) for name in ("player", "side", "start", "seed")}
            about |= {"network": network_digest(self.player), "backend": backend, "leaves": LEAVES}
            known = KnownMoves(geometry, self.record, about)
            bar.write("  ".join(f"{heading:>10}" for heading in ("stones", "positions", *columns)), file=sys.stdout)
            for report in walk_games(
                players,
                outcome_solver(geometry, pool),
                known,
                claim,
                plies=plies,
                beyond_mistakes=self.beyond_mistakes,
                on_moves=partial(show_moves, bar),
            ):
                numbers = (report.stones, len(report.keys), *map(report.count, columns.values()))
                bar.write("  ".join(f"{number:>10,}" for number in numbers), file=sys.stdout)
                reports.append(report)
        return reports

    def _verdict(self, reports: "Sequence[LevelReport]") -> str:
        from alphac4.arena.specifications import is_repeatable
        from alphac4.evaluation.walks import MoveKind

        positions = sum(len(report.keys) for report in reports)
        mistakes = [position.moves or "" for report in reports for position in report.failures]
        is_unfinished = bool(reports) and reports[-1].count(MoveKind.ANSWER) > 0
        scope = f"the {positions:,} positions that an opponent can reach"
        if is_unfinished:
            scope += f" with up to {reports[-1].stones} stones"
        if not mistakes:
            if not is_repeatable(self.player):
                meaning = " It may move differently next time, so this is not a proof."
            else:
                meaning = "" if is_unfinished else " Every line was followed to its end: proven."
            return f"\n{self.player}, moving {self.side}, makes no mistake in {scope}.{meaning}"
        shown = ", ".join(mistakes[:SHOWN_FAILURES]) + (", ..." if len(mistakes) > SHOWN_FAILURES else "")
        further = "" if self.beyond_mistakes else "; lines stop at the first mistake"
        return (
            f"\n{self.player}, moving {self.side}, makes a mistake in {len(mistakes):,} of {scope}"
            f" ({len(mistakes) / positions:.2%}){further}.\nMoves up to the mistakes: {shown}"
        )


def show_moves(bar: Any, stones: int, done: int, total: int) -> None:
    """Show on a bar of tqdm how far a walk is among the positions with that many stones, and how long they take."""
    if done == 0:
        bar.set_description(f"{stones} stones", refresh=False)
        bar.reset(total)
    bar.update(done - bar.n)


@dataclass(frozen=True, kw_only=True)
class CertificateCommand:
    """Make or check a certificate: a player's move in every position that any opponent can bring about.

    It claims that the first or the second player wins, or at least draws, from the empty board or after some moves:

        alphac4 certificate build --side second --after 1 --record runs/after-1

    The task `build` walks every reply to a player. Where a line is not won, it takes the player's last move back and
    asks again, then the one before, until every line is won, and writes the file. Answers are stored in a folder: if
    interrupted, rerun the command to resume.

    The task `verify` checks a file by the rules only; `scripts/verify_certificate.py` does the same in plain Python,
    without this package. All options but the file are for `build`.
    """

    task: Annotated[Literal["build", "verify"], tyro.conf.Positional]
    """The task: to build a certificate, or to verify one."""
    file: Annotated[Path | None, tyro.conf.Positional] = None
    """The certificate; by default all that come with the project (verify), or RECORD/best.certificate (build)."""
    player: str = "best@auto"
    """Player whose moves they are: a network and its limit."""
    side: Literal["first", "second"] = "first"
    """Whether the player has the first move of the game or the second."""
    after: str = ""
    """Moves after which it plays, such as 44."""
    result: Literal["win", "draw"] = "win"
    """Result that the player reaches at least."""
    record: Path = Path("runs/certificate")
    """A folder for the answers so far."""
    stones: int = 64
    """Look no further than positions with that many stones; then no certificate is written."""
    seed: int = 0
    """Seed of a player that plays at random."""
    device: Device = "auto"
    """Device that runs the network."""
    backend: str = "auto"
    """Inference backend; auto takes the fastest here."""

    def __post_init__(self) -> None:
        check_ranges(self, stones=(0, 64), seed=(0, MAX_SEED))

    def __call__(self) -> int:
        """Build a certificate, or verify a file or all that come with the project; 1 if a claim is not shown."""
        if self.task == "verify":
            with loading():
                from alphac4.certificate.file import shipped_certificates
            return max(map(_verify, [self.file] if self.file else shipped_certificates()))
        with lock_folder(self.record):
            return self._build()

    def _build(self) -> int:
        """Walk and write; 1 if the claim is not shown."""
        with loading():
            from tqdm import tqdm

            from alphac4.arena.specifications import LEAVES, common_geometry, network_digest
            from alphac4.certificate.file import Certificate, walk_certificate, write_certificate
            from alphac4.certificate.walk import NO_MOVE, Claim
            from alphac4.evaluation.walks import FORMAT, KnownMoves, MoveKind, build, moves_in_order

        geometry, path = common_geometry((self.player,)), self.file or self.record / "best.certificate"
        claim = Claim(geometry=geometry, side=self.side, after=self.after, result=self.result)
        check_output(path)
        journal = self.record / "moves.jsonl"
        place = Place(device=self.device, backend=self.backend).of_record(journal, FORMAT)
        compute = place.compute(threads=1)
        players = self._players(geometry, compute)
        about: dict[str, Any] = {
            "player": self.player,
            "network": network_digest(self.player),
            "backend": compute.backend,
            "leaves": LEAVES,
            "code": __version__,
        }
        known = KnownMoves(geometry, journal, {**about, "seed": self.seed, "claim": str(claim)})
        levels: dict[int, LevelReport] = {}
        with tqdm(unit="pos", disable=None, leave=False) as bar:
            for level in build(players, known, claim, max_stones=self.stones, on_moves=partial(show_moves, bar)):
                if level.stones not in levels:  # it may be walked again
                    decided, proven = level.count(NO_MOVE), level.count(MoveKind.PROOF)
                    line = (
                        f"{level.stones:2d} stones: {len(level.keys):>9,} positions, {decided:>9,} decided by the "
                        f"rules, {proven:>9,} proven by the player's search, "
                        f"{len(level.keys) - decided - proven:>7,} by its move alone"
                    )
                    bar.write(line, file=sys.stdout)
                levels[level.stones] = level
        taken_back = sum(level.taken_back for level in levels.values())
        if failures := [position for level in levels.values() for position in level.failures]:
            shown = "\n".join(map(str, failures[:SHOWN_FAILURES]))
            print(
                f"\n{self.player} does not show that {claim}. It fails in {len(failures):,} positions, such as\n{shown}"
            )
            return 1
        answers = self.player + (f", which took back {taken_back:,} of its moves" if taken_back else "")
        if not levels[max(levels)].is_last:
            print(f"\nUp to {self.stones} stones no line is lost by {answers}; the walk is not complete.")
            return 0
        about |= {"taken_back": taken_back}
        certificate = Certificate(claim=claim, columns=moves_in_order(known, claim), about=about)
        positions = sum(len(level.keys) for level in walk_certificate(certificate))
        write_certificate(path, certificate)
        print(f"\n{path}: {len(certificate.columns):,} moves for {positions:,} positions, by {answers}: {claim}.")
        return 0

    def _players(self, geometry: "Geometry", compute: "Compute") -> "list[NetworkPlayer]":
        """Return the player, once for each core."""
        import numpy as np

        from alphac4.arena.players import NetworkPlayer
        from alphac4.arena.specifications import is_repeatable, parse_player

        players = []
        for index in range(cores()):
            player = parse_player(
                self.player,
                rng=np.random.default_rng([self.seed, index]),
                geometry=geometry,
                threads=1,
                compute=compute,
                batch_size=CERTIFICATE_BATCH,
                reuse="nothing",
            )
            if not isinstance(player, NetworkPlayer):
                raise ValueError(f"{self.player}: only the search of a network gives its proofs")
            if not is_repeatable(self.player):
                raise ValueError(
                    f"{self.player!r}: limit it by simulations, not by time, and leave out temperature, so that its "
                    "moves are repeatable"
                )
            players.append(player)
        return players


def _verify(path: Path) -> int:
    """Check a certificate's file and print the verdict; 1 if it does not hold."""
    from alphac4.certificate.file import CertificateError, read_certificate, walk_certificate

    certificate = read_certificate(path)
    print(f"{path}: moves of {certificate.about.get('player', 'an unnamed player')}")
    started = time.perf_counter()
    positions = last = 0
    try:
        for last, keys, _ in walk_certificate(certificate):
            print(f"{last:2d} stones: {len(keys):,} positions")
            positions += len(keys)
    except CertificateError as error:
        print(error)
        return 1
    print(
        f"{positions:,} positions ({len(certificate.columns):,} with a move of their own), the last with "
        f"{last} stones, in {time.perf_counter() - started:.1f} s: {certificate.claim}."
    )
    return 0


@dataclass(frozen=True, kw_only=True)
class PositionsCommand:
    """Make sets of positions with the exact score of every move, for `alphac4 evaluate --positions`.

    There are six, by stage (begin up to 14 stones, middle up to 28, end) and by how many stones are still to come with
    best play (easy up to 14, medium up to 28, hard). If interrupted, rerun the command to resume. A begin-hard position
    takes seconds, the others far less.
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """Folder for the files, one for each set."""
    sets: tuple[str, ...] = ()
    """Sets to make; by default all."""
    count: int = 200
    """Positions in each set."""
    sample: tuple[Path, ...] = ()
    """Files whose lines begin with move strings, from which to draw instead of random play; each is named after its
    set, or like the public ones (Test_L1_R1)."""
    seed: int = 0
    """Seed of the positions."""

    def __post_init__(self) -> None:
        check_ranges(self, count=(1, MAX_NUMBER), seed=(0, MAX_SEED))

    def __call__(self) -> int:
        """Write the files, the quickest first."""
        with loading():
            import numpy as np
            from tqdm import tqdm

            from alphac4.evaluation.positions import (
                PUBLIC_NAMES,
                SETS,
                SUFFIX,
                random_positions,
                sampled_positions,
                write_set,
            )
            from alphac4.solver import Solver

        sources = {PUBLIC_NAMES.get(path.stem, path.stem): path for path in self.sample}
        names = self.sets or tuple(sources) or SETS
        if unknown := [name for name in names if name not in SETS]:
            source = "" if self.sets else f", the name of {sources[unknown[0]]}"
            raise ValueError(f"unknown set {unknown[0]!r}{source}; there are {', '.join(SETS)}")
        if missing := [name for name in names if sources and name not in sources]:
            raise ValueError(f"--sample has no file for {', '.join(missing)}: leave these out of --sets")
        solver, counts = Solver(), dict[str, int]()
        with lock_folder(self.folder):
            for name in sorted(names, key=SETS.index, reverse=True):
                rng, stage = np.random.default_rng([self.seed, SETS.index(name)]), name.partition("-")[0]
                candidates = sampled_positions(sources[name], rng) if sources else random_positions(stage, rng)
                path = self.folder / f"{name}{SUFFIX}"
                with tqdm(total=self.count, desc=name, unit="pos", disable=None) as bar:
                    counts[name] = write_set(path, name, self.count, candidates, solver, on_position=bar.update)
                if counts[name] < self.count:
                    short = "%s: %d of %d positions; the sample has no more of this set"
                    logger.warning(short, path, counts[name], self.count)
        shown = ", ".join(f"{count:,} in {name}" for name, count in counts.items())
        print(f"{self.folder} holds {sum(counts.values()):,} positions with exact scores: {shown}.", file=sys.stderr)
        return 0
