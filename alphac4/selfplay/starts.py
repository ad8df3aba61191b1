"""Where games of self-play start: the empty board, random openings, or a move beside the game before."""

import numpy as np

from alphac4.compiled import compiled, inlined
from alphac4.game.rules import U64_0, column_cells, has_run, legal_cells, play
from alphac4.mcts import random_state
from alphac4.mcts.tree import Trees, reset_tree
from alphac4.selfplay.game_arrays import NEW_MOVE, Games, SelfPlayParameters

FORK_FLOOR = 0.05  # of a disagreement's weight: the least that a ply counts when forks are drawn


@inlined
def random_column(trees: Trees, t: int, occupied: np.uint64) -> int:
    """A random column that is not full. There must be one."""
    geometry = trees.geometry
    legal = legal_cells(geometry, occupied)
    column = random_state.below(trees.rng, t, geometry.columns)
    while legal & column_cells(geometry, column) == U64_0:
        column = random_state.below(trees.rng, t, geometry.columns)
    return column


@inlined
def disagreement(games: Games, t: int, ply: int) -> float:
    """How far the search's value at a ply of slot ``t``'s previous game was from its outcome, in [0, 1].

    A little everywhere, so that no ply is left out; nothing more where the game had an opening instead of searches.
    """
    if ply < games.opening[t]:
        return FORK_FLOOR
    side = 1 if ply % 2 == 0 else -1
    wrong = abs(float(games.value[t, ply]) * side - float(games.outcome[t]))
    return FORK_FLOOR + (1.0 - FORK_FLOOR) * 0.5 * wrong


@compiled
def fork_ply(trees: Trees, games: Games, t: int, within: int, parameters: SelfPlayParameters) -> int:
    """The ply, below ``within``, at which to leave the previous game."""
    if not parameters.fork_by_regret:
        return np.int64(random_state.below(trees.rng, t, within))  # type: ignore[return-value]
    total = 0.0
    for ply in range(within):
        total += disagreement(games, t, ply)
    chosen = random_state.uniform(trees.rng, t) * total
    for ply in range(within):
        chosen -= disagreement(games, t, ply)
        if chosen < 0.0:
            return np.int64(ply)  # type: ignore[return-value]
    return np.int64(within - 1)  # type: ignore[return-value]


@compiled
def fork_game(trees: Trees, games: Games, t: int, parameters: SelfPlayParameters) -> bool:
    """Perhaps leave slot ``t``'s previous game by a random move; False if the next game is to start otherwise."""
    if random_state.uniform(trees.rng, t) >= parameters.fork_share:
        return False
    within = min(games.plies[t], parameters.fork_plies)
    if within == 0:  # no game has been played here
        return False
    geometry = trees.geometry
    left = fork_ply(trees, games, t, within, parameters)
    own, occupied = U64_0, U64_0
    for ply in range(left):
        own, occupied = play(geometry, own, occupied, games.moves[t, ply])
    column = random_column(trees, t, occupied)
    own, occupied = play(geometry, own, occupied, column)
    if has_run(geometry, own ^ occupied) or occupied == geometry.board:
        return False
    games.moves[t, left] = column
    games.plies[t] = left + 1
    games.opening[t] = left + 1
    games.stage[t] = NEW_MOVE
    reset_tree(trees, t, own, occupied)
    return True


@compiled
def play_opening(trees: Trees, games: Games, t: int, parameters: SelfPlayParameters) -> None:
    """Start a game in slot ``t``: from the empty board, after random moves, or by leaving the game played before."""
    if parameters.fork_share > 0.0 and fork_game(trees, games, t, parameters):
        return
    geometry = trees.geometry
    while True:
        wanted = 0
        if random_state.uniform(trees.rng, t) < parameters.opening_share:
            wanted = random_state.below(trees.rng, t, parameters.opening_plies + 1)
        own, occupied = U64_0, U64_0
        games.plies[t] = 0
        over = False
        for ply in range(wanted):
            if legal_cells(geometry, occupied) == U64_0:
                over = True
                break
            column = random_column(trees, t, occupied)
            games.moves[t, ply] = column
            own, occupied = play(geometry, own, occupied, column)
            games.plies[t] = ply + 1
            if has_run(geometry, own ^ occupied):
                over = True
                break
        if not over and occupied != geometry.board:
            break
    games.opening[t] = games.plies[t]
    games.stage[t] = NEW_MOVE
    reset_tree(trees, t, own, occupied)
