"""`alphac4 search`: what a player sees in a position."""

import dataclasses
import json
import sys

import numpy as np

from alphac4.arena.specifications import common_geometry, parse_searching_player
from alphac4.commands.options import SearchOptions
from alphac4.game import Position, column_name
from alphac4.game.rules import STANDARD
from alphac4.mcts.drawing import draw_tree
from alphac4.mcts.results import SearchResult, describe_columns, describe_search
from alphac4.play.screen import Screen
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
    if options.json:
        print(json.dumps(_as_data(position, player.name, result)))
    else:
        screen = Screen(sys.stdout)
        screen.board(position)
        print(f"\n{screen.side(0 if position.first_to_move else 1)} to move, {player.name}\n")
        print(describe_search(result))
    if options.svg is not None:
        write_atomically(options.svg, draw_tree(player, depth=options.depth, width=options.width).encode())
        print(f"\ntree drawn to {options.svg}", file=sys.stderr)
    return 0


def _as_data(position: Position, player: str, result: SearchResult) -> dict[str, object]:
    """Plain values for JSON, for the side to move; columns in notation, such as "4"."""
    columns = {column_name(found.column): dataclasses.asdict(found) for found in describe_columns(result, 0)}
    for found in columns.values():
        del found["column"]
    return {
        "moves": position.moves,
        "player": player,
        "move": column_name(int(result.moves[0])),
        "value": float(result.value[0]),
        **dict(zip(("win", "draw", "loss"), map(float, result.wdl[0]), strict=True)),
        "line": list(map(column_name, result.variations[0])),
        "simulations": int(result.simulations[0]),
        "seconds": result.seconds,
        "columns": columns,
    }
