"""Write reports to TensorBoard as curves and images."""

import fnmatch
import io
import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard.summary import custom_scalars, scalar, text

from alphac4.arena.match import MatchResult
from alphac4.game import Board, column_name
from alphac4.game.position import count_of
from alphac4.runs import figures
from alphac4.runs.reports import IterationReport
from alphac4.runs.state import flatten
from alphac4.storage.files import add_path_to_errors

PICTURE_INTERVAL_S = 30.0
PICTURE_SHARE = 0.02  # largest share of a run's time that drawing may take

# TensorBoard sorts groups by name, capital letters first: Mistakes and Strength come first.
# All curves of a run have one colour, so each chart has one curve; the image "Mistakes/by set" shows all sets.
# The opponents of the run take the place of *.
CHARTS = {
    "Is it getting stronger?": (
        *("Mistakes/raw", "Mistakes/with search"),
        *("Mistakes/raw begin-hard", "Mistakes/with search begin-hard"),  # the hardest set
        *("Strength/against *", "Strength/closing match against *"),
        *("Strength/value error raw", "Strength/value error with search"),
    ),
    "Is it learning?": (
        *("loss/policy", "loss/value", "loss/ownership", "policy/target entropy", "policy/network entropy"),
        *("gate/score", "total/promotions"),  # not a measure of strength: equal candidates are promoted as well
    ),
    "Where does the time go?": (
        *("time/self-play: network", "time/self-play: tree", "time/learning", "time/gate"),
        *("speed/evaluations per second", "speed/simulations per second"),
    ),
}


class Monitor:
    """Writer of one run's curves and images. Every method may raise an OSError that names the folder."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        board: Board,
        history: Sequence[IterationReport] = (),  # later events, left by a killed run, are hidden
        *,
        has_changed: bool = False,  # whether ``settings`` differ from those of ``history``
    ) -> None:
        self._folder = folder
        self._board = board
        self._history = list(history)
        self._next_pictures = 0.0
        self._undrawn = self._history[-1] if self._history else None  # a killed run may not have drawn them
        self._tags = set[str]().union(*(scalars([report]) for report in self._history))
        self._is_charted = False  # whether this session has written the charts of these tags
        last = self._history[-1].iteration if self._history else 0
        with add_path_to_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            # TensorBoard reads files in the order of their names. `SummaryWriter` begins them with the time: if the
            # clock is behind that of an earlier session, such as another machine's, TensorBoard hides newer curves.
            numbers = [path.suffix[1:] for path in folder.glob("events.out.tfevents.*")]
            number = max((int(name) for name in numbers if name.isdecimal()), default=0) + 1
            self._file = (folder / f"events.out.tfevents.{number:06d}").open("xb")
            self._records = RecordWriter(self._file)
            self._write(file_version="brain.Event:2")
            hidden = last + 1 if self._history else 0  # this step and later ones, of earlier files
            self._write(step=hidden, session_log=SessionLog(status=SessionLog.START))
            if has_changed or not self._history:
                rows = [f"| {name} | {json.dumps(value)} |" for name, value in flatten(settings).items()]
                table = "\n".join(["| setting | value |", "|---|---|", *rows])
                self._write(step=last, summary=text("settings", table))
            self._file.flush()

    def _write(self, **fields: Any) -> None:
        self._records.write(Event(wall_time=time.time(), **fields).SerializeToString())

    def _write_curves(self, values: Mapping[str, float], step: int) -> None:
        """Write a value of each curve, and charts of all curves so far; a chart without a curve would be empty."""
        for tag, value in values.items():
            self._write(step=step, summary=scalar(tag, value))
        if not self._is_charted or not self._tags.issuperset(values):
            self._is_charted = True
            self._tags.update(values)
            layout = {}
            for group, patterns in CHARTS.items():
                shown = [tag for pattern in patterns for tag in fnmatch.filter(sorted(self._tags), pattern)]
                if shown:
                    layout[group] = {tag: ["Multiline", [f"{re.escape(tag)}$"]] for tag in shown}
            self._write(step=step, summary=custom_scalars(layout))

    def close(self) -> None:
        """Write the images of the last iteration and close the file."""
        with add_path_to_errors(self._folder), self._file:
            self.draw(always=True)

    def record(self, report: IterationReport) -> None:
        self._history.append(report)
        self._undrawn = report
        with add_path_to_errors(self._folder):
            self._write_curves(scalars(self._history), report.iteration)
            for warning in report.warnings:
                self._write(step=report.iteration, summary=text("warnings", warning))
            self._file.flush()

    def draw(self, *, always: bool = False) -> None:
        """Write the images of the last iteration; without ``always``, only if the previous ones are not recent."""
        if self._undrawn is None or (time.monotonic() < self._next_pictures and not always):
            return
        started = time.monotonic()
        with add_path_to_errors(self._folder):
            for tag, figure in self._figures(self._undrawn).items():
                self._write(step=self._undrawn.iteration, summary=_image(tag, figure))
            self._file.flush()
        now = time.monotonic()
        self._next_pictures, self._undrawn = now + max(PICTURE_INTERVAL_S, (now - started) / PICTURE_SHARE), None

    def record_closing(self, matches: Sequence[MatchResult], iteration: int) -> None:
        """Write the closing matches of a run, as points at its last ``iteration`` and as text."""
        with add_path_to_errors(self._folder):
            scores = {f"Strength/closing match against {match.opponent}": match.score for match in matches}
            self._write_curves(scores, iteration)
            for match in matches:
                result = f"against {match.opponent}: {match}"
                self._write(step=iteration, summary=text("closing matches", result))
            self._file.flush()

    def _figures(self, report: IterationReport) -> dict[str, Figure]:
        selfplay = report.selfplay
        first_moves = {column_name(column): count for column, count in enumerate(selfplay.first_moves)}
        openings = dict(sorted(selfplay.openings.items(), key=lambda item: -item[1])[:24])
        shown = {
            "games/first moves": figures.bars_figure(
                first_moves,
                sum(first_moves.values()),
                title="first move from the empty board",
                xlabel="column",
                ylabel="% of games without random moves",
            ),
            "games/openings": figures.bars_figure(
                openings,
                selfplay.games,
                title=f"the most frequent of {count_of(selfplay.distinct_openings, 'opening')}",
                xlabel="first four moves",
                ylabel="% of games",
            ),
            "value/calibration": figures.calibration_figure(selfplay.value_calibration),
        }
        judged = [past for past in self._history if past.evaluation is not None]
        if judged:
            shown["Mistakes/by set"] = figures.mistakes_figure(judged)
        for index, game in enumerate(selfplay.sample_games):
            shown[f"sample games/{index + 1}"] = figures.game_figure(game, self._board, moments=6, columns=2, width=3.5)
        return shown


def _image(tag: str, figure: Figure) -> Any:
    png = io.BytesIO()
    figure.savefig(png, format="png")
    width, height = figure.canvas.get_width_height()
    image = Summary.Image(width=width, height=height, encoded_image_string=png.getvalue())
    return Summary(value=[Summary.Value(tag=tag, image=image)])


def scalars(history: Sequence[IterationReport]) -> dict[str, float]:
    """Return the value of every curve at the latest iteration of a run, by tag."""
    report = history[-1]
    selfplay, learning = report.selfplay, report.learning
    values: dict[str, float | None] = {
        **{f"loss/{name}": loss for name, loss in learning.losses.items()},
        **{f"metrics/{name}": figure for name, figure in report.metrics.items()},
        "learning/learning rate": learning.learning_rate,
        "learning/gradient norm": learning.gradient_norm,
        "learning/window": learning.window,
        "policy/target entropy": selfplay.target_entropy,
        "policy/network entropy": learning.policy_entropy,
        "policy/surprise": selfplay.policy_surprise,
        "value/calibration error": selfplay.calibration_error,
        "games/plies": selfplay.mean_plies,
        "games/first player wins": selfplay.first_player_win_share,
        "games/draws": selfplay.draw_share,
        "games/distinct openings": selfplay.distinct_openings,
        "speed/simulations per second": selfplay.simulations_per_second,
        "speed/evaluations per second": selfplay.evaluations_per_second,
        "speed/cache hit share": selfplay.cache_hit_share,
        "speed/memory MB": report.memory_mb,
        **({"gate/score": report.gate.score} if report.gate.game_count else {}),
        # Cumulative, because TensorBoard's smoothing hides a curve of 0 and 1.
        "total/promotions": sum(bool(past.gate.promoted) for past in history),
        "gate/best iteration": report.best_iteration,
        "total/games": report.games_total,
        "total/samples": report.samples_total,
        "total/evaluations": report.evaluations_total,
        "total/minutes": report.seconds_total / 60,
    }
    values |= {f"time/{name}": share for name, share in report.time_shares.items()}
    values |= selfplay.statistics
    if report.evaluation is not None:
        for name, figures in (("raw", report.evaluation.raw), ("with search", report.evaluation.search)):
            values[f"Mistakes/{name}"] = figures.mistake_rate
            values |= {f"Mistakes/{name} {part}": error for part, error in figures.mistake_rate_by_set.items()}
            values[f"Strength/value error {name}"] = figures.value_error
    values |= {f"Strength/against {match.opponent}": match.score for match in report.matches}
    return {tag: value for tag, value in values.items() if value is not None}
