"""Options of the commands that judge."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from alphac4.commands.arguments import Board, Cluster
from alphac4.storage.records import MAX_NUMBER, MAX_SEED, BoardConfig, check_ranges

MAX_GAMES = 1_000_000
MAX_PROCESSES = 1024
MAX_ELO = 2000  # of an advantage that a sequential test asks about: beyond about 6,000 a score rounds to 1


@dataclass(frozen=True, kw_only=True)
class ArenaOptions:
    """Play a round robin and rate the players.

    Games are colour-swapped pairs from a common set of openings. Checkpoints decide the board.

    `alphac4 players` lists the players.
    """

    players: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Two players or more; with one, the shipped network is its opponent."""
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
    """The board."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where networks run."""
    backend: str = "auto"
    """Inference backend; auto takes the fastest here."""
    cluster: Cluster = None
    json: bool = False
    """Print the result as JSON instead of a table."""

    def __post_init__(self) -> None:
        check_ranges(
            self, games=(2, MAX_GAMES), seed=(0, MAX_SEED), processes=(1, MAX_PROCESSES), sprt=(-MAX_ELO, MAX_ELO)
        )


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """Measure a network, or any player, against exact play.

    A move errs if its outcome (win, draw or loss) is worse than the best move's. The package brings six sets of
    positions with exact scores, by the stage of the game and by how far its end is.

    `alphac4 players` lists the players.
    """

    player: Annotated[str, tyro.conf.Positional] = "best"
    """A checkpoint (FILE.safetensors, best or fast), which is measured with every budget, or any other player."""
    simulations: str = "0,1,32,100,600,1600"
    """Simulations a position, for networks; each is measured. 0 is the raw network, without any look ahead."""
    positions: tuple[Path, ...] = ()
    """Files to take instead of the package's six sets: lines with moves, then a score for each column."""
    count: int | None = None
    """Only the first so many positions of each set."""
    reference: tuple[str, ...] = ()
    """Other players to measure beside it."""
    twin: bool = True
    """Measure a checkpoint's untrained twin as well, for comparison; it takes as long as the checkpoint."""
    json: str | None = None
    """A file for the report as JSON; - prints it instead of the tables."""
    picture: Path | None = None
    """A file for the report as a picture, such as strength.png."""
    seed: int = 0
    """Seed of searches and the untrained network."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where networks run."""
    backend: str = "auto"
    """Inference backend; auto takes the fastest here."""
    cluster: Cluster = None

    def __post_init__(self) -> None:
        check_ranges(
            self,
            count=(1, MAX_NUMBER),
            seed=(0, MAX_SEED),
        )


@dataclass(frozen=True, kw_only=True)
class ProveOptions:
    """Judge every move that a player makes in any game that an opponent can play against it, by the exact solver.

    A move errs if it gives away a win, or a draw in a position that is not won. If none does and every line is followed
    to its end, the player is proven not to err. A line ends early once the player's own search has proven that it wins:
    it plays on from that tree. The number of positions grows about threefold with every two plies, so begin with
    --plies 10.

    `alphac4 players` lists the players.
    """

    player: Annotated[str, tyro.conf.Positional] = "best@600"
    """Any player, as below; one that plays at random proves nothing beyond the games seen."""
    side: Literal["first", "second"] = "first"
    """Whether the player has the first move of the game or the second."""
    start: str = ""
    """Moves from which the games begin, such as 44."""
    plies: int | None = None
    """Look no further than positions with so many stones; by default to the end of every game."""
    beyond_errors: bool = False
    """Go on after a move that errs, so that players can be compared by their share of errors."""
    record: Path | None = None
    """A file for the player's move in each position. If interrupted, the same command goes on from it."""
    seed: int = 0
    """Seed of a player that plays at random."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where networks run."""
    backend: str = "auto"
    """Inference backend; auto takes the record's, or else the fastest here."""
    cluster: Cluster = None

    def __post_init__(self) -> None:
        check_ranges(self, plies=(0, 64), seed=(0, MAX_SEED))


@dataclass(frozen=True, kw_only=True)
class CertificateOptions:
    """Make or check a certificate: a player's move in every position that any opponent can bring about.

    It claims that the first or the second player wins, or at least draws, from the empty board or after some moves:

        alphac4 certificate build --side second --after 1 --record runs/after-1

    The task `build` walks every reply to a player. Where a line is not won, it takes the player's last move back and
    asks it again, then the one before, until every line is won, and writes the file. The player is asked about one of a
    position and its mirror image. Answers are kept in a folder, so that the same command goes on if interrupted.

    The task `verify` checks a file from the rules alone; `scripts/verify_certificate.py` does the same in plain Python,
    without this package.
    """

    task: Annotated[Literal["build", "verify"], tyro.conf.Positional]
    """Which of the two to do."""
    file: Annotated[Path | None, tyro.conf.Positional] = None
    """The certificate; by default all that come with the project (verify), or RECORD/best.certificate (build)."""
    player: str = "best@auto"
    """Whose moves they are: a network and its limit (build)."""
    side: Literal["first", "second"] = "first"
    """Whether the player has the first move of the game or the second (build)."""
    after: str = ""
    """Moves after which it plays, such as 44 (build)."""
    result: Literal["win", "draw"] = "win"
    """What the player reaches at least (build)."""
    record: Path = Path("runs/certificate")
    """A folder for the answers so far (build)."""
    stones: int = 64
    """Look no further than positions with so many stones; then no certificate is written (build)."""
    judge: bool = False
    """Measure instead: the exact solver counts those of the player's own moves that give the result away. None is taken
    back, and what would follow is left out (build)."""
    seed: int = 0
    """Fixes the player, if it draws lots (build)."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the network runs (build)."""
    backend: str = "auto"
    """Inference backend; auto takes the fastest here (build)."""

    def __post_init__(self) -> None:
        check_ranges(self, stones=(0, 64), seed=(0, MAX_SEED))


@dataclass(frozen=True, kw_only=True)
class CurveOptions:
    """Judge every network that runs have kept, and draw the errors against minutes and evaluations.

    A run keeps all its networks with ``alphac4 train --machine.keep-checkpoints 1000``. One run is drawn with a line
    for each set of positions; several with a line each, over all positions. Runs that differ in their seed alone are
    given as one, and drawn as their mean in a band from the best to the worst of them:

        alphac4 curve runs/mine
        alphac4 curve quick=runs/q0,runs/q1,runs/q2 standard=runs/s0

    A file that ``--output`` has written stands for the runs in it: they are drawn again without being judged again.
    Runs of a name that is in it join its band.

        alphac4 curve quick=runs/q0,runs/q1 --output curve.jsonl
        alphac4 curve curve.jsonl standard=runs/s0
    """

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Folders of runs, or files of figures (.jsonl); or NAME=FOLDER, or NAME=FOLDER,FOLDER,... for several seeds."""
    simulations: str = "0,600"
    """Simulations a position; each is judged. 0 is the raw network."""
    positions: tuple[Path, ...] = ()
    """Files of positions to take instead of the package's six sets; see `alphac4 evaluate`."""
    count: int | None = None
    """Only the first so many positions of each set."""
    every: int = 1
    """Judge each so-many-th network, counted from the last."""
    picture: Path = Path("curve.png")
    """The picture to draw."""
    output: Path | None = None
    """A file of JSON lines, to which the figures of the networks judged are added. What it holds is not judged again,
    so that the same command goes on if interrupted."""
    backend: str = "auto"
    """Inference backend."""

    def __post_init__(self) -> None:
        check_ranges(self, count=(1, MAX_NUMBER), every=(1, MAX_NUMBER))


@dataclass(frozen=True, kw_only=True)
class PositionsOptions:
    """Make sets of positions with the exact score of every move, for `alphac4 evaluate --positions`.

    There are six, by stage (begin up to 14 stones, middle up to 28, end) and by how many stones are still to come with
    best play (easy up to 14, medium up to 28, hard). If interrupted, the same command goes on. A begin-hard position
    takes seconds, the others far less.
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """Where the files go, one a set."""
    sets: tuple[str, ...] = ()
    """Which sets to make; by default all."""
    count: int = 200
    """Positions in each set."""
    sample: tuple[Path, ...] = ()
    """Files whose lines begin with move strings, from which to draw instead of random play; each is named after its
    set, or like the public ones (Test_L1_R1)."""
    seed: int = 0
    """Seed of the positions."""

    def __post_init__(self) -> None:
        check_ranges(self, count=(1, MAX_NUMBER), seed=(0, MAX_SEED))
