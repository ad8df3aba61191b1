"""OpenSpiel's MCTS bot as a player."""

from collections.abc import Sequence

import numpy as np

from alphac4.arena import PlayerError
from alphac4.game import Position
from alphac4.game.rules import STANDARD
from alphac4.machine import install_advice


class OpenSpielPlayer:
    """OpenSpiel's MCTS with random rollouts and proofs of outcomes."""

    def __init__(self, simulations: int, rng: np.random.Generator) -> None:
        try:
            import pyspiel
        except ImportError as error:
            raise PlayerError(f"openspiel needs the open_spiel package: {install_advice('openspiel')}") from error
        self.name = f"openspiel:{simulations}"
        self._game = pyspiel.load_game("connect_four")
        seed, rollout_seed = (int(number) for number in rng.integers(1, 2**31 - 1, 2))
        exploration, memory_mb, solve, verbose = 2.0, 1000, True, False
        rollouts = pyspiel.RandomRolloutEvaluator(1, rollout_seed)
        self._bot = pyspiel.MCTSBot(self._game, rollouts, exploration, simulations, memory_mb, solve, seed, verbose)

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """Return a 0-based column for each position, which must have its move string.

        Raises:
            PlayerError: for a position without its move string, or on another board.
        """
        moves = []
        for position in positions:
            if position.moves is None or position.board != STANDARD:
                raise PlayerError("openspiel supports only the standard board, and needs a position's move string")
            state = self._game.new_initial_state()
            for name in position.moves:
                state.apply_action(int(name) - 1)
            moves.append(int(self._bot.step(state)))
        return moves
