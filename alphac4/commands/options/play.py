"""Options of the commands that play."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal

import tyro

from alphac4.arena.forms import check_players
from alphac4.commands.arguments import Board
from alphac4.play.levels import LEVELS, find_level
from alphac4.storage.records import MAX_SEED, MAX_SIMULATIONS, BoardConfig, check_ranges

HUMAN = "human"
NOBODY = "none"  # whose opinion a review can do without
MAX_PORT = 65_535
WAYS = {"puzzle": ("puzzle_file", "difficulty", "seed"), "web": ("network", "host", "port", "token", "names", "open")}
"""What else than a game in the terminal `play` can begin, and the options of each."""
_LEVELS = "\n".join(f"      {number} {level.name:<10} {level.about}" for number, level in enumerate(LEVELS, start=1))
IN_TERMINAL = ("network", "seed")  # of these, those that such a game has too


@dataclass(frozen=True, kw_only=True)
class PlayOptions:
    """Play a game: against the network, another player, or another person; or watch two players.

    Players are written by a level's name, or as `alphac4 players` lists them. The levels:
    """

    first: str = HUMAN
    """Who moves first: human, a level's name, or any player."""
    second: str = ""
    """Who moves second; by default the network at the level, or you where --first is another player."""
    level: str = "1"
    """Strength of the network where no player is named: 1 to 8, or a name; the first can be beaten."""
    network: str = "best"
    """The network of the levels and the analysis: best, fast, or a checkpoint's file."""
    moves: str = ""
    """Begin after these moves, such as 4455; or a file that the command save wrote."""
    analysis: bool = False
    """Show what the network thinks after each move."""
    simulations: int = 800
    """Simulations of an analysis or a hint."""
    exact: bool = False
    """Show the solver's verdict after each move; early positions take it seconds."""
    seed: int | None = None
    """Seed of the players' random choices."""
    puzzle: bool = False
    """Solve puzzles instead: positions where one move alone wins."""
    puzzle_file: Path | None = None
    """With --puzzle: a file that `alphac4 puzzles` wrote, instead of the puzzles that come with the package."""
    difficulty: int = 0
    """With --puzzle: 1 to 5, by how much search it takes to find the move; 0 for all, the easiest first. Of one
    difficulty the nearest wins come first."""
    web: bool = False
    """Play in the browser instead: serves a page with the network of --network until Ctrl-C."""
    host: str = "127.0.0.1"
    """With --web: the address to listen on; the default is this machine only."""
    port: int = 8000
    """With --web: the port; 0 takes a free one."""
    token: Literal["auto", "always", "never"] = "auto"
    """With --web: whether the link carries a secret word without which the server does nothing; auto: where --host
    lets others on the network connect."""
    names: tuple[str, ...] = ()
    """With --web: further names under which the server is reached, such as that of a proxy before it."""
    open: bool = True
    """With --web: open the page in the browser, if it was started at a terminal of this machine's desktop."""
    board: Board = field(default_factory=BoardConfig)
    """The board."""

    def __post_init__(self) -> None:
        check_ranges(
            self,
            simulations=(1, MAX_SIMULATIONS),
            seed=(0, MAX_SEED),
            difficulty=(0, 5),
            port=(0, MAX_PORT),
        )

    def check(self) -> None:
        """Refuse players and levels that there are not, and options that would have no effect.

        Raises:
            ValueError: naming the first of them.
        """
        find_level(self.level)
        check_players(self.first, self.second, others=(HUMAN, *(level.name for level in LEVELS)))
        plain = PlayOptions()
        given = [item.name for item in fields(self) if getattr(self, item.name) != getattr(plain, item.name)]
        way = next((name for name in WAYS if name in given), None)
        if "level" in given and (self.second or self.first != HUMAN):
            raise ValueError("--level has no effect where both sides are named: leave --second out")
        for name in given:
            unlike = {"board": "another board", "open": "--no-open"}
            shown = unlike.get(name, f"--{name.replace('_', '-')}")
            if way is not None and name not in (way, *WAYS[way]):
                raise ValueError(f"{shown} has no effect with --{way}: leave one of them out")
            needed = next((other for other, own in WAYS.items() if name in own), None)
            if way is None and needed is not None and name not in IN_TERMINAL:
                raise ValueError(f"{shown} needs --{needed}")


PlayOptions.__doc__ = f"{(PlayOptions.__doc__ or '').rstrip()}\n{_LEVELS}"


@dataclass(frozen=True, kw_only=True)
class ReviewOptions:
    """Review games: judge every move by the exact solver, and show what a network thought of each position.

    The solver takes some minutes for a long game's opening, seconds for the rest; --seconds limits it, from the end of
    the game backwards.
    """

    game: Annotated[str, tyro.conf.Positional] = ""
    """The game as 1-based columns from the empty board, such as 4455; or a file of games, one a line; or - for games on
    the standard input."""
    html: Path | None = None
    """Write a page to this file, to be opened in a browser; it needs nothing else."""
    json: bool = False
    """Print JSON: an object a line and game."""
    player: str = ""
    """Whose opinion to show: a network such as best@200, uct with its options, or none; by default best@200, and none
    on a board that no network comes with the package for."""
    seconds: float = 120.0
    """Longest time for the solver to judge a game."""
    seed: int = 0
    """Fixes the player's search."""
    board: Board = field(default_factory=BoardConfig)
    """The board."""

    def __post_init__(self) -> None:
        check_ranges(self, seconds=(0, 1e9), seed=(0, 2**63 - 1))


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
    board: Board = field(default_factory=BoardConfig)
    """The board."""

    def __post_init__(self) -> None:
        check_ranges(self, depth=(0, 64), branches=(1, 64), seed=(0, MAX_SEED))


@dataclass(frozen=True, kw_only=True)
class SolveOptions:
    """Score positions exactly, for the side to move.

    A positive score is a win, the higher the faster: the stones that the winner still holds before its last move. A
    negative score is the same for the opponent, and 0 is a draw.
    """

    moves: Annotated[str, tyro.conf.Positional] = ""
    """The position as 1-based columns from the empty board, such as 4455."""
    batch: bool = False
    """Read a move string from each line of the standard input; write it with its score."""
    column_scores: bool = False
    """With --batch: write a score for each column's move ('.' where it is full) instead of the position's."""
    weak: bool = False
    """Give only win (1), draw (0) and loss (-1), which is faster."""
    book: bool = True
    """Whether to use the opening book of the package."""
    table_bits: int = 22
    """Memory for proven bounds: 8 bytes times 2 to this power."""
    board: Board = field(default_factory=BoardConfig)
    """The board."""

    def __post_init__(self) -> None:
        check_ranges(self, table_bits=(10, 34))


@dataclass(frozen=True, kw_only=True)
class PuzzlesOptions:
    """Make puzzles: positions where one move alone wins, and where a network is tempted by another.

    Networks play games that are partly left to chance; the exact solver finds the positions with a single winning move;
    how much search it takes to find that move is the difficulty. `alphac4 play --puzzle --puzzle-file FILE` sets them.
    """

    output: Path = Path("puzzles.txt")
    """The file to write, a new one. It is written after every round of games, so that Ctrl-C leaves what has been
    found."""
    count: int = 500
    """How many puzzles to make."""
    max_of_a_difficulty: int = 0
    """How many puzzles may have the same difficulty; 0 for as many as are found."""
    seed: int = 0
    """Fixes the puzzles on one machine."""

    def __post_init__(self) -> None:
        check_ranges(self, count=(1, 1_000_000), max_of_a_difficulty=(0, 1_000_000), seed=(0, MAX_SEED))


@dataclass(frozen=True, kw_only=True)
class PlayersOptions:
    """List the players, as every command takes them: arena, evaluate, play, search, review, engine, prove, puzzles."""
