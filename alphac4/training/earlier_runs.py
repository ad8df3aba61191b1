"""What runs of earlier versions used without recording it, so that they go on with it."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from alphac4.training.config import TrainConfig

_FIRST_PUCT = {
    "c_init": 1.25,
    "c_base": 19652.0,
    "fpu_reduction": 0.25,
    "root_fpu_reduction": 0.0,
    "prior_temperature": 1.4,
}
RECORDED_LATER: Mapping[str, Any] = {"gate": {"puct": _FIRST_PUCT}, "evaluation": {"puct": _FIRST_PUCT}}
"""What runs used before their settings recorded it. It never changes, whatever becomes of the defaults."""

_QUICK: Mapping[str, Any] = {  # what all former versions of the quick preset share
    "samples": 30_000,
    "network": {"channels": 32, "blocks": 4},
    "selfplay": {"full_simulations": 64, "fast_simulations": 16, "full_share": 0.4},
}
_SHORT: Mapping[str, Any] = {  # on 2026-11-22, at first
    **_QUICK,
    "iterations": 24,
    "learning": {
        "batch_size": 128,
        "optimizer": "muon",
        "learning_rate": 4e-3,
        "muon_rate": 1.5,
        "window_minimum": 80_000,
    },
    "gate": {"pairs": 20, "simulations": 16, "classic_every": 6},
}
FORMER_PRESETS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "quick": (
        {  # until that day
            **_QUICK,
            "iterations": 36,
            "learning": {
                "batch_size": 512,
                "passes": 3.0,
                "optimizer": "adamw",
                "learning_rate": 2e-3,
                "window_minimum": 80_000,
            },
            "gate": {"pairs": 40, "simulations": 48, "classic_every": 6},
        },
        _SHORT,
        {**_SHORT, "learning": {**_SHORT["learning"], "fast_weight": 0.5}},  # then for some hours
    ),
    "standard": (
        {  # until that day
            "iterations": 45,
            "samples": 80_000,
            "network": {"channels": 64, "blocks": 5, "head_channels": 16, "value_hidden": 128},
            "selfplay": {
                "full_simulations": 96,
                "fast_simulations": 24,
                "full_share": 0.33,
                "opening_plies": 10,
                "opening_share": 0.6,
            },
            "learning": {"final_learning_rate": 1e-4, "average_decay": 0.995, "window_minimum": 200_000},
            "gate": {"pairs": 30, "simulations": 32, "classic_every": 9, "classic_pairs": 10},
        },
    ),
}
"""What presets were, over the defaults, for runs that began with them."""


def completed(settings: Mapping[str, Any], missing: Mapping[str, Any] = RECORDED_LATER) -> dict[str, Any]:
    """The settings of a run in the form of `to_dict`, with what its version used but did not record."""
    whole = dict(settings)
    for name, value in missing.items():
        if name not in whole:
            whole[name] = value
        elif isinstance(value, Mapping) and isinstance(whole[name], Mapping):
            whole[name] = completed(whole[name], value)
    return whole


def keeping_searches(config: TrainConfig, run: TrainConfig) -> TrainConfig:
    """``config`` with the searches by which a ``run`` measures strength.

    A preset whose defaults have changed since must not change them unasked.
    """
    return dataclasses.replace(
        config,
        gate=dataclasses.replace(config.gate, puct=run.gate.puct),
        evaluation=dataclasses.replace(config.evaluation, puct=run.evaluation.puct),
    )
