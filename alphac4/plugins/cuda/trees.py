"""Self-play on a GPU: one thread per tree runs the same functions as a core.

In single precision it plays the same games as the cores, up to rounding; tests check that on a GPU and in Numba's
simulator. docs/speed.md has its speed.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from numba import cuda as numba_cuda

from alphac4.compute.cores import Actors, Seeds
from alphac4.game.rules import Board
from alphac4.mcts.puct import check_selection, expand_and_back_up, write_leaf
from alphac4.mcts.simulation import Selection, reuses_tree
from alphac4.mcts.tree import NO_NODE, Trees, make_trees
from alphac4.nn.network import Network
from alphac4.plugins.cuda import CUDA_TREES
from alphac4.plugins.cuda.device import (
    DeviceNetwork,
    IoBuffers,
    allocate_with_backoff,
    capture_graph,
    copy_to_device,
    cuda_device,
    kernel,
    launch,
    make_device_trees,
    synchronise,
    to_tensor,
)
from alphac4.selfplay.actor import SELF_PLAY_PUCT, UNLIMITED_MOVES
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import (
    GAME_OVER,
    MAX_STARTS,
    NEW_GAME,
    GamePlan,
    Games,
    advance_slot,
    join_finished,
    make_games,
    make_plan,
    restart_search,
)
from alphac4.selfplay.samples import ActorStats, Block

cuda: Any = numba_cuda  # defines its functions at run time

MAX_SIMULATIONS_PER_STEP = 32  # fewer than on the CPU: a thread is slower than a core, and other threads wait for it
STEPS_PER_CHECK = 32  # steps between the host's checks for finished games
BLOCK_INTERVAL_S = 2.0  # time for which finished games are collected before they are yielded as a block
STREAMS = 2  # parts of the games: while one part's trees grow, the network evaluates the other's leaves
MIN_GAMES = 64  # if memory is short; with fewer, the cores are faster


@kernel
def advance(
    trees: Trees,
    games: Games,
    plan: GamePlan,
    selection: Any,
    buffers: IoBuffers,
) -> None:
    """Run `alphac4.selfplay.games.advance` for one tree per thread."""
    t = cuda.grid(1)
    if t >= trees.size.shape[0]:
        return
    expand_and_back_up(trees, t, buffers.logits[t], buffers.wdl[t], selection.prior_temperature)
    advance_slot(trees, games, t, plan, selection, MAX_SIMULATIONS_PER_STEP)
    if trees.leaf[t] != NO_NODE:
        write_leaf(trees, t, buffers.planes[t], buffers.one)


@kernel
def restart(trees: Trees, games: Games) -> None:
    """Run `alphac4.selfplay.games.restart_search` for one tree per thread; launch `write_leaves` afterwards."""
    t = cuda.grid(1)
    if t < trees.size.shape[0]:
        restart_search(trees, games, t)


@kernel
def write_leaves(trees: Trees, buffers: IoBuffers) -> None:
    t = cuda.grid(1)
    if t < trees.size.shape[0] and trees.leaf[t] != NO_NODE:
        write_leaf(trees, t, buffers.planes[t], buffers.one)


@final
class DeviceActor:
    """Actor that plays ``slots`` games together on its own stream, by default in `best_precision`."""

    def __init__(
        self,
        board: Board,
        config: SelfPlayConfig,
        network: Network,
        slots: int,
        rng: np.random.Generator,
        precision: torch.dtype | None = None,
        *,
        selection: Selection = SELF_PLAY_PUCT,
        max_simulations: int = 0,
    ) -> None:
        device = cuda_device()
        self.board = board
        self.config = config
        self.slots = slots
        empty = make_trees(slots, 1, board, rng, reuse=reuses_tree(selection))
        self._trees = make_device_trees(empty, config.tree_nodes(max_simulations), device)
        self._games = copy_to_device(make_games(slots, board), device)
        self._selection = check_selection(selection)
        plan = make_plan(board, config)
        starts = np.zeros(MAX_STARTS, np.uint64)  # room for those of any plan
        self._plan = copy_to_device(plan._replace(start_own=starts, start_occupied=starts), device)
        self._network = DeviceNetwork(network, board, slots, device, precision)
        self._evaluations = torch.zeros(1, dtype=torch.int64, device=device)  # of waiting leaves
        self._stream = None if device.type == "cpu" else torch.cuda.Stream()  # type: ignore[no-untyped-call]
        synchronise()  # the arrays were created on another stream
        with torch.cuda.stream(self._stream):
            self.step = capture_graph(self._launch_step, device)
        synchronise()
        for name in ("own", "occupied", "size", "leaf", "rng"):  # discard the warm-up games
            self._trees.write(name, getattr(empty, name))
        for name, array in make_games(slots, board)._asdict().items():
            self._games.write(name, array)
        synchronise()

    def update(self, network: Network) -> None:
        self._network.update(network)
        synchronise()

    def play(self, moves: int, stopped: Callable[[], bool], plan: GamePlan | None = None) -> Iterator[Block]:
        """Play until the finished games have ``moves`` positions per slot on average; do not wait for unfinished games.

        The device continues while the caller handles a block.
        """
        with torch.cuda.stream(self._stream):
            try:
                for name, array in (plan or make_plan(self.board, self.config))._asdict().items():
                    self._plan.tensors[name][: len(array)].copy_(to_tensor(array, self._plan.tensors[name].device))
                self._games.tensors["left"].fill_(UNLIMITED_MOVES)
                yield from self._blocks(moves * self.slots, stopped)
            finally:
                synchronise()  # even if the caller stops: an update must not change launched steps

    def _blocks(self, samples: int, stopped: Callable[[], bool]) -> Iterator[Block]:
        trees, games = self._trees.arrays, self._games.arrays
        launch(restart, self.slots, trees, games)
        launch(write_leaves, self.slots, trees, self._network.io)
        self._take_counts()  # discard those of an earlier call
        recorded, work, finished = 0, ActorStats(), list[Games]()
        now = last_block = time.perf_counter()
        self._launch_steps()
        is_done = False
        while not is_done:
            ended = self._ended()  # waits for the launched steps
            work.network_seconds += time.perf_counter() - now
            now = time.perf_counter()
            pending = sum(int((part.plies - part.opening_plies).sum()) for part in finished)
            is_done = recorded + pending >= samples or stopped()
            is_full = sum(len(part.plies) for part in finished) >= 2 * self.slots
            due = list(finished) if is_done or is_full or now - last_block > BLOCK_INTERVAL_S else []
            work_done = work
            if due:
                work, finished = ActorStats(), []
                work_done.simulations, work_done.evaluations = self._take_counts()
            if not is_done:
                if len(ended):
                    finished.append(Games._make(self._games.read(name, ended) for name in Games._fields))
                    self._games.tensors["stage"][ended] = NEW_GAME
                self._launch_steps()  # the device continues while the host handles finished games
            if due:
                block = Block(games=join_finished(due), stats=work_done)
                recorded, last_block = recorded + block.sample_count, now
                yield block

    def _launch_step(self) -> None:
        """Evaluate the leaf of every slot, and walk to the next one; slots without a leaf are not counted."""
        self._evaluations += (self._trees.tensors["leaf"] != NO_NODE).sum()
        self._network.evaluate()
        launch(
            advance,
            self.slots,
            self._trees.arrays,
            self._games.arrays,
            self._plan.arrays,
            self._selection,
            self._network.io,
        )

    def _launch_steps(self) -> None:
        for _ in range(STEPS_PER_CHECK):
            self.step()

    def _ended(self) -> torch.Tensor:
        return torch.nonzero(self._games.tensors["stage"] == GAME_OVER)[:, 0]

    def _take_counts(self) -> tuple[int, int]:
        """Return the numbers of simulations and evaluations since the last call."""
        counters = self._games.tensors["simulations"], self._evaluations
        simulations, evaluations = (int(counter.sum()) for counter in counters)
        for counter in counters:
            counter.zero_()
        return simulations, evaluations

    def reset(self, rng: np.random.Generator) -> None:
        self._games.tensors["stage"].fill_(NEW_GAME)
        self._trees.write("rng", rng.integers(1, 2**63, self.slots, dtype=np.uint64))
        synchronise()

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        trees = {f"trees.{name}": self._trees.read(name) for name in ("own", "occupied", "rng")}
        games = {f"games.{name}": self._games.read(name) for name in Games._fields if name != "simulations"}
        return trees | games | {"games.left": np.zeros(self.slots, np.int64)}

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        for name, array in self.state().items():
            if name not in state or state[name].shape != array.shape:
                raise ValueError("the saved games do not fit the settings")
            kind, _, field = name.partition(".")
            (self._trees if kind == "trees" else self._games).write(field, state[name])
        synchronise()


def device_actors(
    network: Network, board: Board, config: SelfPlayConfig, seeds: Seeds, count: int | None = None, **options: Any
) -> Actors:
    """Create actors that play a run's games on the GPU, one per stream; fewer games if memory is short."""
    streams = count or STREAMS

    def make(games: int) -> list[DeviceActor]:
        slots = -(-games // streams)
        return [DeviceActor(board, config, network, slots, seeds(index), **options) for index in range(streams)]

    players = allocate_with_backoff(make, config.parallel_games, min(MIN_GAMES, config.parallel_games))

    def update(network: Network) -> str:
        for player in players:
            player.update(network)
        return CUDA_TREES

    return Actors(players, update, CUDA_TREES)
