"""Self-play of an iteration, recorded as its games finish."""

import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from alphac4.compute import Actors, Seeds
from alphac4.game.rules import Geometry
from alphac4.selfplay.blocks import Block
from alphac4.selfplay.replay import Replay
from alphac4.selfplay.statistics import SelfPlayStatistics
from alphac4.selfplay.targets import PolicyTarget, retarget
from alphac4.training.reports import SelfPlayReport, selfplay_report

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
    replay: Replay,
    geometry: Geometry,
    iteration: int,
    samples: int,
    stop: threading.Event,
    resumed: Callable[[int], Seeds],
    policy_target: PolicyTarget | None = None,
) -> SelfPlayReport:
    """Record the iteration's samples, less what an interrupted attempt has already left on disk.

    ``resumed`` gives the random numbers for an attempt that begins with the shard of that number; ``policy_target``
    replaces what the policy is to learn.
    """
    number, recorded = replay.recorded(iteration)
    wanted = samples - recorded
    statistics = SelfPlayStatistics(geometry)
    if number:  # an interrupted attempt: its games under way are lost, and must not be played again
        actors.reset(resumed(number))
    numbers = [number] * len(actors)
    with tqdm(
        total=samples,
        initial=recorded,
        desc=f"iteration {iteration}: self-play",
        unit="pos",
        unit_scale=True,
        disable=None,
        leave=False,
    ) as bar:

        def on_block(index: int, block: Block) -> None:
            block = dataclasses.replace(block, samples=retarget(block.samples, policy_target))
            replay.add(block.samples, iteration, index, numbers[index])
            numbers[index] += 1
            statistics.add(block)
            bar.update(len(block.samples))
            bar.set_postfix_str(f"{statistics.evaluations_per_second():,.0f} evaluations/s")

        if wanted > 0:
            actors.play(wanted, stop, on_block)
    return selfplay_report(statistics, len(actors), actors.backend)
