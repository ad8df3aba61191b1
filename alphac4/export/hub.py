"""A network as a folder to be uploaded to the Hugging Face hub as it is, with a model card that says how it errs."""

import dataclasses
import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from alphac4.arena.specifications import describe
from alphac4.compute import choose
from alphac4.evaluation.answers import Answers, Estimate, ask_players, network_players
from alphac4.evaluation.positions import ALL, PositionSet, packaged_positions
from alphac4.evaluation.report import budget_report
from alphac4.export.onnx import INPUT, OUTPUT, export_onnx
from alphac4.game import STANDARD, column_name
from alphac4.game.rules import board_settings
from alphac4.machine import install_advice
from alphac4.storage.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from alphac4.storage.files import write_atomically
from alphac4.storage.folders import new_folder
from alphac4.storage.hub import NETWORK_FILE, SHIPPED
from alphac4.version import __version__

CARD = "README.md"
ONNX_FILE = "model.onnx"
PROJECT_LICENSE = "mit"
PACKAGES = {"huggingface_hub": "hub", "onnx": "onnx", "onnxruntime": "onnx"}  # by the extra that has each
BUDGETS = (0, 100)  # simulations a position, where the figures are measured: about a minute on two cores
MAX_MISTAKES = 20  # known ones that the card lists
TASK = "reinforcement-learning"
_DOES = {1: "wins", 0: "draws", -1: "loses"}

Row = Sequence[object]  # the cells of a table


def export_hub(name: Path, folder: Path, license_id: str | None = None) -> None:
    """Measure a network, convert it, and write the folder as a whole.

    Args:
        name: the network's file, or one of the names that `load_checkpoint` knows.
        folder: a new one.
        license_id: as the hub abbreviates it; the project's own networks have one.

    Raises:
        ValueError: before anything is measured, without a licence or a package, for a folder that is there already, or
            if what the checkpoint records of its training cannot be read.
        RuntimeError: if the ONNX file would answer otherwise than the network.
    """
    shipped = str(name) in SHIPPED
    license_id = license_id or (PROJECT_LICENSE if shipped else None)
    if license_id is None:
        raise ValueError("say under which licence you give the network: --license mit, or another that the hub knows")
    for package, extra in PACKAGES.items():
        if importlib.util.find_spec(package) is None:
            raise ValueError(f"--hub needs {package}: {install_advice(extra)}")
    checkpoint = load_checkpoint(name)
    try:
        training = [_matches(checkpoint.strength), _cost(checkpoint.provenance)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # anybody may have written it
        raise ValueError(f"{name}: its record of training cannot be read: {type(error).__name__}: {error}") from error
    figures = measure_figures(checkpoint)
    with new_folder(folder) as new:
        save_checkpoint(new / NETWORK_FILE, checkpoint)
        deviation = export_onnx(checkpoint, new / ONNX_FILE)
        card = model_card(name.stem, checkpoint, license_id, figures, deviation, training)
        write_atomically(new / CARD, card.encode())
        network = dataclasses.asdict(checkpoint.network.config)
        config = {"model_type": "alphac4", "board": board_settings(checkpoint.geometry), "network": network}
        write_atomically(new / "config.json", (json.dumps(config, indent=1) + "\n").encode())
        if shipped and license_id == PROJECT_LICENSE:
            write_atomically(new / "LICENSE", project_license().encode())


def project_license() -> str:
    """The text of the project's licence, as it was installed."""
    text = metadata.distribution("alphac4").read_text("licenses/LICENSE")
    if not text:
        raise ValueError("the installation lacks its licence: install the package anew")
    return text


# --- The network's strength -----------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class CardFigures:
    """Shares of mistakes of a network in the packaged positions, and where it makes them; none on another board."""

    rates: Mapping[tuple[str, int], Estimate] = field(default_factory=dict)  # by set and simulations; 0 is the raw one
    errors: Sequence[Row] = ()  # of the card's table, with the greatest of `BUDGETS`
    backend: str = ""  # of inference


def measure_figures(checkpoint: Checkpoint) -> CardFigures:
    """The network's mistakes in the packaged positions; nothing on another board than theirs."""
    if checkpoint.geometry != STANDARD:
        return CardFigures()
    sets, compute = packaged_positions(), choose()
    evaluator = compute.evaluator(checkpoint.network, streams=compute.streams)
    rates: dict[tuple[str, int], Estimate] = {}
    errors: list[Row] = []
    for simulations in BUDGETS:
        label = f"{simulations or 'no'} simulations"
        with tqdm(total=sum(map(len, sets)), desc=label, unit="pos", disable=None, leave=False) as bar:
            players = network_players(compute, evaluator, simulations, STANDARD)
            answers = ask_players(players, sets, on_batch=bar.update)
        figures = budget_report(sets, answers, simulations, seconds=0.0).sets
        rates |= {(name, simulations): found.moves.error for name, found in figures.items()}
        errors = _known_errors(sets, answers)
    return CardFigures(rates=rates, errors=errors, backend=evaluator.backend)


def _known_errors(sets: Sequence[PositionSet], answers: Answers) -> list[Row]:
    """The moves that lose a won or drawn game's outcome, and what would have kept it."""
    found: list[Row] = []
    for part, columns in zip(sets, answers.columns, strict=True):
        for row in map(int, np.flatnonzero(part.outcomes[np.arange(len(part)), columns] < part.best_outcome)):
            outcomes, best, column = part.outcomes[row], part.best_outcome[row], int(columns[row])
            better = ", ".join(column_name(int(other)) for other in np.flatnonzero(outcomes == best))
            plays, which = column_name(column), _DOES[int(outcomes[column])]
            found.append([f"`{part.positions[row].moves}`", plays, which, f"{better}, which {_DOES[int(best)]}"])
    return found


# --- The card -------------------------------------------------------------------------------------------------------
def model_card(
    name: str,
    checkpoint: Checkpoint,
    license_id: str,
    figures: CardFigures,
    deviation: float,
    training: Sequence[str],
) -> str:
    """README.md: the hub's metadata in YAML between lines of ---, then Markdown.

    Args:
        name: what the card calls the network.
        checkpoint: the network.
        license_id: as the hub abbreviates it.
        figures: its strength.
        deviation: of the ONNX file from PyTorch, in a probability.
        training: sections on what the checkpoint records of it.
    """
    from huggingface_hub import EvalResult, ModelCardData

    results = [
        EvalResult(
            task_type=TASK,
            task_name="Connect Four",
            dataset_type=f"connect-four-{part}",
            dataset_name=f"Connect Four {describe(checkpoint.geometry)}: "
            f"{'all sets' if part == ALL else part}, {found.count} positions",
            metric_type=f"move-error-rate-{simulations}",
            metric_name=f"moves that err, {f'{simulations} simulations' if simulations else 'raw network'}",
            metric_value=round(found.value, 5),
        )
        for (part, simulations), found in figures.rates.items()
    ]
    data = ModelCardData(
        license=license_id,
        library_name="alphac4",
        pipeline_tag=TASK,
        tags=["alphazero", "connect-four", "board-games", "mcts", "self-play", "onnx"],
        model_name=name,
        eval_results=results or None,
    )
    sections = [
        _introduction(name, checkpoint, deviation),
        _errors(figures),
        *training,
        f"## Licence\n\n{license_id}",
    ]
    return f"---\n{data.to_yaml()}\n---\n" + "\n\n".join(section for section in sections if section) + "\n"


def _introduction(name: str, checkpoint: Checkpoint, deviation: float) -> str:
    network, geometry = checkpoint.network, checkpoint.geometry
    parameters = sum(parameter.numel() for parameter in network.parameters())
    size = f"{network.config.channels} channels x {network.config.blocks} residual blocks"
    standard = geometry == STANDARD  # whose positions come with the package
    evaluate = "\nalphac4 evaluate hf://OWNER/NAME --simulations 0,100" if standard else ""
    return f"""# {name}: a Connect Four network

A policy and value network for Connect Four on {describe(geometry)}, trained by self-play in the manner of AlphaZero: {size}, {parameters:,} parameters. It plays this board only. Written by alphac4 {__version__}.

## Use

```bash
pip install 'alphac4[hub]'
alphac4 play --network hf://OWNER/NAME                       # with this repository's owner and name{evaluate}
```

```python
import alphac4

agent = alphac4.load("hf://OWNER/NAME")
print(agent.search("{"4455" if standard else ""}", simulations=600))
```

| file | what |
|---|---|
| `{NETWORK_FILE}` | the checkpoint: weights, configuration and provenance, with a digest over all of it |
| `{ONNX_FILE}` | the network alone for any ONNX runtime, its probabilities as PyTorch's within {deviation:.0e} |
| `config.json` | architecture and board |

The ONNX file's input: {INPUT}. Its outputs: {OUTPUT}."""  # noqa: E501 - lines of Markdown


def _errors(figures: CardFigures) -> str:
    heading = "## Mistakes against exact play\n\n"
    if not figures.rates:
        return heading + (
            "Not measured: alphac4 brings positions for the standard board only. "
            "`alphac4 positions` makes others, and `alphac4 evaluate --positions` measures on them."
        )
    counts = {name: found.count for (name, _), found in figures.rates.items()}
    rows: list[Row] = [["simulations", *counts], ["---"] * (1 + len(counts)), ["positions", *counts.values()]]
    for simulations in BUDGETS:
        found = [figures.rates[name, simulations] for name in counts]
        cells = [f"{100 * rate.value:.1f} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]" for rate in found]
        rows.append([simulations or "raw", *cells])
    where = f"the {counts[ALL]:,} positions that come with alphac4, with {BUDGETS[-1]} simulations a move"
    known = f"None was found in {where}; that is no proof that there is none."
    if figures.errors:
        shown: list[Row] = [["after the moves", "it plays", "which", "better"], ["---"] * 4]
        shown += figures.errors[:MAX_MISTAKES]
        which = f"The first {MAX_MISTAKES}:" if len(figures.errors) > MAX_MISTAKES else "They are:"
        known = f"In {where}, {len(figures.errors)} of its moves are mistakes. {which}\n\n{_table(shown)}"
    return (
        f"{heading}A move is a mistake if its outcome (win, draw or loss) is worse than the best move's, by the exact "
        f"solver, which only measures and never teaches. In %, with the 95 % interval. Measured by `alphac4 export "
        f"--hub` on the positions that come with alphac4, by {figures.backend}.\n\n{_table(rows)}\n\n"
        f"### Known mistakes\n\n{known}"
    )


def _table(rows: Sequence[Row]) -> str:
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def _matches(strength: Mapping[str, Any]) -> str:
    """The matches whose results are in the checkpoint."""
    rows = [
        f"- {100 * found['score']:.1f} % of the points against `{name}` in {found['games']} games"
        for name, found in strength.items()
    ]
    return "\n".join(["## Matches at the end of its training", "", *rows]) if rows else ""


def _cost(provenance: Mapping[str, Any]) -> str:
    heading = "## Cost of its training\n\n"
    if "seconds" not in provenance:
        return f"{heading}Not recorded in the checkpoint."
    text = f"{heading}Self-play, learning and gate until this network: {_spent(provenance)}."
    config = provenance.get("config", {})
    start = provenance.get("started_from", {}).get("checkpoint") or config.get("start_from")
    if start:
        both = provenance.get("with_start")
        text += f"\nThe run began with a network then called `{start}`" + (
            f"; both together took {_spent(both)}." if both else ", whose cost is not recorded here."
        )
    settings = json.dumps(config, indent=1, sort_keys=True)
    return f"{text}\n\n<details><summary>Settings of the run</summary>\n\n```json\n{settings}\n```\n\n</details>"


def _spent(costs: Mapping[str, Any]) -> str:
    found = {**costs, "minutes": costs["seconds"] / 60}
    words = {
        "iteration": "{} iterations",
        "minutes": "{:.1f} minutes",
        "games": "{:,} games",
        "evaluations": "{:,} network evaluations",
    }
    return ", ".join(text.format(found[name]) for name, text in words.items() if name in found)
