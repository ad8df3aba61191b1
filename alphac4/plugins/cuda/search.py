"""Search on the GPU, for matches and measurements."""

import time
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import cuda as numba_cuda

from alphac4.game.rules import Board
from alphac4.machine import check_block
from alphac4.mcts.network_search import NetworkSearch, evaluate_checked, walk_to_leaf
from alphac4.mcts.puct import expand_and_back_up, write_leaf
from alphac4.mcts.simulation import Selection
from alphac4.mcts.tree import ARRAYS, NO_NODE, Trees, make_trees
from alphac4.nn.backends import random_inputs
from alphac4.nn.evaluator import Evaluator
from alphac4.plugins.cuda.device import (
    THREADS_PER_BLOCK,
    DeviceArrays,
    DeviceNetwork,
    IoBuffers,
    as_signed,
    capture_graph,
    copy_to_device,
    cuda_device,
    kernel,
    kernel_view,
    launch,
    synchronise,
)
from alphac4.plugins.cuda.trees import write_leaves

cuda: Any = numba_cuda  # defines its functions at run time

STEPS_PER_CHECK = 16  # steps between the host's checks for finished trees
PROBE_BOARDS = 64  # boards on which the outputs of new weights must be finite, because kernels do not check it
MAX_SIMULATIONS_PER_STEP = 32  # per tree, if none reaches a leaf that needs the network


@kernel
def grow(trees: Trees, selection: Any, buffers: IoBuffers, unfinished: Any) -> None:
    """Run one step of a search in one tree per thread; set ``unfinished`` [T] to 1 where the search continues."""
    t = cuda.grid(1)
    if t >= unfinished.shape[0]:
        return
    expand_and_back_up(trees, t, buffers.logits[t], buffers.wdl[t], selection.prior_temperature)
    remaining = walk_to_leaf(trees, t, selection, MAX_SIMULATIONS_PER_STEP)
    unfinished[t] = 0
    if trees.leaf[t] != NO_NODE:
        write_leaf(trees, t, buffers.planes[t], buffers.one)
    if trees.leaf[t] != NO_NODE or remaining == 0:
        unfinished[t] = 1


class SearchBuffers(NamedTuple):
    """Memory on the device for searches of one size, and the step that uses it."""

    trees: DeviceArrays[Trees]
    unfinished: torch.Tensor  # int8 [T]
    network: DeviceNetwork
    step: Any  # evaluates all leaves, then runs `grow`


class DeviceSearch(NetworkSearch):
    """A `NetworkSearch` with the trees on the GPU during a search.

    Trees are copied to the GPU and back, so the code for the cores computes results, variations and kept proofs. A few
    simulations in some hundred positions take milliseconds. ``precision`` is by default the fastest sufficient one.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        selection: Selection | None = None,
        *,
        board: Board,
        precision: torch.dtype | None = None,
        **options: Any,  # of `NetworkSearch`
    ) -> None:
        super().__init__(evaluator, selection, board=board, **options)
        self._source = evaluator
        self._version = -1  # version of the evaluator's weights that are loaded
        self._device = cuda_device()
        self._precision = precision
        self._allocated: dict[tuple[int, int], SearchBuffers] = {}

    def compile(self) -> None:
        """Do nothing: kernels are compiled when memory is allocated."""

    def _run(self, trees: Trees, count: int, deadline: float | None) -> None:
        if self._version != self._source.version:
            network = self._source.network
            evaluate_checked(self._source, random_inputs(network.config, PROBE_BOARDS, np.random.default_rng(0)))
            for buffers in self._allocated.values():
                buffers.network.update(network)
            self._version = self._source.version
        nodes = trees.parent.shape[1]
        slots = max(THREADS_PER_BLOCK, 1 << (count - 1).bit_length())
        buffers = self._allocated.get((slots, nodes)) or self._allocate(slots, nodes)
        device_trees = buffers.trees
        for name in ARRAYS:
            device_trees.tensors[name][:count].copy_(torch.from_numpy(as_signed(getattr(trees, name)[:count])))
        device_trees.tensors["budget"][count:].zero_()
        buffers.trees.tensors["leaf"][count:].fill_(NO_NODE)
        launch(write_leaves, slots, device_trees.arrays, buffers.network.io)
        while True:
            check_block()
            for _ in range(STEPS_PER_CHECK if deadline is None else 1):
                buffers.step()
            if not buffers.unfinished[:count].any():
                break
            if deadline is not None and time.perf_counter() > deadline:
                device_trees.tensors["budget"].zero_()  # expand the pending leaves, then stop
        synchronise()
        for name in ARRAYS:
            as_signed(getattr(trees, name))[:count] = device_trees.tensors[name][:count].cpu().numpy()

    def _allocate(self, slots: int, nodes: int) -> SearchBuffers:
        """Allocate memory for ``slots`` trees of ``nodes`` nodes, and capture the step.

        Memory for trees of another size is freed, because the search has replaced those trees.
        """
        self._allocated = {size: buffers for size, buffers in self._allocated.items() if size[1] == nodes}
        empty = make_trees(slots, nodes, self.board, np.random.default_rng(0), **self.options)
        trees = copy_to_device(empty, self._device)
        trees.tensors["leaf"].fill_(NO_NODE)
        unfinished = torch.zeros(slots, dtype=torch.int8, device=self._device)
        network = DeviceNetwork(self._source.network, self.board, slots, self._device, self._precision)
        view = kernel_view(unfinished)

        def step() -> None:
            network.evaluate()
            launch(grow, slots, trees.arrays, self.selection, network.io, view)

        buffers = SearchBuffers(trees, unfinished, network, capture_graph(step, self._device))
        self._allocated[slots, nodes] = buffers
        return buffers
