"""`alphac4 solve`: exact scores of positions."""

import json
import sys
from collections.abc import Sequence

from alphac4.commands.options import SolveOptions
from alphac4.evaluation.positions import parse_position
from alphac4.game import Position, column_name
from alphac4.game.position import describe_outcome
from alphac4.play.screen import Screen, SolvingProgress
from alphac4.solver.book import no_known_scores
from alphac4.solver.solver import Solver, Verdict, best_columns
from alphac4.storage.text import content_lines, read_stdin_lines


def run(options: SolveOptions) -> int:
    """Score one position or many; 2 if a line of the input could not be read."""
    if options.batch and options.moves:
        raise ValueError("--batch reads positions from the standard input: leave out the moves, or leave out --batch")
    geometry = options.board.geometry()
    book = None if options.book else no_known_scores()
    solver = Solver(geometry, table_bits=options.table_bits, book=book)
    if options.batch:
        return _solve_lines(options, solver)
    position = Position.from_moves(options.moves, geometry)
    if position.outcome() is not None:
        raise ValueError(f"the game is over after {options.moves}: {describe_outcome(position)}")
    with SolvingProgress(solver) as progress:
        scores = solver.analyze(position, progress, weak=options.weak)
    print(_as_json(options.moves, scores) if options.json else report(position, scores, weak=options.weak))
    return 0


def _as_json(moves: str, scores: Sequence[int | None]) -> str:
    """The position's score and those of its columns, in notation, such as "4"; a full column has none."""
    columns = {column_name(column): score for column, score in enumerate(scores) if score is not None}
    return json.dumps({"moves": moves, "score": max(columns.values()), "columns": columns})


def report(position: Position, scores: Sequence[int | None], *, weak: bool) -> str:
    """The board of an unfinished game, who is to move, and each column's score with its meaning."""
    screen, best = Screen(sys.stdout), best_columns(scores)
    lines = [screen.drawn(position), "", f"{screen.side(0 if position.first_to_move else 1)} to move", ""]
    lines.append("column  score  with best play")
    for column, score in enumerate(scores):
        shown, meaning = (".", "full") if score is None else (score, _meaning(position, score, weak=weak))
        lines.append(f"{column_name(column):>6}  {shown:>5}  {meaning}{'  *' if column in best else ''}")
    return "\n".join(lines)


def _meaning(position: Position, score: int, *, weak: bool) -> str:
    if weak and score:
        return "wins" if score > 0 else "loses"
    return Verdict.of(position, score).text


def _solve_lines(options: SolveOptions, solver: Solver) -> int:
    """Answer line by line; report a bad line, or one that gives another score, with its number, and continue."""
    code = 0
    for number, words in content_lines(read_stdin_lines()):
        try:
            position, given = parse_position(words, solver.geometry)
        except ValueError as error:
            print(f"line {number}: {error}", file=sys.stderr)
            code = 2
            continue
        moves = words[0]
        if options.column_scores:
            scores = solver.analyze(position, weak=options.weak)
            score = max(found for found in scores if found is not None)
            cells = ["." if score is None else str(score) for score in scores]
            line = _as_json(moves, scores) if options.json else " ".join([moves, *cells])
        else:
            score = solver.solve(position, weak=options.weak)
            line = json.dumps({"moves": moves, "score": score}) if options.json else f"{moves} {score}"
        print(line, flush=True)
        claim = max(given, default=score)
        expected = (claim > 0) - (claim < 0) if options.weak else claim
        if score != expected:
            print(f"line {number}: the score is {score}, but the line gives {expected}", file=sys.stderr)
            code = 2
    return code
