"""Random configurations: each trains an iteration, or is refused in one line before anything is written.

``PYTHONPATH=tests python -m campaigns.configurations --count 300``
"""

import copy
import json
import math
import os
import shutil
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from alphac4.cli import main as alphac4
from campaigns.command import run_campaign
from campaigns.tiny_run import SETTINGS, in_child, prepare

REFUSED = 2  # the command's exit code

# What a setting may be made: sizes that are cheap, ends of ranges, and what cannot be.
CHOICES: dict[str, list[Any]] = {
    "samples": [1, 7, 60, 0, -1, "many", None, 1.5],
    "seed": [0, 2**31, -1, 2**70],
    "keep_checkpoints": [1, 3, 0],
    "board": [{"rows": 4, "columns": 5}, {"rows": 5, "columns": 4, "run_length": 3}, {"rows": 9}, {"columns": 1},
              {"rows": 1, "columns": 4}, {"run_length": 9}, {"diagonals": False}, {"rows": -6}, []],
    "network.channels": [1, 3, 16, 0, 100_000, -4],
    "network.blocks": [0, 2, 100_000, -1],
    "network.head_channels": [1, 5, 0],
    "network.value_hidden": [1, 9, 0, 10**9],
    "selfplay.games": [1, 2, 9, 0, 3.5],
    "selfplay.full_simulations": [1, 2, 9, 0],
    "selfplay.fast_simulations": [1, 3, 0],
    "selfplay.full_share": [1.0, 0.01, 0.0, math.nan, 2.0],
    "selfplay.record_fast": [True, False, 1],
    "selfplay.policy_target": ["visits", "completed_q", "best"],
    "selfplay.gumbel_actions": [0, 1, 4, 100, -1],
    "selfplay.opening_plies": [0, 3, 60, -1],
    "selfplay.opening_share": [0.0, 1.0, math.inf],
    "selfplay.temperature": [0.0, 3.0, -1.0, math.nan],
    "selfplay.trace_decay": [0.0, 1.0, 1.5],
    "learning.batch_size": [1, 2, 64, 0],
    "learning.passes": [0.01, 3.0, 0.0, math.nan],
    "learning.optimizer": ["adamw", "muon", "sgd"],
    "learning.muon_rate": [0.1, 10.0, 0.0, math.nan],
    "learning.learning_rate": [1e-9, 10.0, 0.0, math.nan, math.inf],
    "learning.final_learning_rate": [0.0, 1.0, math.nan],
    "learning.warmup_steps": [0, 1, 1000, -5],
    "learning.weight_decay": [0.0, 10.0, math.nan, -1.0],
    "learning.ownership_weight": [0.0, 1.0, math.nan],
    "learning.average_decay": [0.0, 1.0, 1.1],
    "learning.gradient_clip": [1e-6, 1e9, 0.0, math.nan],
    "learning.window_minimum": [1, 10, 0],
    "gate.pairs": [1, 3, 0, -1],
    "gate.simulations": [1, 5, 0],
    "gate.classic_rollouts": [[], [2], [1, 3], [0], 5],
    "gate.classic_every": [0, 1, -1],
    "gate.closing_pairs": [1, 2, 0, -1],
    "gate.rule": [{"kind": "sprt"}, {"threshold": 0.99}, {"threshold": 2}, {"kind": "luck"}],
}  # fmt: skip


@dataclass(kw_only=True)
class Tally:
    """The results with the configurations."""

    tried: int = 0
    trained: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)


def main() -> int:
    """Parse, attack, print one line."""
    return run_campaign(attack, describe, about=__doc__, count=300)


def describe(tally: Tally) -> str:
    """What was found, in a line."""
    return f"configurations: {tally.tried}: {tally.trained} trained, {tally.refused} refused in one line"


def attack(folder: Path, count: int, seed: int) -> Tally:
    """Try ``count`` configurations."""
    prepare(folder)
    rng = np.random.default_rng(seed)
    tally = Tally()
    names = list(CHOICES)
    for _ in range(count):
        settings = copy.deepcopy(SETTINGS) | {"iterations": 1}
        for index in rng.choice(len(names), int(rng.integers(1, 4)), replace=False):
            name = names[int(index)]
            group, _, leaf = name.rpartition(".")
            options = CHOICES[name]
            (settings[group] if group else settings)[leaf] = options[int(rng.integers(len(options)))]
        run, file, said = folder / "run", folder / "settings.json", folder / "said"
        shutil.rmtree(run, ignore_errors=True)
        file.write_text(json.dumps(settings))
        tally.tried += 1
        try:
            status = in_child(partial(_train, run, file, said))
        except TimeoutError as error:
            tally.failures.append(f"{_changed(settings)}: {error}")
            continue
        text = said.read_text()
        lines = [line for line in text.splitlines() if line.startswith("alphac4 train:")]
        if status == 0:
            tally.trained += 1
        elif status == REFUSED and len(lines) == 1 and "Traceback" not in text and not run.exists():
            tally.refused += 1
        else:
            left = ", and left a folder" if run.exists() else ""
            tally.failures.append(f"{_changed(settings)}: exit status {status}{left}: {text[-300:]}")
    return tally


def _train(run: Path, settings: Path, said: Path) -> None:
    with said.open("w") as file:
        os.dup2(file.fileno(), 2)
    os._exit(alphac4(["train", "--run", str(run), "--settings", str(settings)]))


def _changed(settings: dict[str, Any]) -> str:
    flat = {name: value for name, value in settings.items() if not isinstance(value, dict)}
    for group, values in settings.items():
        if isinstance(values, dict):
            flat |= {f"{group}.{name}": value for name, value in values.items()}
    known = {f"{group}.{name}": value for group, values in SETTINGS.items() if isinstance(values, dict)
             for name, value in values.items()} | SETTINGS  # fmt: skip
    return ", ".join(f"{name}={value}" for name, value in flat.items() if known.get(name) != value)


if __name__ == "__main__":
    raise SystemExit(main())
