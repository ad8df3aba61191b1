"""Pictures of positions and games, for Python users."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from alphac4.api.positions import Given, check_kind
from alphac4.game import Geometry, Position
from alphac4.game.rules import STANDARD
from alphac4.runs import figures
from alphac4.selfplay.statistics import GameRecord


def draw_board(
    position: Given,
    policy: Sequence[float] | None = None,
    *,
    title: str = "",
    axes: Axes | None = None,
    geometry: Geometry = STANDARD,
) -> Axes:
    """Draw a position by matplotlib, its last stone marked; a notebook shows it.

    Args:
        position: a move string such as "4455", or a `Position`, of a finished game too.
        policy: a share in [0, 1] for each column, drawn as bars above the board.
        title: above all that.
        axes: where to draw; by default in a figure of its own.
        geometry: the board of a move string.

    Raises:
        ValueError: in one line, for an illegal move, or shares for another number of columns.
    """
    check_kind(position)
    found = Position.from_moves(position, geometry) if isinstance(position, str) else position
    if policy is not None and len(policy) != found.geometry.columns:
        raise ValueError(f"the policy needs {found.geometry.columns} shares, one for each column, not {len(policy)}")
    if axes is None:
        from matplotlib import pyplot

        axes = pyplot.subplots(figsize=(3.2, 3.4), layout="constrained")[1]
    figures.draw_board(axes, found, policy, title)
    return axes


def draw_game(game: GameRecord, *, geometry: Geometry = STANDARD, moments: int = 8) -> Figure:
    """Draw a game of self-play at evenly spread moments with what the search thought, and its end.

    Args:
        game: as the ``history`` of what `train` returns has them, in ``selfplay.sample_games``.
        geometry: the board.
        moments: how many boards, the last one included.

    Raises:
        ValueError: in one line, for fewer than two moments.
    """
    if moments < 2:
        raise ValueError(f"a game is drawn at two moments at least, not {moments}")
    return figures.game_figure(game, geometry, moments)
