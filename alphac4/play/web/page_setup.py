"""What the page's scripts are told when it opens, by the server and by the exported files alike."""

from collections.abc import Sequence

from alphac4.game import Geometry
from alphac4.game.position import COLUMN_NAMES
from alphac4.play.levels import Level


def page_setup(
    geometry: Geometry, network: str, levels: Sequence[Level], *, simulations: int, exact: bool
) -> dict[str, object]:
    """The rules of the game, how columns are written, and what the page offers.

    Args:
        geometry: the board, with the rules of winning.
        network: what the page calls the network.
        levels: the opponents to choose from.
        simulations: of an analysis.
        exact: whether the exact solver can be asked.
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
            }
            for level in levels
        ],
        "network": network,
        "simulations": simulations,
        "exact": exact,
    }
