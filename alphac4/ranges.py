"""What numbers settings may be: checked when a configuration is made, before anything is allocated."""

import dataclasses
import math
from typing import Any

MOST_SEED = 2**63 - 1
MOST = 1_000_000_000_000  # where a larger number can only be a slip of the finger


def check_ranges(settings: Any, **ranges: tuple[float, float]) -> None:
    """Check that each named field lies within ``(least, most)``; None is left alone, of a list each item is checked.

    Raises:
        ValueError: in one line that names the field.
    """
    for name, (least, most) in ranges.items():
        value = getattr(settings, name)
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and not least <= number <= most:
                limit = f"at most {most:,}" if number > most else f"at least {least:,}"
                raise ValueError(f"{name} must be {limit}, not {_shown(number)}")


def check_finite(settings: Any) -> None:
    """Check that no field is infinite or not a number: whatever is computed from those is no number either.

    Raises:
        ValueError: in one line that names the field.
    """
    for item in dataclasses.fields(settings):
        value = getattr(settings, item.name)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, float) and not math.isfinite(number):
                raise ValueError(f"{item.name} must be a finite number, not {number}")


def _shown(number: float) -> str:
    """The number, or how long it is."""
    text = str(number)
    return text if len(text) <= 30 else f"a number of {len(text)} digits"
