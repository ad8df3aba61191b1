"""`alphac4 review`, and reviews in a game in the terminal."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from alphac4.commands.arguments import NO_PREFIX, OutputFile, PlayerCheck, loading, metavar
from alphac4.storage.files import check_output, write_atomically
from alphac4.storage.records import BoardConfig, CheckedSettings, Range, Seed
from alphac4.storage.text import read_stdin_lines

if TYPE_CHECKING:
    from alphac4.arena.players import SearchingPlayer
    from alphac4.game import Board
    from alphac4.play.games import Session
    from alphac4.play.screen import Screen
    from alphac4.plugins.review.game import Review

NO_PLAYER = "none"  # no player's evaluation is shown
REVIEWER = "best@200"  # default on the standard board


@dataclass(frozen=True, kw_only=True)
class ReviewCommand(CheckedSettings):
    """Review games: judge every move by the exact solver, and show a network's evaluation of each position.

        alphac4 review 444352
        alphac4 review games.txt --html review.html --seconds 600

    The solver takes minutes for the opening of a long game and seconds for the rest. It works from the end of the game
    backwards. If --seconds run out, earlier moves are not judged, except those in the opening book.
    """

    game: Annotated[tuple[str, ...], tyro.conf.Positional, metavar("GAME")] = ()
    """The game as 1-based columns from the empty board, such as 4455; or a file with a game per line; or - to read
    games from the standard input."""
    html: OutputFile = None
    """Write a self-contained web page to this file, whose name ends in .html."""
    overwrite: bool = False
    """Replace an existing file."""
    json: bool = False
    """Print JSON instead of text: one object per game, each on its own line."""
    player: Annotated[str, metavar("PLAYER"), PlayerCheck(others=(NO_PLAYER,))] = ""
    """Player whose evaluation is shown: a network such as best@200, classic MCTS such as uct:10000, or none. Default:
    best@200 on the standard board, none on others."""
    seconds: Annotated[float, Range(0, 1e9), metavar("SECONDS")] = 120.0
    """Time limit of the solver for judging the moves of a game. Finding better moves may take half as long again."""
    seed: Seed = 0
    """Seed of the player's search."""
    board: Annotated[BoardConfig, NO_PREFIX] = field(default_factory=BoardConfig)

    def __call__(self) -> int:
        """Review each game; print the reviews or write the page."""
        with loading():
            import numpy as np

            from alphac4.arena.registry import common_board, parse_searching_player
            from alphac4.game.rules import STANDARD
            from alphac4.play.games import read_games
            from alphac4.play.screen import Screen
            from alphac4.plugins.review.text import describe_review

        requested = self.board.make()
        specification = self.player or (REVIEWER if requested == STANDARD else NO_PLAYER)
        board = requested if specification == NO_PLAYER else common_board((specification,), requested)
        check_output(self.html, ".html", overwrite=self.overwrite)
        games = read_games(" ".join(self.game), read_stdin_lines(), board)
        player, screen = None, Screen(sys.stdout)
        if specification != NO_PLAYER:
            player = parse_searching_player(specification, rng=np.random.default_rng(self.seed), board=board)
        reviews: list[Review] = []

        def show(review: "Review") -> None:
            screen.line(("" if review is reviews[0] else "\n") + describe_review(review, screen))

        try:
            for number, moves in enumerate(games, start=1):
                which = f"game {number} of {len(games)}, " if len(games) > 1 else ""
                reviews.append(review_with_progress(moves, board, player, self.seconds, which))
                if self.json:
                    print(json.dumps(reviews[-1].to_dict()), flush=True)
                elif self.html is None:
                    show(reviews[-1])
        finally:  # Ctrl-C keeps the finished reviews
            if self.html is not None and reviews:
                try:
                    self._write_page(self.html, reviews)
                except (OSError, ValueError):
                    if not self.json:
                        for review in reviews:
                            show(review)
                    raise
        return 0

    def _write_page(self, path: Path, reviews: "list[Review]") -> None:
        from alphac4.plugins.review.html import review_page

        write_atomically(path, review_page(reviews).encode())
        print(f"{'review' if len(reviews) == 1 else f'{len(reviews)} reviews'} written to {path}", file=sys.stderr)


def review_with_progress(
    moves: str,
    board: "Board",
    player: "SearchingPlayer | None",
    seconds: float = ReviewCommand.seconds,
    which: str = "",
) -> "Review":
    """Review a game with a progress line on a terminal; ``which`` is the line's prefix."""
    from alphac4.play.screen import SolvingProgress
    from alphac4.plugins.review.game import review_game
    from alphac4.solver.solver import shared_solver

    with SolvingProgress(shared_solver(board), f"{which}position {len(moves)} of {len(moves)}") as progress:

        def on_step(done: int, total: int, _review: "Review") -> None:
            is_judging = 2 * done < total
            position = f"judging position {total // 2 - done} of {total // 2}"
            step = position if is_judging else "searching for better moves"
            progress.label(f"{which}{step}")

        return review_game(moves, board, player=player, seconds=seconds, on_poll=progress, on_step=on_step)


def review_session(session: "Session", screen: "Screen") -> None:
    """Review the game in a terminal."""
    import numpy as np

    from alphac4.arena.registry import parse_searching_player
    from alphac4.game import STANDARD
    from alphac4.plugins.review.text import describe_review

    if not session.moves:
        raise ValueError("there is no move to review yet")
    board, rng = session.board, np.random.default_rng(ReviewCommand.seed)
    player = parse_searching_player(REVIEWER, rng=rng) if board == STANDARD else None
    screen.line(describe_review(review_with_progress(session.moves, board, player), screen))
