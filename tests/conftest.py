"""Fixtures of several test modules, and the option ``--no-skips`` for continuous integration."""

import io
import os
import signal
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import torch
from helpers import as_if_trained
from page_browser import address, browser, launched_browser  # noqa: F401 - fixtures
from page_node import run_in_node  # noqa: F401 - a fixture

from alphac4.cli import main
from alphac4.machine import adapt_process, cores
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import PolicyValueNetwork
from alphac4.storage.checkpoints import Checkpoint, save_checkpoint

CASES = {"default": 30, "deep": 2000}  # examples per hypothesis test, by profile: pytest --hypothesis-profile=deep
for name, cases in CASES.items():
    hypothesis.settings.register_profile(
        name,
        max_examples=cases,
        deadline=None,
        derandomize=name == "default",
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
hypothesis.settings.load_profile("default")

adapt_process()  # before pytest-xdist starts processes, which share the cores and inherit the environment


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--no-skips``."""
    parser.addoption("--no-skips", action="store_true", help="a skipped test fails, unless it is marked gpu")


def pytest_configure(config: pytest.Config) -> None:
    """Use a temporary cache, and restore the handler of Ctrl-C, which background processes of a shell ignore."""
    if not hasattr(config, "workerinput"):  # workers of pytest-xdist share the cache of their parent process
        cache = tempfile.TemporaryDirectory(prefix="alphac4-cache-", ignore_cleanup_errors=True)
        os.environ["ALPHAC4_CACHE"] = cache.name
        config.add_cleanup(cache.cleanup)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)  # defined by pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """Return one process more than there are cores, because some tests wait for a browser, a process or Ray."""
    return min(cores() + 1, 8)


@pytest.hookimpl(tryfirst=True)  # before tests are selected by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group each module's tests, and all tests with a browser, in one worker.

    A module may name another group by the mark ``xdist_group``.

    The slowest groups come first, so that none of them is left for the end.
    """
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("xdist_group")
        group = mark.args[0] if mark else item.path.stem
        if "launched_browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
            group = "browser"
        item.add_marker(pytest.mark.xdist_group(group))
        groups.setdefault(group, []).append(item)
    marks = {name: [item.get_closest_marker("slow") for item in group] for name, group in groups.items()}
    seconds = {name: sum(sum(mark.args) or 3 for mark in group if mark) for name, group in marks.items()}
    items[:] = [item for name in sorted(groups, key=lambda name: -seconds[name]) for item in groups[name]]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Stop if pytest ignores the groups of pytest-xdist, because browsers need an event loop of their own."""
    if getattr(session.config.option, "loadgroup", False) and not all("@" in item.nodeid for item in session.items):
        raise pytest.UsageError("this version of pytest ignores pytest-xdist's groups: install the pinned versions")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failure if ``--no-skips`` is given; expected failures are not affected."""
    report = yield
    if not item.get_closest_marker("gpu") and not hasattr(report, "wasxfail"):
        refuse_skip(report, item.config)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a module that `pytest.importorskip` skips during collection into a failure if ``--no-skips`` is given."""
    report = yield
    refuse_skip(report, collector.config)
    return report


def refuse_skip(report: pytest.TestReport | pytest.CollectReport, config: pytest.Config) -> None:
    """Mark a skipped report as failed if ``--no-skips`` is given."""
    if report.skipped and config.getoption("no_skips"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"--no-skips: {reason}"


@pytest.fixture(autouse=True)
def _same_weights() -> None:
    """Seed PyTorch, so that a test's untrained networks do not depend on the tests before it."""
    torch.manual_seed(0)


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator with a fixed seed."""
    return np.random.default_rng(7)


@pytest.fixture
def network(request: pytest.FixtureRequest) -> PolicyValueNetwork:
    """Return a small network with random norms and heads; its planes are stones or the test's parameter."""
    return as_if_trained(NetworkConfig(planes=getattr(request, "param", "stones"), channels=16, blocks=2))


@pytest.fixture
def checkpoint(network: PolicyValueNetwork, tmp_path: Path) -> Path:
    """Return the path of that network's checkpoint."""
    path = tmp_path / "small.safetensors"
    save_checkpoint(path, Checkpoint(network=network))
    return path


@pytest.fixture
def run_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs a command line, which must end with the exit code ``status``; returns its standard output.

    The first argument is split at spaces; further arguments are one word each. ``given`` is the standard input.
    """

    def run(line: str, *words: object, status: int = 0, given: str = "") -> str:
        capsys.readouterr()
        monkeypatch.setattr("sys.stdin", io.StringIO(given))
        assert main([*line.split(), *map(str, words)]) == status, capsys.readouterr().err
        return capsys.readouterr().out

    return run


@pytest.fixture
def error_line(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs an invalid command line, which must end with exit code 2 and print only one line, an error; returns that."""

    def run(line: str, *words: object) -> str:
        capsys.readouterr()
        assert main([*line.split(), *map(str, words)]) == 2
        output = capsys.readouterr()
        assert not output.out
        assert output.err.count("\n") == 1, output.err
        return output.err.rstrip("\n")

    return run


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no images for TensorBoard, which takes two seconds per run."""
    monkeypatch.setattr("alphac4.runs.tensorboard.Monitor._figures", lambda _monitor, _report: {})
