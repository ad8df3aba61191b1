"""Players that are made in the background, so that the board can be shown at once."""

import threading
from collections.abc import Callable, Sequence

import numpy as np

from alphac4.arena.players import Player
from alphac4.game import Geometry, Position
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.search import Budget


def compile_search(geometry: Geometry) -> None:
    """Compile what a network's first search needs, or load it; the first time on a machine that takes long."""
    from alphac4.nn.evaluator import UniformEvaluator  # PyTorch takes a second to import

    search = NetworkSearch(UniformEvaluator(), geometry=geometry, rng=np.random.default_rng(0))
    search.search([Position(geometry=geometry)], Budget(simulations=2))


class LatePlayer:
    """A player that is still to be made: loading a network takes seconds, in which a person thinks already.

    Args:
        name: until the player has a name of its own.
        make: makes it, once.
        background: whether to begin at once, in a thread; otherwise it is made for its first move.
    """

    def __init__(self, name: str, make: Callable[[], Player], *, background: bool) -> None:
        self.name = name
        self._make = make
        self._player: Player | None = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if background:
            # No daemon: libraries that are being loaded while the process ends would crash it.
            self._thread = threading.Thread(target=self._load, name=f"loading {name}")
            self._thread.start()

    @property
    def ready(self) -> bool:
        """Whether it moves without being loaded first."""
        return self._player is not None

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `alphac4.arena.players.Player`.

        Raises:
            ValueError, RuntimeError: in one line, if the player cannot be made.
        """
        if self._thread is None:
            self._load()
        else:
            self._thread.join()
        if self._player is None:
            raise self._error or RuntimeError(f"{self.name} could not be loaded")
        return self._player.choose(positions)

    def _load(self) -> None:
        if self._player is None:
            try:
                self._player = self._make()
                self.name = self._player.name
            except Exception as error:  # told where the player is needed
                self._error = error
