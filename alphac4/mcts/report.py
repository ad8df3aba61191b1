"""What a search saw, as text."""

import math

from alphac4.game.position import column_name
from alphac4.mcts.results import SearchResult
from alphac4.mcts.tree import ILLEGAL


def describe_search(result: SearchResult, index: int = 0) -> str:
    """A line for each move of the ``index``-th position, the line of best play, and how long it took.

    Values, scores and win/draw/loss are seen by the side to move; the time is that of the whole batch.
    """
    lines = ["column  visits   value   prior   score"]
    for column, proof in enumerate(result.proofs[index]):
        if proof == ILLEGAL:
            continue
        value, score = result.values[index, column], result.scores[index, column]
        lines.append(
            f"{column_name(column):>6}  {result.visits[index, column]:>6}  {_number(value):>6}  "
            f"{result.priors[index, column]:>6.3f}  {_number(score):>6}"
            f"{'  *' if column == result.moves[index] else ''}"
            f"{'  ' + text if (text := result.describe_proof(index, column)) else ''}"
        )
    win, draw, loss = (100 * share for share in result.wdl[index])
    simulations = int(result.simulations[index])
    rate = int(result.simulations.sum()) / max(result.seconds, 1e-9)
    lines += [
        "",
        f"value {result.value[index]:+.3f}: win {win:.0f} %, draw {draw:.0f} %, loss {loss:.0f} %",
        f"best line {' '.join(column_name(column) for column in result.variations[index])}",
        f"{simulations:,} simulations in {result.seconds:.2f} s, {rate:,.0f} a second",
    ]
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:+.3f}" if math.isfinite(value) else "-"
