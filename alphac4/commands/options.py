"""The options of the commands, apart from what the commands do, so that nothing else is loaded to explain them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from alphac4.arena.syntax import check_network, check_players
from alphac4.commands.arguments import Board, Device, Place, Placed, read_arguments
from alphac4.play.levels import LEVELS, LEVELS_BY_NAME
from alphac4.storage.records import MAX_NUMBER, MAX_SEED, MAX_SIMULATIONS, BoardConfig, check_ranges

HUMAN = "human"
NOBODY = "none"  # whose opinion a review can do without
MAX_ELO = 2000  # of an advantage that a sequential test asks about: beyond about 6,000 a score rounds to 1
_LEVELS = "\n".join(f"      {number} {level.name:<10} {level.about}" for number, level in enumerate(LEVELS, start=1))


@dataclass(frozen=True, kw_only=True)
class PlayOptions:
    """Play a game in the terminal: against the network, another player, or another person; or watch two players.

    `alphac4 play web` opens a page in the browser instead, and `alphac4 play puzzles` sets puzzles.

    A player is human, one of the levels below, or one that `alphac4 players` lists:
    """

    players: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Your opponent, by default level 1, which can be beaten; or both players, the one with the first move first."""
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
    board: Board = field(default_factory=BoardConfig)

    def __post_init__(self) -> None:
        check_ranges(self, simulations=(1, MAX_SIMULATIONS), seed=(0, MAX_SEED))
        check_network(self.network)
        check_players(*self.players, others=(HUMAN, *LEVELS_BY_NAME, "web", "puzzles"))
        if len(self.players) > 2 or {"web", "puzzles"} & set(self.players):
            raise ValueError(f"name one opponent or two players, not {' '.join(self.players)}")


PlayOptions.__doc__ = f"{(PlayOptions.__doc__ or '').rstrip()}\n\n{_LEVELS}"


@dataclass(frozen=True, kw_only=True)
class PlayWebOptions:
    """Play in the browser: serve a page to play on, analyse and solve puzzles, until Ctrl-C."""

    network: str = "best"
    """The network of the levels and the analysis: best, fast, or a checkpoint's file."""
    host: str = "127.0.0.1"
    """The address to listen on; the default is this machine only."""
    port: int = 8000
    """The port; 0 takes a free one."""
    token: Literal["auto", "always", "never"] = "auto"
    """Whether the link carries a secret word without which the server does nothing; auto: where --host lets others on
    the network connect."""
    names: tuple[str, ...] = ()
    """Further names under which the server is reached, such as that of a proxy before it."""
    open: bool = True
    """Open the page in the browser, if it was started at a terminal of this machine's desktop."""

    def __post_init__(self) -> None:
        check_ranges(self, port=(0, 65_535))
        check_network(self.network)


@dataclass(frozen=True, kw_only=True)
class PlayPuzzlesOptions:
    """Solve puzzles: positions where one move alone wins. The easier ones come first, and of these the nearer wins."""

    file: Annotated[Path | None, tyro.conf.Positional] = None
    """A file that `alphac4 puzzles` wrote, instead of the puzzles that come with the package."""
    difficulty: int = 0
    """1 to 5, by how much search it takes to find the move; 0 for all."""
    seed: int | None = None
    """Fixes the order of the puzzles."""

    def __post_init__(self) -> None:
        check_ranges(self, difficulty=(0, 5), seed=(0, MAX_SEED))


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
    """Print the review as JSON instead of text: one object per game, each on a line."""
    player: str = ""
    """Player whose opinion is shown: a network such as best@200, uct with its options, or none; by default best@200,
    and none on a board that no network comes with the package for."""
    seconds: float = 120.0
    """Longest time for the solver to judge a game."""
    seed: int = 0
    """Fixes the player's search."""
    board: Board = field(default_factory=BoardConfig)

    def __post_init__(self) -> None:
        check_ranges(self, seconds=(0, 1e9), seed=(0, MAX_SEED))


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Search one position and show what the search saw: visits, mean value, prior and score of each move.

    Values are seen by the side to move, from -1 (lost) to 1 (won).
    """

    moves: Annotated[str, tyro.conf.Positional] = ""
    """The position as 1-based columns from the empty board, such as 4455."""
    player: str = ""
    """Player that searches: a network such as best@600 or FILE.safetensors@600, or uct with its options; by default
    best@600, and uct:10000 on a board that no network comes with the package for."""
    json: bool = False
    """Print the result as JSON instead of a table."""
    svg: Path | None = None
    """Draw the tree to this file."""
    depth: int = 2
    """Plies of the tree to draw."""
    width: int = 3
    """Moves of each node to draw, the most visited ones."""
    seed: int = 0
    """Seed of the search."""
    board: Board = field(default_factory=BoardConfig)

    def __post_init__(self) -> None:
        check_ranges(self, depth=(0, 64), width=(1, 64), seed=(0, MAX_SEED))


@dataclass(frozen=True, kw_only=True)
class SolveOptions:
    """Score positions exactly, for the side to move.

    A positive score is a win, the higher the faster: the stones that the winner still holds before its last move. A
    negative score is the same for the opponent, and 0 is a draw.
    """

    moves: Annotated[str, tyro.conf.Positional] = ""
    """The position as 1-based columns from the empty board, such as 4455."""
    batch: bool = False
    """Read a position from each line of the standard input, and write its moves and its score.

    A line has the moves in one word, then nothing, a known score, or one for each column. Other scores than those found
    and games that are over are errors."""
    column_scores: bool = False
    """With --batch: write a score for each column's move ('.' where it is full) instead of the position's."""
    weak: bool = False
    """Give only win (1), draw (0) and loss (-1), which is faster."""
    json: bool = False
    """Print the result as JSON instead of a table; with --batch, one object per line."""
    book: bool = True
    """Whether to use the opening book of the package."""
    table_bits: int = 22
    """Memory for proven bounds: 8 bytes times 2 to this power."""
    board: Board = field(default_factory=BoardConfig)

    def __post_init__(self) -> None:
        check_ranges(self, table_bits=(10, 34))


@dataclass(frozen=True, kw_only=True)
class PuzzlesOptions:
    """Make puzzles: positions where one move alone wins, and where a network is tempted by another.

    Networks play games that are partly left to chance; the exact solver finds the positions with a single winning move;
    how much search it takes to find that move is the difficulty. `alphac4 play puzzles FILE` sets them.
    """

    output: Path = Path("puzzles.txt")
    """The file to write, a new one. It is written after every round of games, so that Ctrl-C leaves what has been
    found."""
    count: int = 500
    """Number of puzzles to make."""
    max_of_a_difficulty: int = 0
    """Most puzzles of one difficulty; 0 for as many as are found."""
    seed: int = 0
    """Fixes the puzzles on one machine."""

    def __post_init__(self) -> None:
        check_ranges(self, count=(1, 1_000_000), max_of_a_difficulty=(0, 1_000_000), seed=(0, MAX_SEED))


@dataclass(frozen=True, kw_only=True)
class PlayersOptions:
    """List the players, as play, search, review, arena, evaluate, prove, certificate and engine take them."""


@dataclass(frozen=True, kw_only=True)
class ArenaOptions:
    """Play a round robin and rate the players.

    Games are colour-swapped pairs from a common set of openings.
    """

    players: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Two or more of the players that `alphac4 players` lists; with one, the shipped network is its opponent."""
    games: int = 100
    """Games in each pairing, an even number; with --sprt, the most there may be."""
    seed: int = 0
    """Seed of openings and players; games between players limited by time still differ from run to run."""
    output: Path | None = None
    """A file of JSON lines for results and games; if it holds some of this tournament already, it goes on."""
    processes: int | None = None
    """Processes that play; by default one a core."""
    sprt: tuple[float, float] | None = None
    """ELO0 ELO1: end each pairing once a sequential test tells whether the first is ELO1 or only ELO0 stronger."""
    board: Board = field(default_factory=BoardConfig)
    place: Placed = field(default_factory=Place)
    json: bool = False
    """Print the result as JSON instead of a table."""

    def __post_init__(self) -> None:
        check_ranges(self, games=(2, 1_000_000), seed=(0, MAX_SEED), processes=(1, 1024), sprt=(-MAX_ELO, MAX_ELO))
        if self.games % 2:
            raise ValueError(
                f"--games must be an even number, not {self.games}: every opening is played with both colours"
            )
        if self.place.cluster is not None and self.processes is not None:
            raise ValueError("--processes are those of this machine; on a cluster there is one a core")
        if self.sprt is not None and self.sprt[0] >= self.sprt[1]:
            raise ValueError(f"--sprt needs ELO0 below ELO1, not {self.sprt[0]:g} and {self.sprt[1]:g}")


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """Measure a network, or any player, against exact play.

    A move is a mistake if its outcome (win, draw or loss) is worse than the best move's. The package brings six sets of
    positions with exact scores, by the stage of the game and by how far its end is.
    """

    player: Annotated[str, tyro.conf.Positional] = "best"
    """A checkpoint (FILE.safetensors, best or fast), which is measured with every budget, or any other of the players
    that `alphac4 players` lists."""
    simulations: tuple[str, ...] = ("0", "1", "32", "100", "600", "1600")
    """Simulations per position, for networks, such as 0 100 or 0,100; each is measured. 0 is the raw network, without
    any look ahead."""
    positions: tuple[Path, ...] = ()
    """Files to take instead of the package's six sets: lines with moves, then a score for each column."""
    count: int | None = None
    """Only the first N positions of each set."""
    reference: tuple[str, ...] = ()
    """Other players to measure beside it."""
    twin: bool = True
    """Measure a checkpoint's untrained twin as well, for comparison; it takes as long as the checkpoint."""
    json: bool = False
    """Print the report as JSON instead of the tables."""
    picture: Path | None = None
    """A file for the report as a picture, such as strength.png."""
    seed: int = 0
    """Seed of searches and the untrained network."""
    place: Placed = field(default_factory=Place)

    def __post_init__(self) -> None:
        check_ranges(self, count=(1, MAX_NUMBER), seed=(0, MAX_SEED))


@dataclass(frozen=True, kw_only=True)
class ProveOptions:
    """Judge every move that a player makes against any opponent, by the exact solver.

    A move is a mistake if it gives away a win, or a draw in a position that is not won. If there is none and every line
    is followed to its end, this proves that the player makes none. A line ends early once the player's own search has
    proven that it wins: it plays on from that tree. The number of positions grows about threefold with every two plies,
    so begin with --plies 10.
    """

    player: Annotated[str, tyro.conf.Positional] = "best@600"
    """Any player that `alphac4 players` lists; of one that plays at random, this judges only the moves it makes."""
    side: Literal["first", "second"] = "first"
    """Whether the player has the first move of the game or the second."""
    start: str = ""
    """Moves from which the games begin, such as 44."""
    plies: int | None = None
    """Look no further than positions with so many stones; by default to the end of every game."""
    beyond_mistakes: bool = False
    """Continue after a mistake, so that players can be compared by their share of mistakes."""
    record: Path | None = None
    """A file for the player's move in each position. If interrupted, rerun the command to resume."""
    seed: int = 0
    """Seed of a player that plays at random."""
    place: Placed = field(default_factory=Place)

    def __post_init__(self) -> None:
        check_ranges(self, plies=(0, 64), seed=(0, MAX_SEED))


@dataclass(frozen=True, kw_only=True)
class CertificateOptions:
    """Make or check a certificate: a player's move in every position that any opponent can bring about.

    It claims that the first or the second player wins, or at least draws, from the empty board or after some moves:

        alphac4 certificate build --side second --after 1 --record runs/after-1

    The task `build` walks every reply to a player. Where a line is not won, it takes the player's last move back and
    asks again, then the one before, until every line is won, and writes the file. Answers are stored in a folder: if
    interrupted, rerun the command to resume.

    The task `verify` checks a file by the rules only; `scripts/verify_certificate.py` does the same in plain Python,
    without this package. All options but the file are for `build`.
    """

    task: Annotated[Literal["build", "verify"], tyro.conf.Positional]
    """The task: to build a certificate, or to verify one."""
    file: Annotated[Path | None, tyro.conf.Positional] = None
    """The certificate; by default all that come with the project (verify), or RECORD/best.certificate (build)."""
    player: str = "best@auto"
    """Player whose moves they are: a network and its limit."""
    side: Literal["first", "second"] = "first"
    """Whether the player has the first move of the game or the second."""
    after: str = ""
    """Moves after which it plays, such as 44."""
    result: Literal["win", "draw"] = "win"
    """Result that the player reaches at least."""
    record: Path = Path("runs/certificate")
    """A folder for the answers so far."""
    stones: int = 64
    """Look no further than positions with so many stones; then no certificate is written."""
    seed: int = 0
    """Seed of a player that plays at random."""
    device: Device = "auto"
    """Device that runs the network."""
    backend: str = "auto"
    """Inference backend; auto takes the fastest here."""

    def __post_init__(self) -> None:
        check_ranges(self, stones=(0, 64), seed=(0, MAX_SEED))


@dataclass(frozen=True, kw_only=True)
class PositionsOptions:
    """Make sets of positions with the exact score of every move, for `alphac4 evaluate --positions`.

    There are six, by stage (begin up to 14 stones, middle up to 28, end) and by how many stones are still to come with
    best play (easy up to 14, medium up to 28, hard). If interrupted, rerun the command to resume. A begin-hard position
    takes seconds, the others far less.
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """Folder for the files, one a set."""
    sets: tuple[str, ...] = ()
    """Sets to make; by default all."""
    count: int = 200
    """Positions in each set."""
    sample: tuple[Path, ...] = ()
    """Files whose lines begin with move strings, from which to draw instead of random play; each is named after its
    set, or like the public ones (Test_L1_R1)."""
    seed: int = 0
    """Seed of the positions."""

    def __post_init__(self) -> None:
        check_ranges(self, count=(1, MAX_NUMBER), seed=(0, MAX_SEED))


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Write a checkpoint's network in a form that runs without this package."""

    checkpoint: Annotated[Path, tyro.conf.Positional]
    """The network's file, such as checkpoints/quick.safetensors; or best, fast, or hf://OWNER/NAME."""
    kaggle: Path | None = None
    """Write a submission for Kaggle's ConnectX, one Python file that needs only numpy, such as main.py."""
    onnx: Path | None = None
    """Write the network for ONNX runtimes, such as network.onnx, checked against PyTorch (extra alphac4[onnx])."""
    web: Path | None = None
    """Write a page that plays in the visitor's browser into this folder, for any web server to serve."""
    hub: Path | None = None
    """Write a folder ready for the Hugging Face hub: model card with mistakes and licence, and the network as
    safetensors and ONNX (extras alphac4[hub,onnx]). Measuring the mistakes takes a minute."""
    license: str | None = None
    """With --hub: the licence as the hub abbreviates it, such as mit or cc-by-4.0; the project's networks have mit."""
    web_runtime: Path | None = None
    """With --web: onnxruntime-web-1.30.0.tgz from npm, for machines that cannot download it (33 MB, once)."""

    def __post_init__(self) -> None:
        check_network(self.checkpoint.as_posix())


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Read commands from the standard input and answer on the standard output, in the manner of chess's UCI.

    The commands are c4i, isready, setoption, newgame, position, go, stop, exact, d, help and quit; `help` lists what
    they do, and docs/ENGINE.md describes them. Unknown input is answered by a line that begins with "error".
    """

    player: str = "best"
    """Player that searches: best, fast, a checkpoint's file, or uct with its options."""
    nodes: int = 600
    """Simulations where "go" names no limit."""
    board: Board = field(default_factory=BoardConfig)

    def __post_init__(self) -> None:
        check_ranges(self, nodes=(1, MAX_SIMULATIONS))


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """Check the installation, and measure how fast this machine is and how long training takes here.

    Checks take some ten seconds, and the default measurements about a minute on two idle cores. The first time on a
    machine, code is compiled as well. The exit code is 1 if something that every installation needs does not work.

        alphac4 doctor --only checks
        alphac4 doctor --only inference learning --channels 64 --blocks 5
    """

    only: tuple[str, ...] = ("checks", "play", "presets")
    """Parts to run: checks; play, which measures the shipped network; presets, which estimates the time of training;
    rules, uct, puct, inference, selfplay or learning. Except in presets, a figure is the median of three."""
    device: Device = "auto"
    """Device to measure; auto takes CUDA where there is one."""
    seconds: float = 1.0
    """Approximate length of each measurement."""
    channels: int = 64
    """Channels of the untrained network that inference, selfplay and learning measure."""
    blocks: int = 4
    """Its residual blocks."""
    batches: tuple[int, ...] = (1, 32, 128, 256)
    """Batch sizes for inference."""
    json: bool = False
    """Print the result as JSON."""

    def __post_init__(self) -> None:
        check_ranges(self, seconds=(1e-6, 3600), channels=(1, 4096), blocks=(0, 256), batches=(1, 65_536))


OPTIONS: dict[str, type] = {
    "play": PlayOptions,
    "play web": PlayWebOptions,
    "play puzzles": PlayPuzzlesOptions,
    "review": ReviewOptions,
    "search": SearchOptions,
    "solve": SolveOptions,
    "puzzles": PuzzlesOptions,
    "players": PlayersOptions,
    "arena": ArenaOptions,
    "evaluate": EvaluateOptions,
    "prove": ProveOptions,
    "certificate": CertificateOptions,
    "positions": PositionsOptions,
    "export": ExportOptions,
    "engine": EngineOptions,
    "doctor": DoctorOptions,
}
"""Options by command; `train` and `selfplay` have settings, which they read themselves."""


def read_options(name: str, arguments: Sequence[str]) -> object:
    """The options of a command in `OPTIONS`.

    Raises:
        SystemExit: after ``--help``, and with code 2 after a message on the standard error.
        ValueError: in one line, for values that cannot be, such as an unknown player.
    """
    options: object = read_arguments(OPTIONS[name], arguments, name)
    for field_name in ("player", "players", "reference") if name != "play" else ():
        value = getattr(options, field_name, ())
        players = [value] if isinstance(value, str) else value
        if level := next((player for player in players if player in LEVELS_BY_NAME), None):
            raise ValueError(f"{level!r} is a level of `alphac4 play`, not a player; see `alphac4 players`")
        check_players(*players, others=[NOBODY])
    return options
