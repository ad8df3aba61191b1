"""Networks, learning and self-play on this machine, and the base classes for other places, such as clusters."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from alphac4.compute.pool import Pool
from alphac4.game import Board
from alphac4.machine import check_memory, cores
from alphac4.mcts.network_search import NetworkSearch, make_cache
from alphac4.mcts.simulation import Selection
from alphac4.nn.backends import INT8, check_backend
from alphac4.nn.evaluator import BATCH, Evaluator
from alphac4.nn.network import Network
from alphac4.selfplay.actor import (
    MAX_CACHED_EVALUATIONS,
    SELF_PLAY_PUCT,
    Actor,
    SelfPlayer,
    bytes_per_game,
    play_together,
)
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import GamePlan
from alphac4.selfplay.samples import Block

if TYPE_CHECKING:  # which imports this module
    from alphac4.training.config import TrainConfig
    from alphac4.training.extensions import Extensions
    from alphac4.training.learner import Learner

MIN_GAMES = 32  # per actor: smaller batches take longer per position, those of 16 twice as long
MAX_CALLERS = 4  # concurrent searches in a run's matches, which have few games; each loads a network

Seeds = Callable[[int], np.random.Generator]
"""Returns the random generator of an actor by its index; on cores, all actors share that of index 0."""

GameState = Mapping[str, npt.NDArray[np.generic]]
"""Arrays of the games in progress, with one row per game."""


class Actors:
    """Players of a run's games, each on its own thread; games continue from one call of `play` to the next."""

    statistics: Mapping[str, float] = MappingProxyType({})
    """Further figures of the last `play`, by the name of their curve; empty for actors in this process."""
    play_seconds: float | None = None
    """Wall time in which the games of the last `play` were played, if actors also play between the calls; else None."""

    def __init__(
        self,
        players: Sequence[SelfPlayer],
        update: Callable[[Network], str],  # loads weights into all players; returns the backend
        backend: str,
        idle_cores: int = 0,  # cores that would play if there were more games
    ) -> None:
        self.players = players
        self._update = update
        self.backend = backend  # of inference
        self.slots = sum(player.slots for player in players)  # concurrent games
        self.idle_cores = idle_cores

    def __str__(self) -> str:
        """Return a few words that say where the games are played."""
        return f"by {self.backend}"

    def __len__(self) -> int:
        """Return the number of actors that play at the same time."""
        return len(self.players)

    def update(self, network: Network) -> None:
        """Load new weights, used from the next evaluation on."""
        self.backend = self._update(network)

    def play(
        self,
        samples: int,
        on_block: Callable[[int, Block], None],  # called in the calling thread with an actor's index and its games
        check: Callable[[], None] = lambda: None,  # called in the calling thread at least every 0.1 s
        *,
        last: bool = False,  # noqa: ARG002 - whether this is the last call, so that no actor needs to play ahead
        plan: GamePlan | None = None,  # by default that of the settings
    ) -> None:
        """Play until finished games have ``samples`` positions; an exception of a callback stops all actors.

        On cores, equally many moves are played in each slot, so samples do not depend on speed.
        """
        recorded = 0

        def count(player: int, block: Block) -> None:
            nonlocal recorded
            recorded += block.sample_count
            on_block(player, block)

        while recorded < samples:
            moves = -(-(samples - recorded) // self.slots) + 1  # one more, or a few samples would often be missing
            play_together(self.players, moves, count, check, plan)

    def close(self) -> None:
        """Stop actors outside this process."""

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the games in progress; empty if other processes play."""
        states = [player.state() for player in self.players]
        return {name: np.concatenate([state[name] for state in states]) for name in states[0]}

    def restore(self, state: GameState, seeds: Seeds) -> bool:
        """Resume games, or start new ones from ``seeds`` if they do not fit the settings; return whether they fit.

        The games are split among the actors, whose number does not matter.
        """
        ends = np.cumsum([player.slots for player in self.players])
        try:
            if any(len(array) != self.slots for array in state.values()):
                raise ValueError("the number of games differs")
            for player, end in zip(self.players, ends, strict=True):
                player.restore({name: array[end - player.slots : end] for name, array in state.items()})
        except ValueError:
            rng = seeds(0)
            for player in self.players:
                player.reset(rng)
            return False
        return True


class Compute:
    """Device of PyTorch that evaluates networks and learns, while the cores of this process play a run's games.

    A subclass plays or learns elsewhere. ``callers`` is the recommended number of threads that call an evaluator.
    """

    def __init__(
        self,
        device: str = "cpu",
        backend: str = "auto",
        threads: int | None = None,
        *,
        for_run: bool = False,  # outputs must not depend on batches, and only self-play may use int8
    ) -> None:
        check_backend(backend, device)
        self._device = device
        self._threads = threads or cores()
        self._for_run = for_run
        self._backend = backend
        self.callers = min(self._threads, MAX_CALLERS) if for_run else self._threads
        self.learning_device = torch.device(device)

    def evaluator(self, network: Network, *, batch_size: int = BATCH, callers: int = 1) -> Evaluator:
        """Create an evaluator for ``callers`` concurrent threads, which usually send ``batch_size`` positions each.

        Update an evaluator instead of creating many: the libraries do not free all of their memory.
        """
        return Evaluator(
            network,
            batch_size=batch_size,
            device=self._device,
            backend="auto" if self._for_run and self._backend == INT8 else self._backend,
            threads=max(1, self._threads // callers),
            batch_invariant=self._for_run and self._device == "cpu",  # a GPU is not bit-identical anyway
        )

    def search(
        self,
        evaluator: Evaluator,
        selection: Selection | None = None,
        *,
        board: Board,
        **options: Any,  # of `NetworkSearch`
    ) -> NetworkSearch:
        """Create a search for one caller at a time."""
        return NetworkSearch(evaluator, selection, board=board, **options)

    def learner(self, config: "TrainConfig", extensions: "Extensions | None") -> "Learner | None":  # noqa: ARG002
        """Create a run's learner; return None if the usual one, on the ``learning_device``, is to be used."""
        return None

    def pool(self, min_cores: int = 0) -> Pool | None:  # noqa: ARG002 - for subclasses
        """Start processes elsewhere that play matches; return None if there are none, or fewer than ``min_cores``."""
        return None

    def close(self) -> None:
        """Release what is outside this process, after actors and pools have been closed."""

    def actors(
        self,
        network: Network,
        board: Board,
        config: SelfPlayConfig,
        seeds: Seeds,  # random generators by actor; on cores, all share the first
        *,
        selection: Selection = SELF_PLAY_PUCT,
        max_simulations: int = 0,  # the largest budget of any plan
        count: int | None = None,  # actors; by default as many as are useful
    ) -> Actors:
        """Create the actors that play a run's games."""
        needed = config.parallel_games * bytes_per_game(board, config, max_simulations)
        check_memory("the games of self-play need", needed, "games or simulations of self-play")
        count = count or max(1, min(self._threads, config.parallel_games // MIN_GAMES))  # enough games for each
        sizes = [len(part) for part in np.array_split(range(config.parallel_games), count)]
        evaluator = Evaluator(
            network,
            batch_size=sizes[0],
            device=self._device,
            backend=self._backend,
            allow_int8=True,
            threads=1,
            batch_invariant=self._for_run and self._device == "cpu",
        )
        rng, cache = seeds(0), make_cache(MAX_CACHED_EVALUATIONS, board)
        players = [
            Actor(board, config, evaluator, size, rng, cache, selection=selection, max_simulations=max_simulations)
            for size in sizes
        ]

        def update(network: Network) -> str:
            evaluator.update(network)
            return evaluator.backend

        idle_cores = max(0, self._threads - count) if self._device == "cpu" else 0
        return Actors(players, update, evaluator.backend, idle_cores)
