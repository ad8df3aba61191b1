import runpy
from pathlib import Path

import numpy as np
import pytest

from alphac4.cli import main
from alphac4.commands import benchmark
from alphac4.commands.benchmark import PARTS
from alphac4.commands.options import BenchmarkOptions
from alphac4.nn.config import NetworkConfig
from alphac4.selfplay.config import SelfPlayConfig


@pytest.mark.slow
def test_each_part_is_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each figure has a name of its own, stands in the table, and is above 0."""
    monkeypatch.setattr(benchmark, "SelfPlayConfig", lambda: SelfPlayConfig(games=8, full_simulations=8))
    options = BenchmarkOptions(seconds=0.01, repeats=1, channels=4, blocks=1, batches=(1, 2))
    figures = [
        figure for part in ("rules", "puct", "inference", "selfplay", "learning") for figure in PARTS[part](options)
    ]
    monkeypatch.setattr("alphac4.commands.benchmark.PARTS", {"rules": lambda _: iter(figures)})
    assert main(["benchmark", "--only", "rules"]) == 0
    assert len({figure.name for figure in figures}) == len(figures)
    assert all(figure.value > 0 for figure in figures)
    assert [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()[1:]] == [f.name for f in figures]


@pytest.mark.slow
def test_other_programs_for_the_game_can_be_measured() -> None:
    for package in ("pyspiel", "jax", "pgx", "mctx"):
        pytest.importorskip(package, reason="needs pip install 'alphac4[peers]'")
    peers = runpy.run_path(str(Path(__file__).parents[1] / "experiments" / "peers.py"))
    rates = peers["pgx_mctx_rate"](NetworkConfig(channels=4, blocks=1), games=4, simulations=4, seconds=0.05)
    assert all(np.isfinite(rate) and rate > 0 for rate in (*rates, peers["openspiel_rate"](50, 0.05)))
