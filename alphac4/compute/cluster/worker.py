"""What Ray runs on the cores or the GPUs of a cluster: an actor of self-play, in a process of its own."""

import itertools
import os
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from alphac4.compute.cluster.connection import import_ray
from alphac4.compute.gpu.device import GPU_BACKENDS, largest_that_fits, precision_name, the_device
from alphac4.game import Geometry
from alphac4.nn.backends import backend_or_auto
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.nn.precision import has_bf16
from alphac4.selfplay.actor import Actor, GamesUnderWay, SelfPlayer, count_games, fill_up
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.samples import Block

WITHOUT_END = 2**62  # positions
UNUSUAL_BLOCKS = 2  # the first ones, when few games have come to their end


@dataclass(frozen=True, kw_only=True)
class Task:
    """What all actors of a run have in common."""

    geometry: Geometry
    config: SelfPlayConfig
    slots: int  # games at once; fewer where a GPU's memory is short
    device: str = "cpu"  # or "cuda", where each actor has a GPU
    backend: str  # of inference; where a node does not have it, it takes the fastest that it has
    rate: float = 0.0  # positions/s of a `ReplayingActor`; 0 for as many as are taken


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A version of the network, which lies in the object store of the node that put it there."""

    version: int
    reference: Sequence[Any]  # of one, in a list: Ray would fetch the network for every call otherwise


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an actor runs."""

    node: str  # its address
    node_id: str
    process: int


class RemoteActor:
    """An `Actor` on one core, or its like on one GPU, that plays without end and hands over a block a call.

    It does nothing until `prepare`: so an error of ours is told from a process that died.
    """

    def prepare(
        self,
        task: Task,
        weights: Weights,
        rng: np.random.Generator,
        under_way: GamesUnderWay | None,
    ) -> Place:
        """Make everything ready, and go on with the games ``under_way``, if there are any."""
        self._actor, self._update = make_player(task, _fetch(weights), rng)
        self._version = weights.version
        if under_way is not None:
            fresh = self._actor.state()
            fitting = {name: array[: count_games(fresh)] for name, array in under_way.items()}  # see `Task.slots`
            self._actor.restore(fill_up(fitting, fresh))
        self._blocks: Generator[Block] | None = None
        context = import_ray().get_runtime_context()
        node = import_ray().util.get_node_ip_address()
        return Place(node=node, node_id=context.get_node_id(), process=os.getpid())

    def live(self) -> None:
        """Give a sign of life."""

    def play(self, weights: Weights) -> tuple[int, Block]:
        """The next block, and the version of the weights that played it: ``weights``, if they are others."""
        if weights.version != self._version:
            if self._blocks is not None:
                self._blocks.close()
            self._blocks = None  # begun anew, an actor forgets what the old weights have said
            self._update(_fetch(weights))
            self._version = weights.version
        if self._blocks is None:
            self._blocks = cast(Generator[Block], self._actor.play(WITHOUT_END, lambda: False))
        return self._version, next(self._blocks)


class ReplayingActor(RemoteActor):
    """Hands over a block that it has played again and again, at the task's rate: to measure who takes them."""

    def prepare(self, task: Task, weights: Weights, rng: np.random.Generator, under_way: GamesUnderWay | None) -> Place:
        """See `RemoteActor`."""
        place = super().prepare(task, weights, rng, under_way)
        *_, self._recorded = itertools.islice(self._actor.play(WITHOUT_END, lambda: False), UNUSUAL_BLOCKS + 1)
        self._rate, self._next = task.rate, time.monotonic()
        return place

    def play(self, weights: Weights) -> tuple[int, Block]:
        """See `RemoteActor`."""
        time.sleep(max(0.0, self._next - time.monotonic()))
        if self._rate:
            self._next = max(self._next, time.monotonic() - 1.0) + len(self._recorded.samples) / self._rate
        return weights.version, self._recorded


def what_an_actor_needs(task: Task) -> dict[str, int]:
    """Ray's options; an actor on a GPU has a core of its own, too."""
    return {"num_cpus": 1, "num_gpus": 1} if task.device == "cuda" else {"num_cpus": 1}


def make_player(
    task: Task, network: PolicyValueNetwork, rng: np.random.Generator
) -> tuple[SelfPlayer, Callable[[PolicyValueNetwork], None]]:
    """What plays a seat's games, and what gives it other weights."""
    if task.device == "cpu":
        evaluator = make_evaluator(network, task)
        return Actor(task.geometry, task.config, evaluator, task.slots, rng), evaluator.update
    from alphac4.compute.gpu.actor import DeviceActor  # Numba's CUDA part is slow to import, and optional

    precision = GPU_BACKENDS[precision_here(task.backend)]
    player, _ = largest_that_fits(
        lambda slots: DeviceActor(task.geometry, task.config, network, slots, rng, precision), task.slots, 1
    )
    return player, player.update


def precision_here(backend: str) -> str:
    """That of another machine's GPU, or the fastest of this one's if it has no arithmetic for the other."""
    from alphac4.compute.gpu.network import best_precision

    device = the_device()
    lacking = GPU_BACKENDS[backend] == torch.bfloat16 and not has_bf16(device)
    return precision_name(best_precision(device)) if lacking else backend


def make_evaluator(network: PolicyValueNetwork, task: Task) -> Evaluator:
    """The network of one actor on one core."""
    backend = backend_or_auto(task.backend)
    return Evaluator(network, batch_size=task.slots, streams=1, device="cpu", backend=backend, int8=True, threads=1)


def fastest_backend(weights: Weights, task: Task) -> str:
    """The fastest backend for self-play on the node that is asked."""
    if task.device == "cuda":
        from alphac4.compute.gpu.network import best_precision

        return precision_name(best_precision(the_device()))
    return make_evaluator(_fetch(weights), task).backend


def _fetch(weights: Weights) -> PolicyValueNetwork:
    network: PolicyValueNetwork = import_ray().get(weights.reference[0])
    return network.eval()
