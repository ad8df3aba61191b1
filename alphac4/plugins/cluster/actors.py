"""Self-play on every core, or every GPU, of a cluster."""

import copy
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np
import numpy.typing as npt

from alphac4.compute import choose_compute
from alphac4.compute.cores import Actors, Compute, GameState, Seeds
from alphac4.compute.registry import find_kind
from alphac4.game import Board
from alphac4.machine import CHECK_INTERVAL_S, adapt_process, picklable_errors
from alphac4.mcts.puct import Puct
from alphac4.nn.backends import has_backend
from alphac4.nn.network import Network
from alphac4.plugins.cluster.connection import Connection, import_ray
from alphac4.plugins.cluster.pool import fetch
from alphac4.selfplay.actor import SELF_PLAY_PUCT, UNLIMITED_MOVES
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import GamePlan, make_plan
from alphac4.selfplay.samples import Block
from alphac4.storage.records import first_line

logger = logging.getLogger(__name__)

CALLS_IN_FLIGHT = 2  # per actor: it plays one block while the driver handles the other
COUNT_INTERVAL_S = 1.0  # time between counts of the cluster's cores or GPUs
NO_GAMES_WARNING_S = 60.0  # time without a block before a warning
STOP_TIMEOUT_S = 2.0  # time for actors to end before they are killed
CONTROL_GROUP = "control"  # Ray's concurrency group of methods that run concurrently with `RemoteActor.play`


@dataclass(frozen=True, kw_only=True)
class ActorSettings:
    """Settings that the actors of a run share."""

    board: Board
    config: SelfPlayConfig
    selection: Puct = SELF_PLAY_PUCT
    slots: int  # concurrent games per actor; fewer if the memory of a GPU with trees is short
    device: str = "cpu"  # or "cuda", for a GPU per actor
    backend: str  # inference backend; a node that lacks it uses "auto"


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A version of the network."""

    version: int
    network: Callable[[], Network]


@dataclass(frozen=True, kw_only=True)
class ReceivedBlock:
    """A block of games, and facts about the actor that played it."""

    block: Block
    version: int  # version of the weights
    backend: str  # inference backend
    node: str  # address
    process: int  # id


class RemoteActor:
    """Ray actor that plays games on one core, or on one GPU and one core, and returns a block per call of `play`.

    Ray restarts an actor elsewhere if its process or node is lost. The restarted actor begins new games. The player is
    created in the first call, because Ray would take an error in ``__init__`` for a lost process.
    """

    def __init__(self, task: ActorSettings, rng: np.random.Generator) -> None:
        context = import_ray().get_runtime_context()
        # A restarted actor must not play the same games again.
        self._task, self._rng = task, np.random.default_rng() if context.was_current_actor_reconstructed else rng
        self._blocks: Iterator[Block] = iter(())
        self._version, self._latest = -1, Weights(version=-1, network=partial(fetch, None))
        self._has_ended = False

    def update(self, weights: Weights) -> None:
        """Use these weights from the next block on. Runs concurrently with `play`."""
        self._latest = weights

    def end(self) -> None:
        """End all calls of `play` immediately. Runs concurrently with `play`."""
        self._has_ended = True

    @picklable_errors()
    def play(self, weights: Weights) -> ReceivedBlock | None:
        """Play a block with the latest weights of `play` and `update`; return None after `end`."""
        latest = max(weights, self._latest, key=lambda each: each.version)
        if latest.version > self._version:
            network = latest.network().eval()
            if self._version < 0:
                adapt_process()
                self._actors = make_actors(self._task, network, self._rng)
            else:
                self._actors.update(network)
            (player,) = self._actors.players
            self._blocks = player.play(UNLIMITED_MOVES, lambda: self._has_ended)  # a new iterator clears the cache
            self._version = latest.version
        block = None if self._has_ended else next(self._blocks, None)
        if block is None:
            return None
        return ReceivedBlock(
            block=block,
            version=self._version,
            backend=self._actors.backend,
            node=import_ray().util.get_node_ip_address(),
            process=os.getpid(),
        )


def make_actors(task: ActorSettings, network: Network, rng: np.random.Generator) -> Actors:
    """Create the one actor of a core or GPU; a node that lacks the backend uses "auto"."""
    if task.backend in find_kind(task.device).backends:
        compute = choose_compute(task.device, task.backend, threads=1)
    else:
        backend = task.backend if has_backend(task.backend, task.device) else "auto"
        compute = Compute(task.device, backend, 1)
    config = replace(task.config, parallel_games=task.slots)
    return compute.actors(network, task.board, config, lambda _index: rng, count=1, selection=task.selection)


@final
class ClusterActors(Actors):
    """Actors on every core, or every GPU, of a cluster, which also play between two calls of `play`.

    Before `play` returns, it requests about as many positions as the next call will need. So the ratio of learned to
    played positions stays the same. Ray restarts lost actors and repeats their calls; no block arrives twice.
    """

    def __init__(self, connection: Connection, task: ActorSettings, network: Network, seeds: Seeds) -> None:
        self.backend, self.slots, self.idle_cores = task.backend, task.slots, 0  # slots per actor
        self._connection, self._ray = connection, connection.ray
        self._task, self._seeds = task, seeds
        resources = {"num_cpus": 1, "num_gpus": int(task.device == "cuda")}
        restarts = {"max_restarts": -1, "max_task_retries": -1, "concurrency_groups": {CONTROL_GROUP: 1}}
        self._remote = self._ray.remote(**resources, **restarts, scheduling_strategy="SPREAD")(RemoteActor)
        self._weights = Weights(version=0, network=partial(fetch, self._ray.put(network)))
        self._actors: list[Any] = []  # Ray's handles
        self._calls: dict[Any, int] = {}  # the actor's index, by the reference to its block
        self._locations: dict[int, tuple[str, int]] = {}  # node and process of each actor that has played
        self._nodes = 0  # nodes that offer cores or GPUs to actors, at the last count
        self._offered = connection.count(task.device)  # cores or GPUs at the last count
        self._counted = 0.0  # time.monotonic() of the last count
        self._lost = 0  # actors since the last report
        self._last_end: float | None = None

    def __len__(self) -> int:
        return max(1, self._offered)

    def __str__(self) -> str:
        return "on the cluster"

    def update(self, network: Network) -> None:
        version = self._weights.version + 1
        self._weights = Weights(version=version, network=partial(fetch, self._ray.put(network)))
        for actor in self._actors:
            actor.update.options(concurrency_group=CONTROL_GROUP).remote(self._weights)

    def play(
        self,
        samples: int,
        on_block: Callable[[int, Block], None],
        check: Callable[[], None] = lambda: None,
        *,
        last: bool = False,
        plan: GamePlan | None = None,
    ) -> None:
        """Handle blocks until ``samples`` positions have arrived; ``last`` then stops the actors.

        A ``plan`` must be that of the settings.
        """
        usual = make_plan(self._task.board, self._task.config)
        if plan is not None and not all(map(np.array_equal, plan, usual)):
            raise ValueError(
                "`start_positions`, `temperature` and `noise` cannot be functions on a cluster: leave them out"
            )
        started = time.perf_counter()
        waiting = len(self._ready(0.0))
        blocks, positions, behind, max_behind = 0, 0, 0, 0
        has_warned = bool(self._locations)
        while positions < samples:
            check()
            self._connection.check()
            if time.monotonic() - self._counted >= COUNT_INTERVAL_S and not self._connection.missing():
                self._use_all_cores()
            self._request(CALLS_IN_FLIGHT)
            for reference in self._ready(CHECK_INTERVAL_S):
                index = self._calls.pop(reference)
                received = self._receive(index, reference)
                if received is None:
                    continue
                on_block(index, received.block)
                count, versions = received.block.sample_count, self._weights.version - received.version
                blocks, positions, behind = blocks + 1, positions + count, behind + versions * count
                max_behind = max(max_behind, versions)
                if positions >= samples:
                    break
            if not has_warned and not blocks and time.perf_counter() - started > NO_GAMES_WARNING_S:
                logger.warning(
                    "still waiting for the cluster's first games: check whether other programs use its cores"
                )
                has_warned = True
        if last:  # free the cores for the closing matches
            self._stop_actors()
        else:
            self._request(max(CALLS_IN_FLIGHT, -(-samples * blocks // (positions * len(self._actors)))))
        now = time.perf_counter()
        self.statistics = {
            "cluster/nodes": self._nodes,  # that offer cores or GPUs to actors, now
            "cluster/actors": min(len(self._locations), self._offered),  # that have played, on these nodes
            "cluster/lost": self._lost,  # actors that died and were replaced
            "cluster/waiting_blocks": waiting,  # finished before this call
            "cluster/staleness": behind / positions,  # promotions since the weights that played a position, mean
            "cluster/max_promotions_behind": max_behind,
        }
        self.play_seconds = now - (self._last_end or started)
        self._last_end, self._lost = now, 0

    def close(self) -> None:
        if not self._connection.missing():
            self._stop_actors()

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return an empty state: the games are stored in the actors."""
        return {}

    def restore(self, state: GameState, seeds: Seeds) -> bool:  # noqa: ARG002
        """Begin new games, as a run does not store a cluster's games; return False. Call before the first `play`."""
        self._seeds = seeds
        return False

    def _use_all_cores(self) -> None:
        """Create an actor for every core or GPU; Ray starts each as soon as a core or GPU is free."""
        offers = [node.max_actors(self._task.device) for node in self._connection.nodes()]
        self._nodes, self._offered, before = sum(map(bool, offers)), sum(offers), len(self._actors)
        for index in range(before, self._offered):
            self._actors.append(self._remote.remote(self._task, self._seeds(index)))
        if before and self._offered > before:
            name = "GPU" if self._task.device == "cuda" else "core"
            logger.warning("the cluster now has %d %ss for self-play", self._offered, name)
        self._counted = time.monotonic()

    def _request(self, calls: int) -> None:
        """Request blocks until each actor has ``calls`` pending calls."""
        pending = list(self._calls.values())
        for index, actor in enumerate(self._actors):
            for _ in range(calls - pending.count(index)):
                self._calls[actor.play.remote(self._weights)] = index

    def _ready(self, timeout: float) -> list[Any]:
        """Return references of blocks that have arrived; wait at most ``timeout`` seconds."""
        if not self._calls:
            time.sleep(timeout)
            return []
        ready, _ = self._ray.wait(list(self._calls), num_returns=len(self._calls), timeout=timeout)
        return list(ready)

    def _receive(self, index: int, reference: Any) -> ReceivedBlock | None:
        """Return the block of an actor; None if the object store has lost it."""
        try:
            # Without a copy, the arrays would stay in the object store, which an iteration's games would fill.
            received: ReceivedBlock = copy.deepcopy(self._connection.get(reference))
        except self._ray.exceptions.RayTaskError as error:  # a repetition would fail as well
            raise RuntimeError(f"an actor of the cluster failed: {first_line(error.cause or error)}") from error
        except self._ray.exceptions.RayError as error:
            logger.warning("the cluster lost a block of games: %s", first_line(error))
            return None
        location, before = (received.node, received.process), self._locations.get(index)
        if before not in (None, location):
            self._lost += 1
            logger.warning(
                "lost an actor on node %s; its replacement on node %s starts new games", before[0], location[0]
            )
        self._locations[index], self.backend = location, received.backend
        return received

    def _stop_actors(self) -> None:
        """Stop all actors. Let their calls end first, because Ray prints a message about each call that is killed."""
        for actor in self._actors:
            actor.end.options(concurrency_group=CONTROL_GROUP).remote()
        self._ready(STOP_TIMEOUT_S)
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors.clear()
        self._calls.clear()
