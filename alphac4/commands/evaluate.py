"""`alphac4 evaluate`: how good a network or any player is, measured against exact play."""

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from alphac4.arena.specifications import common_geometry
from alphac4.commands.arguments import Cluster, device_with, pool_or_none, read_arguments
from alphac4.compute import choose
from alphac4.evaluation.measurement import Measurement, measure_strength
from alphac4.evaluation.pictures import check_picture, save_picture
from alphac4.evaluation.positions import choose_sets
from alphac4.evaluation.report import as_text
from alphac4.mcts.search import MAX_SIMULATIONS
from alphac4.storage.files import check_output, write_atomically
from alphac4.storage.records import MOST, MOST_SEED, check_ranges

MAX_GAMES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """What to measure."""

    player: Annotated[str, tyro.conf.Positional] = "best"
    """A checkpoint (FILE.safetensors, best or fast), which is measured with every budget, or any other player."""
    simulations: str = "0,1,32,100,600,1600"
    """Simulations a position, for networks; each is measured. 0 is the raw network, without any look ahead."""
    positions: tuple[Path, ...] = ()
    """Files to take instead of the package's six sets: lines with moves, then a score for each column."""
    count: int | None = None
    """Only the first so many positions of each set."""
    reference: tuple[str, ...] = ()
    """Other players to measure beside it."""
    twin: bool = True
    """Measure a checkpoint's untrained twin as well, for comparison; it takes as long as the checkpoint."""
    games: int = 0
    """Games against the perfect player, half of them with the first move."""
    games_simulations: int = 100
    """Simulations a move of networks in those games."""
    json: str | None = None
    """A file for the report as JSON; - prints it instead of the tables."""
    picture: Path | None = None
    """A file for the report as a picture, such as strength.png."""
    seed: int = 0
    """Seed of searches, games and the untrained network."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where networks run."""
    backend: str = "auto"
    """Inference backend; auto takes the fastest here."""
    cluster: Cluster = None

    def __post_init__(self) -> None:
        check_ranges(
            self, count=(1, MOST), games=(0, MAX_GAMES), games_simulations=(0, MAX_SIMULATIONS), seed=(0, MOST_SEED)
        )


DESCRIPTION = """\
Measure a network, or any player, against exact play.

A move errs if its outcome (win, draw or loss) is worse than the best move's. The package brings six sets of positions
with exact scores, by the stage of the game and by how far its end is.
`alphac4 players` lists the players."""


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(read_arguments(EvaluateOptions, arguments, "evaluate", description=DESCRIPTION))


def run(options: EvaluateOptions) -> int:
    """Measure, then print the tables or JSON."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    sets = choose_sets(common_geometry((options.player,)), options.positions, options.count)
    budgets = parse_budgets(options.simulations)
    if options.picture is not None:
        check_picture(options.picture)
    check_output(options.picture)
    check_output(Path(options.json) if options.json not in (None, "-") else None)
    device = device_with(options.cluster, options.device)
    with pool_or_none(options.cluster) as pool:
        measurement = Measurement(
            sets=sets,
            budgets=budgets,
            games=options.games,
            games_simulations=options.games_simulations,
            seed=options.seed,
            compute=choose(device, options.backend),
            pool=pool,
        )
        report = measure_strength(options.player, measurement, options.reference, twin=options.twin)
    if options.json is not None and options.json != "-":
        write_atomically(Path(options.json), f"{report.to_json()}\n".encode())
    if options.picture is not None:
        save_picture(report, options.picture)
    print(report.to_json() if options.json == "-" else as_text(report))
    return 0


def parse_budgets(text: str) -> list[int]:
    """Numbers of simulations from a text such as "0,100,600", ascending."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() for word in words):
        raise ValueError(f"--simulations takes numbers such as 0,100,600, not {text!r}")
    budgets = sorted({int(word) for word in words if len(word) < 20})
    if len(budgets) < len(set(words)) or budgets[-1] > MAX_SIMULATIONS:
        raise ValueError(f"--simulations takes numbers up to {MAX_SIMULATIONS:,}, not {text[:60]!r}")
    return budgets
