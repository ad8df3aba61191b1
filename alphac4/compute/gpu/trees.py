"""Trees on a GPU: one thread for each tree, which runs the same functions as a core does.

Nobody has measured this on a real GPU yet; in Numba's simulator it finds the games and visits that the cores find.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Unpack, final

import numpy as np
import numpy.typing as npt
import torch
from numba import cuda as numba_cuda

from alphac4.compute.cores import LocalActors
from alphac4.compute.gpu.device import (
    NODE_FIELDS,
    DeviceArrays,
    DeviceNetwork,
    Exchange,
    backend_of,
    best_precision,
    captured,
    device_games,
    kernel_view,
    largest_that_fits,
    launch,
    share,
    share_trees,
    simulated,
    synchronise,
    the_device,
)
from alphac4.compute.interface import (
    Actors,
    Backends,
    Compute,
    NetworkEvaluator,
    SearchOptions,
    Seeds,
)
from alphac4.game.rules import STANDARD, Geometry
from alphac4.machine import check_block
from alphac4.mcts.network_search import NetworkParameters, NetworkSearch, goes_on, network_parameters, walk_to_leaf
from alphac4.mcts.puct import PuctConfig, PuctParameters, expand, write_leaf
from alphac4.mcts.search import Reuse, TreeSearch
from alphac4.mcts.tree import ARRAYS, NO_NODE, Trees, make_trees
from alphac4.nn.evaluator import BATCH, Evaluator
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.actor import UNLIMITED
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import (
    GAME_OVER,
    NEW_GAME,
    Finished,
    Games,
    SelfPlayParameters,
    hand_over,
    make_finished,
    make_games,
    make_parameters,
    restart_search,
    walk,
)
from alphac4.selfplay.samples import Block, Work, make_block

cuda: Any = numba_cuda  # its functions are made at run time

SIMULATIONS_A_STEP = 32  # fewer than on the CPU: a thread here is slower than a core, and the others wait for it
SELF_PLAY_STEPS, SEARCH_STEPS = 32, 8  # between two looks of the host
SECONDS_BETWEEN_BLOCKS = 2.0  # how long finished games stay on the device
SEARCHED_TOGETHER = 1024  # positions
STREAMS = 2  # parts of self-play's games: while one part's trees grow, the network evaluates another's leaves
MIN_GAMES = 64  # where memory is short; below, the cores are faster


@cuda.jit
def advance(
    trees: Trees,
    games: Games,
    finished: Finished,
    parameters: SelfPlayParameters,
    puct: PuctParameters,
    exchange: Exchange,
) -> None:
    """`alphac4.selfplay.games.advance`; threads take rows of ``finished`` in no particular order.

    The count in ``finished.rows`` runs past the rows there are while slots wait for the host to take them.
    """
    t = cuda.grid(1)
    if t >= trees.size.shape[0]:
        return
    expand(trees, t, exchange.logits[t], exchange.wdl[t], puct.prior_temperature)
    left = SIMULATIONS_A_STEP
    while True:
        left = walk(trees, games, t, parameters, puct, left)
        if games.stage[t] != GAME_OVER:
            break
        row = cuda.atomic.add(finished.rows, 0, 1)
        if row >= finished.outcome.shape[0]:
            break
        hand_over(games, finished, t, row)
    if trees.leaf[t] != NO_NODE:
        write_leaf(trees, t, exchange.planes[t], exchange.one)


@cuda.jit
def restart(trees: Trees, games: Games) -> None:
    """`alphac4.selfplay.games.restart_search` in every slot; `write_leaves` has to follow."""
    t = cuda.grid(1)
    if t < trees.size.shape[0]:
        restart_search(trees, games, t)


@cuda.jit
def write_leaves(trees: Trees, exchange: Exchange) -> None:
    """Write the planes of every leaf that waits for its evaluation."""
    t = cuda.grid(1)
    if t < trees.size.shape[0] and trees.leaf[t] != NO_NODE:
        write_leaf(trees, t, exchange.planes[t], exchange.one)


@cuda.jit
def search_step(trees: Trees, targets: Any, parameters: Any, exchange: Exchange, going_on: Any) -> None:
    """`alphac4.mcts.network_search.step`, with a row of the batch for every tree.

    ``going_on`` [T] says which trees go on.
    """
    t = cuda.grid(1)
    if t >= trees.size.shape[0]:
        return
    expand(trees, t, exchange.logits[t], exchange.wdl[t], parameters.prior_temperature)
    left = walk_to_leaf(trees, t, targets[t], parameters, SIMULATIONS_A_STEP)
    going_on[t] = goes_on(trees, t, left)
    if trees.leaf[t] != NO_NODE:
        write_leaf(trees, t, exchange.planes[t], exchange.one)


@final
class DeviceActor:
    """Plays ``slots`` games at once on a stream of its own, as `alphac4.selfplay.actor.Actor` does on a core.

    With the same seed, and a network that answers the same, it plays the same games: the functions are the same.

    Raises:
        RuntimeError: in one line, if there is no GPU.
    """

    def __init__(
        self,
        geometry: Geometry,
        config: SelfPlayConfig,
        network: PolicyValueNetwork,
        slots: int,
        rng: np.random.Generator,
        precision: torch.dtype | None = None,
    ) -> None:
        device = the_device()
        self.geometry = geometry
        self.config = config
        self.slots = slots
        nodes = max(config.full_simulations, config.fast_simulations) + 2
        empty = make_trees(slots, 1, geometry, rng)
        self._trees = share_trees(empty, nodes, device)
        self._games = share(make_games(slots, geometry), device)
        self._finished = share(make_finished(4 * slots, geometry), device)
        self._parameters, self._puct = make_parameters(config), config.search.selfplay_puct().parameters()
        self._network = DeviceNetwork(network, geometry, slots, device, precision)
        self.backend = backend_of(self._network.precision)
        self._stream = None if device.type == "cpu" else torch.cuda.Stream()  # type: ignore[no-untyped-call]
        synchronise()  # what was made so far was made on another stream
        with torch.cuda.stream(self._stream):
            self.step = captured(self._launch_step, device)  # one evaluation of every slot's leaf, and what follows
        synchronise()
        for name in ("own", "occupied", "size", "leaf", "rng"):  # forget the games that warmed it up
            self._trees.write(name, getattr(empty, name))
        for name, array in make_games(slots, geometry)._asdict().items():
            self._games.write(name, array)
        self._finished.tensors["rows"].zero_()
        synchronise()

    def update(self, network: PolicyValueNetwork) -> None:
        """Play with other weights from now on."""
        self._network.update(network)
        synchronise()

    def play(self, moves: int, stopped: Callable[[], bool]) -> Iterator[Block]:
        """See `SelfPlayer`, but all games together make the moves: those that are ahead would leave the device idle.

        It plays on while a block is dealt with.
        """
        with torch.cuda.stream(self._stream):
            try:
                self._games.tensors["left"].fill_(UNLIMITED)
                yield from self._blocks(moves * self.slots, stopped)
            finally:
                synchronise()  # also where the caller wants no more: other weights must not reach what was launched

    def _blocks(self, samples: int, stopped: Callable[[], bool]) -> Iterator[Block]:
        trees, games = self._trees.arrays, self._games.arrays
        launch(restart, self.slots, trees, games)
        launch(write_leaves, self.slots, trees, self._network.exchange)
        recorded, work = 0, Work()
        now = last_block = time.perf_counter()
        self._launch_steps(work)
        enough = False
        while not enough:
            held = self._held()  # waits for the steps launched
            work.network_seconds += time.perf_counter() - now
            now = time.perf_counter()
            enough = recorded + held >= samples or stopped()
            count = self._finished_games()
            due = enough or count >= 2 * self.slots or now - last_block > SECONDS_BETWEEN_BLOCKS
            taken = self._take(count, work) if count and due else None
            in_progress = self.state() if taken is not None else {}
            done, work = work, work if taken is None else Work()
            if not enough:
                self._launch_steps(work)  # the device goes on while the host deals with what has finished
            if taken is not None:
                block = make_block(self.geometry, self.config, taken, done, in_progress)
                recorded, last_block = recorded + len(block.samples), now
                yield block

    def _launch_step(self) -> None:
        """One evaluation of every slot's leaf, and the way to its next one."""
        self._network.evaluate()
        launch(
            advance,
            self.slots,
            self._trees.arrays,
            self._games.arrays,
            self._finished.arrays,
            self._parameters,
            self._puct,
            self._network.exchange,
        )

    def _launch_steps(self, work: Work) -> None:
        for _ in range(SELF_PLAY_STEPS):
            self.step()
        work.evaluations += SELF_PLAY_STEPS * self.slots

    def _finished_games(self) -> int:
        rows = self._finished.tensors
        return min(int(rows["rows"][0]), len(rows["outcome"]))

    def _held(self) -> int:
        """Samples in the games that have finished."""
        tensors, count = self._finished.tensors, self._finished_games()
        return int((tensors["plies"][:count] - tensors["opening"][:count]).sum())

    def _read_finished(self, count: int) -> Finished:
        rows = {name: self._finished.read(name, count) for name in Finished._fields if name != "rows"}
        return Finished(rows=np.array([count]), **rows)

    def _take(self, count: int, work: Work) -> Finished:
        """The finished games, and what they took; their rows are free again."""
        games = self._read_finished(count)
        self._finished.tensors["rows"].zero_()
        simulations = self._games.tensors["simulations"]
        work.simulations = int(simulations.sum())
        simulations.zero_()
        return games

    def reset(self, rng: np.random.Generator) -> None:
        """See `SelfPlayer`."""
        self._games.tensors["stage"].fill_(NEW_GAME)
        self._trees.write("rng", rng.integers(1, 2**63, self.slots, dtype=np.uint64))
        synchronise()

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """See `SelfPlayer`."""
        trees = {f"trees.{name}": self._trees.read(name) for name in ("own", "occupied", "rng")}
        games = {f"games.{name}": self._games.read(name) for name in Games._fields if name != "simulations"}
        return trees | games | {"games.left": np.zeros(self.slots, np.int64)}

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """See `SelfPlayer`."""
        for name, array in self.state().items():
            if name not in state or state[name].shape != array.shape:
                raise ValueError("the saved games do not fit the settings")
            kind, _, field = name.partition(".")
            (self._trees if kind == "trees" else self._games).write(field, state[name])
        synchronise()


@final
class DeviceSearch(TreeSearch):
    """PUCT with the network and the growing trees on the device; the trees come back when it is done.

    Each search uses the weights that ``weights`` holds when it begins, in the same memory.

    Raises:
        RuntimeError: in one line, if there is no GPU.
    """

    def __init__(
        self,
        weights: NetworkEvaluator,
        config: PuctConfig | NetworkParameters | None = None,
        *,
        geometry: Geometry = STANDARD,
        rng: np.random.Generator | None = None,
        reuse: Reuse = "nothing",
        cache: int = 0,  # noqa: ARG002 - a thread has no room to look evaluations up
        precision: torch.dtype | None = None,
    ) -> None:
        super().__init__(geometry, rng, reuse, network_parameters(config))
        self._device = the_device()
        self._precision = precision
        self._weights = weights
        self._version = weights.version
        self._shape = (0, 0)

    def _run(self, trees: Trees, count: int, targets: npt.NDArray[np.int64], deadline: float | None) -> None:
        if self._shape != trees.parent.shape:
            self._make(*trees.parent.shape)
        elif self._version != self._weights.version:
            self._network.update(self._weights.network)
            self._version = self._weights.version
        self._targets.zero_()  # trees that are not searched now stay as they are
        self._targets[:count] = torch.from_numpy(targets)
        self._upload(trees, count)
        launch(write_leaves, len(trees.size), self._shared.arrays, self._network.exchange)
        going_on = True
        while going_on:
            check_block()
            for _ in range(SEARCH_STEPS):
                self._step()
            going_on = bool(self._going_on.any())
            if deadline is not None and time.perf_counter() > deadline:
                self._targets.zero_()  # take in the last evaluation, then stop
        self._download(trees, count)

    def _make(self, rows: int, nodes: int) -> None:
        """Arrays for ``rows`` trees of ``nodes`` nodes, and the step that they take."""
        empty = make_trees(rows, 1, self.geometry, np.random.default_rng(0))
        self._shared: DeviceArrays[Trees] = share_trees(empty, nodes, self._device)
        self._version = self._weights.version
        self._network = DeviceNetwork(self._weights.network, self.geometry, rows, self._device, self._precision)
        self._targets = torch.zeros(rows, dtype=torch.int64, device=self._device)
        self._going_on = torch.zeros(rows, dtype=torch.bool, device=self._device)
        targets, going_on = kernel_view(self._targets), kernel_view(self._going_on)

        def step() -> None:
            self._network.evaluate()
            launch(
                search_step,
                rows,
                self._shared.arrays,
                targets,
                self.parameters,
                self._network.exchange,
                going_on,
            )

        self._step: Callable[[], Any] = captured(step, self._device)
        self._shape = (rows, nodes)

    def _upload(self, trees: Trees, count: int) -> None:
        nodes = int(trees.size[:count].max())
        for name in ARRAYS:
            array = getattr(trees, name)[:count]
            self._shared.write(name, array[:, :nodes] if name in NODE_FIELDS else array)

    def _download(self, trees: Trees, count: int) -> None:
        trees.size[:count] = self._shared.read("size", count)
        nodes = int(trees.size[:count].max())
        for name in ARRAYS:
            if name in NODE_FIELDS:
                getattr(trees, name)[:count, :nodes] = self._shared.read(name, count, nodes)
            else:
                getattr(trees, name)[:count] = self._shared.read(name, count)


@final
class GpuTrees(Compute):
    """An actor a stream, and searches of many positions at once.

    Args:
        precision: of the network beside the trees; by default the fastest that is precise enough.

    Raises:
        RuntimeError: in one line, if there is no GPU.
    """

    def __init__(self, precision: torch.dtype | None = None) -> None:
        device = the_device()
        self._precision = precision or best_precision(device)
        backend = backend_of(self._precision)
        self.backends = Backends(evaluators=backend, actors=backend)
        self.batch = SEARCHED_TOGETHER
        self.streams = 1
        self.learning_device = device
        self._raw = ("cpu", "torch-fp32") if simulated() else ("cuda", "cuda-fp32")

    def pool(self) -> None:
        """See `Compute`."""

    @property
    def inference(self) -> str:
        """See `Compute`."""
        return f"{self.backends.evaluators}, without search {self._raw[1]}"

    def evaluator(self, network: PolicyValueNetwork, *, batch_size: int = BATCH, streams: int = 1) -> NetworkEvaluator:
        """See `Compute`; raw policies and values are computed in 32 bits."""
        device, backend = self._raw
        return Evaluator(network, batch_size=batch_size, streams=streams, device=device, backend=backend)

    def search(
        self,
        evaluator: NetworkEvaluator,
        puct: PuctConfig | NetworkParameters | None = None,
        **options: Unpack[SearchOptions],
    ) -> TreeSearch:
        """See `Compute`; a single tree stays on a core, since it would leave the GPU idle."""
        if evaluator.batch_size == 1:
            return NetworkSearch(evaluator, puct, **options)
        return DeviceSearch(evaluator, puct, precision=self._precision, **options)

    def actors(self, network: PolicyValueNetwork, geometry: Geometry, config: SelfPlayConfig, seeds: Seeds) -> Actors:
        """See `Compute`; fewer games where memory is short."""

        def make(games: int) -> list[DeviceActor]:
            slots = -(-games // STREAMS)
            return [
                DeviceActor(geometry, config, network, slots, seeds(index), self._precision) for index in range(STREAMS)
            ]

        players = largest_that_fits(make, device_games(config.games), MIN_GAMES)

        def update(network: PolicyValueNetwork) -> None:
            for player in players:
                player.update(network)

        return LocalActors(players, update, self.backends.actors)
