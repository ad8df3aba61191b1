"""Plugins: those of other packages, and a core without any."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import run_python
from page_browser import Browser, expect

from alphac4.commands import all_commands, register_command

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that has the example plugin and a damaged one."""
    source, site = tmp_path_factory.mktemp("source") / "plugin", tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLE, source)
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", site, source], check=True)
    damaged = site / "damaged-1.dist-info"
    damaged.mkdir()
    (damaged / "METADATA").write_text("Metadata-Version: 2.1\nName: damaged\nVersion: 1\n")
    (damaged / "entry_points.txt").write_text("[alphac4.plugins]\ndamaged = alphac4_damaged\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])}


def run(environment: dict[str, str], *words: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "alphac4", *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)


def test_plugin_of_another_package_adds_a_player_and_a_command(installed: dict[str, str], tmp_path: Path) -> None:
    games = tmp_path / "games.txt"
    games.write_text("44\n4455\n1\n")
    assert run(installed, "tally", games).stdout == "1: 1 of 3\n4: 2 of 3\n"
    assert "usage: alphac4 tally" in run(installed, "tally", "--help").stdout
    assert "\n  tally        count the first moves of games\n" in run(installed).stdout
    assert "the column nearest to the middle" in run(installed, "players").stdout
    assert "(is it center?)" in run(installed, "arena", "centre", "random").stderr
    assert "1 won, 0 drawn, 1 lost" in run(installed, "arena", "center", "negamax:1", "--games", 2).stdout


@pytest.mark.slow
def test_plugin_of_another_package_adds_a_panel_to_the_page(installed: dict[str, str], browser: Browser) -> None:
    command = [sys.executable, "-m", "alphac4", "play", "web", "--checkpoint", "quick", "--port", "0"]
    with subprocess.Popen(command, env=installed, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        page = browser.open(server.stdout.readline().split()[2] + "#445")
        expect(page, "#middle", r"^In the middle column: Red 1, Yellow 1\.$")
        server.kill()


def test_plugins_cannot_replace_commands() -> None:
    before = dict(all_commands())
    for name in ("play", "review"):
        with pytest.raises(ValueError, match=f"the name '{name}' is taken"):
            register_command(name, group="Mine", summary="mine", target="mine:Mine")
    assert all_commands() == before


def test_plugin_that_cannot_be_imported_is_left_out_with_a_warning(installed: dict[str, str]) -> None:
    done = run(installed, "solve", "112233")
    assert done.returncode == 0
    assert done.stdout
    assert done.stderr.startswith("the plugin alphac4_damaged cannot be loaded: ModuleNotFoundError")


SELFPLAY = """
import sys
from alphac4.cli import main
options = "--samples 1 --parallel-games 2 --full-visits 2 --fast-visits 1 --output"
assert main(["selfplay", "quick", "--device", "bf16", *options.split(), sys.argv[1]]) == 0
assert main(["selfplay", "quick", "--device", "bf17"]) == 2
"""


def test_device_of_a_plugin_as_documented_is_used_by_commands(tmp_path: Path) -> None:
    (code,) = re.findall("```python\n(.*?)```", (ROOT / "docs" / "plugins.md").read_text("utf-8"), re.DOTALL)
    done = run_python(code + SELFPLAY, tmp_path / "games")
    assert "of the actors' time (torch-bf16)" in done.stdout
    assert "unknown device 'bf17'; available: auto, cpu, cuda, " in done.stderr


WITHOUT_PLUGINS = """
import importlib, pkgutil, sys
import alphac4
for module in pkgutil.walk_packages(alphac4.__path__, "alphac4."):
    if module.name != "alphac4.__main__":
        importlib.import_module(module.name)
from alphac4.cli import main
assert main(["players"]) == main(["--help"]) == 0
sys.exit(main(["arena", "openspiel:5", "random"]))
"""


@pytest.mark.slow
def test_core_works_without_any_plugin(tmp_path: Path) -> None:
    """Each plugin is deleted separately by `tests/campaigns/deletions.py`, which runs all quick tests."""
    ignored = shutil.ignore_patterns("__pycache__", "plugins")
    shutil.copytree(ROOT / "alphac4", tmp_path / "alphac4", ignore=ignored)
    shutil.copytree(ROOT / "checkpoints", tmp_path / "checkpoints")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", WITHOUT_PLUGINS]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "unknown player 'openspiel:5'" in done.stderr
    assert "random" in done.stdout
