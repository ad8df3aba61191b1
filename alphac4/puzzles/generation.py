"""Makes puzzles from games that are partly left to chance: the solver judges them, searches of all sizes grade them."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count

import numpy as np

from alphac4.arena.players import Player
from alphac4.arena.specifications import parse_player
from alphac4.game import Position
from alphac4.game.rules import STANDARD, canonical_key, legal_cells, winning_cells
from alphac4.puzzles import Puzzle
from alphac4.solver.solver import TimeIsUp, moves_to_end, shared_solver

GAMES_AT_ONCE = 64
MIN_PLIES, MAX_PLIES = 18, 32  # stones on the board; with fewer people cannot see the end
MAX_DISTANCE = 9  # moves that the winner still makes; at least it makes two
RANDOM_PLIES = 6  # at the beginning of each game, so that no two are alike
SOURCE = "fast@0,temperature=1.2"  # plays the games
TEMPTED = ("fast@0", "best@0")  # at least one of them misses the move of every puzzle
DOUBTER = "best@16"  # the solver is asked only about positions in which it and those tempted do not agree
GRADERS = ("fast@8", "fast@32", "fast@128", "fast@400")
"""The difficulty is 1 where all of them find the move, and 5 where the last one misses it."""
MAX_PAUSES = 8  # of the solver on one position, each a quarter of a million nodes; a seed fixes them, unlike seconds


def generate_puzzles(seed: int) -> Iterator[list[Puzzle]]:
    """Puzzles without end, in lists of those that a round of games has given; on one machine a seed fixes them.

    A game gives at most one puzzle, and no position comes twice, mirror images included.
    """
    rng = np.random.default_rng(seed)
    make_player = partial(parse_player, rng=rng, batch_size=GAMES_AT_ONCE)
    source, doubter = map(make_player, (SOURCE, DOUBTER))
    tempted, graders = ([make_player(name) for name in names] for names in (TEMPTED, GRADERS))
    seen: set[int] = set()
    while True:
        found: dict[int, tuple[Position, int]] = {}  # by game, with the 0-based column that wins
        for games in _rounds(source, rng):
            numbers = [number for number in games if number not in found]
            positions = [games[number] for number in numbers]
            answers = [player.choose(positions) for player in (*tempted, doubter)] if positions else []
            for number, position, *columns in zip(numbers, positions, *answers, strict=True):
                key = int(canonical_key(STANDARD, position.own, position.occupied))
                if len(set(columns)) > 1 and key not in seen:
                    solution = _only_win(position)
                    if solution is not None:
                        seen.add(key)
                        found[number] = position, solution
        yield list(_graded(list(found.values()), tempted, graders))


def _rounds(source: Player, rng: np.random.Generator) -> Iterator[dict[int, Position]]:
    """The positions of games that are played together, by game, whenever they have a right number of stones."""
    games = {number: Position() for number in range(GAMES_AT_ONCE)}
    plies = 0
    while games and plies < MAX_PLIES:
        if plies < RANDOM_PLIES:
            columns = [int(rng.choice(position.legal_columns())) for position in games.values()]
        else:
            columns = source.choose(list(games.values()))
        played = {number: games[number].play(column) for number, column in zip(games, columns, strict=True)}
        games = {number: position for number, position in played.items() if position.outcome() is None}
        plies += 1
        if games and plies >= MIN_PLIES:
            yield games


def _only_win(position: Position) -> int | None:
    """The 0-based column that alone wins, not at once and not by a block that everybody sees; None if there is none."""
    legal = int(legal_cells(STANDARD, position.occupied))
    own = int(winning_cells(STANDARD, position.own, position.occupied))
    other = int(winning_cells(STANDARD, position.opponent, position.occupied))
    if legal & (own | other):
        return None
    pauses = count()

    def check() -> None:
        if next(pauses) >= MAX_PAUSES:
            raise TimeIsUp

    try:
        outcomes = shared_solver().analyze(position, check, weak=True)
    except TimeIsUp:
        return None
    wins = [column for column, outcome in enumerate(outcomes) if outcome == 1]
    return wins[0] if len(wins) == 1 else None


def _graded(
    candidates: Sequence[tuple[Position, int]], tempted: Sequence[Player], graders: Sequence[Player]
) -> Iterator[Puzzle]:
    """Puzzles, with their difficulty, of the positions whose move at least one of ``tempted`` misses."""
    if not candidates:
        return
    positions = [position for position, _ in candidates]
    tempting, graded = ([player.choose(positions) for player in players] for players in (tempted, graders))
    for index, (position, solution) in enumerate(candidates):
        distance = moves_to_end(STANDARD, position.plies, shared_solver().solve(position))
        if all(columns[index] == solution for columns in tempting) or distance > MAX_DISTANCE:
            continue
        missed = [grade for grade, columns in enumerate(graded, start=1) if columns[index] != solution]
        difficulty = 1 + max(missed, default=0)
        yield Puzzle(moves=position.moves or "", solution=solution, distance=distance, difficulty=difficulty)
