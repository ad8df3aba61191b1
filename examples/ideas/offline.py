"""Offline learning: networks learn from the samples of an earlier run, without self-play.

All iterations but the last are learned; the policy's cross-entropy in the last one compares the networks.

    python examples/ideas/offline.py runs/mine

From a run with seed 0 of four iterations of 10,000 positions: 1.326 nats for the package's network and 1.389 for the
mixer. This is one run, without an interval.
"""

import sys
import tempfile

import numpy as np
import torch
from mixer import Mixer

import alphac4

NETWORKS = {"the package's network": None, "MLP-mixer": Mixer}


def policy_loss(network: alphac4.Network, samples: alphac4.Samples) -> float:
    """Return the mean cross-entropy of the policy, in nats."""
    with torch.no_grad():
        policy, _ = network(torch.from_numpy(samples.planes("lines")))
    return float(alphac4.cross_entropy(policy, torch.from_numpy(samples.policy_target.astype(np.float32))).mean())


if __name__ == "__main__":
    preset, run = "quick", sys.argv[1] if len(sys.argv) > 1 else "runs/latest"
    if run == "--fast":
        preset, run = "tiny", tempfile.mkdtemp()
        alphac4.train("tiny", run=run, progress=False)
    samples = alphac4.read_samples(run)
    is_last = samples.iteration == samples.iteration.max()
    known, unseen = samples.take(np.flatnonzero(~is_last)), samples.take(np.flatnonzero(is_last))
    for name, network in NETWORKS.items():
        learned = alphac4.learn(known, alphac4.TrainConfig.preset(preset), network=network)
        print(f"{name}: {policy_loss(learned, unseen):.3f} nats")
