"""The compute of a GPU that keeps trees and the replay window in its memory."""

from typing import Any, final

from alphac4.compute.cores import Actors, Compute, Seeds
from alphac4.game.rules import Board
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.simulation import Selection
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import Network
from alphac4.plugins.cuda.device import cuda_device
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.replay import window_size
from alphac4.training.config import TrainConfig
from alphac4.training.extensions import Extensions
from alphac4.training.learner import Learner


@final
class DeviceCompute(Compute):
    """The GPU, or in the simulator the cores. Its methods import Numba's CUDA part, which is slow and optional."""

    def __init__(self, device: str, threads: int | None, *, for_run: bool) -> None:
        cuda_device()  # raises a RuntimeError without the compiler
        super().__init__(device, threads=threads, for_run=for_run)
        self.callers = 1

    def search(
        self,
        evaluator: Evaluator,
        selection: Selection | None = None,
        *,
        board: Board,
        cache: int = 0,  # noqa: ARG002 - a GPU searches without a cache
        prefetch: int = 0,  # noqa: ARG002
        **options: Any,
    ) -> NetworkSearch:
        """Create a search with its trees on the GPU."""
        from alphac4.plugins.cuda.search import DeviceSearch

        return DeviceSearch(evaluator, selection, board=board, **options)

    def actors(self, network: Network, board: Board, config: SelfPlayConfig, seeds: Seeds, **options: Any) -> Actors:
        """Create the actors that play a run's games on the GPU."""
        from alphac4.plugins.cuda.trees import device_actors

        return device_actors(network, board, config, seeds, **options)

    def learner(self, config: TrainConfig, extensions: Extensions | None) -> Learner:
        """Create a run's learner with its replay window on the GPU."""
        from alphac4.plugins.cuda.learner import DeviceLearner
        from alphac4.plugins.cuda.replay import DeviceReplay

        network, learning, board = config.network_config(), config.learning, config.board.make()
        longest = (
            window_size(config.iterations * config.positions_per_iteration, learning.base_window)
            + config.positions_per_iteration
        )
        replay = DeviceReplay(board, longest, learning.batch_size, network.input_planes, learning.fast_search_weight)
        return DeviceLearner(network, learning, board, config.seed, replay, extensions=extensions)
