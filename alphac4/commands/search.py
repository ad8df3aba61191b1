"""`alphac4 search`: what a player sees in a position."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from alphac4.arena.specifications import common_geometry, parse_searching_player
from alphac4.commands.arguments import read_arguments
from alphac4.files import write_atomically
from alphac4.game import Position
from alphac4.game.rules import make_geometry
from alphac4.mcts.drawing import draw_tree
from alphac4.mcts.report import describe_search
from alphac4.outputs import check_output
from alphac4.ranges import MOST_SEED, check_ranges


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Search one position and show what the search saw: visits, mean value, prior and score of each move.

    Values are seen by the side to move, from -1 (lost) to 1 (won).
    """

    moves: Annotated[str, tyro.conf.Positional] = ""
    """The position as 1-based columns from the empty board, such as 4455."""
    player: str = "uct:10000"
    """Who searches: a checkpoint such as FILE.safetensors@600, or uct with its options."""
    svg: Path | None = None
    """Draw the tree to this file."""
    depth: int = 2
    """Plies of the tree to draw."""
    width: int = 3
    """Moves of each node to draw, the most visited ones."""
    seed: int = 0
    """Fixes the search."""
    rows: int = 6
    """Rows of the board; a checkpoint decides the board itself."""
    columns: int = 7
    """Columns of the board."""
    run_length: int = 4
    """Stones in a row that win."""
    diagonals: bool = True
    """Whether diagonal rows win."""

    def __post_init__(self) -> None:
        check_ranges(self, depth=(0, 64), width=(1, 64), seed=(0, MOST_SEED))


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(read_arguments(SearchOptions, arguments, "search"))


def run(options: SearchOptions) -> int:
    """Search, print, draw."""
    board = make_geometry(options.rows, options.columns, options.run_length, options.diagonals)
    geometry = common_geometry((options.player,), board)
    check_output(options.svg)
    position = Position.from_moves(options.moves, geometry)
    player = parse_searching_player(options.player, rng=np.random.default_rng(options.seed), geometry=geometry)
    result = player.search([position])
    print(f"{position}\n\n{'x' if position.first_to_move else 'o'} to move, {player.name}\n")
    print(describe_search(result))
    if options.svg is not None:
        write_atomically(options.svg, draw_tree(player, depth=options.depth, width=options.width).encode())
        print(f"\ntree drawn to {options.svg}", file=sys.stderr)
    return 0
