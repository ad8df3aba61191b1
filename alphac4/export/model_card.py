"""The text of a network's card on the Hugging Face hub, with its metadata."""

import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alphac4.arena.specifications import describe
from alphac4.evaluation.positions import ALL
from alphac4.export.card_figures import BUDGETS, CardFigures, ErrorRate, KnownError
from alphac4.export.onnx import INPUT, OUTPUT
from alphac4.game import STANDARD, column_name
from alphac4.runs.costs import total_costs
from alphac4.storage.checkpoints import Checkpoint, CheckpointError, load_checkpoint, shipped_checkpoint
from alphac4.storage.hub import NETWORK_FILE
from alphac4.version import __version__

ONNX_FILE = "model.onnx"
MOST_ERRORS = 20  # known errors that the card lists

# What a shipped network began with, where its checkpoint is older than that record and only says "best", which names
# another network by now; see checkpoints/README.md.
UNRECORDED_STARTS = {"grown": "former-standard"}

TASK = "reinforcement-learning"
_EXPLAINED = (
    "A move errs if its outcome (win, draw or loss) is worse than the best move's, by the exact solver, which only "
    "measures and never teaches. In %, with the 95 % interval."
)
_DOES = {1: "wins", 0: "draws", -1: "loses"}


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """Everything that the card is made from."""

    name: str  # "best"
    checkpoint: Checkpoint
    license_id: str  # as the hub abbreviates it: "mit"
    license_file: bool  # whether its text lies beside the card
    figures: CardFigures | None  # None where nothing was measured
    notes: str  # Markdown of the owner's
    deviation: float  # of the ONNX file from PyTorch, in a probability


def model_card(facts: CardFacts) -> str:
    """README.md: YAML between lines of ---, then Markdown."""
    sections = [
        _introduction(facts),
        _use(facts),
        _errors(facts),
        _matches(facts.checkpoint.strength),
        _cost(facts.checkpoint.provenance),
        f"## Notes\n\n{facts.notes.strip()}" if facts.notes.strip() else "",
        f"## Licence\n\n{facts.license_id}" + (", whose text is in `LICENSE`." if facts.license_file else "."),
    ]
    return _metadata(facts) + "\n" + "\n\n".join(section for section in sections if section) + "\n"


def _metadata(facts: CardFacts) -> str:
    """The YAML; every scalar is written as JSON, which YAML reads as well."""
    geometry = facts.checkpoint.geometry
    lines = [
        "---",
        f"license: {json.dumps(facts.license_id)}",
        'library_name: "alphac4"',
        f'pipeline_tag: "{TASK}"',
        "tags:",
        *(f"- {json.dumps(tag)}" for tag in ("alphazero", "connect-four", "board-games", "mcts", "self-play", "onnx")),
    ]
    rates = facts.figures.rates if facts.figures else ()
    if rates:
        lines += ["model-index:", f"- name: {json.dumps(facts.name)}", "  results:"]
        for name in dict.fromkeys(rate.set for rate in rates):
            rows = [rate for rate in rates if rate.set == name]
            shown = "all sets" if name == ALL else name
            dataset = f"Connect Four {describe(geometry)}: {shown}, {rows[0].positions} positions"
            lines += [
                "  - task:",
                f'      type: "{TASK}"',
                '      name: "Connect Four"',
                "    dataset:",
                f"      type: {json.dumps('connect-four-' + name)}",
                f"      name: {json.dumps(dataset)}",
                "    metrics:",
            ]
            for rate in rows:
                label = f"moves that err, {_budget(rate.simulations)}"
                lines += [
                    f"    - type: {json.dumps(f'move-error-rate-{rate.simulations}')}",
                    f"      name: {json.dumps(label)}",
                    f"      value: {round(rate.share, 5)}",
                ]
    return "\n".join([*lines, "---"])


def _introduction(facts: CardFacts) -> str:
    config, network = facts.checkpoint.network.config, facts.checkpoint.network
    parameters = sum(parameter.numel() for parameter in network.parameters())
    board, size = describe(facts.checkpoint.geometry), f"{config.channels} channels x {config.blocks} residual blocks"
    return (
        f"# {facts.name}: a Connect Four network\n\n"
        f"A policy and value network for Connect Four on {board}, trained by self-play in the manner of AlphaZero: "
        f"{size}, {parameters:,} parameters. It plays this board only. Written by alphac4 {__version__}."
    )


def _use(facts: CardFacts) -> str:
    standard = facts.checkpoint.geometry == STANDARD
    evaluate = "\nalphac4 evaluate hf://OWNER/NAME --simulations 0,100" if standard else ""  # whose positions there are
    return f"""## Use

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
| `{ONNX_FILE}` | the network alone for any ONNX runtime, its probabilities as PyTorch's within {facts.deviation:.0e} |
| `config.json` | architecture and board |

The ONNX file's input: {INPUT}. Its outputs: {OUTPUT}."""


def _errors(facts: CardFacts) -> str:
    figures = facts.figures
    if figures is None:
        return (
            "## Errors against exact play\n\nNot measured: alphac4 brings positions for the standard board only. "
            "`alphac4 positions` makes others, and `alphac4 evaluate --positions` measures on them."
        )
    names = list(dict.fromkeys(rate.set for rate in figures.rates))
    lines = [
        "## Errors against exact play",
        "",
        f"{_EXPLAINED} {figures.source}",
        "",
        f"| simulations | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
        f"| positions | {' | '.join(str(_positions(figures.rates, name)) for name in names)} |",
    ]
    for simulations in sorted({rate.simulations for rate in figures.rates}):
        cells = {rate.set: _percent(rate) for rate in figures.rates if rate.simulations == simulations}
        lines.append(f"| {simulations or 'raw'} | {' | '.join(cells.get(name, '') for name in names)} |")
    if figures.asked:
        lines += ["", "### Known errors", "", _known(figures.errors, figures.asked)]
    return "\n".join(lines)


def _known(errors: Sequence[KnownError], asked: int) -> str:
    where = f"the {asked:,} positions that come with alphac4, with {BUDGETS[-1]} simulations a move"
    if not errors:
        return f"None was found in {where}; that is no proof that there is none."
    shown = errors[:MOST_ERRORS]
    lines = [
        f"In {where}, {len(errors)} of its moves err. "
        + (f"The first {len(shown)}:" if len(shown) < len(errors) else "They are:"),
        "",
        "| after the moves | it plays | which | better |",
        "|---|---|---|---|",
    ]
    for error in shown:
        better = ", ".join(column_name(column) for column in error.better)
        lines.append(
            f"| `{error.position.moves}` | {column_name(error.column)} | {_DOES[error.after]} | "
            f"{better}, which {_DOES[error.before]} |"
        )
    return "\n".join(lines)


def _matches(strength: Mapping[str, Any]) -> str:
    """The matches whose results are in the checkpoint."""
    rows = [
        f"- {100 * found['score']:.1f} % of the points against `{name}` in {found['games']} games"
        for name, found in strength.items()
        if isinstance(found, Mapping) and isinstance(found.get("score"), float) and isinstance(found.get("games"), int)
    ]
    return "\n".join(["## Matches at the end of its training", "", *rows]) if rows else ""


def _cost(provenance: Mapping[str, Any]) -> str:
    lines = ["## Cost of its training", ""]
    own = _spent(provenance)
    if not own:
        return "\n".join([*lines, "Not recorded in the checkpoint."])
    lines.append(f"Self-play, learning and gate until this network: {own}.")
    config = provenance.get("config")
    start = provenance.get("started_from")
    if isinstance(start, Mapping):
        total = provenance.get("with_start")
        both = _spent(total) if isinstance(total, Mapping) else ""
        lines.append(f"The run began with a network then called `{start.get('checkpoint', 'unknown')}`" + _with(both))
    elif isinstance(config, Mapping) and config.get("start_from"):
        began = f"The run began with a network then called `{config['start_from']}`"
        shipped = _shipped_start(provenance)
        if shipped is None:
            lines.append(f"{began}, whose cost is not recorded here.")
        else:
            name, cost = shipped
            sum_of_both = dataclasses.asdict(total_costs(provenance) + total_costs(cost))
            lines.append(f"{began}, the shipped `{name}`: {_spent(cost)}{_with(_spent(sum_of_both))}")
    if isinstance(config, Mapping):
        settings = json.dumps(config, indent=1, sort_keys=True)
        lines += [
            "",
            "<details><summary>Settings of the run</summary>",
            "",
            "```json",
            settings,
            "```",
            "",
            "</details>",
        ]
    return "\n".join(lines)


def _shipped_start(provenance: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """The shipped network with which the run of another one began, and its costs; None if that is not known."""
    for name, start in UNRECORDED_STARTS.items():
        with contextlib.suppress(CheckpointError):
            if load_checkpoint(shipped_checkpoint(name)).provenance == provenance:
                return start, load_checkpoint(shipped_checkpoint(start)).provenance
    return None


def _with(both: str) -> str:
    return f"; both together took {both}." if both else "."


def _spent(costs: Mapping[str, Any]) -> str:
    parts = []
    if isinstance(seconds := costs.get("seconds"), int | float):
        parts.append(f"{seconds / 60:.1f} minutes")
    parts += [
        f"{costs[name]:,} {words}"
        for name, words in (("games", "games"), ("evaluations", "network evaluations"))
        if isinstance(costs.get(name), int)
    ]
    if isinstance(costs.get("iteration"), int):
        parts.insert(0, f"{costs['iteration']} iterations")
    return ", ".join(parts)


def _positions(rates: Sequence[ErrorRate], name: str) -> int:
    return next(rate.positions for rate in rates if rate.set == name)


def _percent(rate: ErrorRate) -> str:
    return f"{100 * rate.share:.1f} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"


def _budget(simulations: int) -> str:
    return f"{simulations} simulations" if simulations else "raw network"
