"""Commands of the group "Train": training runs, and self-play without learning."""

import contextlib
import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from alphac4.commands.arguments import (
    Device,
    OutputFolder,
    given_options,
    loading,
    metavar,
    read_arguments,
)
from alphac4.machine import delayed_interrupts, wrap_text
from alphac4.selfplay.config import PRIOR_TEMPERATURE, SelfPlayConfig
from alphac4.storage.files import FileError, append_line
from alphac4.storage.journal import Journal, read_about
from alphac4.storage.locks import lock_folder
from alphac4.storage.networks import check_network
from alphac4.storage.records import MAX_NUMBER, CheckedSettings, Range, Seed
from alphac4.training.config import PRESETS, SearchConfig, TrainConfig, from_dict

if TYPE_CHECKING:
    from alphac4.selfplay.samples import Block


@dataclass(frozen=True, kw_only=True)
class TrainCommand:
    """Train a network from scratch, or resume the run in the folder.

        alphac4 train --preset quick --run runs/mine
        alphac4 train --run runs/mine --iterations 40

    Options override the file of --settings, which overrides the preset.
    """

    run: OutputFolder = Path("runs/latest")
    """Folder of the run. An existing run resumes with its own settings, except those that this command changes."""
    preset: Annotated[
        Literal["tiny", "quick", "standard", "gpu-quick", "gpu-best"] | None,
        metavar("{tiny,quick,standard,gpu-quick,gpu-best}"),
    ] = None
    """quick: 8 to 18 minutes on two idle cores, depending on the processor; standard: 75 minutes to two hours with
    AVX-512. On an NVIDIA H200, without compilation and measurements, gpu-quick: 42 seconds; gpu-best: 4 minutes, and
    if both search 600 simulations, as few mistakes as `best`. tiny: seconds, to check a program. By default the
    settings of the run in the folder, otherwise standard."""
    settings: Annotated[Path | None, metavar("FILE")] = None
    """JSON file of settings that override the preset's, such as another run's config.json or a part of it."""
    config: Annotated[TrainConfig, tyro.conf.arg(name="", help="The run's settings.")]

    @classmethod
    def read(cls, arguments: Sequence[str]) -> "TrainCommand":
        """Parse the options; settings default to those of the preset and the file, or of the existing run."""
        presets = {name for name in PRESETS if {name, f"--preset={name}"} & set(arguments)} or {"standard"}
        options = read_arguments(cls, arguments, "train", default=cls(config=PRESETS[presets.pop()]))
        with loading():  # help and errors do not wait for PyTorch
            from alphac4.runs.session import find_config
        config = find_config(options.run, options.preset, options.settings)
        settings, changes = asdict(options.config), dict[str, Any]()
        for name in given_options(arguments):
            group, dot, setting = name.replace(".no_", ".").partition(".")
            if dot:
                changes.setdefault(group, {})[setting] = settings[group][setting]
            elif name in settings:
                changes[name] = settings[name]
        return replace(options, config=from_dict(changes, config))

    def __call__(self) -> int:
        with loading():
            from alphac4.game.rules import STANDARD
            from alphac4.runs.session import train

        try:
            trained = train(self.run, self.config)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note("Rerun the command to resume. It repeats what was cut short.")
            raise
        print(wrap_text(f"\n{trained}\n\nNext:", sys.stdout))
        best = str(trained.best_checkpoint)
        is_standard = self.config.board.make() == STANDARD  # the package has positions of this board only
        for command in (
            ("alphac4", "play", f"{best}@600"),
            ("alphac4", "evaluate", best) if is_standard else ("alphac4", "arena", f"{best}@100", "uct:1000"),
            ("tensorboard", "--logdir", str(self.run)),
        ):
            print(f"  {shlex.join(command)}")
        return 0


@dataclass(frozen=True, kw_only=True)
class SelfplayCommand(CheckedSettings):
    """Record games of a network against itself.

        alphac4 selfplay best --samples 100000 --output runs/games

    Positions are stored as shards of samples, games as move strings. Games in progress at the end are discarded, so a
    small number of samples comes mostly from short games: of quick's games, 0 % are draws with 1,000 samples, and 21 %
    with 300,000.
    """

    checkpoint: Annotated[Path, tyro.conf.Positional, metavar("[NETWORK]")] = Path("best")
    """The network: best, quick, or a checkpoint's file."""
    output: OutputFolder = Path("runs/selfplay")
    """Folder for the shards and games.txt. Games are added to those of the same network and settings."""
    samples: Annotated[int, Range(1, MAX_NUMBER)] = 20_000
    """Positions to record."""
    seed: Seed = 0
    """Seed of the random choices; on one machine it determines the games."""
    device: Device = "auto"
    """Device that runs the network; some only play the games."""
    backend: Annotated[str, metavar("NAME")] = "auto"
    """Inference backend; auto chooses by a fixed rule for this processor, which may use 8-bit integers."""
    search: Annotated[SearchConfig, tyro.conf.arg(name="")] = field(default_factory=SearchConfig)
    """Search."""
    config: Annotated[SelfPlayConfig, tyro.conf.arg(name="")] = field(default_factory=SelfPlayConfig)
    """Self-play."""

    def _check(self) -> None:
        super()._check()
        check_network(self.checkpoint.as_posix())

    def __call__(self) -> int:
        with loading():
            import numpy as np

            from alphac4.bars import Bar
            from alphac4.compute import choose_compute
            from alphac4.game.position import count_of
            from alphac4.selfplay.games import move_string
            from alphac4.selfplay.replay import find_shards, save_shard, shard_path
            from alphac4.selfplay.samples import ActorStats, make_samples
            from alphac4.storage.checkpoints import load_checkpoint, weights_digest

        checkpoint, folder = load_checkpoint(self.checkpoint), self.output / "replay"
        stats, totals = ActorStats(), Counter[str]()  # only sums: the games may need more than the memory

        def on_block(_index: int, block: "Block") -> None:
            games, samples = block.games, make_samples(checkpoint.board, self.config, block.games)
            moves = [move_string(games, row) for row in range(len(games.plies))]
            won, drawn, plies = ((games.outcome == 1).sum(), (games.outcome == 0).sum(), games.plies.sum())
            with delayed_interrupts():
                save_shard(shard_path(folder, first + totals["blocks"]), samples)
                append_line(self.output / "games.txt", "\n".join(moves))
                totals.update(blocks=1, games=len(moves), positions=len(samples), won=won, drawn=drawn, plies=plies)
            stats.add(block.stats)
            bar.update(len(samples))

        try:
            with lock_folder(self.output), contextlib.ExitStack() as opened:
                first = max(find_shards(folder), default=-1) + 1  # number after the shards of earlier calls
                about, kind = self.output / "settings.json", "alphac4-selfplay-1"
                if first and read_about(about, kind) is None:
                    raise FileError(f"{self.output} has samples of a run: choose another output")
                Journal(
                    about,
                    kind,
                    {"network": weights_digest(checkpoint.network), **asdict(self.search), **asdict(self.config)},
                )
                compute = choose_compute(self.device, self.backend, for_run=True)
                opened.callback(compute.close)
                actors = compute.actors(
                    checkpoint.network,
                    checkpoint.board,
                    self.config,
                    lambda index: np.random.default_rng([self.seed, first, index]),
                    selection=self.search.puct(PRIOR_TEMPERATURE),
                )
                with (
                    contextlib.closing(actors),
                    Bar(total=self.samples, desc="self-play", unit="pos", unit_scale=True, estimate=True) as bar,
                ):
                    started = time.perf_counter()
                    actors.play(self.samples, on_block, last=True)
                    seconds = time.perf_counter() - started
        except KeyboardInterrupt as interrupt:
            recorded = count_of(totals["games"], "game")
            interrupt.add_note(f"Recorded {recorded} in {self.output}; rerun the command to add more.")
            raise
        games, actor_seconds = totals["games"], len(actors) * seconds
        print(f"{stats.simulations / seconds:,.0f} simulations/s, {stats.evaluations / seconds:,.0f} evaluations/s")
        print(f"{stats.cached / (stats.cached + stats.evaluations):.0%} of the evaluations came from the cache")
        network, tree = stats.network_seconds / actor_seconds, stats.tree_seconds / actor_seconds
        print(f"network {network:.0%}, tree {tree:.0%} of the actors' time ({actors.backend})")
        print(
            f"finished games: first player won {totals['won'] / games:.1%}, {totals['drawn'] / games:.1%} drawn, "
            f"{totals['plies'] / games:.1f} plies"
        )
        added = f"{count_of(games, 'game')} with {count_of(totals['positions'], 'position')}"
        print(f"Added {added} to {self.output} in {seconds:.1f} s.")
        return 0
