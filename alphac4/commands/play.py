"""`alphac4 play`: a game in the terminal or in the browser."""

import sys
from collections.abc import Callable

import numpy as np

from alphac4.arena.players import Player
from alphac4.arena.specifications import (
    common_geometry,
    describe,
    find_network,
    named_checkpoint,
    parse_player,
    parse_searching_player,
)
from alphac4.commands.options import HUMAN, PlayOptions
from alphac4.commands.review import REVIEWER, review_with_progress
from alphac4.game.rules import STANDARD
from alphac4.machine import install_advice
from alphac4.play.analysis import Analyst
from alphac4.play.levels import BY_NAME, Level, find_level
from alphac4.play.opponents import LatePlayer, certificates, compile_search, level_player
from alphac4.play.puzzle_game import PuzzleGame, SolvedPuzzles
from alphac4.play.review_text import describe_review
from alphac4.play.screen import Screen
from alphac4.play.terminal import Session, TerminalGame, read_line
from alphac4.puzzles import load_puzzles, packaged_puzzles


def run(options: PlayOptions) -> int:
    """Play until the input ends."""
    if options.puzzle:
        return _run_puzzles(options)
    if not options.web:
        return _run_terminal(options)
    try:
        from alphac4.play.web.server import serve
    except ImportError as error:
        raise RuntimeError(f"the page needs {error.name}: {install_advice('web')}") from error
    place = options.host, options.port
    serve(options.network, *place, token=options.token, names=options.names, open_browser=options.open)
    return 0


def _run_terminal(options: PlayOptions) -> int:
    board = options.board.geometry()
    named = tuple(name for name in (options.first, options.second) if name not in ("", HUMAN, *BY_NAME))
    network = find_network(options.network)
    plays_here = board == STANDARD or (network is not None and network.geometry == board)
    asked = {options.first, options.second} & BY_NAME.keys()
    if not plays_here and (asked or (options.level, options.network) != (PlayOptions.level, PlayOptions.network)):
        raise ValueError(f"--level and --network have no effect: {options.network} does not play on {describe(board)}")
    geometry = common_geometry((*named, *((options.network,) if plays_here else ())), board)
    rng = np.random.default_rng(options.seed)
    at_once = sys.stdin.isatty()  # a person thinks while networks are loaded
    usual = find_level(options.level).name if plays_here else "uct:5000"  # no network is shipped for another board
    first, second = options.first, options.second or (usual if options.first == HUMAN else HUMAN)
    level = BY_NAME.get(second) or BY_NAME.get(first)

    def late(name: str, make: Callable[[], Player]) -> LatePlayer:
        def make_ready() -> Player:
            if at_once:
                compile_search(geometry)
            return make()

        return LatePlayer(name, make_ready, background=at_once)

    def make_level(level: Level) -> Player:
        return level_player(level, options.network, geometry, rng)

    def make(name: str) -> Player | None:
        if name == HUMAN:
            return None
        if level := BY_NAME.get(name):
            if level.perfect:
                return make_level(level)
            return late(f"{named_checkpoint(options.network).name}, {level.name}", lambda: make_level(level))
        network = find_network(name)
        if network is not None:
            network.check(geometry)  # so that what is wrong is told before the board is shown
        elif name.partition(":")[0] != "certificate":  # which takes seconds to check
            return parse_player(name, rng=rng, geometry=geometry)
        return late(name, lambda: parse_player(name, rng=rng, geometry=geometry, batch_size=1))

    session = Session(geometry=geometry)
    session.open(options.moves)

    def make_analyst() -> Analyst:
        searcher = f"{options.network}@" if network is not None and network.geometry == geometry else "uct:"
        return Analyst.named(f"{searcher}{options.simulations}", geometry=geometry)

    screen = Screen(sys.stdout)

    def review(moves: str) -> str:
        rng = np.random.default_rng(options.seed)
        player = parse_searching_player(REVIEWER, rng=rng) if geometry == STANDARD else None
        return describe_review(review_with_progress(moves, geometry, player), screen)

    game = TerminalGame(
        session,
        (make(first), make(second)),
        screen,
        read_line,
        make_level,
        make_analyst,
        lambda: certificates(geometry),
        review,
        level=level,
        show_analysis=options.analysis,
        show_exact=options.exact,
    )
    game.run()
    return 0


def _run_puzzles(options: PlayOptions) -> int:
    """Set the package's puzzles, or those of a file.

    The easier ones come first, and of these the nearer wins; otherwise chance decides. Those solved at an earlier start
    come last. Half of them are mirrored: most of those in the file that are won beside the border are won at the left
    one.
    """
    known = load_puzzles(options.puzzle_file) if options.puzzle_file is not None else packaged_puzzles()
    puzzles = [puzzle for puzzle in known if options.difficulty in (0, puzzle.difficulty)]
    if not puzzles:
        raise ValueError(f"{options.puzzle_file}: there is no puzzle of difficulty {options.difficulty}")
    rng = np.random.default_rng(options.seed)
    order = rng.permutation(len(puzzles))
    ordered = sorted((puzzles[index] for index in order), key=lambda puzzle: (puzzle.difficulty, puzzle.distance))
    solved, screen = SolvedPuzzles(), Screen(sys.stdout)
    if count := solved.among(ordered):
        screen.line(f"{count} of {len(ordered)} are solved; the others come first.\n")
    shown = [puzzle.mirrored if rng.random() < 0.5 else puzzle for puzzle in solved.last(ordered)]
    PuzzleGame(shown, screen, read_line, rng, solved.add).run()
    return 0
