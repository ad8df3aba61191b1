"""Random configurations: each trains an iteration, or is refused in one line before anything is written."""

import copy
import json
import math
import shutil
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from alphac4.training.config import to_dict
from campaigns.command import Findings, fuzz
from campaigns.tiny_run import prepare, tiny_run, train_by_command

REFUSED = 2  # the command's exit code
BASE = to_dict(tiny_run(iterations=1))
LEFT_ALONE = {"iterations", "machine.device", "start_from", "gate.classic_rollouts", "evaluation.every"}
# What any setting may be made, by what it is; sizes are cheap, or cannot be.
BY_TYPE: dict[type, list[Any]] = {
    bool: [True, False, 1],
    int: [0, 1, 2, 3, 9, -1, 1.5, "many", None],
    float: [0.0, 1e-9, 0.01, 1.0, 1.5, 10.0, -1.0, math.nan, math.inf],
    str: ["nonsense", "", None],
    list: [[], [2], [1, 3], [0], 5],
}
# What only these may be made, in place of that or besides.
BY_NAME: dict[str, list[Any]] = {
    "seed": [0, 2**31, -1, 2**70],
    "board": [{"rows": 4, "columns": 5}, {"rows": 5, "columns": 4, "run_length": 3}, {"rows": 9}, {"columns": 1},
              {"rows": 1, "columns": 4}, {"run_length": 9}, {"diagonals": False}, {"rows": -6}, []],
    "network.channels": [1, 3, 16, 0, 100_000, -4],
    "network.blocks": [0, 2, 100_000, -1],
    "selfplay.policy_target": ["visits", "completed_q", "best"],
    "selfplay.opening_plies": [0, 3, 60, -1],
    "selfplay.c_init": [0.1, 0.0],
    "selfplay.fpu_reduction": [-1.0],
    "learning.optimizer": ["adamw", "muon", "sgd"],
    "gate.threshold": [0.99, 2],
}  # fmt: skip


def choices() -> list[tuple[str, Any]]:
    """Each setting with each value that it may be given."""
    flat = {name: value for name, value in BASE.items() if not isinstance(value, dict)}
    groups = {group: values for group, values in BASE.items() if isinstance(values, dict) and group != "board"}
    flat |= {f"{group}.{name}": value for group, values in groups.items() for name, value in values.items()}
    values = {name: BY_TYPE.get(type(value), []) for name, value in flat.items() if name not in LEFT_ALONE} | BY_NAME
    return [(name, value) for name, options in values.items() for value in options]


def attack(folder: Path, count: int, seed: int) -> Findings:
    """Try ``count`` configurations."""
    prepare()
    found, run, file = Findings(), folder / "run", folder / "settings.json"

    def judge(changes: list[tuple[str, Any]]) -> str:
        settings = copy.deepcopy(BASE)
        for name, value in changes:
            group, _, leaf = name.rpartition(".")
            (settings[group] if group else settings)[leaf] = value
        shutil.rmtree(run, ignore_errors=True)
        file.write_text(json.dumps(settings))
        status, text = train_by_command(run, file)
        if status == 0:
            return "trained"
        assert status == REFUSED, f"exit status {status} for {changes}: {text[-300:]}"
        assert not run.exists(), f"a folder is left for {changes}: {text[-300:]}"
        lines = [line for line in text.splitlines() if line.startswith("alphac4 train:")]
        assert len(lines) == 1, f"{len(lines)} lines for {changes}: {text[-300:]}"
        assert "Traceback" not in text, text
        return "refused in one line"

    changes = st.lists(st.sampled_from(choices()), min_size=1, max_size=3, unique_by=lambda change: change[0])
    fuzz(changes, judge, count, seed, found)
    return found
