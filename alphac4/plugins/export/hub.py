"""Export of a network as a folder for the Hugging Face hub, with a model card."""

import dataclasses
import importlib.util
import json
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from alphac4.compute import choose_compute
from alphac4.evaluation.measurement import MeasurementPlan, measure_strength
from alphac4.evaluation.positions import ALL, packaged_positions
from alphac4.evaluation.report import StrengthReport
from alphac4.game import STANDARD
from alphac4.game.position import count_of
from alphac4.game.rules import board_settings, describe
from alphac4.machine import install_advice
from alphac4.plugins.export.onnx import INPUT, OUTPUT, export_onnx, format_bound
from alphac4.storage.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from alphac4.storage.files import new_folder, write_atomically
from alphac4.storage.networks import SHIPPED
from alphac4.storage.records import quote
from alphac4.version import __version__

CARD = "README.md"
NETWORK_FILE = "model.safetensors"  # the file that hf://OWNER/NAME means
ONNX_FILE = "model.onnx"
PROJECT_LICENSE = "mit"
TASK = "reinforcement-learning"

TEMPLATE = """\
---
{{ card_data }}
---

# {{ name }}: a Connect Four network

A policy and value network for Connect Four on {{ board }}, trained by self-play as in AlphaZero: {{ size }}. It plays only on this board. Written by alphac4 {{ version }}.

## Use

With alphac4 and its extra `hub` installed:

```bash
alphac4 play --checkpoint hf://OWNER/NAME    # owner and name of this repository
```

```python
import alphac4

print(alphac4.load("hf://OWNER/NAME").search("", simulations=600))
```

| file | content |
|---|---|
| `{{ network_file }}` | the checkpoint: weights, configuration and provenance |
| `{{ onnx_file }}` | the network for any ONNX runtime; its probabilities are within {{ deviation }} of PyTorch's |
| `config.json` | architecture, board, settings and cost of the training, and final matches |

Input of the ONNX file: {{ input }}. Outputs: {{ output }}.

## Mistakes against exact play

{% if report %}A move is a mistake if its outcome (win, draw or loss) is worse than that of the best move. The exact solver measures mistakes{% if functions %}. Functions of the user replaced parts of the training: {{ functions }}{% else %}; it was not used in training{% endif %}. The positions come with alphac4.

```
{{ report }}
```
{% else %}Not measured: alphac4 includes positions for the standard board only.
{% endif %}"""  # noqa: E501 - lines of Markdown


def checked_license(name: Path, license_id: str | None) -> str:
    """Check and return the hub's identifier of the network's licence; also check that huggingface_hub is installed.

    Shipped networks have a default.
    """
    if license_id is None and str(name) in SHIPPED:
        license_id = PROJECT_LICENSE
    if license_id is None:
        raise ValueError("choose a licence for the network: --license mit, or another identifier of the hub")
    if not re.fullmatch(r"[a-z0-9.+-]+", license_id):
        raise ValueError(
            f"--license must be an identifier of the hub, such as mit or cc-by-4.0, not {quote(license_id)}"
        )
    if importlib.util.find_spec("huggingface_hub") is None:
        raise ValueError(f"--hub needs huggingface_hub: {install_advice('hub')}")
    return license_id


def export_hub(name: Path, folder: Path, license_id: str) -> None:
    """Measure a network, convert it, and write a new folder atomically; the card names the network after the folder."""
    checkpoint, shown = load_checkpoint(name), folder.absolute().name
    with new_folder(folder) as new:
        save_checkpoint(new / NETWORK_FILE, checkpoint)
        report = None
        if checkpoint.board == STANDARD:
            measurement = MeasurementPlan(sets=packaged_positions(), compute=choose_compute())
            report = measure_strength(str(new / NETWORK_FILE), measurement, untrained=False)
            report.subjects[0] = dataclasses.replace(report.subjects[0], name=shown)
        deviation = export_onnx(checkpoint, new / ONNX_FILE)
        card = model_card(shown, checkpoint, license_id, report, deviation)
        write_atomically(new / CARD, card.encode())
        config = {
            "model_type": "alphac4",
            "board": board_settings(checkpoint.board),
            "network": dataclasses.asdict(checkpoint.network.config),
            "training": checkpoint.provenance,
            "strength": checkpoint.strength,
        }
        write_atomically(new / "config.json", (json.dumps(config, indent=1) + "\n").encode())
        if str(name) in SHIPPED and license_id == PROJECT_LICENSE:
            write_atomically(new / "LICENSE", project_license().encode())


def project_license() -> str:
    """Return the text of the project's licence from the installed package."""
    text = metadata.distribution("alphac4").read_text("licenses/LICENSE")
    if not text:
        raise ValueError("the installed package has no licence file: reinstall it")
    return text


def model_card(
    name: str, checkpoint: Checkpoint, license_id: str, report: StrengthReport | None, deviation: float
) -> str:
    """Return the content of README.md, with the metadata for the hub's search.

    ``report`` is the measured strength, None for other boards than the standard one. ``deviation`` is the largest
    difference between the probabilities of the ONNX file and of PyTorch.
    """
    from huggingface_hub import EvalResult, ModelCard, ModelCardData

    board, config = describe(checkpoint.board), checkpoint.network.config

    def describe_budget(simulations: int | None) -> str:
        return count_of(simulations, "simulation") if simulations else "raw network"

    def describe_set(part: str) -> str:
        return "all sets" if part == ALL else part

    results = [
        EvalResult(
            task_type=TASK,
            task_name="Connect Four",
            dataset_type=f"connect-four-{part}",
            dataset_name=f"{board}: {describe_set(part)}, {count_of(metrics.mistakes.count, 'position')}",
            metric_type=f"move-error-rate-{budget.simulations}",
            metric_name=f"mistakes, {describe_budget(budget.simulations)}",
            metric_value=round(metrics.mistakes.value, 5),
        )
        for budget in (report.subjects[0].budgets if report else ())
        for part, metrics in budget.sets.items()
    ]
    data = ModelCardData(
        license=license_id,
        library_name="alphac4",
        pipeline_tag=TASK,
        tags=["alphazero", "connect-four", "board-games", "mcts", "self-play", "onnx"],
        model_name=name,
        eval_results=results or None,
    )
    parameters = sum(parameter.numel() for parameter in checkpoint.network.parameters())
    card = ModelCard.from_template(
        data,
        template_str=TEMPLATE,
        name=name,
        board=board,
        size=f"{config.channels} channels x {count_of(config.blocks, 'residual block')}, {parameters:,} parameters",
        version=__version__,
        network_file=NETWORK_FILE,
        onnx_file=ONNX_FILE,
        deviation=format_bound(deviation),
        input=INPUT,
        output=OUTPUT,
        functions=", ".join(_functions(checkpoint.provenance)),
        report=report,
    )
    return str(card)


def _functions(provenance: Mapping[str, Any]) -> list[str]:
    """Return the names of the user's functions in a network's training, and in that of the networks it started from."""
    names = [f"`{name}`" for name in provenance.get("functions", {}).values()]
    return names + (_functions(provenance["started_from"]) if "started_from" in provenance else [])
