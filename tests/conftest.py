"""Fixtures shared by the tests, and the rule that continuous integration skips none of them."""

import os
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import torch
from helpers import as_if_trained
from page_browser import (  # noqa: F401 - fixtures
    address,
    browser,
    launched_browser,
    static_address,
    static_folder,
)

from alphac4.compute.gpu.device import cuda_device
from alphac4.machine import adapt_process, cores
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import PolicyValueNetwork
from alphac4.storage.checkpoints import Checkpoint, save_checkpoint

CASES = {"default": 30, "deep": 2000}  # per test of hypothesis, by its profile: pytest --hypothesis-profile=deep
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

adapt_process()  # the processes that pytest-xdist starts share the cores, and inherit how long their threads spin


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--no-skips``."""
    parser.addoption("--no-skips", action="store_true", help="a skipped test fails, unless it is marked gpu")


def pytest_configure(config: pytest.Config) -> None:
    """Keep out of the user's cache, and let Ctrl-C reach its tests: a shell's background processes ignore it."""
    if not hasattr(config, "workerinput"):  # pytest-xdist's workers share the cache of the process that started them
        cache = tempfile.TemporaryDirectory(prefix="alphac4-cache-", ignore_cleanup_errors=True)
        os.environ["ALPHAC4_CACHE"] = os.environ["ALPHAC4_STATE"] = cache.name
        config.add_cleanup(cache.cleanup)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)  # which pytest knows with pytest-xdist alone
def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores: those that wait for a browser, another process or Ray leave theirs idle."""
    return min(cores() + 1, 8)


@pytest.hookimpl(tryfirst=True)  # before the tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a module's tests, and all that open a browser, in one worker; skip what needs a GPU or its simulator.

    Those that take longest come first, so that none of them is the last.
    """
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        group = item.path.stem
        if "launched_browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
            group = "browser"
        item.add_marker(pytest.mark.xdist_group(group))
        groups.setdefault(group, []).append(item)
    marks = {name: [item.get_closest_marker("slow") for item in group] for name, group in groups.items()}
    seconds = {name: sum(sum(mark.args) or 3 for mark in found if mark) for name, found in marks.items()}
    items[:] = [item for name in sorted(groups, key=lambda name: -seconds[name]) for item in groups[name]]
    try:
        cuda_device()
    except RuntimeError as error:
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason=str(error)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to run where pytest and pytest-xdist do not agree on groups: browsers would meet others' event loops."""
    if getattr(session.config.option, "loadgroup", False) and not all("@" in item.nodeid for item in session.items):
        raise pytest.UsageError("pytest-xdist's groups have no effect with this version of pytest")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With ``--no-skips`` turn a test's skip into a failure; an expected failure is no skip."""
    report = yield
    if not item.get_closest_marker("gpu") and not hasattr(report, "wasxfail"):
        refuse_skip(report, item.config)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole module, which `pytest.importorskip` skips while it is collected."""
    report = yield
    refuse_skip(report, collector.config)
    return report


def refuse_skip(report: pytest.TestReport | pytest.CollectReport, config: pytest.Config) -> None:
    """Fail a report that says "skipped" if ``--no-skips`` was given."""
    if report.skipped and config.getoption("no_skips"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"--no-skips: {why}"


@pytest.fixture(autouse=True)
def _same_weights() -> None:
    """Let a test draw the same untrained networks whichever tests came before it, so that its failures come again."""
    torch.manual_seed(0)


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(7)


@pytest.fixture
def network(request: pytest.FixtureRequest) -> PolicyValueNetwork:
    """A small network as if it were trained, which sees stones, or what a test's parameter says."""
    return as_if_trained(NetworkConfig(planes=getattr(request, "param", "stones"), channels=16, blocks=2))


@pytest.fixture
def checkpoint(network: PolicyValueNetwork, tmp_path: Path) -> Path:
    """The file of that network."""
    path = tmp_path / "small.safetensors"
    save_checkpoint(path, Checkpoint(network=network))
    return path


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing for TensorBoard, which takes two seconds a run."""
    monkeypatch.setattr("alphac4.runs.tensorboard.Monitor._figures", lambda _monitor, _report: {})
