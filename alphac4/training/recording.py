"""Self-play of an iteration, recorded as its games finish."""

import dataclasses
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from alphac4.compute import Actors, Seeds
from alphac4.game.rules import Geometry
from alphac4.selfplay.blocks import Block
from alphac4.selfplay.statistics import SelfPlayStatistics
from alphac4.selfplay.targets import PolicyTarget, retarget
from alphac4.training.reports import SelfPlayReport, selfplay_report
from alphac4.training.run_folder import RunFolder

logger = logging.getLogger(__name__)


def restore_games(actors: Actors, state: Mapping[str, npt.NDArray[np.generic]], seeds: Seeds) -> None:
    """Go on with the games under way, or with new ones where those do not fit another machine."""
    try:
        actors.restore(state)
    except ValueError:
        logger.warning("the games under way were played in other numbers than this machine does: new ones begin")
        actors.reset(seeds)


def record_games(
    actors: Actors,
    folder: RunFolder,
    geometry: Geometry,
    iteration: int,
    samples: int,
    stop: threading.Event,
    resumed: Callable[[int], Seeds],
    policy_target: PolicyTarget | None = None,
) -> SelfPlayReport:
    """Record the iteration's samples, less what an interrupted attempt has already left on disk.

    Every actor records its own share, and goes on with the games that were under way when it was interrupted: so what
    is recorded does not depend on interruptions. If those games are lost, ``resumed`` gives the random numbers of
    others, by the number of the shard that an actor begins with. ``policy_target`` replaces what the policy is to
    learn.
    """
    recorded = folder.replay.begin(iteration)
    for index, found in recorded.items():
        if found.next_number and index < len(actors):
            _resume(actors, folder, iteration, index, found.next_number, resumed)
    wanted = actors.remaining(samples, {index: found.samples for index, found in recorded.items()})
    numbers = defaultdict(int, {index: found.next_number for index, found in recorded.items()})
    statistics = SelfPlayStatistics(geometry)
    with tqdm(
        total=samples,
        initial=sum(found.samples for found in recorded.values()),
        desc=f"iteration {iteration}: self-play",
        unit="pos",
        unit_scale=True,
        disable=None,
        leave=False,
    ) as bar:

        def on_block(index: int, block: Block) -> None:
            block = dataclasses.replace(block, samples=retarget(block.samples, policy_target))
            folder.record(block, iteration, index, numbers[index])
            numbers[index] += 1
            statistics.add(block)
            bar.update(len(block.samples))
            bar.set_postfix_str(f"{statistics.evaluations_per_second():,.0f} evaluations/s")

        actors.play(wanted, stop, on_block)
    return selfplay_report(statistics, len(actors), actors.backend, actors.cluster_report())


def _resume(
    actors: Actors, folder: RunFolder, iteration: int, index: int, number: int, resumed: Callable[[int], Seeds]
) -> None:
    """Let an actor go on with the games that it had under way when it recorded its last shard."""
    try:
        actors.restore_one(index, folder.games_under_way(iteration, index, number - 1) or {})
    except ValueError:  # an earlier version's, or another machine's: those games are lost
        actors.reset_one(index, resumed(number)(index))
