"""`alphac4 review`: every move of a game, judged by the exact solver beside what a network thought."""

import json
import sys

import numpy as np

from alphac4.arena.players import SearchingPlayer
from alphac4.arena.specifications import common_geometry, parse_searching_player
from alphac4.commands.options import NOBODY, ReviewOptions
from alphac4.game import Geometry
from alphac4.game.rules import STANDARD
from alphac4.play.games import read_games
from alphac4.play.review_text import describe_review
from alphac4.play.screen import Screen, SolvingProgress
from alphac4.review import DEFAULT_SECONDS, Review, review_game
from alphac4.solver.solver import shared_solver
from alphac4.storage.files import check_output, write_atomically
from alphac4.storage.text import read_stdin_lines

REVIEWER = "best@200"  # on the standard board, unless another is asked for


def run(options: ReviewOptions) -> int:
    """Review each game, and print or write what was found."""
    board = options.board.geometry()
    specification = options.player or (REVIEWER if board == STANDARD else NOBODY)
    geometry = board if specification == NOBODY else common_geometry((specification,), board)
    check_output(options.html)
    games = read_games(options.game, read_stdin_lines(), geometry)
    player, screen = None, Screen(sys.stdout)
    if specification != NOBODY:
        player = parse_searching_player(specification, rng=np.random.default_rng(options.seed), geometry=geometry)
    reviews = []
    for number, moves in enumerate(games, start=1):
        which = f"game {number} of {len(games)}, " if len(games) > 1 else ""
        reviews.append(review_with_progress(moves, geometry, player, options.seconds, which))
        if options.json:
            print(json.dumps(reviews[-1].to_dict()), flush=True)
        elif options.html is None:
            print(("\n" if number > 1 else "") + describe_review(reviews[-1], screen), flush=True)
    if options.html is not None:
        from alphac4.play.web.pages import review_page  # with all that it takes to export a page

        write_atomically(options.html, review_page(reviews).encode())
        print(f"review written to {options.html}", file=sys.stderr)
    return 0


def review_with_progress(
    moves: str, geometry: Geometry, player: SearchingPlayer | None, seconds: float = DEFAULT_SECONDS, which: str = ""
) -> Review:
    """`review_game`, telling a person at a terminal how far it is; ``which`` names the game there."""
    with SolvingProgress(shared_solver(geometry), f"{which}move {len(moves)} of {len(moves)}") as progress:

        def on_move(done: int, count: int) -> None:
            move = f"judging move {count - done} of {count}" if done < count else "looking for better moves"
            progress.label(f"{which}{move}")

        return review_game(moves, geometry, player=player, seconds=seconds, on_pause=progress, on_move=on_move)
