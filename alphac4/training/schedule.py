"""The learning rate's way through a run, also through one whose length is changed."""

import math
from dataclasses import dataclass

from alphac4.training.config import LearningConfig


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A cosine from one rate to the final one (Loshchilov and Hutter 2017), after a linear warm-up of the run.

    If the run's length changes, the rate goes on from where it is: a new cosine leads from there to the final rate at
    the new end. So it never rises because of a change, and a finished run that is made longer stays at its final rate.
    """

    start_step: int = 0
    start_rate: float
    end_step: int

    @classmethod
    def of_run(cls, config: LearningConfig, steps: int) -> "Schedule":
        """The schedule of a new run of so many steps."""
        return cls(start_rate=config.learning_rate, end_step=steps)

    def rate(self, config: LearningConfig, step: int) -> float:
        """The learning rate of the step after ``step`` others."""
        return self._cosine(config, step) * min(1.0, (step + 1) / max(config.warmup_steps, 1))

    def until(self, config: LearningConfig, step: int, end_step: int) -> "Schedule":
        """The schedule from ``step`` on if the run is to end after ``end_step``."""
        if end_step == self.end_step:
            return self
        return Schedule(start_step=step, start_rate=self._cosine(config, step), end_step=max(end_step, step))

    def _cosine(self, config: LearningConfig, step: int) -> float:
        progress = min(1.0, max(0, step - self.start_step) / max(self.end_step - self.start_step, 1))
        falling = 0.5 * (1.0 + math.cos(math.pi * progress))
        return config.final_learning_rate + (self.start_rate - config.final_learning_rate) * falling
