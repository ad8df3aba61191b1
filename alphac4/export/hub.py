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
from alphac4.evaluation.answers import Answers, Estimate, ask_players, judge_moves, network_players
from alphac4.evaluation.positions import ALL, PositionSet, packaged_positions
from alphac4.evaluation.report import FORMAT
from alphac4.export.onnx import INPUT, OUTPUT, export_onnx
from alphac4.game import STANDARD, column_name
from alphac4.game.rules import board_settings
from alphac4.machine import install_advice
from alphac4.storage.checkpoints import Checkpoint, save_checkpoint
from alphac4.storage.files import write_atomically
from alphac4.storage.folders import check_new, new_folder
from alphac4.storage.hub import NETWORK_FILE
from alphac4.storage.records import parse_json, read_value
from alphac4.version import __version__

CARD = "README.md"
ONNX_FILE = "model.onnx"
EVALUATION_FILE = "evaluation.json"
PROJECT_LICENSE = "mit"
PACKAGES = {"huggingface_hub": "hub", "onnx": "onnx", "onnxruntime": "onnx"}  # by the extra that has each
BUDGETS = (0, 100)  # simulations a position, where the figures are measured here: about a minute on two cores
MAX_ERRORS = 20  # known errors that the card lists
TASK = "reinforcement-learning"
_DOES = {1: "wins", 0: "draws", -1: "loses"}

Row = Sequence[object]  # the cells of a table


# --- What is known of the network's strength ------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class CardFigures:
    """Error rates of the network, and positions in which it errs."""

    rates: Mapping[tuple[str, int], Estimate] = field(default_factory=dict)  # by set and simulations; 0 is the raw one
    source: str = ""  # how the rates were found, for a reader
    errors: Sequence[Row] = ()  # of the card's table, in the packaged positions with the greatest of `BUDGETS`
    asked: int = 0  # positions in which those were looked for

    @property
    def sets(self) -> list[str]:
        """The names of the sets."""
        return list(dict.fromkeys(name for name, _ in self.rates))


def measure_figures(checkpoint: Checkpoint) -> CardFigures:
    """The network's errors in the packaged positions; nothing on another board than theirs."""
    if checkpoint.geometry != STANDARD:
        return CardFigures()
    sets, compute = packaged_positions(), choose()
    evaluator = compute.evaluator(checkpoint.network, streams=compute.streams)
    rates: dict[tuple[str, int], Estimate] = {}
    errors: list[Row] = []
    asked = sum(map(len, sets))
    for simulations in BUDGETS:
        label = f"{simulations or 'no'} simulations"
        with tqdm(total=asked, desc=label, unit="pos", disable=None, leave=False) as bar:
            players = network_players(compute, evaluator, simulations, STANDARD)
            answers = ask_players(players, sets, on_batch=bar.update)
        for name, part in [(p.name, slice(i, i + 1)) for i, p in enumerate(sets)] + [(ALL, slice(None))]:
            rates[name, simulations] = judge_moves(sets[part], answers.columns[part]).error
        errors = _known_errors(sets, answers)
    backend = compute.backends.evaluators
    source = f"Measured by `alphac4 export --hub` on the positions that come with alphac4, by {backend}."
    return CardFigures(rates=rates, source=source, errors=errors, asked=asked)


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


def read_rates(path: Path, digest: str | None) -> dict[tuple[str, int], Estimate]:
    """The error rates in a file that `alphac4 evaluate --json` has written, by set and simulations.

    Args:
        path: the report.
        digest: the SHA-256 of the network's file, which the report has to be about.

    Raises:
        ValueError: in one line, if it is no such file, or is about another network.
    """
    try:
        report = parse_json(path.read_bytes())
        if report["format"] != FORMAT:
            raise ValueError("no report of alphac4 evaluate --json")
        subject = report["subjects"][0]
        if subject["network"] != digest:
            raise ValueError(f"measures another network: {subject['name']}, {subject['description']}")
        return {
            (name, read_value(int, budget["simulations"], "simulations")): read_value(
                Estimate, figures["moves"]["error"], f"{name}: error"
            )
            for budget in subject["budgets"]
            for name, figures in budget["sets"].items()
        }
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: no report of alphac4 evaluate --json") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


# --- The folder -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class HubExport:
    """The network, and all that the folder tells of it."""

    name: str  # what the card calls the network: "best"
    checkpoint: Checkpoint
    license_id: str  # as the hub abbreviates it: "mit"
    license_text: str = ""  # of the file LICENSE, which is left out where this is empty
    figures: CardFigures = field(default_factory=CardFigures)
    notes: str = ""  # Markdown of the owner's for the card
    evaluation: Path | None = None  # the report that the figures are from, which comes along


def check_export(folder: Path) -> None:
    """Refuse a folder that is there already, and say which package is missing.

    Raises:
        ValueError: see `check_new`; or naming the package.
    """
    for package, extra in PACKAGES.items():
        if importlib.util.find_spec(package) is None:
            raise ValueError(f"--hub needs {package}: {install_advice(extra)}")
    check_new(folder)


def export_hub(export: HubExport, folder: Path) -> None:
    """Write the folder, as a whole.

    Raises:
        ValueError: see `check_export`.
        RuntimeError: if the ONNX file would answer otherwise than the network.
    """
    check_export(folder)
    checkpoint, geometry = export.checkpoint, export.checkpoint.geometry
    with new_folder(folder) as new:
        save_checkpoint(new / NETWORK_FILE, checkpoint)
        deviation = export_onnx(checkpoint, new / ONNX_FILE)
        write_atomically(new / CARD, model_card(export, deviation).encode())
        network = dataclasses.asdict(checkpoint.network.config)
        config = {"model_type": "alphac4", "board": board_settings(geometry), "network": network}
        write_atomically(new / "config.json", (json.dumps(config, indent=1) + "\n").encode())
        if export.evaluation is not None:
            write_atomically(new / EVALUATION_FILE, export.evaluation.read_bytes())
        if export.license_text:
            write_atomically(new / "LICENSE", export.license_text.encode())


def project_license() -> str:
    """The text of the project's licence, MIT, which is also that of the networks that come with it."""
    beside_package = Path(__file__).resolve().parents[2] / "LICENSE"
    if beside_package.is_file():
        return beside_package.read_text(encoding="utf-8")
    found = metadata.distribution("alphac4").read_text("licenses/LICENSE")
    if found is None:
        raise ValueError("the installation lacks its licence")
    return found


# --- The card -------------------------------------------------------------------------------------------------------
def model_card(export: HubExport, deviation: float) -> str:
    """README.md: the hub's metadata in YAML between lines of ---, then Markdown.

    Args:
        export: what it tells about.
        deviation: of the ONNX file from PyTorch, in a probability.
    """
    from huggingface_hub import EvalResult, ModelCardData

    results = [
        EvalResult(
            task_type=TASK,
            task_name="Connect Four",
            dataset_type=f"connect-four-{name}",
            dataset_name=f"Connect Four {describe(export.checkpoint.geometry)}: "
            f"{'all sets' if name == ALL else name}, {found.count} positions",
            metric_type=f"move-error-rate-{simulations}",
            metric_name=f"moves that err, {f'{simulations} simulations' if simulations else 'raw network'}",
            metric_value=round(found.value, 5),
        )
        for (name, simulations), found in export.figures.rates.items()
    ]
    data = ModelCardData(
        license=export.license_id,
        library_name="alphac4",
        pipeline_tag=TASK,
        tags=["alphazero", "connect-four", "board-games", "mcts", "self-play", "onnx"],
        model_name=export.name,
        eval_results=results or None,
    )
    sections = [
        _introduction(export, deviation),
        _errors(export.figures),
        _matches(export.checkpoint.strength),
        _cost(export.checkpoint.provenance),
        f"## Notes\n\n{export.notes.strip()}" if export.notes.strip() else "",
        f"## Licence\n\n{export.license_id}" + (", whose text is in `LICENSE`." if export.license_text else "."),
    ]
    return f"---\n{data.to_yaml()}\n---\n" + "\n\n".join(section for section in sections if section) + "\n"


def _introduction(export: HubExport, deviation: float) -> str:
    network, geometry = export.checkpoint.network, export.checkpoint.geometry
    parameters = sum(parameter.numel() for parameter in network.parameters())
    size = f"{network.config.channels} channels x {network.config.blocks} residual blocks"
    standard = geometry == STANDARD  # whose positions come with the package
    evaluate = "\nalphac4 evaluate hf://OWNER/NAME --simulations 0,100" if standard else ""
    return f"""# {export.name}: a Connect Four network

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
    heading = "## Errors against exact play\n\n"
    if not figures.rates:
        return heading + (
            "Not measured: alphac4 brings positions for the standard board only. "
            "`alphac4 positions` makes others, and `alphac4 evaluate --positions` measures on them."
        )
    budgets = sorted({simulations for _, simulations in figures.rates})
    counts = [next(found.count for (of, _), found in figures.rates.items() if of == name) for name in figures.sets]
    rows: list[Row] = [["simulations", *figures.sets], ["---"] * (1 + len(counts)), ["positions", *counts]]
    for simulations in budgets:
        found = [figures.rates.get((name, simulations)) for name in figures.sets]
        cells = [f"{100 * f.value:.1f} [{100 * f.low:.1f}, {100 * f.high:.1f}]" if f else "" for f in found]
        rows.append([simulations or "raw", *cells])
    return (
        f"{heading}A move errs if its outcome (win, draw or loss) is worse than the best move's, by the exact solver, "
        f"which only measures and never teaches. In %, with the 95 % interval. {figures.source}\n\n"
        + _table(rows)
        + (f"\n\n### Known errors\n\n{_known(figures)}" if figures.asked else "")
    )


def _known(figures: CardFigures) -> str:
    where = f"the {figures.asked:,} positions that come with alphac4, with {BUDGETS[-1]} simulations a move"
    if not figures.errors:
        return f"None was found in {where}; that is no proof that there is none."
    shown = figures.errors[:MAX_ERRORS]
    which = f"The first {len(shown)}:" if len(shown) < len(figures.errors) else "They are:"
    rows: list[Row] = [["after the moves", "it plays", "which", "better"], ["---"] * 4, *shown]
    return f"In {where}, {len(figures.errors)} of its moves err. {which}\n\n{_table(rows)}"


def _table(rows: Sequence[Row]) -> str:
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def _matches(strength: Mapping[str, Any]) -> str:
    """The matches whose results are in the checkpoint."""
    rows = [
        f"- {100 * found['score']:.1f} % of the points against `{name}` in {found['games']} games"
        for name, found in strength.items()
        if isinstance(found, Mapping) and isinstance(found.get("score"), float) and isinstance(found.get("games"), int)
    ]
    return "\n".join(["## Matches at the end of its training", "", *rows]) if rows else ""


def _cost(provenance: Mapping[str, Any]) -> str:
    heading, own = "## Cost of its training\n\n", _spent(provenance)
    if not own:
        return f"{heading}Not recorded in the checkpoint."
    lines = [f"Self-play, learning and gate until this network: {own}."]
    config, start = provenance.get("config"), provenance.get("started_from")
    if isinstance(start, Mapping):
        total = provenance.get("with_start")
        both = _spent(total) if isinstance(total, Mapping) else ""
        began = f"The run began with a network then called `{start.get('checkpoint', 'unknown')}`"
        lines.append(began + (f"; both together took {both}." if both else "."))
    elif isinstance(config, Mapping) and config.get("start_from"):
        lines.append(
            f"The run began with a network then called `{config['start_from']}`, whose cost is not recorded here."
        )
    if isinstance(config, Mapping):
        settings = json.dumps(config, indent=1, sort_keys=True)
        lines += ["", f"<details><summary>Settings of the run</summary>\n\n```json\n{settings}\n```\n\n</details>"]
    return heading + "\n".join(lines)


def _spent(costs: Mapping[str, Any]) -> str:
    parts = []
    if isinstance(costs.get("iteration"), int):
        parts.append(f"{costs['iteration']} iterations")
    if isinstance(seconds := costs.get("seconds"), int | float):
        parts.append(f"{seconds / 60:.1f} minutes")
    parts += [
        f"{costs[name]:,} {words}"
        for name, words in (("games", "games"), ("evaluations", "network evaluations"))
        if isinstance(costs.get(name), int)
    ]
    return ", ".join(parts)
