import json

import numpy as np
import pytest

from alphac4.benchmarks import BenchmarkSettings, parts
from alphac4.benchmarks.parts import PARTS
from alphac4.benchmarks.peers import missing_packages, openspiel_rate, pgx_mctx_rate
from alphac4.cli import main
from alphac4.nn.network import NetworkConfig
from alphac4.selfplay.config import SelfPlayConfig


@pytest.mark.slow
def test_each_figure_has_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    # In JSON the name is the key: a second figure of the same name would take the place of the first.
    monkeypatch.setattr(parts, "SelfPlayConfig", lambda: SelfPlayConfig(games=8, full_simulations=8))
    settings = BenchmarkSettings(seconds=0.01, repeats=1, channels=4, blocks=1, batches=(1, 2))
    figures = [
        figure for part in ("rules", "puct", "inference", "selfplay", "learning") for figure in PARTS[part](settings)
    ]
    monkeypatch.setattr("alphac4.commands.benchmark.PARTS", {"rules": lambda _: iter(figures)})
    assert main(["benchmark", "--only", "rules", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert list(shown) == [figure.name for figure in figures]
    assert all(figure["value"] > 0 for figure in shown.values())


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert missing_packages("pgx + mctx") == ["jax", "pgx", "mctx"]


@pytest.mark.skipif(bool(missing_packages("openspiel")), reason="needs open_spiel")
def test_openspiel_searches() -> None:
    assert openspiel_rate(50, 0.05) > 0


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_packages("pgx + mctx")), reason="needs jax, pgx and mctx")
def test_pgx_and_mctx_search() -> None:
    rates = pgx_mctx_rate(NetworkConfig(channels=4, blocks=1), games=4, simulations=4, seconds=0.05)
    assert np.isfinite(rates).all()
    assert min(rates) > 0
