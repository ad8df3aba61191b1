"""Tests of `alphac4 benchmark`'s figures."""

import json

import pytest

from alphac4.benchmarks.figures import BenchmarkSettings
from alphac4.benchmarks.inference import measure_inference
from alphac4.benchmarks.learning import measure_learning
from alphac4.benchmarks.rules import measure_rules
from alphac4.benchmarks.searches import measure_puct
from alphac4.benchmarks.selfplay import measure_selfplay
from alphac4.cli import main

TINY = BenchmarkSettings(seconds=0.01, repeats=1, channels=4, blocks=1, batches=(1, 2))


@pytest.mark.slow
def test_each_figure_has_a_name_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """In JSON the name is the key: a second figure of the same name would take the place of the first."""
    parts = (measure_rules, measure_puct, measure_inference, measure_selfplay, measure_learning)
    names = [figure.name for part in parts for figure in part(TINY)]
    assert len(set(names)) == len(names)
    words = ["--seconds", "0.01", "--repeats", "1", "--channels", "4", "--blocks", "1", "--batches", "1", "2"]
    assert main(["benchmark", "--only", "rules", "puct", "inference", "selfplay", "learning", "--json", *words]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert list(shown) == names
    assert all(figure["value"] > 0 for figure in shown.values())
