"""An agent for Kaggle's ConnectX around any of our players.

Play a game in the real environment::

    from kaggle_environments import make
    from alphac4.integrations.kaggle import make_agent

    make("connectx").run([make_agent("checkpoints/quick.safetensors"), "negamax"])

Kaggle's board is a flat list, row-major from the top left: 0 is empty, 1 and 2 are the players' marks. Our bitboards
and planes begin with the bottom row; `Position.from_kaggle` turns one into the other. A submission to Kaggle itself
has to do without this package: `alphac4 export --kaggle` writes one.
"""

import dataclasses
import functools
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from alphac4.arena.players import Player, PlayerError, UctPlayer, as_searching
from alphac4.arena.specifications import common_geometry, find_network, parse_player
from alphac4.compute import choose
from alphac4.export.submission import SHARE_OF_TIME, Game, Rollouts, Searcher
from alphac4.game import Geometry, Position, make_geometry
from alphac4.mcts.search import Budget
from alphac4.storage.checkpoints import named_file
from alphac4.storage.files import FileError

Agent = Callable[[Any, Any], int]  # Kaggle's observation and configuration to a 0-based column

AS_LONG_AS_ALLOWED = 1e6  # seconds
MIN_SECONDS = 0.01
MAX_SIMULATIONS = 1_000_000  # of about 130 bytes each


def make_agent(
    player: str | Path | None = None, *, seed: int | None = None, threads: int = 1, backend: str = "auto"
) -> Agent:
    """An agent that plays as ``player`` does, within the act timeout, on any board.

    Where the player cannot play, as a network on a board that is not its own, classic MCTS plays instead. Everything
    is loaded and compiled before this returns, so that the game's clock does not pay for it. Players that search no
    tree, such as "solver", know no clock: the solver may need seconds for an early position.

    Args:
        player: a specification such as "FILE.safetensors@600" or "uct:1000". A checkpoint without a number of
            simulations, and the default, use the act timeout; any other tree search at most that.
        seed: of its random choices.
        threads: cores to use; a batch of one position gains little from a second and stalls on a busy one.
        backend: of the network's inference; see `alphac4.compute.choose`.

    Raises:
        PlayerError: for an unknown player, a checkpoint that cannot be used, or a player that needs to know the moves
            so far, which Kaggle does not tell.
    """
    specification = str(player) if player is not None else _default_player()
    network = find_network(specification)
    if network is not None and not network.limit:
        specification = specification.replace(network.written, f"{network.written}@{AS_LONG_AS_ALLOWED}s", 1)
    rng = np.random.default_rng(seed)
    compute = choose(backend=backend, threads=threads)
    parse = functools.partial(parse_player, specification, rng=rng, threads=threads, compute=compute, batch_size=1)
    return _KaggleAgent(parse, common_geometry((specification,)), rng)


def _default_player() -> str:
    """A shipped network, or classic MCTS where there is none."""
    try:
        named_file(Path("best"))
    except FileError:  # installed without the networks
        return f"uct:{MAX_SIMULATIONS}"
    return "best"


class _KaggleAgent:
    """Keeps a player for each board that it has been asked about."""

    def __init__(self, parse: Callable[..., Player], geometry: Geometry, rng: np.random.Generator) -> None:
        self._parse = parse
        self._rng = rng
        self._choosers: dict[tuple[int, int, int], _Choose] = {}
        player = parse(geometry=geometry)
        # Compile all that a move needs; a player that cannot do without the moves so far says so now.
        early = as_searching(player) is not None  # the solver may need minutes so early in the game: ask late in one
        position = Position(geometry=geometry).play(0) if early else _late_position(geometry)
        _timed_choice(player, dataclasses.replace(position, moves=None), MIN_SECONDS)
        shape = geometry.rows, geometry.columns, geometry.run_length
        if geometry == make_geometry(*shape):  # Kaggle's runs may be diagonal
            self._choosers[shape] = _on_board(player, geometry)

    def __call__(self, obs: Any, config: Any) -> int:
        """The 0-based column to play; the clock starts once the board's player is there."""
        shape = config.rows, config.columns, config.inarow
        if shape not in self._choosers:
            self._choosers[shape] = self._make(*shape)
        seconds = max(SHARE_OF_TIME * getattr(config, "actTimeout", 2.0), MIN_SECONDS)
        return self._choosers[shape](obs.board, obs.mark, seconds)

    def _make(self, rows: int, columns: int, run_length: int) -> "_Choose":
        try:
            geometry = make_geometry(rows, columns, run_length)
        except ValueError:  # too large for compiled bitboards, or a run that does not fit the board
            return _on_any_board(Game(rows, columns, run_length), random.Random(int(self._rng.integers(2**63))))
        try:
            return _on_board(self._parse(geometry=geometry), geometry)
        except PlayerError:
            return _on_board(UctPlayer(Budget(simulations=MAX_SIMULATIONS), self._rng, geometry), geometry)


_Choose = Callable[[list[int], int, float], int]  # Kaggle's board, the mark to move and seconds to a column


def _on_board(player: Player, geometry: Geometry) -> _Choose:
    return lambda board, mark, seconds: _timed_choice(player, Position.from_kaggle(board, mark, geometry), seconds)


def _on_any_board(game: Game, rng: random.Random) -> _Choose:
    """Classic MCTS where our compiled bitboards end."""
    player = Searcher(game, Rollouts(game, rng))
    return lambda board, mark, seconds: player.choose(game.read(board, mark), time.perf_counter() + seconds)


def _timed_choice(player: Player, position: Position, seconds: float) -> int:
    """The player's column; its tree search, if it has one, stops in time."""
    searching = as_searching(player)
    if searching is None or searching.budget.simulations == 0:
        return int(player.choose([position])[0])
    own = searching.budget
    budget = Budget(simulations=own.simulations or MAX_SIMULATIONS, seconds=min(seconds, own.seconds or seconds))
    return int(searching.search([position], budget).moves[0])


def _late_position(geometry: Geometry) -> Position:
    """The last position of a random game before its end."""
    rng = np.random.default_rng(0)
    position = following = Position(geometry=geometry)
    while following.outcome() is None:
        position = following
        following = position.play(int(rng.choice(position.legal_columns())))
    return position
