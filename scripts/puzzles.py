"""Make the puzzles of the play page: ``python scripts/puzzles.py --output puzzles.txt``.

A network plays games with some randomness, the exact solver finds the positions with a single winning move, and
searches of several sizes grade them. The package's file is ``alphac4/plugins/puzzles/page/puzzles.txt``. The output is
updated after every round of games, so that Ctrl-C keeps the puzzles found so far.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
from tqdm import tqdm

from alphac4.arena.players import Player
from alphac4.arena.registry import parse_player
from alphac4.game import Position
from alphac4.game.position import column_name
from alphac4.game.rules import STANDARD, canonical_key, legal_cells, winning_cells
from alphac4.plugins.puzzles.packaged import Puzzle
from alphac4.solver.solver import TimeIsUp, moves_to_end, shared_solver
from alphac4.storage.files import write_atomically

HEADER = "# alphac4 puzzles 1: position, the only column that wins, moves until the win, difficulty from 1 to 5"
GAMES_AT_ONCE = 64
MIN_PLIES, MAX_PLIES = 18, 32  # stones on the board; with fewer, people cannot see the end
MAX_DISTANCE = 9  # moves of the winner until the win; the minimum is 2
RANDOM_PLIES = 6  # at the beginning of each game, so that games differ
GAME_PLAYER = "quick@0,temperature=1.2"
SHALLOW_PLAYERS = ("quick@0", "best@0")  # for each puzzle, at least one of them misses the solution
FILTER_PLAYER = "best@16"  # the solver only gets positions in which this player and the shallow ones do not all agree
GRADING_PLAYERS = ("quick@2", "quick@8", "quick@32", "quick@128")
"""The difficulty is 1 if all of them find the solution, and 5 if the last one misses it."""
MAX_PAUSES = 8  # pauses of the solver, 262,144 nodes apart; unlike seconds, they make results repeatable


def generate_puzzles(rng: np.random.Generator) -> Iterator[list[Puzzle]]:
    """Yield a list of puzzles per round of games, without end; on one machine, ``rng`` determines them.

    A game contributes at most one puzzle, and a position or its mirror image appears only once.
    """
    make_player = partial(parse_player, rng=rng, batch_size=GAMES_AT_ONCE)
    source, filter_player = map(make_player, (GAME_PLAYER, FILTER_PLAYER))
    shallow, graders = ([make_player(name) for name in names] for names in (SHALLOW_PLAYERS, GRADING_PLAYERS))
    seen: set[int] = set()
    while True:
        found: dict[int, tuple[Position, int]] = {}  # by game, with the winning 0-based column
        for games in _rounds(source, rng):
            numbers = [number for number in games if number not in found]
            positions = [games[number] for number in numbers]
            answers = [player.choose(positions) for player in (*shallow, filter_player)] if positions else []
            for number, position, *columns in zip(numbers, positions, *answers, strict=True):
                key = int(canonical_key(STANDARD, position.own, position.occupied))
                if len(set(columns)) > 1 and key not in seen:
                    solution = only_winning_column(position)
                    if solution is not None:
                        seen.add(key)
                        found[number] = position, solution
        yield list(grade_puzzles(list(found.values()), shallow, graders))


def _rounds(source: Player, rng: np.random.Generator) -> Iterator[dict[int, Position]]:
    """Play a round of games together; yield their positions by game at every ply from `MIN_PLIES`."""
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


def only_winning_column(position: Position) -> int | None:
    """Return the only winning 0-based column.

    Return None if no column wins or several do, if either side can complete a run now, or if the solver takes too long.
    """
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


def grade_puzzles(
    candidates: Sequence[tuple[Position, int]], shallow: Sequence[Player], graders: Sequence[Player]
) -> Iterator[Puzzle]:
    """Yield puzzles with their difficulty, except distant wins and those that all ``shallow`` players find.

    Args:
        candidates: positions with their only winning 0-based column.
        shallow: the players that must not all find it.
        graders: the players whose misses determine the difficulty; see `GRADING_PLAYERS`.
    """
    if not candidates:
        return
    positions = [position for position, _ in candidates]
    guesses, graded = ([player.choose(positions) for player in players] for players in (shallow, graders))
    for index, (position, solution) in enumerate(candidates):
        distance = moves_to_end(STANDARD, position.plies, shared_solver().solve(position))
        if all(columns[index] == solution for columns in guesses) or distance > MAX_DISTANCE:
            continue
        missed = [grade for grade, columns in enumerate(graded, start=1) if columns[index] != solution]
        difficulty = 1 + max(missed, default=0)
        yield Puzzle(moves=position.moves or "", solution=solution, moves_to_win=distance, difficulty=difficulty)


def format_puzzles(puzzles: Sequence[Puzzle]) -> str:
    """Return the content of a file of puzzles."""
    lines = [f"{p.moves} {column_name(p.solution)} {p.moves_to_win} {p.difficulty}" for p in puzzles]
    return "\n".join([HEADER, *lines]) + "\n"


def main() -> None:
    """Make puzzles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("puzzles.txt"), help="new file to write")
    parser.add_argument("--count", type=int, default=500, help="puzzles to make")
    parser.add_argument("--seed", type=int, default=0, help="on one machine it determines the puzzles")
    options = parser.parse_args()
    if options.output.exists():
        parser.error(f"{options.output} exists already: choose another file")
    puzzles: list[Puzzle] = []
    with tqdm(total=options.count, unit="puzzle", disable=None) as bar:
        for found in generate_puzzles(np.random.default_rng(options.seed)):
            puzzles = [*puzzles, *found][: options.count]
            bar.update(len(puzzles) - bar.n)
            write_atomically(options.output, format_puzzles(puzzles).encode())
            if len(puzzles) >= options.count:
                break
    grades = sorted(Counter(puzzle.difficulty for puzzle in puzzles).items())
    print(f"{options.output}: {', '.join(f'{number} of difficulty {grade}' for grade, number in grades)}")


if __name__ == "__main__":
    main()
