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
from alphac4.export.submission import SHARE_OF_TIME, Game, Rollouts, Searcher, entry
from alphac4.game import Geometry, Position, make_geometry
from alphac4.mcts.search import Budget

Agent = Callable[[Any, Any], int]  # Kaggle's observation and configuration to a 0-based column

AS_LONG_AS_ALLOWED = 1e6  # seconds
MIN_SECONDS = 0.01
MAX_SIMULATIONS = 1_000_000  # of about 130 bytes each


def make_agent(
    player: str | Path = "best", *, seed: int | None = None, threads: int = 1, backend: str = "auto"
) -> Agent:
    """An agent that plays as ``player`` does, within the act timeout, on any board.

    Where the player cannot play, as a network on a board that is not its own, classic MCTS plays instead. Everything
    is loaded and compiled before this returns, so that the game's clock does not pay for it. Players that search no
    tree, such as "solver", know no clock: the solver may need seconds for an early position, and certificates for the
    first one that they may hold.

    Args:
        player: a specification such as "FILE.safetensors@600" or "uct:1000". A network without a number of simulations
            uses the act timeout; any other tree search at most that.
        seed: of its random choices.
        threads: cores to use; a batch of one position gains little from a second and stalls on a busy one.
        backend: of the network's inference; see `alphac4.compute.choose`.

    Raises:
        PlayerError: for an unknown player, a checkpoint that cannot be used, or a player that needs to know the moves
            so far, which Kaggle does not tell.
    """
    specification = str(player)
    network = find_network(specification)
    if network is not None and not network.limit:
        specification = specification.replace(network.written, f"{network.written}@{AS_LONG_AS_ALLOWED}s", 1)
    rng, geometry = np.random.default_rng(seed), common_geometry((specification,))
    compute = choose(backend=backend, threads=threads)
    parse = functools.partial(parse_player, specification, rng=rng, threads=threads, compute=compute, batch_size=1)
    first = parse(geometry=geometry)
    # Compile all that a move needs; a player that cannot do without the moves so far says so now.
    early = as_searching(first) is not None  # the solver may need minutes so early in the game: ask late in one
    position = Position(geometry=geometry).play(0) if early else _late_position(geometry)
    _timed_choice(first, dataclasses.replace(position, moves=None), MIN_SECONDS)

    @functools.cache
    def chooser(rows: int, columns: int, run_length: int) -> Callable[[list[int], int, float], int]:
        """Kaggle's board, the mark to move and seconds to a column."""
        try:
            board = make_geometry(rows, columns, run_length)
        except ValueError:  # too large for compiled bitboards, or a run that does not fit the board
            game = Game(rows, columns, run_length)
            searcher = Searcher(game, Rollouts(game, random.Random(int(rng.integers(2**63)))))
            return lambda cells, mark, seconds: searcher.choose(game.read(cells, mark), time.perf_counter() + seconds)
        try:
            own = first if board == geometry else parse(geometry=board)
        except PlayerError:
            own = UctPlayer(Budget(simulations=MAX_SIMULATIONS), rng, board)
        return lambda cells, mark, seconds: _timed_choice(own, Position.from_kaggle(cells, mark, board), seconds)

    def agent(obs: Any, config: Any) -> int:
        board = (entry(config, name) for name in ("rows", "columns", "inarow"))
        choose_column = chooser(*board)  # the clock starts once this is there
        seconds = max(SHARE_OF_TIME * entry(config, "actTimeout", 2.0), MIN_SECONDS)
        return choose_column(entry(obs, "board"), entry(obs, "mark"), seconds)

    return agent


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
