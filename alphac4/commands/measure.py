"""Commands of the group "Measure": matches, mistakes against exact play, proofs, and the speed of the machine."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from alphac4.commands import EXIT_BROKEN_INSTALL
from alphac4.commands.arguments import (
    NO_PREFIX,
    ComputeOptions,
    Count,
    Device,
    Moves,
    OutputFile,
    PlayerCheck,
    loading,
    metavar,
)
from alphac4.machine import cores, wrap_text
from alphac4.storage.files import check_output
from alphac4.storage.locks import lock_file
from alphac4.storage.networks import check_network
from alphac4.storage.records import (
    MAX_NUMBER,
    MAX_SIMULATIONS,
    BoardConfig,
    CheckedSettings,
    Range,
    Seed,
    is_whole_number,
)

if TYPE_CHECKING:
    from alphac4.arena.tournament import Results, Tournament
    from alphac4.evaluation.walks import LevelReport

MAX_ELO = 2000  # largest hypothesis of --sprt: beyond about 6,000 Elo an expected score rounds to 1
SHOWN_FAILURES = 10


@dataclass(frozen=True, kw_only=True)
class ArenaCommand(CheckedSettings):
    """Play a round robin and rate the players.

        alphac4 arena best@100 quick@100 uct:1000 --games 50
        alphac4 arena mine.safetensors best --sprt 0 30 --output games.jsonl

    Each opening is played twice, with colours swapped, and all pairings use the same openings.
    """

    players: Annotated[tuple[str, ...], tyro.conf.Positional, metavar("PLAYER [PLAYER ...]"), PlayerCheck()] = ()
    """Players that `alphac4 players` lists; a single one plays against best."""
    games: Annotated[int, Range(2, 1_000_000)] = 100
    """Games per pairing, an even number; with --sprt, the maximum."""
    seed: Seed = 0
    """Seed of openings and players. Games between players with time limits are not repeatable."""
    output: OutputFile = None
    """Store results and games in this file, one JSON object per line; rerun the command to resume."""
    processes: Annotated[Count, Range(1, 1024)] = None
    """Processes that play; by default one per core, or a single one if the search trees are on a GPU. On a
    cluster there is always one per core."""
    sprt: Annotated[tuple[float, float] | None, Range(-MAX_ELO, MAX_ELO), metavar("ELO0 ELO1")] = None
    """End each pairing early by a sequential probability ratio test: is the first player stronger by ELO1 points (H1),
    or only by ELO0 points (H0)?"""
    board: Annotated[BoardConfig, NO_PREFIX] = field(default_factory=BoardConfig)
    compute: Annotated[ComputeOptions, NO_PREFIX] = field(default_factory=ComputeOptions)
    json: bool = False
    """Print JSON instead of a table."""

    def _check(self) -> None:
        super()._check()
        if self.games % 2:
            raise ValueError(
                f"--games must be an even number, not {self.games}: every opening is played with both colours"
            )
        if self.sprt is not None and self.sprt[0] >= self.sprt[1]:
            raise ValueError(f"--sprt needs ELO0 below ELO1, not {self.sprt[0]:g} and {self.sprt[1]:g}")

    def __call__(self) -> int:
        """Play the games that are not recorded yet; print the crosstable and the score of each pairing, or JSON."""
        with loading():
            from alphac4.arena.tournament import describe_results, results_as_json
        players = self.players if len(self.players) > 1 else ("best", *self.players)
        if len(players) < 2 or len(set(players)) < len(players):
            raise ValueError("name at least two different players")
        with (
            lock_file(self.output),
            contextlib.redirect_stdout(sys.stderr),  # external players may print
            contextlib.ExitStack() as opened,
        ):
            tournament, results = self._play(players, opened)
        print((results_as_json if self.json else describe_results)(tournament, results))
        return 0

    def _play(self, players: tuple[str, ...], opened: contextlib.ExitStack) -> "tuple[Tournament, Results]":
        """Return the tournament, and all its results, recorded and new; ``opened`` closes the processes."""
        import numpy as np

        from alphac4.arena.players import backends_of
        from alphac4.arena.registry import common_board, parse_player
        from alphac4.arena.tournament import PAIRS_PER_PART, Tournament, play_round_robin
        from alphac4.compute import choose_compute

        board, options = common_board(players, self.board.make()), self.compute
        compute = choose_compute(options.device, for_run=True)
        opened.callback(compute.close)
        pool = compute.pool()
        if pool is not None:
            opened.callback(pool.close)
            options = replace(options, device="cpu")
        processes = self.processes or options.choose().callers
        backends = dict[str, str]()
        for name in players:  # report an invalid player before hours of games
            player = parse_player(
                name,
                rng=np.random.default_rng(0),
                board=board,
                compute=options.choose(threads=max(1, cores() // processes)),
                batch_size=2 * PAIRS_PER_PART,
            )
            backends[name] = backends_of([player])
        tournament = Tournament(
            players=players,
            pairs=self.games // 2,
            seed=self.seed,
            sprt=self.sprt,
            board=board,
            backends=backends,
            device=options.device,
        )
        return tournament, play_round_robin(tournament, self.output, processes=processes, pool=pool)


@dataclass(frozen=True, kw_only=True)
class EvaluateCommand(CheckedSettings):
    """Measure a network, or any player, against exact play.

        alphac4 evaluate runs/mine/checkpoints/best.safetensors --simulations 0 600
        alphac4 evaluate uct:1000 --references random negamax:4 --count 50

    A move is a mistake if its outcome (win, draw or loss) is worse than the best move's. The package contains six sets
    of positions with exact scores, by stage of the game and distance to its end.
    """

    player: Annotated[str, tyro.conf.Positional, metavar("[PLAYER]"), PlayerCheck()] = "best"
    """A checkpoint (FILE.safetensors, best or quick), measured with each number of simulations, or any other player
    that `alphac4 players` lists."""
    simulations: Annotated[tuple[str, ...], metavar("N [N ...]")] = ()
    """Numbers of simulations per position to measure a checkpoint with, such as 0 100 or 0,100. 0 is the raw policy,
    without search. Default: 0 100. The package's positions take less than a minute on two cores, and ten times as long
    with 1000 simulations."""
    positions: Annotated[tuple[Path, ...], metavar("FILE [FILE ...]")] = ()
    """Files to use instead of the package's six sets: lines with moves, then a score per column. The solver checks the
    scores of positions with at most 22 empty cells. Every line counts, even if it repeats a position."""
    count: Annotated[Count, Range(1, MAX_NUMBER)] = None
    """Use only the first N positions of each set."""
    references: Annotated[tuple[str, ...], metavar("PLAYER [PLAYER ...]"), PlayerCheck()] = ()
    """Other players to measure for comparison."""
    untrained: bool = True
    """Also measure an untrained network of the same size as the checkpoint, which takes as long again."""
    json: bool = False
    """Print JSON instead of tables."""
    picture: OutputFile = None
    """Draw the report to this file, whose name ends in .png, .svg or .pdf."""
    overwrite: bool = False
    """Replace an existing file."""
    seed: Seed = 0
    """Seed of the searches and of the untrained network."""
    compute: Annotated[ComputeOptions, NO_PREFIX] = field(default_factory=ComputeOptions)

    def __call__(self) -> int:
        """Measure; print tables or JSON."""
        from alphac4.arena.registry import common_board
        from alphac4.evaluation.positions import choose_sets

        sets = choose_sets(common_board((self.player,)), self.positions, self.count)
        words = [word.strip() for word in ",".join(self.simulations or ["0"]).split(",")]
        if not all(is_whole_number(word, 0, MAX_SIMULATIONS) for word in words):
            text = f"--simulations takes numbers such as 0 100 or 0,100, not {','.join(words)!r:.60}"
            raise ValueError(f"{text}; the maximum is {MAX_SIMULATIONS:,}")
        if self.picture is not None:
            from alphac4.evaluation.pictures import SUFFIXES, save_picture  # imports Matplotlib

            check_output(self.picture, *SUFFIXES, overwrite=self.overwrite)
        with loading():
            from alphac4.evaluation.measurement import MeasurementPlan, choose_budgets, measure_strength

        requested = list(map(int, words)) if self.simulations else []
        budgets = choose_budgets(requested, (self.player, *self.references))
        with contextlib.redirect_stdout(sys.stderr):  # external players may print
            measurement = MeasurementPlan(sets=sets, budgets=budgets, seed=self.seed, compute=self.compute.choose())
            report = measure_strength(self.player, measurement, self.references, untrained=self.untrained)
        if self.json:
            print(report.to_json())
        else:
            print(wrap_text(str(report), sys.stdout))
        if self.picture is not None:
            save_picture(report, self.picture)
        return 0


@dataclass(frozen=True, kw_only=True)
class AuditCommand(CheckedSettings):
    """Judge by the exact solver every move that a player makes against any opponent.

        alphac4 audit best@600 --max-stones 10
        alphac4 audit best@600 --side second --output moves.jsonl

    A move is a mistake if it gives away a win or a draw. If all games are followed to their end without a mistake, the
    player makes none, provided that it repeats its moves. Networks repeat theirs if simulations limit the search and
    they have no temperature. Only one of two mirror images is tested; the player might move differently in the other. A
    game ends early when the player's own search has proven a win, because the player then follows its search tree. The
    number of positions grows four- to sixfold with every two stones, so start with --max-stones 10.
    """

    player: Annotated[str, tyro.conf.Positional, metavar("[PLAYER]"), PlayerCheck()] = "best@600"
    """Any player that `alphac4 players` lists."""
    side: Literal["first", "second"] = "first"
    """Whether the player has the first or the second move of the game."""
    moves: Moves = ""
    """Start after these moves, such as 44."""
    max_stones: Annotated[Count, Range(0, 64)] = None
    """Judge only positions with at most N stones; by default judge to the end of every game."""
    continue_after_mistakes: bool = False
    """Continue games after a mistake, to compare players by their share of mistakes."""
    output: OutputFile = None
    """Store the player's move in each position in this file; rerun the command to resume."""
    seed: Seed = 0
    """Seed of a player with random moves."""
    compute: Annotated[ComputeOptions, NO_PREFIX] = field(default_factory=ComputeOptions)

    def __call__(self) -> int:
        """Judge all games, print a line per number of stones, then the verdict; return 1 if there is a mistake."""
        with lock_file(self.output):
            reports = self._walk()
        print(wrap_text(self._verdict(reports), sys.stdout))
        return int(any(report.failures for report in reports))

    def _walk(self) -> "list[LevelReport]":
        """Follow and judge all games; print a line per number of stones."""
        with loading():
            import numpy as np

            from alphac4.arena.players import backends_of
            from alphac4.arena.registry import common_board, find_network, parse_player, player_digest
            from alphac4.bars import Bar
            from alphac4.evaluation.metrics import BATCH
            from alphac4.evaluation.walks import KnownMoves, MoveKind, walk_games
            from alphac4.game.position import count_of
            from alphac4.game.walk import WalkScope

        scope = WalkScope(board=common_board((self.player,)), side=self.side, after=self.moves)
        start, board = scope.start, scope.board
        max_stones = board.cells if self.max_stones is None else self.max_stones
        if max_stones < start.plies:
            raise ValueError(f"--max-stones {max_stones}: the start has {count_of(start.plies, 'stone')} already")
        if max_stones == start.plies and start.first_to_move != (self.side == "first"):
            raise ValueError(
                f"--max-stones {max_stones}: the opponent moves first, so {self.player} has no move to judge: "
                f"use --max-stones {max_stones + 1} or more"
            )
        compute = self.compute.choose(threads=1)
        one_per_core = find_network(self.player) is not None and compute.learning_device.type == "cpu"
        players = [
            parse_player(
                self.player,
                rng=np.random.default_rng(self.seed),
                board=board,
                threads=1 if one_per_core else cores(),
                compute=compute,
                batch_size=BATCH,
            )
            for _ in range(cores() if one_per_core else 1)
        ]
        columns = {
            "won": MoveKind.WINS,
            "proven won": MoveKind.PROOF,
            "drawn": MoveKind.DRAWS,
            "continued": MoveKind.ANSWER,
            "mistakes": MoveKind.MISTAKE,
        }
        reports: list[LevelReport] = []
        with Bar(unit="pos") as bar:
            about = {"player": self.player, "side": self.side, "start": self.moves, "seed": self.seed}
            about |= {"network": player_digest(self.player), "backend": backends_of(players[:1])}
            known = KnownMoves(board, self.output, about)
            bar.write(" ".join(f"{heading:>10}" for heading in ("stones", "positions", *columns)), file=sys.stdout)
            for report in walk_games(
                players,
                known,
                scope,
                max_stones=max_stones,
                continue_after_mistakes=self.continue_after_mistakes,
                on_moves=partial(show_moves, bar),
            ):
                numbers = (report.stones, len(report.keys), *map(report.count, columns.values()))
                bar.write(" ".join(f"{number:>10,}" for number in numbers), file=sys.stdout)
                reports.append(report)
        return reports

    def _verdict(self, reports: "Sequence[LevelReport]") -> str:
        from alphac4.arena.registry import read_player
        from alphac4.game.position import count_of

        positions = sum(len(report.keys) for report in reports)
        mistakes = [position.moves or "" for report in reports for position in report.failures]
        is_cut_off = bool(reports) and not reports[-1].is_last  # by --max-stones
        scope = f"the {count_of(positions, 'position')} that an opponent can reach"
        if is_cut_off:
            scope += f" with up to {count_of(reports[-1].stones, 'stone')}"
        scope += " (asked in one of two mirror images)"
        if not mistakes:
            if not read_player(self.player).is_repeatable:
                meaning = " It may move differently next time, so this is not a proof."
            else:
                meaning = "" if is_cut_off else " Every line was followed to its end: proven."
            return f"\n{self.player}, moving {self.side}, makes no mistake in {scope}.{meaning}"
        shown = ", ".join(mistakes[:SHOWN_FAILURES]) + (", ..." if len(mistakes) > SHOWN_FAILURES else "")
        further = "" if self.continue_after_mistakes else "; lines stop at the first mistake"
        return (
            f"\n{self.player}, moving {self.side}, makes {count_of(len(mistakes), 'mistake')} in {scope}"
            f" ({len(mistakes) / positions:.2%}){further}.\nMoves up to the mistakes, some mirrored: {shown}"
        )


def show_moves(bar: Any, stones: int, done: int, total: int) -> None:
    """Show in a bar in how many of ``total`` positions with ``stones`` stones the player has answered."""
    from alphac4.game.position import count_of

    if done == 0:
        bar.set_description(count_of(stones, "stone"), refresh=False)
        bar.reset(total)
    bar.update(done - bar.n)


@dataclass(frozen=True, kw_only=True)
class DoctorCommand(CheckedSettings):
    """Check the installation, and measure the speed of inference, self-play and learning on this machine.

        alphac4 doctor --only checks
        alphac4 doctor --only inference --checkpoint mine.safetensors

    A full run takes about a minute on two idle cores, and longer the first time, when code is compiled. The exit code
    is 1 if a required part does not work. `alphac4 train` prints how long the rest of a run takes.
    """

    only: Annotated[tuple[str, ...], metavar("PART [PART ...]")] = ("checks", "inference", "training")
    """Parts to run: checks; inference (a network with every backend); training (self-play and learning of an untrained
    network with the settings of quick, or gpu-quick on a GPU)."""
    checkpoint: Annotated[Path, metavar("FILE")] = Path("best")
    """Network that inference measures: best, quick, or a checkpoint's file."""
    device: Device = "auto"
    """Device of the part training; auto takes a GPU if it works. Devices on other machines are not measured."""
    json: bool = False
    """Print JSON instead of text."""

    def _check(self) -> None:
        super()._check()
        check_network(self.checkpoint.as_posix())

    def __call__(self) -> int:
        """Print each result; return 1 if a check fails."""
        with loading():
            from alphac4.commands.doctor import diagnose
        return 0 if diagnose(self) else EXIT_BROKEN_INSTALL
