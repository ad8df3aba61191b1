"""Self-play of an iteration, recorded as its games finish."""

import dataclasses
import threading
from collections import defaultdict

from tqdm import tqdm

from alphac4.compute import Actors
from alphac4.game.rules import Geometry
from alphac4.selfplay.blocks import Block
from alphac4.selfplay.statistics import SelfPlayStatistics
from alphac4.selfplay.targets import PolicyTarget, retarget
from alphac4.training.reports import SelfPlayReport, selfplay_report
from alphac4.training.resuming import shards_before_sharing
from alphac4.training.run_folder import RunFolder


def record_games(
    actors: Actors,
    folder: RunFolder,
    geometry: Geometry,
    iteration: int,
    samples: int,
    stop: threading.Event,
    policy_target: PolicyTarget | None = None,
) -> SelfPlayReport:
    """Record the iteration's samples, less what an interrupted attempt has already left on disk.

    Every actor records its own share: so what is recorded does not depend on interruptions. ``policy_target`` replaces
    what the policy is to learn.
    """
    recorded = folder.replay.begin(iteration, shards_before_sharing(folder, iteration))
    left = samples - sum(found.before_sharing for found in recorded.values())
    own = {index: found.samples - found.before_sharing for index, found in recorded.items()}
    wanted = actors.remaining(left, own)
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
