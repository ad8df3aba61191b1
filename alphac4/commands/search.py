"""`alphac4 search`: what a player sees in a position."""

import sys

import numpy as np

from alphac4.arena.specifications import common_geometry, parse_searching_player
from alphac4.commands.options import SearchOptions
from alphac4.game import Position
from alphac4.game.rules import STANDARD
from alphac4.mcts.drawing import draw_tree
from alphac4.mcts.results import describe_search
from alphac4.storage.files import check_output, write_atomically


def run(options: SearchOptions) -> int:
    """Search, print, draw."""
    board = options.board.geometry()
    specification = options.player or ("best@600" if board == STANDARD else "uct:10000")
    geometry = common_geometry((specification,), board)
    check_output(options.svg)
    position = Position.from_moves(options.moves, geometry)
    player = parse_searching_player(specification, rng=np.random.default_rng(options.seed), geometry=geometry)
    if options.svg is not None and player.budget.simulations == 0:
        raise ValueError(f"{player.name} searches no tree that --svg could draw; give it simulations, such as best@600")
    result = player.search([position])
    print(f"{position}\n\n{'x' if position.first_to_move else 'o'} to move, {player.name}\n")
    print(describe_search(result))
    if options.svg is not None:
        write_atomically(options.svg, draw_tree(player, depth=options.depth, width=options.width).encode())
        print(f"\ntree drawn to {options.svg}", file=sys.stderr)
    return 0
