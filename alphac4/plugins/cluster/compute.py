"""A Ray cluster that plays a run's games and matches, while this process learns."""

from typing import Any, final

from alphac4.compute.cores import Actors, Compute, Seeds
from alphac4.compute.devices import choose_device
from alphac4.compute.registry import find_kind
from alphac4.game import Board
from alphac4.mcts.puct import Puct
from alphac4.mcts.simulation import Selection
from alphac4.nn.backends import backend_names, has_backend
from alphac4.nn.network import Network
from alphac4.plugins.cluster.actors import ActorSettings, ClusterActors
from alphac4.plugins.cluster.connection import connect
from alphac4.plugins.cluster.pool import RayPool
from alphac4.selfplay.actor import SELF_PLAY_PUCT
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.storage.records import quote

MAX_GAMES, MIN_GAMES = 128, 32  # games per core: with more, games wait for one another; fewer make small batches


@final
class ClusterCompute(Compute):
    """A cluster with one actor per core or per GPU; this process learns on its own device.

    An actor on a GPU also takes a core. A node that lacks the ``backend`` of self-play uses "auto".
    """

    def __init__(self, address: str, device: str, backend: str, threads: int | None) -> None:
        here, _ = choose_device("auto", "auto")
        super().__init__(here, backend if has_backend(backend, here) else "auto", threads, for_run=True)
        self._torch_backends = ("auto", *backend_names(device))
        known = (*self._torch_backends, *find_kind(device).backends)
        if backend not in known:
            where = "GPUs" if device == "cuda" else "cores"
            raise ValueError(f"unknown backend {quote(backend)} for a cluster's {where}; available: {', '.join(known)}")
        self._there = device
        self._backend_there = backend
        self._connection = connect(address)
        if device == "cuda" and not self._connection.count("cuda"):
            self.close()
            raise RuntimeError("no node of the cluster has both a GPU and a core: leave out ,cuda")

    def pool(self, min_cores: int = 0) -> RayPool | None:
        """Start a process per core; return None if there are fewer than ``min_cores``.

        A process shares its core with an actor, which mostly waits during a match.
        """
        return RayPool(self._connection) if self._connection.count("cpu") >= min_cores else None

    def actors(
        self,
        network: Network,
        board: Board,
        config: SelfPlayConfig,
        seeds: Seeds,
        *,
        selection: Selection = SELF_PLAY_PUCT,
        max_simulations: int = 0,
        **_options: Any,
    ) -> Actors:
        """Create the actors.

        With trees on a core, an actor plays its share of the games, within `MIN_GAMES` and `MAX_GAMES`. With trees on a
        GPU, each actor plays ``config.parallel_games`` games at once.
        """
        if not isinstance(selection, Puct) or max_simulations or network.config.is_custom:
            raise ValueError(
                "a cluster supports neither `network` and `visits` nor a `selection_rule` other than alphac4.Puct: "
                "leave them out"
            )
        slots = config.parallel_games
        if self._backend_there in self._torch_backends:  # the trees are on a core
            share = -(-config.parallel_games // max(1, self._connection.count(self._there)))
            slots = min(config.parallel_games, MAX_GAMES, max(MIN_GAMES, share))
        task = ActorSettings(
            board=board,
            config=config,
            selection=selection,
            slots=slots,
            device=self._there,
            backend=self._backend_there,
        )
        return ClusterActors(self._connection, task, network, seeds)

    def close(self) -> None:
        self._connection.close()
