"""Progress of a run on standard error."""

import contextlib
import sys
from typing import Any

from tqdm import tqdm

from alphac4.machine import wrap_text
from alphac4.training.loop import Callback, Progress


def write_progress(text: str) -> None:
    """Write a text above the progress bars; errors are ignored if standard error is closed or full."""
    if sys.stderr:
        with contextlib.suppress(OSError):
            tqdm.write(wrap_text(text, sys.stderr), file=sys.stderr)
            sys.stderr.flush()


class ProgressBar(Callback):
    """Progress bar of each phase of an iteration on a terminal; matches have their own bars."""

    def __init__(self) -> None:
        self._bar: tqdm[Any] | None = None  # bar of the current phase
        self._phase = ""

    def on_progress(self, progress: Progress) -> None:
        """Update the bar, or replace it when a new phase begins."""
        if progress.phase != self._phase:
            self.close()
            self._phase = progress.phase
            if progress.total:
                self._bar = tqdm(
                    total=progress.total,
                    desc=f"iteration {progress.iteration}: {progress.phase}",
                    unit="pos" if progress.phase == "self-play" else "step",
                    unit_scale=progress.phase == "self-play",
                    disable=None if sys.stderr else True,
                    leave=False,
                )
        if self._bar is not None:
            self._bar.update(progress.done - self._bar.n)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
        self._bar, self._phase = None, ""
