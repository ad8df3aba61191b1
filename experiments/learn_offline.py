"""Learn from the recorded positions of a run, with other settings of learning or another network.

    python experiments/learn_offline.py runs/quick small.safetensors --learning '{"batch_size": 64}'
    python experiments/learn_offline.py runs/quick large.safetensors --network '{"channels": 64, "blocks": 8}'

Networks that learn from the same games differ only by the options. Only a run shows how a change affects later games.
Measure the networks with ``experiments/measure.py``.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from alphac4.game.rules import STANDARD
from alphac4.selfplay.replay import Replay, load_shard
from alphac4.selfplay.samples import concatenate
from alphac4.storage.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from alphac4.training.config import PRESETS, from_dict
from alphac4.training.learner import Learner
from alphac4.training.optimizer import CosineSchedule


def main() -> None:
    """Learn, and save the network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--positions", type=int, default=256_000, help="to learn from, with any batch size")
    parser.add_argument("--learning", type=json.loads, default={}, help="settings of learning, as JSON")
    parser.add_argument("--network", type=json.loads, default={}, help="settings of the network, as JSON")
    parser.add_argument("--start-from", type=Path, help="checkpoint to start from, which may have fewer blocks")
    parser.add_argument("--from-iteration", type=int, default=0, help="first iteration to learn from")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    config = from_dict({"learning": options.learning, "network": options.network}, PRESETS[options.preset])
    paths = sorted((options.run / "replay").glob("*.safetensors"))
    samples, replay = (
        concatenate([load_shard(path) for path in paths if int(path.name[:6]) >= options.from_iteration]),
        Replay(),
    )
    replay.add(samples, 1)
    learner = Learner(config.network_config(), config.learning, STANDARD, options.seed)
    if options.start_from:
        learner.initialize_from(load_checkpoint(options.start_from).network)
    steps = options.positions // config.learning.batch_size
    schedule, rng = CosineSchedule.of_run(config.learning, steps), np.random.default_rng(options.seed)
    started = time.process_time()
    report = learner.learn(replay, len(samples), steps=steps, schedule=schedule, rng=rng)
    print(f"{len(samples)} recorded, {samples.is_full_search.mean():.2f} with a full search: {report}")
    print(f"{time.process_time() - started:.0f} s of CPU time")
    save_checkpoint(
        options.output,
        Checkpoint(network=learner.candidate(), board=STANDARD, provenance={"run": options.run.name}),
    )


if __name__ == "__main__":
    main()
