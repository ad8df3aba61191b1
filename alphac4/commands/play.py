"""`alphac4 play`: a game in the terminal."""

import sys
from collections.abc import Callable

import numpy as np

from alphac4.arena.players import Player
from alphac4.arena.specifications import (
    common_geometry,
    find_network,
    named_checkpoint,
    parse_player,
    parse_searching_player,
)
from alphac4.commands.options import HUMAN, PlayOptions
from alphac4.commands.review import REVIEWER, review_with_progress
from alphac4.game.rules import STANDARD
from alphac4.play.analysis import Analyst
from alphac4.play.games import Session
from alphac4.play.levels import LEVELS, LEVELS_BY_NAME, Level
from alphac4.play.opponents import LazyPlayer, compile_search, level_player
from alphac4.play.review_text import describe_review
from alphac4.play.screen import Screen
from alphac4.play.terminal import TerminalGame, read_line


def run(options: PlayOptions) -> int:
    """Play until the input ends."""
    board, network = options.board.geometry(), named_checkpoint(options.network)
    names = tuple(name for name in options.players if name != HUMAN and name not in LEVELS_BY_NAME)
    if board == STANDARD or options.network != PlayOptions.network:
        names = (*names, options.network)
    geometry = common_geometry(names, board)
    can_use_network = network.geometry == geometry
    rng = np.random.default_rng(options.seed)
    in_background = sys.stdin.isatty()  # a person thinks while networks are loaded

    def lazy(name: str, make: Callable[[], Player]) -> LazyPlayer:
        def make_ready() -> Player:
            if in_background:
                compile_search(geometry)
            return make()

        return LazyPlayer(name, make_ready, background=in_background)

    def make_level(level: Level) -> Player:
        return level_player(level, options.network, geometry, rng)

    def make(name: str) -> Player | None:
        if name == HUMAN:
            return None
        level = LEVELS_BY_NAME.get(name)
        if level is not None and level.perfect:
            return make_level(level)
        named = find_network(name) if level is None else network
        if named is not None:
            named.check(geometry)  # before the board is shown
        elif name.partition(":")[0] != "certificate":  # which takes seconds to check
            return parse_player(name, rng=rng, geometry=geometry)
        if level is not None:
            return lazy(f"{network.name}, {level.name}", lambda: make_level(level))
        return lazy(name, lambda: parse_player(name, rng=rng, geometry=geometry, batch_size=1))

    session = Session(geometry=geometry)
    session.open(options.moves)

    def make_analyst() -> Analyst:
        searcher = f"{options.network}@" if can_use_network else "uct:"
        return Analyst.named(f"{searcher}{options.simulations}", geometry=geometry)

    screen = Screen(sys.stdout)

    def review(moves: str) -> str:
        rng = np.random.default_rng(options.seed)
        player = parse_searching_player(REVIEWER, rng=rng) if geometry == STANDARD else None
        return describe_review(review_with_progress(moves, geometry, player), screen)

    default = LEVELS[0].name if can_use_network else "uct:5000"  # no network is shipped for another board
    first, second = options.players if len(options.players) == 2 else (HUMAN, *(options.players or (default,)))
    game = TerminalGame(
        session,
        (make(first), make(second)),
        screen,
        read_line,
        make_level,
        make_analyst,
        review,
        level=LEVELS_BY_NAME.get(second) or LEVELS_BY_NAME.get(first),
        show_analysis=options.analysis,
        show_exact=options.exact,
    )
    game.run()
    return 0
