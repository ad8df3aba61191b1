"""Commands of the group "Play": games, searches and exact scores for people."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from alphac4.arena.kinds import named_checkpoint
from alphac4.arena.registry import describe_players
from alphac4.commands.arguments import (
    NO_PREFIX,
    Count,
    Moves,
    NetworkName,
    OutputFile,
    PlayerCheck,
    PlayerName,
    loading,
    metavar,
)
from alphac4.play.levels import LEVELS, LEVELS_BY_NAME, find_level, level_names
from alphac4.storage.files import check_output, write_atomically
from alphac4.storage.networks import check_network
from alphac4.storage.records import MAX_SEED, MAX_SIMULATIONS, BoardConfig, CheckedSettings, Range, Seed
from alphac4.storage.text import content_lines, read_stdin_lines

if TYPE_CHECKING:
    from alphac4.game import Position
    from alphac4.solver import Solver

HUMAN = "human"
_LEVELS = "\n".join(f"      {number} {level.name:<10} {level.about}" for number, level in enumerate(LEVELS, start=1))


@dataclass(frozen=True, kw_only=True)
class PlayCommand(CheckedSettings):
    """Play a game in the terminal: against a level, another player or a person; or watch two players.

        alphac4 play                      against level 1, a beginner
        alphac4 play 5 --analysis         against level 5, with analysis
        alphac4 play best@600 human       you move second, against a network
        alphac4 play human human          two people
        alphac4 play uct:1000 best@100    watch two programs

    `alphac4 play web` opens a page in the browser.

    A player is `human`, a level by number or name, or any player that `alphac4 players` lists, such as best@600 (a
    network with 600 simulations per move), best@1s, uct:1000, negamax:4, solver or random. The levels:
    """

    players: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        metavar("[PLAYER [PLAYER]]"),
        PlayerCheck(others=(HUMAN, *LEVELS_BY_NAME, "web")),
    ] = ()
    """Your opponent, by default level 1; or the first and the second player."""
    checkpoint: NetworkName = "best"
    """Network of the levels and the analysis: best, quick, or a checkpoint's file."""
    moves: Moves = ""
    """Start after these moves, such as 4455, or from a file that the command `save` wrote."""
    analysis: bool = False
    """Show the network's analysis when a person is to move."""
    simulations: Annotated[int, Range(1, MAX_SIMULATIONS)] = 800
    """Simulations per analysis or hint."""
    exact: bool = False
    """Show the exact result of each move when a person is to move; in the opening this takes seconds."""
    seed: Annotated[Count, Range(0, MAX_SEED)] = None
    """Seed of the players' random choices."""
    board: Annotated[BoardConfig, NO_PREFIX] = field(default_factory=BoardConfig)

    def _check(self) -> None:
        for number in filter(str.isdecimal, self.players):
            find_level(number)
        super()._check()
        check_network(self.checkpoint)
        if len(self.players) > 2 or "web" in self.players:
            raise ValueError(f"name one opponent or two players, not {' '.join(self.players)}")

    def __call__(self) -> int:
        with loading(at_once=True):
            import numpy as np

            from alphac4.arena.registry import common_board
            from alphac4.game.rules import STANDARD
            from alphac4.play.analysis import Analyst
            from alphac4.play.games import Session
            from alphac4.play.opponents import Opponents
            from alphac4.play.screen import Screen
            from alphac4.play.terminal import TerminalGame, read_line

        requested, network = self.board.make(), named_checkpoint(self.checkpoint)
        names = tuple(name for name in self.players if name != HUMAN and name not in LEVELS_BY_NAME)
        if requested == STANDARD or self.checkpoint != PlayCommand.checkpoint:
            names = (*names, self.checkpoint)
        board = common_board(names, requested)
        can_use_network = network.board == board
        opponents = Opponents(
            self.checkpoint,
            board,
            np.random.default_rng(self.seed),
            background=sys.stdin.isatty(),  # networks load while a person thinks
        )
        session, screen = Session(board=board), Screen(sys.stdout)
        session.open(self.moves)

        def make_analyst() -> Analyst:
            searcher = f"{self.checkpoint}@" if can_use_network else "uct:"
            return Analyst.named(f"{searcher}{self.simulations}", board=board)

        default = LEVELS[0].name if can_use_network else "uct:5000"  # no network is shipped for another board
        first, second = self.players if len(self.players) == 2 else (HUMAN, *(self.players or (default,)))
        players = [None if name == HUMAN else opponents.prepare(name) for name in (first, second)]
        game = TerminalGame(
            session,
            (players[0], players[1]),
            screen,
            read_line,
            opponents.make,
            make_analyst,
            level=LEVELS_BY_NAME.get(second) or LEVELS_BY_NAME.get(first),
            show_analysis=self.analysis,
            show_exact=self.exact,
        )
        game.run()
        return 0


PlayCommand.__doc__ = f"{(PlayCommand.__doc__ or '').rstrip()}\n\n{_LEVELS}"


@dataclass(frozen=True, kw_only=True)
class PlayWebCommand(CheckedSettings):
    """Serve a page for games and analysis in the browser.

        alphac4 play web
        alphac4 play web --port 0 --no-open
        alphac4 play web --host 0.0.0.0 --allowed-hosts games.example.org

    Ctrl-C stops the server.
    """

    checkpoint: NetworkName = "best"
    """Network of the levels and the analysis: best, quick, or a checkpoint's file."""
    host: Annotated[str, metavar("ADDRESS")] = "127.0.0.1"
    """Address to listen on: the default is reachable from this machine only, 0.0.0.0 from other machines too."""
    port: Annotated[int, Range(0, 65_535)] = 8000
    """Port to listen on; 0 takes a free one."""
    token: Literal["auto", "always", "never"] = "auto"
    """Whether the link carries a secret token that the server requires; auto: if other machines can reach --host."""
    allowed_hosts: Annotated[tuple[str, ...], metavar("NAME [NAME ...]")] = ()
    """Additional host names to accept, such as that of a reverse proxy."""
    open: bool = True
    """Open the page in the browser, if started from a terminal of this machine's desktop."""

    def _check(self) -> None:
        super()._check()
        check_network(self.checkpoint)

    def __call__(self) -> int:
        from alphac4.machine import install_advice

        try:
            with loading():
                from alphac4.play.web.server import serve
        except ImportError as error:
            raise RuntimeError(f"the page needs {error.name}: {install_advice('web')}") from error
        serve(
            self.checkpoint,
            self.host,
            self.port,
            token=self.token,
            allowed_hosts=self.allowed_hosts,
            open_browser=self.open,
        )
        return 0


@dataclass(frozen=True, kw_only=True)
class SearchCommand(CheckedSettings):
    """Search a position and show each move's visits, mean value, prior, and PUCT or UCB score for the next simulation.

        alphac4 search 4455
        alphac4 search 44 --player best@2000 --svg tree.svg --depth 3

    Values are for the side to move, from -1 (lost) to 1 (won).
    """

    moves: Annotated[tuple[str, ...], tyro.conf.Positional, metavar("[MOVES]")] = ()
    """The position as 1-based columns from the empty board, such as 4455; by default the empty board."""
    player: PlayerName = ""
    """Player that searches: a network such as best@600 or FILE.safetensors@600, or classic MCTS such as uct:10000.
    Default: best@600 on the standard board, uct:10000 on others."""
    json: bool = False
    """Print JSON instead of a table."""
    svg: OutputFile = None
    """Draw the search tree to this file, whose name ends in .svg."""
    overwrite: bool = False
    """Replace an existing file."""
    depth: Annotated[int, Range(1, 64)] = 2
    """With --svg: plies to draw."""
    width: Annotated[int, Range(1, 64)] = 3
    """With --svg: moves to draw per node, the most visited ones."""
    seed: Seed = 0
    """Seed of the search."""
    board: Annotated[BoardConfig, NO_PREFIX] = field(default_factory=BoardConfig)

    def __call__(self) -> int:
        with loading():
            import numpy as np

            from alphac4.arena.registry import common_board, parse_searching_player
            from alphac4.game import Position
            from alphac4.game.position import join_moves
            from alphac4.game.rules import STANDARD
            from alphac4.mcts.drawing import draw_tree
            from alphac4.mcts.results import SearchResult
            from alphac4.play.screen import Screen

        requested = self.board.make()
        specification = self.player or ("best@600" if requested == STANDARD else "uct:10000")
        board = common_board((specification,), requested)
        check_output(self.svg, ".svg", overwrite=self.overwrite)
        position = Position.from_moves(join_moves(self.moves), board)
        player = parse_searching_player(specification, rng=np.random.default_rng(self.seed), board=board)
        if self.svg is not None and player.budget.simulations == 0:
            raise ValueError(f"{player.name} has no search tree for --svg; give it simulations, such as best@600")
        found = SearchResult.of_result(position, player.name, player.search([position]))
        if self.json:
            print(json.dumps(found.to_dict()))
        else:
            screen = Screen(sys.stdout)
            screen.board(position)
            print(f"\n{screen.side(0 if position.first_to_move else 1)} to move, {player.name}\n")
            print(found.table())
        if self.svg is not None:
            picture = draw_tree(partial(player.node, 0), depth=self.depth, width=self.width)
            write_atomically(self.svg, picture.encode())
            print(f"\ntree drawn to {self.svg}", file=sys.stderr)
        return 0


@dataclass(frozen=True, kw_only=True)
class SolveCommand:
    """Score positions exactly, for the side to move.

        alphac4 solve 4455
        alphac4 solve --batch < positions.txt

    A positive score is a win: the number of stones that the winner has left just before its winning move, so faster
    wins score higher. A negative score is a loss, counted in the same way for the opponent. 0 is a draw.
    """

    moves: Annotated[tuple[str, ...], tyro.conf.Positional, metavar("[MOVES]")] = ()
    """The position as 1-based columns from the empty board, such as 4455; by default the empty board."""
    batch: bool = False
    """Read a position from each line of the standard input, and print its moves and its score.

    A line has the moves in one word, then optionally a known score or a score per column. A finished game or a wrong
    known score is reported as an error. With --weak, only the sign of a known score is checked."""
    column_scores: bool = False
    """With --batch: print a score per column ('.' for a full one) instead of the position's score; JSON has both."""
    weak: bool = False
    """Only distinguish win (1), draw (0) and loss (-1), which is faster."""
    json: bool = False
    """Print JSON instead of a table; with --batch, one object per line."""
    board: Annotated[BoardConfig, NO_PREFIX] = field(default_factory=BoardConfig)

    def __call__(self) -> int:
        """Score one position or a batch; return 2 if a line of the batch is invalid or gives a wrong score."""
        with loading():
            from alphac4.game import Position
            from alphac4.game.position import describe_outcome, join_moves
            from alphac4.play.screen import SolvingProgress
            from alphac4.solver import Solver

        if self.batch and self.moves:
            raise ValueError("--batch reads positions from the standard input: leave out the moves or --batch")
        board = self.board.make()
        solver = Solver(board)
        if self.batch:
            return self._solve_lines(solver)
        position = Position.from_moves(join_moves(self.moves), board)
        if position.outcome() is not None:
            raise ValueError(f"the game is over after {position.moves}: {describe_outcome(position)}")
        with SolvingProgress(solver) as progress:
            scores = solver.analyze(position, progress, weak=self.weak)
        print(self._as_json(position.moves or "", scores) if self.json else self._as_table(position, scores))
        return 0

    def _as_json(self, moves: str, scores: Sequence[int | None]) -> str:
        """Format the score of the position, and by name the scores of the columns that are not full."""
        from alphac4.game import column_name

        columns = {column_name(column): score for column, score in enumerate(scores) if score is not None}
        return json.dumps({"moves": moves, "score": max(columns.values()), "columns": columns})

    def _as_table(self, position: "Position", scores: Sequence[int | None]) -> str:
        """Format the board, the side to move, and the score of each column with its meaning."""
        from alphac4.game import column_name
        from alphac4.machine import format_table
        from alphac4.play.screen import Screen
        from alphac4.solver.solver import Verdict, best_columns

        screen, best = Screen(sys.stdout), best_columns(scores)
        lines = [screen.drawn(position), "", f"{screen.side(0 if position.first_to_move else 1)} to move", ""]
        rows = [("column", "score", "with best play (* best)")]
        for column, score in enumerate(scores):
            if score is None:
                meaning = "full"
            elif self.weak and score:
                meaning = "wins" if score > 0 else "loses"
            else:
                meaning = Verdict.of(position, score).text
            mark = "  *" if column in best else ""
            rows.append((column_name(column), "." if score is None else str(score), f"{meaning}{mark}"))
        return "\n".join([*lines, *format_table(rows, left=[2])])

    def _solve_lines(self, solver: "Solver") -> int:
        """Score line by line; report an invalid line or a wrong known score with the line's number, and continue."""
        from alphac4.evaluation.positions import parse_position
        from alphac4.game import column_name

        code = 0
        for number, words in content_lines(read_stdin_lines()):
            try:
                position, given = parse_position(words, solver.board)
            except ValueError as error:
                print(f"line {number}: {error}", file=sys.stderr)
                code = 2
                continue
            moves = words[0]
            scores: list[int | None] = []
            if self.column_scores or len(given) > 1:
                scores = solver.analyze(position, weak=self.weak)
                score = max(each for each in scores if each is not None)
            else:
                score = solver.solve(position, weak=self.weak)
            if self.column_scores:
                cells = ["." if each is None else str(each) for each in scores]
                line = self._as_json(moves, scores) if self.json else " ".join([moves, *cells])
            else:
                line = json.dumps({"moves": moves, "score": score}) if self.json else f"{moves} {score}"
            print(line, flush=True)
            actual = scores if len(given) > 1 else [score] * len(given)
            for column, (ours, theirs) in enumerate(zip(actual, given, strict=True)):
                expected = (theirs > 0) - (theirs < 0) if self.weak else theirs
                if ours not in (None, expected):
                    where = f" of column {column_name(column)}" if len(given) > 1 else ""
                    print(f"line {number}: the score{where} is {ours}, but the line gives {expected}", file=sys.stderr)
                    code = 2
        return code


@dataclass(frozen=True, kw_only=True)
class PlayersCommand:
    """List all players, for every command that takes one."""

    def __call__(self) -> int:
        import shutil
        import textwrap

        width = min(shutil.get_terminal_size().columns, 120)
        print(describe_players(width), end="\n\n")
        print(textwrap.fill(f"`alphac4 play` also takes human and its levels: {level_names()}.", width))
        print('\nThe page "Players" of the documentation describes every option.')
        return 0
