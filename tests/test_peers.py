import numpy as np
import pytest

from alphac4.benchmarks.jax_peer import pgx_mctx_rate
from alphac4.benchmarks.peers import PEERS, Comparison, missing_packages, openspiel_rate
from alphac4.nn.network import NetworkSize


def test_a_ratio_is_ours_over_theirs() -> None:
    """By hand."""
    assert Comparison(name="x", unit="1/s", ours=30.0, theirs=4.0).ratio == 7.5


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a peer's packages, in order, when none is there."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert missing_packages("pgx + mctx") == ["jax", "pgx", "mctx"]
    assert missing_packages("openspiel") == ["pyspiel"]


@pytest.mark.skipif(bool(missing_packages("openspiel")), reason="needs open_spiel")
def test_openspiel_searches() -> None:
    """It really ran."""
    assert openspiel_rate(50, 0.05) > 0


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_packages("pgx + mctx")), reason="needs jax, pgx and mctx")
def test_pgx_and_mctx_search() -> None:
    """A tiny network plays moves; both rates are finite and positive."""
    rates = pgx_mctx_rate(NetworkSize(channels=4, blocks=1), games=4, simulations=4, seconds=0.05)
    assert np.isfinite(rates).all()
    assert min(rates) > 0


def test_every_peer_names_its_packages() -> None:
    """So that what is missing can be told."""
    assert all(PEERS.values())
