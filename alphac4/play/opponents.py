"""Players of the levels, and players that are loaded in the background."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from alphac4.arena.kinds import named_checkpoint
from alphac4.arena.players import Player
from alphac4.arena.registry import check_players, find_kind, find_network, parse_player, parse_searching_player
from alphac4.game import Board, Position
from alphac4.mcts.network_search import NetworkSearch, UniformEvaluator
from alphac4.play.levels import LEVELS_BY_NAME, Level, find_level
from alphac4.play.proofs import load_proofs

if TYPE_CHECKING:  # PyTorch takes a second to import
    from alphac4.compute.cores import Compute


def level_player(
    level: Level, network: str, board: Board, rng: np.random.Generator, compute: "Compute | None" = None
) -> Player:
    """Make the player of a level, with a network such as "best" or FILE.safetensors."""
    named = named_checkpoint(network)
    specification = level.specification(named.written)
    options: dict[str, Any] = {"rng": rng, "board": board, "compute": compute, "batch_size": 1}
    if level.proven and (proofs := load_proofs(board)) is not None:
        named.check(board)
        player = proofs.player(partial(parse_searching_player, specification, **options))
    else:
        player = parse_player(specification, **options)
    player.name = level.title
    return player


class LazyPlayer:
    """Player that is loaded in a thread: immediately if in the ``background``, otherwise before its first move.

    After its first move it has the loaded player's name.
    """

    def __init__(self, name: str, make: Callable[[], Player], *, background: bool) -> None:
        self.name = name
        self._make = make
        self._made: Future[Player] | None = self._begin() if background else None

    @property
    def ready(self) -> bool:
        """Whether the player is loaded."""
        return self._made is not None and self._made.done()

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """Return a 0-based column for each position, after loading the player."""
        self._made = self._made or self._begin()
        player = self._made.result()
        self.name = player.name
        return player.choose(positions)

    def _begin(self) -> "Future[Player]":
        # Not a daemon thread: the process would crash if it ended while libraries are being loaded.
        return ThreadPoolExecutor(1, thread_name_prefix="loading").submit(self._make)


class Opponents:
    """Factory of a game's players: the levels, which share one network, and all others."""

    def __init__(self, network: str, board: Board, rng: np.random.Generator, *, background: bool) -> None:
        self._network = network
        self._board = board
        self._rng = rng
        self._background = background

    def make(self, name: str) -> Player:
        """Make a player from a level's name or number, or from a specification."""
        if name.lower() in LEVELS_BY_NAME or name.isdecimal():
            return level_player(find_level(name), self._network, self._board, self._rng)
        check_players(name, others=tuple(LEVELS_BY_NAME))
        return parse_player(name, rng=self._rng, board=self._board, batch_size=1)

    def prepare(self, name: str) -> Player:
        """Make a player. One that takes seconds becomes a `LazyPlayer`, whose errors are raised at its first move."""
        level = LEVELS_BY_NAME.get(name)
        levels_network = named_checkpoint(self._network)
        network = find_network(name) if level is None else None if level.perfect else levels_network
        if network is not None:
            network.check(self._board)  # before the board is shown
        elif (kind := find_kind(name)) is None or not kind.runs_network:
            return self.make(name)
        shown = name if level is None else level.title
        make = self._make_with_code if self._background else self.make
        return LazyPlayer(shown, partial(make, name), background=self._background)

    def _make_with_code(self, name: str) -> Player:
        NetworkSearch(UniformEvaluator(), board=self._board).compile()
        return self.make(name)
