"""`alphac4 selfplay`: games of a checkpoint against itself, recorded as training samples."""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro
from tqdm import tqdm

from alphac4.arena.syntax import check_network
from alphac4.commands.arguments import Device, read_arguments
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.storage.files import append_line
from alphac4.storage.locks import own_folder
from alphac4.storage.records import MAX_NUMBER, MAX_SEED, check_ranges

if TYPE_CHECKING:
    from alphac4.selfplay.samples import Block, Samples


@dataclass(frozen=True, kw_only=True)
class SelfPlayOptions:
    """Let a checkpoint play itself and record positions (shards of samples) and games (move strings)."""

    checkpoint: Annotated[Path, tyro.conf.Positional] = Path("best")
    """The network's file, or best or fast."""
    output: Path = Path("runs/selfplay")
    """Folder for the shards and games.txt; files that are there already stay."""
    samples: int = 20_000
    """Positions to record."""
    seed: int = 0
    """Seed; it fixes the games on one machine."""
    device: Device = "auto"
    """Device that runs the network."""
    backend: str = "auto"
    """Inference backend; auto takes the fastest here."""
    cluster: str | None = None
    """Play on the cores of a Ray cluster, or with --device cuda on its GPUs: HOST:PORT of its head, or auto for the one
    that this machine or job belongs to (docs/cluster.md)."""
    config: Annotated[SelfPlayConfig, tyro.conf.arg(name="")] = field(default_factory=SelfPlayConfig)
    """Search and exploration."""

    def __post_init__(self) -> None:
        check_ranges(self, samples=(1, MAX_NUMBER), seed=(0, MAX_SEED))
        check_network(self.checkpoint.as_posix())


def parse(arguments: Sequence[str]) -> SelfPlayOptions:
    """Read the options."""
    return read_arguments(SelfPlayOptions, arguments, "selfplay")


def run(options: SelfPlayOptions) -> int:
    """Play, record, print the figures; 130 after Ctrl-C."""
    with own_folder(options.output):
        return _play(options)


def _play(options: SelfPlayOptions) -> int:
    from alphac4.compute import choose_for_run
    from alphac4.selfplay.games import move_string
    from alphac4.selfplay.replay import find_shards, save_shard, shard_path
    from alphac4.selfplay.samples import concatenate, in_fixed_order, make_samples
    from alphac4.storage.checkpoints import load_checkpoint
    from alphac4.training.reports import selfplay_report

    checkpoint = load_checkpoint(options.checkpoint)
    folder = options.output / "replay"
    first = max(find_shards(folder), default=-1) + 1  # beside the shards of earlier calls
    compute = choose_for_run(options.device, options.backend, options.cluster)
    actors = compute.actors(
        checkpoint.network,
        checkpoint.geometry,
        options.config,
        lambda index: np.random.default_rng([options.seed, first, index]),
    )
    started, blocks, parts = time.perf_counter(), list["Block"](), list["Samples"]()
    try:
        with (
            contextlib.closing(actors),
            tqdm(total=options.samples, desc="self-play", unit="pos", unit_scale=True, disable=None) as bar,
        ):

            def on_block(_index: int, block: "Block") -> None:
                samples = make_samples(checkpoint.geometry, options.config, block.games)
                save_shard(shard_path(folder, first + len(blocks)), samples)
                blocks.append(block)
                parts.append(samples)
                append_line(
                    options.output / "games.txt",
                    "\n".join(move_string(block.games, row) for row in range(len(block.games.plies))),
                )
                bar.update(len(samples))

            actors.play(options.samples, on_block, last=True)
            samples = in_fixed_order(concatenate(parts))
            report = selfplay_report(checkpoint.geometry, blocks, samples, started, actors)
    except KeyboardInterrupt:
        games = sum(len(block.games.plies) for block in blocks)
        print(f"Stopped. {games:,} games are recorded in {options.output}; rerun the command to add others.")
        return 130
    print(f"{report.simulations_per_second:,.0f} simulations/s, {report.evaluations_per_second:,.0f} evaluations/s")
    print(f"{report.cache_hits:.0%} of the evaluations needed were in the cache")
    print(f"network {report.network_share:.0%}, tree {report.tree_share:.0%} of the actors' time ({report.evaluator})")
    print(f"first player won {report.first_player_wins:.1%}, {report.draws:.1%} drawn, {report.mean_plies:.1f} plies")
    added = f"{report.games:,} games with {report.samples:,} positions"
    print(f"Added {added} to {options.output} in {report.seconds:.1f} s.")
    return 0
