"""Picture of a strength report."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from alphac4.evaluation.positions import ALL
from alphac4.evaluation.report import UNTRAINED, StrengthReport, SubjectReport
from alphac4.game.position import count_of
from alphac4.storage.files import write_atomically

MAIN_COLOUR, UNTRAINED_COLOUR = "#1f4e9c", "#8a8f98"
OTHER_COLOURS = ("#d7263d", "#e39b0b", "#2a9d4b", "#7b3fa0")
SUFFIXES = (".png", ".svg", ".pdf")


def save_picture(report: StrengthReport, path: Path) -> None:
    """Draw the report to a file, in the format of its suffix, one of `SUFFIXES`."""
    content = io.BytesIO()
    draw(report).savefig(content, dpi=130, format=path.suffix[1:])
    write_atomically(path, content.getvalue())


def draw(report: StrengthReport) -> Figure:
    """Draw the mistakes of every subject by set and budget, and the calibration of its values."""
    report = replace(report, subjects=[replace(s, name=_literal(s.name)) for s in report.subjects])
    valued = [subject for subject in report.subjects if any(budget.sets[ALL].value for budget in subject.budgets)]
    panels = len(report.first_sets) + bool(valued)
    columns = 5 if panels > 8 else min(panels, 4)
    rows = -(-panels // columns)
    figure = Figure(figsize=(3.4 * columns, 3.1 * rows + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    all_axes = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for axes in all_axes[panels:]:
        axes.set_visible(False)
    colours = _colours(report)
    for (name, metrics), axes in zip(report.first_sets.items(), all_axes, strict=False):
        _draw_mistakes(axes, report, name, colours)
        axes.set_title(f"{_literal(name)} ({count_of(metrics.mistakes.count, 'position')})", fontsize=10)
    for axes in all_axes[: len(report.first_sets) : columns]:
        axes.set_ylabel("mistakes, % (square-root scale)", fontsize=8)
    if valued:
        _draw_calibration(all_axes[len(report.first_sets)], valued, colours)
    shown = dict(zip(*reversed(all_axes[0].get_legend_handles_labels()), strict=True))
    names = [subject.name for subject in report.subjects]
    figure.legend([shown[name] for name in names], names, loc="outside lower center", ncols=4, fontsize=9)
    has_intervals = any(subject.budgets[0].simulations is not None for subject in report.subjects)
    title = f"{report.subjects[0].name} against exact play" + (" (95 % intervals)" if has_intervals else "")
    figure.suptitle(title, fontsize=12)
    return figure


def _literal(name: str) -> str:
    """Escape dollar signs, which matplotlib would read as the delimiters of a formula."""
    return name.replace("$", r"\$")


def _colours(report: StrengthReport) -> dict[str, str]:
    """Return a colour for each subject; after the last colour the first is used again."""
    colours = {report.subjects[0].name: MAIN_COLOUR, UNTRAINED: UNTRAINED_COLOUR}
    others = [subject.name for subject in report.subjects if subject.name not in colours]
    return colours | {name: OTHER_COLOURS[index % len(OTHER_COLOURS)] for index, name in enumerate(others)}


def _draw_mistakes(axes: Axes, report: StrengthReport, name: str, colours: Mapping[str, str]) -> None:
    """Draw a curve over the budgets of each network, and a horizontal line for each other player."""
    budgets = sorted({b.simulations for s in report.subjects for b in s.budgets if b.simulations is not None})
    for index, subject in enumerate(report.subjects):
        mistakes = [budget.sets[name].mistakes for budget in subject.budgets]
        if subject.budgets[0].simulations is None:
            # Not clipped, because half of a line at 0 would be missing.
            level = 100 * mistakes[0].value
            axes.axhline(level, color=colours[subject.name], linestyle="--", label=subject.name, clip_on=False)
            continue
        # Shift the error bars of each subject a little, so that they do not overlap.
        places = [budgets.index(b.simulations or 0) + 0.012 * len(budgets) * index for b in subject.budgets]
        bars = [[100 * (m.value - m.low) for m in mistakes], [100 * (m.high - m.value) for m in mistakes]]
        axes.errorbar(
            places,
            [100 * m.value for m in mistakes],
            bars,
            color=colours[subject.name],
            marker="o",
            markersize=4,
            elinewidth=1,
            label=subject.name,
        )
    # A square-root scale separates 1 % from 2 % next to the untrained network's 50 %, and includes 0.
    axes.set_yscale("function", functions=(lambda y: np.sqrt(np.maximum(y, 0)), np.square))
    axes.set_yticks([0, 1, 2, 5, 10, 20, 30, 50, 70, 100], minor=False)
    axes.set_ylim(0, 100)
    axes.yaxis.set_major_formatter(ScalarFormatter())
    if len(budgets) == 1:
        axes.set_xlim(-0.5, 0.5)  # otherwise the shifts would fill the width
    axes.set_xticks(range(len(budgets)), ["raw" if budget == 0 else str(budget) for budget in budgets])
    axes.tick_params(labelsize=8)
    axes.set_xlabel("simulations" if budgets else "", fontsize=8)
    axes.grid(alpha=0.3)


def _draw_calibration(axes: Axes, subjects: Sequence[SubjectReport], colours: Mapping[str, str]) -> None:
    """Draw the mean exact outcome by predicted value, for the first and last budget; larger points: more positions."""
    axes.plot([-1, 1], [-1, 1], color="black", linewidth=0.8, linestyle=":")
    for subject in subjects:
        for budget, style in ((subject.budgets[0], "--"), (subject.budgets[-1], "-")):
            value = budget.sets[ALL].value
            if value is None:
                continue
            x, y = [b.predicted for b in value.bins], [b.outcome for b in value.bins]
            total = sum(b.count for b in value.bins)
            sizes = [4 + 300 * b.count / total for b in value.bins]
            axes.plot(x, y, color=colours[subject.name], linestyle=style, linewidth=1)
            axes.scatter(x, y, sizes, color=colours[subject.name], alpha=0.5, linewidth=0)
    spans = {(subject.budgets[0].simulations, subject.budgets[-1].simulations) for subject in subjects}
    first, last = spans.pop()
    if spans:  # subjects with other budgets
        budgets = " (dashed: fewest simulations)"
    elif first != last:
        budgets = f": {first or 'raw'} (dashed), {last}"
    else:
        budgets = "" if first is None else f": {first or 'raw'}"
    axes.set_title(f"calibration{budgets}", fontsize=10)
    axes.set_xlabel("predicted value (larger: more positions)", fontsize=8)
    axes.set_ylabel("mean exact outcome", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.set_xlim(-1.1, 1.1)
    axes.set_ylim(-1.1, 1.1)
    axes.grid(alpha=0.3)
