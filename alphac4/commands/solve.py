"""`alphac4 solve`: exact scores of positions."""

import json
import sys
from collections.abc import Sequence

from alphac4.commands.options import SolveOptions
from alphac4.game import IllegalMove, Position, column_name
from alphac4.play.screen import Screen, SolvingProgress
from alphac4.solver.book import no_known_scores
from alphac4.solver.solver import Solver, Verdict, best_columns


def run(options: SolveOptions) -> int:
    """Score one position or many; 2 if a line of the input could not be read."""
    geometry = options.board.geometry()
    book = None if options.book else no_known_scores()
    solver = Solver(geometry, table_bits=options.table_bits, book=book)
    if options.batch:
        return _solve_lines(options, solver)
    position = Position.from_moves(options.moves, geometry)
    outcome = position.outcome()
    if outcome is not None:
        ended = "a draw" if outcome == 0 else f"{'ox'[not position.first_to_move]} has won"
        raise ValueError(f"{options.moves}: there is nothing to solve, the game is over: {ended}")
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
    """Answer line by line; a bad line is reported with its number and the rest goes on."""
    code = 0
    for number, line in enumerate(sys.stdin, start=1):
        moves = line.strip()
        if not moves:
            continue
        try:
            position = Position.from_moves(moves, solver.geometry)
        except IllegalMove as error:
            print(f"line {number}: {error}", file=sys.stderr)
            code = 2
            continue
        if options.column_scores:
            scores = solver.analyze(position, weak=options.weak)
            cells = ["." if score is None else str(score) for score in scores]
            line = _as_json(moves, scores) if options.json else " ".join([moves, *cells])
        else:
            score = solver.solve(position, weak=options.weak)
            line = json.dumps({"moves": moves, "score": score}) if options.json else f"{moves} {score}"
        print(line, flush=True)
    return code
