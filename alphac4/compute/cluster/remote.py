"""Runs on the nodes of a cluster: an actor of self-play on a core or a GPU, in a process of its own."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from alphac4.compute.cluster.connection import import_ray
from alphac4.compute.cluster.pool import StoredObject
from alphac4.compute.gpu.device import TREES, largest_that_fits
from alphac4.game import Geometry
from alphac4.machine import adapt_process
from alphac4.nn.backends import backend_names
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import Network
from alphac4.selfplay.actor import UNLIMITED, Actor, SelfPlayer
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.samples import Block


@dataclass(frozen=True, kw_only=True)
class Task:
    """All that the actors of a run have in common."""

    geometry: Geometry
    config: SelfPlayConfig
    slots: int  # games at once; fewer where the memory of a GPU with trees is short
    device: str = "cpu"  # or "cuda", where each actor has a GPU
    backend: str  # of inference; where a node does not have it, it takes the fastest that it has

    def needs(self) -> dict[str, int]:
        """Ray's options for an actor: one on a GPU has a core of its own, too."""
        return {"num_cpus": 1, "num_gpus": 1} if self.device == "cuda" else {"num_cpus": 1}


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A version of the network."""

    version: int
    network: StoredObject[Network]


@dataclass(frozen=True, kw_only=True)
class ActorPlace:
    """The place of an actor."""

    node: str  # its address
    node_id: str
    process: int
    backend: str  # how its network runs


class RemoteActor:
    """An actor on one core, or on one GPU and a core beside it, that plays without end and hands over a block a call.

    It does nothing until `prepare`: so an error of ours is told from a process that died.
    """

    def prepare(self, task: Task, weights: Weights, rng: np.random.Generator) -> ActorPlace:
        """Make everything ready."""
        adapt_process()
        self._actor, self._update, self._backend = make_player(task, weights.network.get().eval(), rng)
        self._version = weights.version
        self._blocks = self._begin()
        return self.place()

    def place(self) -> ActorPlace:
        """The place of this actor; an answer also says that it is still there."""
        ray = import_ray()
        return ActorPlace(
            node=ray.util.get_node_ip_address(),
            node_id=ray.get_runtime_context().get_node_id(),
            process=os.getpid(),
            backend=self._backend,
        )

    def play(self, weights: Weights) -> tuple[int, Block]:
        """The next block, and the version of the weights that played it: ``weights``, if they are others."""
        if weights.version != self._version:
            self._blocks = self._begin()  # begun anew, an actor forgets what the old weights have said
            self._update(weights.network.get().eval())
            self._version = weights.version
        return self._version, next(self._blocks)

    def _begin(self) -> Iterator[Block]:
        return self._actor.play(UNLIMITED, lambda: False)


def make_player(
    task: Task, network: Network, rng: np.random.Generator
) -> tuple[SelfPlayer, Callable[[Network], None], str]:
    """The actor of one core or GPU, what gives it other weights, and the backend by which it runs them."""
    if task.backend == TREES:
        from alphac4.compute.gpu.trees import DeviceActor  # Numba's CUDA part is slow to import, and optional

        player = largest_that_fits(
            lambda slots: DeviceActor(task.geometry, task.config, network, slots, rng), task.slots, 1
        )
        return player, player.update, TREES
    evaluator = Evaluator(
        network,
        batch_size=task.slots,
        device=task.device,
        backend=task.backend if task.backend in backend_names(task.device) else "auto",
        int8=True,
        threads=1,
    )
    return Actor(task.geometry, task.config, evaluator, task.slots, rng), evaluator.update, evaluator.backend
