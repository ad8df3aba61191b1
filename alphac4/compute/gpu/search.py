"""Searches of matches and measurements with trees and network on the GPU."""

import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from numba import cuda as numba_cuda

from alphac4.compute.gpu.device import (
    THREADS,
    DeviceArrays,
    DeviceNetwork,
    Exchange,
    captured,
    cuda_device,
    kernel,
    kernel_for,
    kernel_view,
    launch,
    share,
    signed,
    synchronise,
)
from alphac4.compute.gpu.trees import write_leaves
from alphac4.game.rules import Geometry
from alphac4.mcts.network_search import NetworkParameters, NetworkSearch, evaluate_checked, walk_to_leaf
from alphac4.mcts.puct import expand, write_leaf
from alphac4.mcts.search import Reuse
from alphac4.mcts.tree import ARRAYS, NO_NODE, Trees, make_trees
from alphac4.nn.backends import random_inputs
from alphac4.nn.evaluator import Evaluator

cuda: Any = numba_cuda  # its functions are made at run time

STEPS = 16  # between two looks of the host
PROBE_BOARDS = 64  # for which new weights must give finite numbers: kernels do not check any
MAX_SIMULATIONS_PER_STEP = 32  # without a leaf, before the other trees' leaves are evaluated


@kernel
def grow(trees: Trees, targets: Any, parameters: Any, exchange: Exchange, unfinished: Any) -> None:
    """Do one step of a search for one tree per thread; ``unfinished`` [T] becomes 1 where the search continues."""
    t = cuda.grid(1)
    if t >= targets.shape[0]:
        return
    expand(trees, t, exchange.logits[t], exchange.wdl[t], parameters.prior_temperature)
    left = walk_to_leaf(trees, t, targets[t], parameters, MAX_SIMULATIONS_PER_STEP)
    unfinished[t] = 0
    if trees.leaf[t] != NO_NODE:
        write_leaf(trees, t, exchange.planes[t], exchange.one)
    if trees.leaf[t] != NO_NODE or left == 0:
        unfinished[t] = 1


class SearchBuffers(NamedTuple):
    """Memory on the device for searches of one size, and the step that runs in it."""

    trees: DeviceArrays[Trees]
    targets: torch.Tensor  # int64 [T] root visits to reach
    unfinished: torch.Tensor  # int8 [T]
    network: DeviceNetwork
    step: Any  # evaluate all leaves, then `grow`


class DeviceSearch(NetworkSearch):
    """A `NetworkSearch` whose trees are on the GPU during a search.

    Trees are copied there and back, so results, variations and kept proofs are those of any other search. A few
    simulations in some hundred positions take milliseconds.

    Args:
        evaluator: whose network is searched with; `Evaluator.update` takes effect with the next search.
        config: parameters of the rule of selection.
        geometry: the board.
        reuse: see `TreeSearch`.
        precision: of the network; by default the fastest that is precise enough.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        rule: NetworkParameters | None = None,
        *,
        geometry: Geometry,
        reuse: Reuse = "nothing",
        precision: torch.dtype | None = None,
    ) -> None:
        super().__init__(evaluator, rule, geometry=geometry, reuse=reuse)
        self._network_of = evaluator
        self._version = -1  # of the evaluator's weights that `_places` hold
        self._device = cuda_device()
        self._precision = precision
        self._places: dict[tuple[int, int], SearchBuffers] = {}

    def _run(self, trees: Trees, count: int, targets: npt.NDArray[np.int64], deadline: float | None) -> None:
        if self._version != self._network_of.version:
            network = self._network_of.network
            evaluate_checked(self._network_of, random_inputs(network.config, PROBE_BOARDS, np.random.default_rng(0)))
            for other in self._places.values():
                other.network.update(network)
            self._version = self._network_of.version
        nodes = trees.parent.shape[1]
        slots = max(THREADS, 1 << (count - 1).bit_length())
        place = self._places.get((slots, nodes)) or self._make_place(slots, nodes)
        device = place.trees
        for name in ARRAYS:
            device.tensors[name][:count].copy_(torch.from_numpy(signed(getattr(trees, name)[:count])))
        place.targets.zero_()
        place.targets[:count].copy_(torch.from_numpy(targets))
        place.trees.tensors["leaf"][count:].fill_(NO_NODE)
        launch(write_leaves, slots, device.arrays, place.network.exchange)
        while True:
            for _ in range(STEPS if deadline is None else 1):
                place.step()
            if not place.unfinished[:count].any():
                break
            if deadline is not None and time.perf_counter() > deadline:
                place.targets.zero_()  # expand the leaves that wait, then stop
        synchronise()
        for name in ARRAYS:
            signed(getattr(trees, name))[:count] = device.tensors[name][:count].cpu().numpy()

    def _make_place(self, slots: int, nodes: int) -> SearchBuffers:
        """Allocate memory for ``slots`` positions with trees of ``nodes`` nodes, and capture the step."""
        trees = share(make_trees(slots, nodes, self.geometry, np.random.default_rng(0)), self._device)
        trees.tensors["leaf"].fill_(NO_NODE)
        targets = torch.zeros(slots, dtype=torch.int64, device=self._device)
        unfinished = torch.zeros(slots, dtype=torch.int8, device=self._device)
        network = DeviceNetwork(self._network_of.network, self.geometry, slots, self._device, self._precision)
        views = kernel_view(targets), kernel_view(unfinished)
        grow_trees = kernel_for(self.parameters, grow)

        def step() -> None:
            network.evaluate()
            launch(grow_trees, slots, trees.arrays, views[0], self.parameters, network.exchange, views[1])

        place = SearchBuffers(trees, targets, unfinished, network, captured(step, self._device))
        self._places[slots, nodes] = place
        return place
