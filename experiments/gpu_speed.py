"""Speed of self-play and learning on a GPU, including the trees.

    python experiments/gpu_speed.py --games 1024 4096 16384 65536 --streams 1 2

Each measurement takes about ten times ``--seconds``.
"""

import argparse
import contextlib
import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from alphac4.commands.doctor import Measured, rate
from alphac4.game import STANDARD, Position
from alphac4.mcts.search import Budget
from alphac4.nn.backends import random_stones
from alphac4.nn.config import NetworkConfig
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.plugins.cuda.device import DeviceNetwork, capture_graph, cuda_device, synchronise
from alphac4.plugins.cuda.learner import DeviceLearner
from alphac4.plugins.cuda.replay import DeviceReplay
from alphac4.plugins.cuda.search import DeviceSearch
from alphac4.plugins.cuda.trees import DeviceActor
from alphac4.selfplay.actor import UNLIMITED_MOVES, play_together
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.replay import Replay
from alphac4.selfplay.samples import ActorStats, Block, Samples
from alphac4.training.config import LearningConfig
from alphac4.training.optimizer import CosineSchedule

NO_SAMPLES = Replay()  # the device already has all samples


def flops(config: NetworkConfig) -> float:
    """Return the floating-point operations of one evaluation; a multiplication and its addition count as two."""
    cells, channels, heads = config.rows * config.columns, config.channels, config.head_channels
    convolutions = 9 * 2 * channels + config.blocks * 2 * 9 * channels**2 + channels * 2 * heads
    dense = cells * heads * (config.columns + config.value_hidden) + 3 * config.value_hidden
    return 2.0 * (cells * convolutions + dense)


def main() -> None:
    """Measure and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--channels", type=int, default=64, help="channels of the network")
    parser.add_argument("--blocks", type=int, default=4, help="blocks of the network")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="seconds per repetition; a measurement repeats ten times"
    )
    parser.add_argument("--games", type=int, nargs="+", default=[1024, 4096, 16384], help="played at the same time")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 2], help="groups of games")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    config = NetworkConfig(channels=options.channels, blocks=options.blocks, ownership=True)
    figures = list(measure(config, options.games, options.streams, 10 * options.seconds))
    if options.json:
        print(json.dumps({name: {"value": value, "unit": unit} for name, value, unit in figures}, indent=2))
        return
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "Numba's simulator"
    print(f"{where}, Python {platform.python_version()}, PyTorch {torch.__version__}")
    print(*figures, sep="\n")


def measure(config: NetworkConfig, games: Sequence[int], streams: Sequence[int], seconds: float) -> Iterator[Measured]:
    """Yield all figures of one network size.

    Raises:
        RuntimeError: if there is no GPU.
    """
    device = cuda_device()
    network = PolicyValueNetwork(config).eval()
    size = 8192 if device.type == "cuda" else 256
    peak = matrix_peak(device, size)
    yield Measured("matrix product only", peak / 1e12, f"TFLOP/s, bf16, {size} x {size}")
    for count in games:
        evaluate, step = step_seconds(network, count, device, seconds)
        share = flops(network.config) * count / evaluate / peak
        yield Measured(
            f"{count:,} games: network only", count / evaluate, f"evaluations/s, {share:.1%} of the matrix peak"
        )
        yield Measured(f"{count:,} games: network's share of a step", 100 * evaluate / step, "%, the rest is the trees")
        for parts in streams:
            simulations, finished = selfplay_rate(network, count, parts, seconds)
            yield Measured(f"{count:,} games in {parts}: self-play", simulations, "simulations/s")
            yield Measured(f"{count:,} games in {parts}: games", finished, "games/s")
    for batch in (128, 256, 512, 1024, 4096):
        rate = learning_speed(network.config, batch, seconds)
        yield Measured(f"learning, batch {batch:,}", rate, "positions/s")
    for positions, simulations in ((60, 16), (240, 64), (240, 600)):
        spent = search_seconds(network, positions, simulations)
        yield Measured(f"search of {positions} positions with {simulations} simulations", 1000 * spent, "ms")


def matrix_peak(device: torch.device, size: int) -> float:
    """Return the FLOP/s of a large matrix product in bf16, an upper bound for the network."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    return 2.0 * size**3 / timed(lambda: a @ b, 0.5)


def timed(work: Callable[[], object], seconds: float) -> float:
    """Return the mean seconds of ``work`` on the device, launched back to back."""

    def ten_times() -> int:
        for _ in range(10):
            work()
        synchronise()
        return 10

    work()
    synchronise()
    return 1 / rate(ten_times, seconds)


def step_seconds(network: PolicyValueNetwork, games: int, device: torch.device, seconds: float) -> tuple[float, float]:
    """Return the seconds that evaluating all leaves takes, and those of a whole step of self-play."""
    leaves = DeviceNetwork(network, STANDARD, games, device)
    evaluate = timed(capture_graph(leaves.evaluate, device), seconds / 4)
    actor = DeviceActor(STANDARD, SelfPlayConfig(), network, games, np.random.default_rng(0))
    return evaluate, timed(actor.step, seconds / 4)


class _TimeIsUp(Exception):  # noqa: N818 - not an error
    """Exception that ends self-play."""


def selfplay_rate(network: PolicyValueNetwork, games: int, streams: int, seconds: float) -> tuple[float, float]:
    """Return simulations/s and finished games/s, measured when the games have spread over all plies."""
    slots = -(-games // streams)
    rngs = [np.random.default_rng(index) for index in range(streams)]
    actors = [DeviceActor(STANDARD, SelfPlayConfig(), network, slots, rng) for rng in rngs]

    def play(limit: float) -> tuple[ActorStats, int, float]:
        """Return statistics, the number of finished games, and the seconds until the last block."""
        started = ended = time.perf_counter()
        stats, finished = ActorStats(), 0

        def on_block(_index: int, block: Block) -> None:
            nonlocal finished, ended
            stats.add(block.stats)
            finished += len(block.games.plies)
            ended = time.perf_counter()

        def check() -> None:
            if time.perf_counter() - started > limit:
                raise _TimeIsUp

        with contextlib.suppress(_TimeIsUp):
            play_together(actors, UNLIMITED_MOVES, on_block, check)
        return stats, finished, ended - started

    play(seconds)
    stats, finished, spent = play(seconds)
    return stats.simulations / spent, finished / spent


def learning_speed(config: NetworkConfig, batch: int, seconds: float) -> float:
    """Return positions/s of captured gradient steps, including making the batches from the window on the device."""
    learning = LearningConfig(batch_size=batch)
    replay = DeviceReplay(STANDARD, 200_000, batch, config.input_planes, learning.fast_search_weight)
    replay.add(random_samples(200_000))
    learner = DeviceLearner(config, learning, STANDARD, seed=0, replay=replay)
    schedule = CosineSchedule.of_run(learning, 1_000_000)
    steps, rng = 100, np.random.default_rng(0)

    def learn() -> int:
        learner.learn(NO_SAMPLES, 200_000, steps=steps, schedule=schedule, rng=rng)
        return steps * batch

    learn()
    return rate(learn, seconds / 4)


def search_seconds(network: PolicyValueNetwork, positions: int, simulations: int) -> float:
    """Return the seconds of a search of a batch of positions, as in the gate and the evaluation."""
    evaluator = Evaluator(network, batch_size=128, device="cuda")
    search = DeviceSearch(evaluator, board=STANDARD)
    batch = [Position.from_moves("") for _ in range(positions)]
    search.search(batch, Budget(simulations=simulations))
    seconds = [search.search(batch, Budget(simulations=simulations)).seconds for _ in range(3)]
    return float(min(seconds))


def random_samples(count: int) -> Samples:
    """Return positions after random moves, with random targets."""
    rng = np.random.default_rng(0)
    own, occupied = random_stones(STANDARD, count, rng)
    policy, returns = rng.random((count, 7)), rng.random((count, 3))
    return Samples(
        board=STANDARD,
        own=own,
        occupied=occupied,
        policy_target=(policy / policy.sum(axis=1, keepdims=True)).astype(np.float16),
        is_full_search=rng.random(count) < 0.4,
        outcome=rng.integers(-1, 2, count).astype(np.int8),
        value=np.zeros(count, np.float32),
        draw=np.zeros(count, np.float32),
        value_target=(returns / returns.sum(axis=1, keepdims=True)).astype(np.float16),
        final_own=own,
        final_occupied=occupied,
        iteration=np.zeros(count, np.int32),
    )


if __name__ == "__main__":
    main()
