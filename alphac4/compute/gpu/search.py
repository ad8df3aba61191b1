"""Network-guided search of a batch of positions on the device."""

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from alphac4.compute.gpu import kernels
from alphac4.compute.gpu.arrays import NODE_FIELDS, Shared, kernel_view, share_trees
from alphac4.compute.gpu.device import launch, the_device
from alphac4.compute.gpu.network import DeviceNetwork, captured
from alphac4.game import Geometry
from alphac4.game.rules import STANDARD
from alphac4.machine import check_block
from alphac4.mcts.network_search import NetworkParameters, network_parameters
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.search import Reuse, TreeSearch
from alphac4.mcts.tree import ARRAYS, Trees, make_trees
from alphac4.nn.network import PolicyValueNetwork

STEPS_BETWEEN_LOOKS = 8


class Weights(Protocol):
    """Whatever holds a network; an `alphac4.nn.evaluator.Evaluator`, for example."""

    network: PolicyValueNetwork
    version: int  # another number whenever the weights are others


class DeviceSearch(TreeSearch):
    """PUCT with the network and the growing trees on the device; the trees come back when it is done.

    Each search uses the weights that ``weights`` holds when it begins, in the same memory.

    Raises:
        RuntimeError: in one line, if there is no GPU.
    """

    def __init__(
        self,
        weights: Weights,
        config: PuctConfig | NetworkParameters | None = None,
        *,
        geometry: Geometry = STANDARD,
        rng: np.random.Generator | None = None,
        reuse: Reuse = "nothing",
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
        launch(kernels.write_leaves, len(trees.size), self._shared.arrays, self._network.exchange)
        going_on = True
        while going_on:
            check_block()
            for _ in range(STEPS_BETWEEN_LOOKS):
                self._step()
            going_on = bool(self._going_on.any())
            if deadline is not None and time.perf_counter() > deadline:
                self._targets.zero_()  # take in the last evaluation, then stop
        self._download(trees, count)

    def _make(self, rows: int, nodes: int) -> None:
        """Arrays for ``rows`` trees of ``nodes`` nodes, and the step that they take."""
        empty = make_trees(rows, 1, self.geometry, np.random.default_rng(0))
        self._shared: Shared[Trees] = share_trees(empty, nodes, self._device)
        self._version = self._weights.version
        self._network = DeviceNetwork(self._weights.network, self.geometry, rows, self._device, self._precision)
        self._targets = torch.zeros(rows, dtype=torch.int64, device=self._device)
        self._going_on = torch.zeros(rows, dtype=torch.bool, device=self._device)
        targets, going_on = kernel_view(self._targets), kernel_view(self._going_on)

        def step() -> None:
            self._network.evaluate()
            launch(
                kernels.search_step,
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
