"""A bot for OpenSpiel's ``connect_four`` from any player.

Play a game against OpenSpiel's own bots::

    game = pyspiel.load_game("connect_four")
    ours = OpenSpielBot(parse_player("checkpoints/quick.safetensors@100", rng=np.random.default_rng(0)), player_id=0)
    pyspiel.evaluate_bots(game.new_initial_state(), [ours, pyspiel.make_uniform_random_bot(1, 0)], 0)

OpenSpiel's actions are 0-based columns, as here. The bot reads the moves from the state's history, not the observation
tensor. That tensor is [3, rows, columns], bottom row first: the stones of player 0, those of player 1, and the empty
cells, whereas the planes here begin with the side to move.
"""

from typing import Any

from alphac4.arena.players import Player, checked_moves
from alphac4.game import Position, make_board
from alphac4.machine import install_advice

try:
    import pyspiel
except ImportError as error:
    raise ImportError(f"OpenSpielBot needs the open_spiel package: {install_advice('openspiel')}") from error


class OpenSpielBot(pyspiel.Bot):  # type: ignore[misc] # its package has no types
    """Bot for player 0 or 1 of ``connect_four``, on any board that the player supports.

    It has no state between moves.
    """

    def __init__(self, player: Player, player_id: int) -> None:
        super().__init__()
        self._player = player
        self._player_id = player_id

    def player_id(self) -> int:
        return self._player_id

    def step(self, state: Any) -> int:
        """Return the action in ``state``.

        Raises:
            ValueError: if the game is over, the other player is to move, or the game is not ``connect_four``.
        """
        if state.current_player() != self._player_id:
            raise ValueError(f"player {self._player_id} is not to move in this state")
        return checked_moves(self._player, [position_from_state(state)])[0]

    def restart_at(self, state: Any) -> None:
        """Do nothing, because the bot has no state."""


def position_from_state(state: Any) -> Position:
    """Convert an OpenSpiel state to a position with its moves.

    Raises:
        ValueError: for another game, or a board that does not fit in 64 bits.
    """
    game = state.get_game()
    name = game.get_type().short_name
    if name != "connect_four":
        raise ValueError(f"OpenSpielBot plays connect_four, not {name}")
    parameters = game.get_parameters()  # empty in older versions, which have only the standard board
    board = make_board(parameters.get("rows", 6), parameters.get("columns", 7), parameters.get("x_in_row", 4))
    position = Position(board=board)
    for action in state.history():
        position = position.play(action)
    return position
