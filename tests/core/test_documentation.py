import inspect
import itertools
import json
import re
import runpy
import subprocess
import sys
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from helpers import load_script

import alphac4
from alphac4 import cli, commands, discovery
from alphac4.arena import registry
from alphac4.commands import all_commands
from alphac4.commands.train import TrainCommand
from alphac4.compute import choose_compute
from alphac4.play import registry as play_registry
from alphac4.storage.checkpoints import load_checkpoint

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
EXAMPLES = {
    "alphazero": "against UCT with 5 simulations: ",
    "ten_lines": "the exact score of the position is 18",
    "own_player": "cautious against random: 4 won",
    "own_evaluator": "lines, 100 simulations, against random: 2 won",
    "own_puct": "quick@10,AlphaGoZero against the usual selection: ",
    "own_policy_target": "Trained 2 iterations in",
}


def pages() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "*.md", "*.ipynb"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("lists the pages with git: install it, and run in a checkout")
    return [ROOT / name for name in listed.stdout.split()]


def text_of(page: Path) -> str:
    """The text of a page; the code of a notebook's cells is fenced, as in Markdown."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    cells = (("".join(cell["source"]), cell["cell_type"]) for cell in json.loads(text)["cells"])
    return "\n\n".join(source if kind == "markdown" else f"```\n{source}\n```" for source, kind in cells)


def test_the_time_of_the_quick_run_is_stated_alike_everywhere() -> None:
    """The table in the training guide has it by instruction set; help repeats it, and README the first range."""
    guide, _, table = (DOCS / "training.md").read_text(encoding="utf-8").partition("## How long it takes")
    ranges = re.findall(r"^\| [\w -]+ \| (\d+) to (\d+) \|", table, re.MULTILINE)
    assert len(ranges) == 2
    minutes = sorted(int(minute) for pair in ranges for minute in pair)
    span = f"{minutes[0]} to {minutes[-1]} minutes"
    for text in (cli.EXAMPLES, inspect.getsource(TrainCommand), guide):
        assert span in text
    assert f"{ranges[0][0]} to {ranges[0][1]} minutes" in (ROOT / "README.md").read_text(encoding="utf-8")


def figures_of_players(page: Path) -> dict[tuple[str, str], str]:
    """The cells of a page's tables by player, such as best@600, and column, such as begin-hard."""
    figures = {}
    for header, body in re.findall(r"^\|(.*)\|\n\|[-|]+\n((?:\|.*\n)+)", text_of(page), re.MULTILINE):
        columns = [cell.strip() for cell in header.split("|")]
        for player, row in re.findall(r"^\| `(\w+@\w+)`(.*)\|$", body, re.MULTILINE):
            cells = [cell.strip() for cell in row.split("|")]
            figures |= {(player, column): cell for column, cell in zip(columns[1:], cells[1:], strict=True)}
    return figures


def test_pages_state_the_figures_of_the_results() -> None:
    results = figures_of_players(DOCS / "results.md")
    assert len(results) > 50
    # The pages of experiments have networks of their time.
    stated = {page: figures_of_players(page) for page in pages() if page.parent.name != "experiments"}
    assert len(stated[ROOT / "README.md"].keys() & results.keys()) == 4 * 4
    different = [
        f"{page.relative_to(ROOT)}: {key} {figure}"
        for page, figures in stated.items()
        for key, figure in figures.items()
        if results.get(key, figure) != figure
    ]
    assert not different


def test_pages_state_the_times_of_the_results() -> None:
    results, readme, gpu, cards, speedrun = (
        (ROOT / name).read_text(encoding="utf-8")
        for name in ("docs/results.md", "README.md", "docs/gpu.md", "checkpoints/README.md", "docs/speedrun.md")
    )
    times = {
        preset: re.findall(rf"^\| `{preset}`, 0 \| {machine} \| (\d+) s \|", results, re.MULTILINE)
        for preset, machine in (("gpu-quick", "H200"), ("gpu-best", "H200"), ("quick", "two cores"))
    }
    records = re.findall(r"^\| \d+ \(.*\) \| ([\d.]+),", speedrun, re.MULTILINE)
    assert [round(float(seconds)) for seconds in records] == [int(times["gpu-quick"][0]), int(times["quick"][0])]
    assert f"[{times['gpu-quick'][-1]} seconds]" in readme
    assert f"# {times['gpu-quick'][-1]} s on an H200" in gpu
    assert f"{times['gpu-best'][-1]} seconds" in " ".join(cards.split())


def without_code(page: Path) -> str:
    return re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?) *#*$", without_code(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)  # the words of a link
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        repeated = (f"{slug}-{number}" for number in itertools.count(1))
        found.add(slug if slug not in found else next(name for name in repeated if name not in found))
    return found


def test_every_relative_link_leads_to_a_file_and_to_a_heading() -> None:
    """Links are followed as GitHub follows them in the plain files; the site's builder checks its own."""
    dead = []
    for page in pages():
        for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
            path, _, anchor = target.partition("#")
            if "://" in path:
                continue
            linked = page.parent / path if path else page
            if not linked.exists() or (anchor and linked.suffix in (".md", ".ipynb") and anchor not in anchors(linked)):
                dead.append(f"{page.relative_to(ROOT)}: {target}")
    assert not dead


def test_the_interface_page_names_every_public_name_once() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\.\. auto\w+:: (\w+)", page, re.MULTILINE)) == sorted(alphac4.__all__)


def test_lists_of_settings_commands_and_players_are_those_of_the_code() -> None:
    """If this fails, run `python scripts/reference.py`."""
    lists = [
        name for page in pages() for name in re.findall(r"^<!-- generated: (\w+) -->$", text_of(page), re.MULTILINE)
    ]
    assert sorted(lists) == sorted(load_script("reference").GENERATORS)
    done = subprocess.run(
        [sys.executable, "scripts/reference.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("", 0)


def test_every_public_name_and_method_has_a_docstring() -> None:
    """Internal names need one only where the name and the types do not say it all."""
    public = {name: getattr(alphac4, name) for name in alphac4.__all__}
    for module in (commands, discovery, registry, play_registry):
        own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
        public |= {n: value for n, value in own.items() if getattr(value, "__module__", "") == module.__name__}
    for name, value in list(public.items()):
        members = vars(value).items() if inspect.isclass(value) else ()
        public |= {f"{name}.{key}": member for key, member in members if is_method(member) and not key.startswith("_")}
    texts = {name: inspect.getdoc(value) or "" for name, value in public.items()}
    assert len(texts) > 80
    assert not [name for name, text in texts.items() if not text or text.startswith(f"{name}(")]  # made by `dataclass`


def is_method(member: Any) -> bool:
    return inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod | cached_property)


def test_every_page_of_the_documentation_is_in_the_contents() -> None:
    listed = {DOCS / "index.md"}
    for page in pages():
        trees = "".join(re.findall(r"```{toctree}(.*?)```", text_of(page), re.DOTALL))
        for entry in re.findall(r"^(?:\S.*<)?([\w./*-]+)>?$", trees, re.MULTILINE):
            listed |= {path.resolve() for suffix in ("md", "ipynb") for path in page.parent.glob(f"{entry}.{suffix}")}
    assert {page for page in pages() if DOCS in page.parents} <= listed


def test_every_experiment_is_in_the_index_and_every_file_of_figures_is_linked() -> None:
    folder = DOCS / "experiments"
    linked = set()
    for page in pages():
        targets = re.findall(r"\]\(([^)\s#]+)", text_of(page))
        linked |= {(page.parent / target).resolve() for target in targets if page.parent == folder}
    assert {path for path in folder.iterdir() if path.name != "index.md"} <= linked


def test_pages_that_the_code_names_exist() -> None:
    files = [path for name in ("alphac4", "scripts", "experiments", "tests") for path in (ROOT / name).rglob("*.py")]
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in re.findall(r"(?<![\w/`])docs/[\w/.-]+\.md", path.read_text(encoding="utf-8"))
        if not (ROOT / name).exists()
    ]
    assert not missing


def test_every_option_of_the_commands_in_pages_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """Pages of experiments may have the options of their commit."""
    used: dict[str, set[tuple[str, str]]] = {}
    for page in pages():
        if page.parent.name == "experiments":
            continue
        text = text_of(page).replace("\\\n", " ")
        for command in re.findall(r"(?:^|[`/ ])alphac4 ([a-z][^`#|\n]*)", text, re.MULTILINE):
            name = max((name for name in all_commands() if f"{command} ".startswith(f"{name} ")), key=len, default="")
            options = re.findall(r"(?<!\S)--[a-z][\w.-]*", command)
            used.setdefault(name, set()).update((option, page.name) for option in options)
    unknown = []
    for name, options in used.items():
        if name:
            cli.main([*name.split(), "--help"])
            known = set(re.findall(r"--[a-z][\w.-]*", capsys.readouterr().out))
            unknown += [f"{page}: alphac4 {name} {option}" for option, page in sorted(options) if option not in known]
    assert len(used) > 12
    assert not unknown


def test_picture_table_and_contract_show_the_same_layers_and_every_package_is_one() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (named,) = (contract["layers"] for contract in linter["contracts"] if contract["type"] == "layers")
    layers = [layer.removeprefix("alphac4.") for layer in reversed(named)]  # from the ground up
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Layers")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == layers
    drawn = (DOCS / "layers.svg").read_text(encoding="utf-8")
    assert re.findall(r"<text x[^>]*>(\w+)</text>", drawn)[::-1] == layers  # drawn from the top down, and from the left
    # A package that the contract does not list could import whatever it likes.
    assert {path.parent.name for path in (ROOT / "alphac4").glob("*/__init__.py")} <= set(layers)


@pytest.mark.parametrize("path", sorted((DOCS / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook_has_the_output_of_its_code(path: Path) -> None:
    """If this fails, run `python scripts/notebooks.py`. The builder of the site executes the notebooks, too."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["metadata"]["executed"] == load_script("notebooks").code_digest(notebook)
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    pictures = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", ())]
    assert pictures
    assert max(map(len, pictures)) < 80_000  # in base64; 60 kB
    assert path.stat().st_size < 300_000


def test_every_example_is_run_here() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)


@pytest.fixture
def run_example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run an example from another folder, with settings that take seconds; what it leaves there is an error."""

    def run(name: str) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [f"{name}.py", "--fast"])
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
        assert EXAMPLES[name] in capsys.readouterr().out
        assert [path.name for path in tmp_path.iterdir()] == (["runs"] if name == "alphazero" else [])

    monkeypatch.setattr(
        "alphac4.api.agent.choose_compute", lambda *_, threads: choose_compute("cpu", "torch-fp32", threads=threads)
    )
    return run


@pytest.mark.parametrize(
    "name", ["ten_lines", "own_player", "own_evaluator", "alphazero", pytest.param("own_puct", marks=pytest.mark.slow)]
)
def test_examples_do_what_they_say(name: str, run_example: Any) -> None:
    run_example(name)


@pytest.mark.slow
def test_training_does_what_the_example_says_and_finds_a_run_done(
    run_example: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = alphac4.train

    def train_twice(preset: str, *, run: str, settings: dict[str, Any], policy_target: Any) -> Any:
        trained = train(preset, run=run, settings=settings, policy_target=policy_target)
        assert (len(trained.history), len(trained.closing_matches)) == (2, 0)
        assert load_checkpoint(trained.best_checkpoint).network.config.channels == 8
        again = train(run=run, policy_target=policy_target)
        assert (again.history, again.config) == (trained.history, trained.config)
        return trained

    monkeypatch.setattr(alphac4, "train", train_twice)
    run_example("own_policy_target")


IDEAS = sorted(path.stem for path in (ROOT / "examples" / "ideas").glob("*.py") if path.stem != "common")


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("name", IDEAS)
def test_idea_trains(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "sweep":
        pytest.importorskip("optuna", reason="needs pip install optuna")
    shown = {"sweep": "learning_rate", "offline": "nats"}.get(name, "Trained 2 iterations in")
    options = [] if name in ("sweep", "offline") else ["--run", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--fast", *options])
    path = ROOT / "examples" / "ideas" / f"{name}.py"
    monkeypatch.syspath_prepend(path.parent)
    runpy.run_path(str(path), run_name="__main__")
    assert shown in capsys.readouterr().out
