"""OpenSpiel's C++ MCTS as a player: an independent implementation to compare ours with."""

from collections.abc import Sequence

import numpy as np

from alphac4.arena.players import PlayerError
from alphac4.game import Position
from alphac4.game.rules import STANDARD


class OpenSpielPlayer:
    """OpenSpiel's MCTS with random rollouts, which proves outcomes as ours does."""

    def __init__(self, simulations: int, rng: np.random.Generator) -> None:
        try:
            import pyspiel
        except ImportError as error:
            raise PlayerError("openspiel needs the open_spiel package: pip install 'alphac4[openspiel]'") from error
        self.name = f"openspiel:{simulations}"
        self._game = pyspiel.load_game("connect_four")
        seed, rollout_seed = (int(number) for number in rng.integers(1, 2**31 - 1, 2))
        exploration, memory_mb, solve, verbose = 2.0, 1000, True, False
        rollouts = pyspiel.RandomRolloutEvaluator(1, rollout_seed)
        self._bot = pyspiel.MCTSBot(self._game, rollouts, exploration, simulations, memory_mb, solve, seed, verbose)

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `alphac4.arena.players.Player`; the positions need their move strings.

        Raises:
            PlayerError: for a position whose moves are not known, or on another board.
        """
        moves = []
        for position in positions:
            if position.moves is None or position.geometry != STANDARD:
                raise PlayerError("openspiel only plays positions of the standard board whose moves are known")
            state = self._game.new_initial_state()
            for name in position.moves:
                state.apply_action(int(name) - 1)
            moves.append(int(self._bot.step(state)))
        return moves
