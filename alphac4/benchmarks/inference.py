"""Inference: every backend of this machine at several batch sizes."""

from collections.abc import Iterator

import numpy as np
import torch

from alphac4.benchmarks.figures import BenchmarkSettings, Figure, measure_rate
from alphac4.machine import cores
from alphac4.nn.backends import backend_names, boards_for, make_backend


def measure_inference(settings: BenchmarkSettings) -> Iterator[Figure]:
    """Evaluations/s with one calling thread a core."""
    network = settings.network()
    rng = np.random.default_rng(0)
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    for device in devices:
        for batch in settings.batches:
            planes = boards_for(network.config, batch, rng)
            for name in backend_names(device):
                backend = make_backend(name, network, batch, 1)
                rate = measure_rate(backend, planes, cores(), settings.seconds)
                yield Figure(f"inference, {name}, batch {batch}", rate, "evaluations/s")
