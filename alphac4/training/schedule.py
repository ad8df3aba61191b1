"""The learning rate's way through a run, also through one whose length is changed."""

import math
from dataclasses import dataclass, replace

from alphac4.training.config import LearningConfig

WARMUP_STEPS = 100  # a new optimiser knows no moments, and its first full steps would be far too long
WARMUP_SHARE = 0.05  # of a run at most, so that a short one still learns


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A cosine from one rate to the final one (Loshchilov and Hutter 2017), after a linear warm-up of the run.

    If the run's length changes, the rate goes on from where it is: a new cosine leads from there to the final rate at
    the new end. So it never rises because of a change, and a finished run that is made longer stays at its final rate.
    """

    start_step: int = 0
    start_rate: float
    final_rate: float = 0.0
    end_step: int
    warmup_steps: int = 0

    @classmethod
    def of_run(cls, config: LearningConfig, steps: int) -> "Schedule":
        """The schedule of a new run of so many steps."""
        return cls(
            start_rate=config.learning_rate,
            final_rate=config.final_learning_rate,
            end_step=steps,
            warmup_steps=min(WARMUP_STEPS, int(WARMUP_SHARE * steps)),
        )

    def rate(self, step: int) -> float:
        """The learning rate of the step after ``step`` others."""
        return self._cosine(step) * min(1.0, (step + 1) / max(self.warmup_steps, 1))

    def until(self, step: int, end_step: int) -> "Schedule":
        """The schedule from ``step`` on if the run is to end after ``end_step``."""
        if end_step == self.end_step:
            return self
        return replace(self, start_step=step, start_rate=self._cosine(step), end_step=max(end_step, step))

    def _cosine(self, step: int) -> float:
        """``final + (start - final) (1 + cos(pi progress)) / 2``."""
        progress = min(1.0, max(0, step - self.start_step) / max(self.end_step - self.start_step, 1))
        falling = 0.5 * (1.0 + math.cos(math.pi * progress))
        return self.final_rate + (self.start_rate - self.final_rate) * falling
