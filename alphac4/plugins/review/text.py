"""Review as text for a terminal."""

from alphac4.game import Position, column_name
from alphac4.game.position import chance, count_of
from alphac4.game.reasons import strength, weakness
from alphac4.play.screen import Screen
from alphac4.plugins.review.game import Review, ReviewedMove
from alphac4.solver.solver import Verdict

MAX_PLAYER = 14  # characters of a player's name above its column
GRAPH_LEFT = 10  # characters before the first position
GRAPH_ROWS = 9  # odd, so that the middle row is a draw
MARK_MEANINGS = {  # meanings of `Grade.mark`
    "~": "keeps the outcome, but wins later or loses sooner than necessary",
    "?": "gives away a win or a draw",
    "??": "turns a win into a loss",
}
MORE_TIME = "Use --seconds to give `alphac4 review` more time."


def describe_review(review: Review, screen: Screen) -> str:
    """Return the board, both sides' accuracy, the graph, the mistakes and every move as text.

    Tables fit a terminal of 80 characters; other lines may be longer; `Screen.line` wraps them.
    """
    parts = [
        screen.drawn(Position.from_moves(review.moves, review.board)),
        f"{review.moves or '(no moves)'}: {_result(review, screen)}",
        "\n".join(_side(review, index, screen) for index in (0, 1)),
    ]
    if review.reviewed:
        parts += [_graph(review, screen), _mistakes(review, screen), _moves(review, screen)]
    if review.unjudged:
        verb = "is" if review.unjudged == 1 else "are"
        moves = count_of(review.unjudged, "move")
        parts.append(f"{moves} {verb} not judged: the time limit was reached. {MORE_TIME}")
    if review.mistakes_without_better:
        mistakes = count_of(review.mistakes_without_better, "mistake")
        parts.append(f"Better moves are missing for {mistakes}: the time limit was reached. {MORE_TIME}")
    return "\n\n".join(part for part in parts if part)


def _result(review: Review, screen: Screen) -> str:
    outcome = review.outcome
    if outcome is None:
        return f"unfinished after {count_of(len(review.moves), 'stone')}"
    return "a draw" if outcome == 0 else f"{screen.side(int(outcome < 0))} has won"


def _side(review: Review, index: int, screen: Screen) -> str:
    side = review.summary(index)
    accuracy = "not judged" if side.accuracy is None else f"accuracy {side.accuracy:.0f} %"
    judged, mistakes = count_of(side.judged, "judged move"), count_of(side.mistakes, "mistake")
    return f"{screen.side(index)}: {accuracy}; of {judged} {side.best} best, {mistakes}"


def _graph(review: Review, screen: Screen) -> str:
    """Draw the player's value at the start and after each move as points, and below them the exact outcomes."""
    moves, first, second = review.reviewed, screen.stone(0), screen.stone(1)
    lines = []
    is_wide = screen.width is None or GRAPH_LEFT + 2 * len(moves) < screen.width
    space = " " if is_wide else ""  # between moves
    if review.values:
        rows = [round((1 - value) / 2 * (GRAPH_ROWS - 1)) for value in review.values]
        labels = {0: f"  {first} wins", GRAPH_ROWS // 2: f"{'draw':>8}", GRAPH_ROWS - 1: f"  {second} wins"}
        for row in range(GRAPH_ROWS):
            blank = "-" if row == GRAPH_ROWS // 2 else " "
            between = blank * len(space)
            points = "".join(("*" if found == row else blank) + between for found in rows)
            lines.append(f"{labels.get(row, ' ' * 8)} |{points}".rstrip())
    marks = {1: first, 0: "=", -1: second, None: "?"}
    start = moves[0].best
    exact = [None if start is None else start.outcome, *(move.first_player_outcome for move in moves)]
    lines.append(f"{'exact':>8} |" + space.join(marks[outcome] for outcome in exact))
    lines.append(f"{'played':>8} |.{space}" + space.join(column_name(move.column) for move in moves))
    if review.mistakes:
        lines.append(
            (
                f"{'mistakes':>8} | {space}" + space.join("^" if move.grade.is_mistake else " " for move in moves)
            ).rstrip()
        )
    if review.values:
        lines.append(f"* value estimated by {review.player} at the start and after each move")
    lines.append("exact: who wins with best play at the start and after each move (= draw, ? not judged)")
    return "\n".join(lines)


def _mistakes(review: Review, screen: Screen) -> str:
    points = review.mistakes
    if not points:
        return "" if review.unjudged else "Neither side made a mistake."
    return "\n".join(["Mistakes:", *(f"  {_mistake(review, move, screen)}" for move in points)])


def _mistake(review: Review, move: ReviewedMove, screen: Screen) -> str:
    text = (
        f"{move.ply}. {screen.stone(move.side)} plays {column_name(move.column)}{move.grade.mark}: "
        f"{move.grade.value} (with best play it {_does(move.best)}, after this move it {_does(move.played)})"
    )
    if move.better:
        text += f"; best {' or '.join(column_name(column) for column in move.better)}"
    if len(move.line) > 1:
        text += f", such as {' '.join(column_name(column) for column in move.line)}"
    if move.opinion is not None:
        text += f"; {review.player} would play {column_name(move.opinion.column)}"
    position, names = review.position(move), (screen.side(0), screen.side(1))
    reasons = [weakness(position, move.column, names), *(strength(position, best, names) for best in move.better[:1])]
    return text + "".join(f"\n    {reason}" for reason in reasons if reason)


def _does(verdict: Verdict | None) -> str:
    """Return a verdict as a verb, such as "wins in 5 moves" or "draws"."""
    if verdict is None:
        return "?"
    return verdict.text if verdict.score else "draws"


def _short(verdict: Verdict | None) -> str:
    """Return a verdict for the table, such as "wins in 5", "draws", or "?" for none."""
    if verdict is None or not verdict.score:
        return _does(verdict)
    return f"{'wins' if verdict.score > 0 else 'loses'} in {verdict.moves}"


def _moves(review: Review, screen: Screen) -> str:
    """Return the table of all moves, and below it the meanings of the marks that occur."""
    verdicts = [tuple(map(_short, (move.best, move.played))) for move in review.reviewed]
    width = max(len("best play"), *(len(text) for texts in verdicts for text in texts))
    comments = max(len(move.comment) for move in review.reviewed)
    opinion = review.player if len(review.player) <= MAX_PLAYER else "player"
    lines = [f"ply  move   {'best play':<{width}}  {'played':<{width}}  {'grade':<{comments}}  {opinion}".rstrip()]
    for move, (best, played) in zip(review.reviewed, verdicts, strict=True):
        line = (
            f"{move.ply:>3}  {screen.stone(move.side)} {column_name(move.column)}{move.grade.mark:<2}  "
            f"{best:<{width}}  {played:<{width}}  {move.comment:<{comments}}"
        )
        if move.opinion is not None:
            line += f"  {chance(move.opinion.value):>5}, plays {column_name(move.opinion.column)}"
        lines.append(line.rstrip())
    marks = {move.grade.mark for move in review.reviewed}
    if legend := [f"{mark} {meaning}" for mark, meaning in MARK_MEANINGS.items() if mark in marks]:
        lines.append("\n".join(legend))
    return "\n".join(lines)
