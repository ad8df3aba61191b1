"""Players at the levels of strength, and players that are loaded while the board is shown."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from alphac4.arena.certificate_player import CertificatePlayer
from alphac4.arena.players import Player, PlayerError
from alphac4.arena.specifications import named_checkpoint, parse_player
from alphac4.certificate.file import shipped_certificates
from alphac4.game import Geometry, Position
from alphac4.game.rules import STANDARD
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.search import Budget
from alphac4.play.levels import Level

if TYPE_CHECKING:  # PyTorch takes a second to import
    from alphac4.compute import Compute


def level_player(
    level: Level, network: str, geometry: Geometry, rng: np.random.Generator, compute: "Compute | None" = None
) -> Player:
    """A level's player on a board, with the network of a specification such as "best" or FILE.safetensors.

    Raises:
        PlayerError: for a specification that names no checkpoint, or one that cannot be used on this board.
    """
    named = named_checkpoint(network)
    specification = level.specification(named.written, certificates=geometry == STANDARD)
    player = parse_player(specification, rng=rng, geometry=geometry, compute=compute, batch_size=1)
    if not level.perfect:
        player.name = f"{named.name}, {level.name}"
    return player


def certificates(geometry: Geometry, on_pause: Callable[[], object] = lambda: None) -> CertificatePlayer | None:
    """The shipped certificates, to look up what they prove; None for another board, or if their files are missing.

    ``on_pause`` is that of `CertificatePlayer`.
    """

    def refuse(name: str) -> NoReturn:
        raise PlayerError(f"no certificate holds this position, and {name} is not loaded")

    try:
        return CertificatePlayer(shipped_certificates(), geometry, refuse, on_pause)
    except (PlayerError, OSError):
        return None


def compile_search(geometry: Geometry) -> None:
    """Compile what a network's first search needs, or load it; the first time on a machine that takes long."""
    from alphac4.nn.evaluator import UniformEvaluator  # PyTorch takes a second to import

    search = NetworkSearch(UniformEvaluator(), geometry=geometry, rng=np.random.default_rng(0))
    search.search([Position(geometry=geometry)], Budget(simulations=2))


class LazyPlayer:
    """A player that is loaded in a thread: at once in the ``background``, while a person thinks, or for its first move.

    Once it is loaded it has its own name.
    """

    def __init__(self, name: str, make: Callable[[], Player], *, background: bool) -> None:
        self.name = name
        self._make = make
        self._made: Future[Player] | None = self._begin() if background else None

    @property
    def ready(self) -> bool:
        """Whether it moves without being loaded first."""
        return self._made is not None and self._made.done()

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`. Raises ValueError or RuntimeError if the player cannot be made."""
        self._made = self._made or self._begin()
        player = self._made.result()
        self.name = player.name
        return player.choose(positions)

    def _begin(self) -> "Future[Player]":
        # The pool's thread is no daemon: libraries that are being loaded while the process ends would crash it.
        return ThreadPoolExecutor(1, thread_name_prefix="loading").submit(self._make)
