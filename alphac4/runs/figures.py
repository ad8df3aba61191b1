"""Figures of training: games with the search's policies, calibration of values, openings, mistakes."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from matplotlib.ticker import MaxNLocator

from alphac4.game import Board, Position, column_name
from alphac4.game.position import COLUMN_NAMES, count_of
from alphac4.runs.reports import IterationReport
from alphac4.training.reports import GameRecord

BOARD_BLUE, EMPTY, FIRST, SECOND, INK = "#1f4e9c", "#e9eef7", "#d7263d", "#f4c20d", "#222222"
SET_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")  # Okabe and Ito 2008


def new_figure(height: float = 2.15, width: float = 3.5) -> Figure:
    """Return a new figure, which is not in pyplot's global list, because that would keep it in memory.

    TensorBoard shows images 350 pixels wide or 215 high, and scales other sizes badly.
    """
    return Figure(figsize=(width, height), dpi=100, layout="constrained")


def label(axes: Axes, *, title: str = "", xlabel: str = "", ylabel: str = "") -> None:
    axes.set_title(title, fontsize=8, color=INK)
    axes.set_xlabel(xlabel, fontsize=7)
    axes.set_ylabel(ylabel, fontsize=7)
    axes.tick_params(labelsize=7)


def draw_board(axes: Axes, position: Position, policy: Sequence[float] | None = None, title: str = "") -> None:
    """Draw a board with its last move marked, and the policy of the side to move as bars above the columns."""
    board = position.board
    axes.add_patch(Rectangle((-0.5, -0.5), board.columns, board.rows, color=BOARD_BLUE, zorder=0))
    grid = position.grid()
    for row in range(board.rows):
        for column in range(board.columns):
            colour = (EMPTY, FIRST, SECOND)[grid[row, column]]
            axes.add_patch(Circle((column, row), 0.41, color=colour, zorder=1))
    if position.moves:
        last = COLUMN_NAMES.index(position.moves[-1])
        top = int((grid[:, last] > 0).sum()) - 1
        axes.add_patch(Circle((last, top), 0.15, color="white", zorder=2))
    height = board.rows - 0.3
    if policy is not None:
        colour = FIRST if position.first_to_move else SECOND
        for column, share in enumerate(policy):
            axes.add_patch(Rectangle((column - 0.38, height), 0.76, 2.0 * share, color=colour, zorder=1))
            if share >= 0.05:
                axes.text(column, height + 2.0 * share + 0.08, f"{share:.0%}", ha="center", fontsize=6, color=INK)
    axes.set_xlim(-0.6, board.columns - 0.4)
    axes.set_ylim(-0.6, board.rows + 2.4)
    axes.set_aspect("equal")
    axes.set_xticks(range(board.columns), [column_name(column) for column in range(board.columns)], fontsize=7)
    axes.set_yticks([])
    axes.tick_params(length=0, pad=1)
    axes.spines[:].set_visible(False)
    axes.set_title(title, fontsize=8, color=INK)


def game_figure(record: GameRecord, board: Board, moments: int, columns: int = 4, width: float = 10.4) -> Figure:
    """Draw at most ``moments`` boards of a game, evenly spaced up to the end, with the search's policies and values."""
    searched = len(record.values)
    shown = sorted({round(i) for i in np.linspace(0, searched - 1, min(moments - 1, searched))})
    rows = -(-(len(shown) + 1) // columns)
    figure = new_figure(1.2 * width / columns * rows, width)
    all_axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for axes in all_axes[len(shown) + 1 :]:
        axes.set_visible(False)
    for axes, index in zip(all_axes, shown, strict=False):
        ply = record.opening_plies + index
        position = Position.from_moves(record.moves[:ply], board)
        side = "red" if position.first_to_move else "yellow"
        draw_board(axes, position, record.policies[index], f"{ply + 1}. {side}: {record.values[index]:+z.2f}")
    result = {1: "red wins", 0: "draw", -1: "yellow wins"}[record.outcome]
    draw_board(all_axes[len(shown)], Position.from_moves(record.moves, board), None, f"end: {result}")
    figure.suptitle(f"{record.moves}\nvalues are for the side to move", fontsize=7, color=INK)
    return figure


def calibration_figure(bins: Sequence[tuple[float, float, int]]) -> Figure:
    """Draw mean outcomes against mean root values; calibrated values are on the diagonal."""
    figure = new_figure()
    axes = figure.subplots()
    axes.plot([-1, 1], [-1, 1], color="#bbbbbb", linewidth=1)
    values, outcomes, counts = (np.array([row[i] for row in bins], float) for i in range(3))
    axes.scatter(values, outcomes, s=30 + 400 * counts / max(counts.max(initial=1), 1), color=BOARD_BLUE, alpha=0.75)
    label(
        axes,
        title="larger: more positions",
        xlabel="root value predicted by the search",
        ylabel="mean outcome of the games",
    )
    axes.set_xlim(-1.1, 1.1)
    axes.set_ylim(-1.25, 1.25)
    axes.grid(alpha=0.3)
    return figure


def bars_figure(counts: Mapping[str, int], total: int, title: str, xlabel: str, ylabel: str) -> Figure:
    """Draw the shares of ``counts`` in ``total`` as bars, in the given order."""
    figure = new_figure()
    axes = figure.subplots()
    axes.bar(range(len(counts)), [100 * count / max(total, 1) for count in counts.values()], color=BOARD_BLUE)
    axes.set_xticks(range(len(counts)), list(counts))
    label(axes, title=title, xlabel=xlabel, ylabel=ylabel)
    if len(counts) > 10:
        axes.tick_params(axis="x", labelrotation=90)
    return figure


def mistakes_figure(reports: Sequence[IterationReport]) -> Figure:
    """Draw the share of mistakes by set, raw and with search, in iterations with an evaluation."""
    figure = new_figure()
    iterations = [report.iteration for report in reports]
    evaluations = [report.evaluation for report in reports if report.evaluation is not None]
    every_set = dict.fromkeys(name for evaluation in evaluations for name in evaluation.raw.mistake_rate_by_set)
    panels = figure.subplots(1, 2, sharey=True)
    thick: dict[str, Any] = {"linewidth": 2.2, "marker": "o", "markersize": 4}  # a single point is visible
    titles = ("raw network", count_of(evaluations[-1].simulations, "simulation"))
    for axes, which, title in zip(panels, ("raw", "search"), titles, strict=True):
        shares = [getattr(evaluation, which) for evaluation in evaluations]
        axes.plot(iterations, [100 * share.mistake_rate for share in shares], color=INK, label="all", **thick)
        for name, colour, dashes in zip(every_set, cycle(SET_COLOURS), cycle(("-", "--")), strict=False):
            errors = [100 * share.mistake_rate_by_set.get(name, np.nan) for share in shares]
            axes.plot(iterations, errors, color=colour, linestyle=dashes, marker="o", markersize=2.5, label=name)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
        label(axes, title=title, xlabel="iteration", ylabel="mistakes, %" if which == "raw" else "")
        axes.grid(alpha=0.3)
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, fontsize=6, loc="outside lower center", ncols=4, frameon=False)
    return figure
