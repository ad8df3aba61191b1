"""Self-play with its trees on a GPU: one thread per tree runs the functions that a core runs.

It plays the games that the cores play; tests check that on an H200 and in Numba's simulator. docs/training.md has its
speed.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from numba import cuda as numba_cuda

from alphac4.compute.cores import Actors, LocalActors, Seeds
from alphac4.compute.gpu.device import (
    TREES,
    DeviceNetwork,
    Exchange,
    allocate_with_backoff,
    captured,
    cuda_device,
    kernel,
    kernel_for,
    launch,
    make_device_trees,
    share,
    synchronise,
    to_tensor,
)
from alphac4.game.rules import Geometry
from alphac4.mcts.network_search import NetworkParameters
from alphac4.mcts.puct import expand, write_leaf
from alphac4.mcts.simulation import check_rule
from alphac4.mcts.tree import NO_NODE, Trees, make_trees
from alphac4.nn.network import Network
from alphac4.selfplay.actor import UNLIMITED
from alphac4.selfplay.config import PRIOR_TEMPERATURE, SelfPlayConfig
from alphac4.selfplay.games import (
    GAME_OVER,
    MAX_STARTS,
    NEW_GAME,
    GamePlan,
    Games,
    SelfPlayParameters,
    join_finished,
    make_games,
    make_parameters,
    make_plan,
    restart_search,
    walk,
)
from alphac4.selfplay.samples import Block, Work

cuda: Any = numba_cuda  # its functions are made at run time

MAX_SIMULATIONS_PER_STEP = 32  # fewer than on the CPU: a thread here is slower than a core, and the others wait for it
STEPS = 32  # between two looks of the host
SECONDS_BETWEEN_BLOCKS = 2.0  # how long finished games stay on the device
STREAMS = 2  # parts of self-play's games: while one part's trees grow, the network evaluates another's leaves
MIN_GAMES = 64  # where memory is short; below, the cores are faster


@kernel
def advance(
    trees: Trees,
    games: Games,
    parameters: SelfPlayParameters,
    plan: GamePlan,
    selection: Any,
    exchange: Exchange,
) -> None:
    """Do the work of `alphac4.selfplay.games.advance` for one tree per thread."""
    t = cuda.grid(1)
    if t >= trees.size.shape[0]:
        return
    expand(trees, t, exchange.logits[t], exchange.wdl[t], selection.prior_temperature)
    walk(trees, games, t, parameters, plan, selection, MAX_SIMULATIONS_PER_STEP)
    if trees.leaf[t] != NO_NODE:
        write_leaf(trees, t, exchange.planes[t], exchange.one)


@kernel
def restart(trees: Trees, games: Games) -> None:
    """Call `alphac4.selfplay.games.restart_search` in every slot; launch `write_leaves` afterwards."""
    t = cuda.grid(1)
    if t < trees.size.shape[0]:
        restart_search(trees, games, t)


@kernel
def write_leaves(trees: Trees, exchange: Exchange) -> None:
    """Write the planes of every leaf that waits for its evaluation."""
    t = cuda.grid(1)
    if t < trees.size.shape[0] and trees.leaf[t] != NO_NODE:
        write_leaf(trees, t, exchange.planes[t], exchange.one)


@final
class DeviceActor:
    """Plays ``slots`` games at once on its own stream, as `alphac4.selfplay.actor.Actor` does on a core.

    With the same seed and the same answers of the network it plays the same games, by the same functions.

    Raises:
        RuntimeError: if there is no GPU.
    """

    def __init__(
        self,
        geometry: Geometry,
        config: SelfPlayConfig,
        network: Network,
        slots: int,
        rng: np.random.Generator,
        precision: torch.dtype | None = None,
        *,
        selection: NetworkParameters | None = None,
        max_simulations: int = 0,
    ) -> None:
        device = cuda_device()
        self.geometry = geometry
        self.config = config
        self.slots = slots
        nodes = max(config.full_simulations, config.fast_simulations, max_simulations) + 2
        empty = make_trees(slots, 1, geometry, rng)
        self._trees = make_device_trees(empty, nodes, device)
        self._games = share(make_games(slots, geometry), device)
        self._parameters = make_parameters(config)
        self._selection = selection or config.puct(PRIOR_TEMPERATURE)
        check_rule(self._selection, empty)
        self._advance = kernel_for(self._selection, advance)
        plan = make_plan(geometry, config)
        room = np.zeros(MAX_STARTS, np.uint64)
        self._plan = share(plan._replace(start_own=room, start_occupied=room), device)
        self._network = DeviceNetwork(network, geometry, slots, device, precision)
        self._stream = None if device.type == "cpu" else torch.cuda.Stream()  # type: ignore[no-untyped-call]
        synchronise()  # the arrays were made on another stream
        with torch.cuda.stream(self._stream):
            self.step = captured(self._launch_step, device)  # one evaluation of every slot's leaf, and what follows
        synchronise()
        for name in ("own", "occupied", "size", "leaf", "rng"):  # forget the games that warmed it up
            self._trees.write(name, getattr(empty, name))
        for name, array in make_games(slots, geometry)._asdict().items():
            self._games.write(name, array)
        synchronise()

    def update(self, network: Network) -> None:
        """Play with other weights from now on."""
        self._network.update(network)
        synchronise()

    def play(self, moves: int, stopped: Callable[[], bool], plan: GamePlan | None = None) -> Iterator[Block]:
        """Play until all games together have made ``moves`` per slot: waiting for the slowest would idle the device.

        The device continues while the caller handles a block.
        """
        with torch.cuda.stream(self._stream):
            try:
                for name, array in (plan or make_plan(self.geometry, self.config))._asdict().items():
                    self._plan.tensors[name][: len(array)].copy_(to_tensor(array, self._plan.tensors[name].device))
                self._games.tensors["left"].fill_(UNLIMITED)
                yield from self._blocks(moves * self.slots, stopped)
            finally:
                synchronise()  # also if the caller stops: other weights must not reach launched steps

    def _blocks(self, samples: int, stopped: Callable[[], bool]) -> Iterator[Block]:
        trees, games = self._trees.arrays, self._games.arrays
        launch(restart, self.slots, trees, games)
        launch(write_leaves, self.slots, trees, self._network.exchange)
        self._take_simulations()  # of an earlier call, whose other figures were discarded
        recorded, work, finished = 0, Work(), list[Games]()
        now = last_block = time.perf_counter()
        self._launch_steps(work)
        enough = False
        while not enough:
            over = self._over()  # waits for the steps launched
            work.network_seconds += time.perf_counter() - now
            now = time.perf_counter()
            held = sum(int((part.plies - part.opening).sum()) for part in finished)
            enough = recorded + held >= samples or stopped()
            many = sum(len(part.plies) for part in finished) >= 2 * self.slots
            due = list(finished) if enough or many or now - last_block > SECONDS_BETWEEN_BLOCKS else []
            done = work
            if due:
                work, finished = Work(), []
                done.simulations = self._take_simulations()
            if not enough:
                if len(over):
                    finished.append(Games._make(self._games.read(name, over) for name in Games._fields))
                    self._games.tensors["stage"][over] = NEW_GAME
                self._launch_steps(work)  # the device continues while the host handles finished games
            if due:
                block = Block(games=join_finished(due), work=done)
                recorded, last_block = recorded + block.positions, now
                yield block

    def _launch_step(self) -> None:
        """Evaluate every slot's leaf, and walk to its next one."""
        self._network.evaluate()
        launch(
            self._advance,
            self.slots,
            self._trees.arrays,
            self._games.arrays,
            self._parameters,
            self._plan.arrays,
            self._selection,
            self._network.exchange,
        )

    def _launch_steps(self, work: Work) -> None:
        for _ in range(STEPS):
            self.step()
        work.evaluations += STEPS * self.slots

    def _over(self) -> torch.Tensor:
        """Return the slots whose games have ended."""
        return torch.nonzero(self._games.tensors["stage"] == GAME_OVER)[:, 0]

    def _take_simulations(self) -> int:
        """Count the simulations since the last call."""
        simulations = self._games.tensors["simulations"]
        total = int(simulations.sum())
        simulations.zero_()
        return total

    def reset(self, rng: np.random.Generator) -> None:
        """Forget the games in progress and start others."""
        self._games.tensors["stage"].fill_(NEW_GAME)
        self._trees.write("rng", rng.integers(1, 2**63, self.slots, dtype=np.uint64))
        synchronise()

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the games in progress, one row per game."""
        trees = {f"trees.{name}": self._trees.read(name) for name in ("own", "occupied", "rng")}
        games = {f"games.{name}": self._games.read(name) for name in Games._fields if name != "simulations"}
        return trees | games | {"games.left": np.zeros(self.slots, np.int64)}

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Resume the games of `state`. Raises ValueError for those of other settings."""
        for name, array in self.state().items():
            if name not in state or state[name].shape != array.shape:
                raise ValueError("the saved games do not fit the settings")
            kind, _, field = name.partition(".")
            (self._trees if kind == "trees" else self._games).write(field, state[name])
        synchronise()


def device_actors(
    network: Network,
    geometry: Geometry,
    config: SelfPlayConfig,
    seeds: Seeds,
    selection: NetworkParameters | None = None,
    max_simulations: int = 0,
) -> Actors:
    """Make actors that play a run's games on the GPU, one per stream; fewer games where memory is short.

    Raises:
        RuntimeError: if there is no GPU.
    """

    def make(games: int) -> list[DeviceActor]:
        slots = -(-games // STREAMS)
        return [
            DeviceActor(
                geometry,
                config,
                network,
                slots,
                seeds(index),
                selection=selection,
                max_simulations=max_simulations,
            )
            for index in range(STREAMS)
        ]

    players = allocate_with_backoff(make, config.games, min(MIN_GAMES, config.games))

    def update(network: Network) -> str:
        for player in players:
            player.update(network)
        return TREES

    return LocalActors(players, update, TREES)
