"""Inference: every backend of this machine at several batch sizes."""

from collections.abc import Iterator

import numpy as np
import torch

from alphac4.benchmarks.figures import BenchmarkSettings, Figure
from alphac4.machine import cores
from alphac4.nn.backends import available_backends, is_candidate
from alphac4.nn.evaluator import measure_rate
from alphac4.nn.quantization import boards_for


def measure_inference(settings: BenchmarkSettings) -> Iterator[Figure]:
    """Evaluations/s with one calling thread a core."""
    network = settings.network()
    rng = np.random.default_rng(0)
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    for device in devices:
        for batch in settings.batches:
            planes = boards_for(network.config, batch, rng)
            for name, make in available_backends(device, batch, cores(), cores()).items():
                if not is_candidate(name, batch, int8=True):
                    continue
                rate = measure_rate(make(network), planes, cores(), settings.seconds)
                yield Figure(f"inference, {name}, batch {batch}", rate, "evaluations/s")
