"""`alphac4 search`: what a player sees in a position."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from alphac4.arena.specifications import common_geometry, parse_searching_player
from alphac4.commands.arguments import Board, BoardOptions, read_arguments
from alphac4.game import Position
from alphac4.game.rules import STANDARD
from alphac4.mcts.drawing import draw_tree
from alphac4.mcts.results import describe_search
from alphac4.storage.files import check_output, write_atomically
from alphac4.storage.records import MOST_SEED, check_ranges


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Search one position and show what the search saw: visits, mean value, prior and score of each move.

    Values are seen by the side to move, from -1 (lost) to 1 (won).
    """

    moves: Annotated[str, tyro.conf.Positional] = ""
    """The position as 1-based columns from the empty board, such as 4455."""
    player: str = ""
    """Who searches: a network such as best@600 or FILE.safetensors@600, or uct with its options; by default best@600,
    and uct:10000 on a board that no network comes with the package for."""
    svg: Path | None = None
    """Draw the tree to this file."""
    depth: int = 2
    """Plies of the tree to draw."""
    branches: Annotated[int, tyro.conf.arg(aliases=["--width"])] = 3
    """Moves of each node to draw, the most visited ones."""
    seed: int = 0
    """Seed of the search."""
    board: Board = field(default_factory=BoardOptions)
    """The board."""

    def __post_init__(self) -> None:
        check_ranges(self, depth=(0, 64), branches=(1, 64), seed=(0, MOST_SEED))


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(read_arguments(SearchOptions, arguments, "search"))


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
        write_atomically(options.svg, draw_tree(player, depth=options.depth, width=options.branches).encode())
        print(f"\ntree drawn to {options.svg}", file=sys.stderr)
    return 0
