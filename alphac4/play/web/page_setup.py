"""What the page's scripts get when it opens, by the server and by the exported files alike."""

from collections.abc import Sequence

from alphac4.game import Geometry
from alphac4.game.position import COLUMN_NAMES
from alphac4.game.rules import STANDARD
from alphac4.play.levels import Level
from alphac4.puzzles import packaged_puzzles


def page_setup(
    geometry: Geometry, network: str, levels: Sequence[Level], *, simulations: int, exact: bool, review: bool
) -> dict[str, object]:
    """The rules of the game, how columns are written, and what the page offers.

    Args:
        geometry: the board, with the rules of winning.
        network: what the page calls the network.
        levels: the opponents to choose from.
        simulations: of an analysis.
        exact: whether the exact solver can be asked.
        review: whether games can be reviewed.
    """
    return {
        "rows": geometry.rows,
        "columns": geometry.columns,
        "run_length": geometry.run_length,
        "diagonals": bool(geometry.diagonals),
        "column_names": COLUMN_NAMES[: geometry.columns],
        "levels": [
            {
                "name": level.name,
                "about": level.about,
                "simulations": level.simulations,
                "temperature": level.temperature,
                "perfect": level.perfect,
            }
            for level in levels
        ],
        "network": network,
        "simulations": simulations,
        "exact": exact,
        "review": review,
        "puzzles": geometry == STANDARD,
    }


def page_puzzles(geometry: Geometry) -> list[tuple[str, int, int, int]]:
    """Those that come with the package: position, 0-based column, moves until the win, difficulty."""
    if geometry != STANDARD:
        return []
    return [(p.moves, p.solution, p.distance, p.difficulty) for p in packaged_puzzles()]
