import numpy as np
import pytest

from alphac4.game import Position
from alphac4.game.planes import make_planes, stones
from alphac4.game.rules import STANDARD, Geometry, make_geometry
from alphac4.game.symmetry import canonical_keys, mirror_where
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.search import Budget
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import PolicyValueNetwork


def random_positions(count: int, rng: np.random.Generator, geometry: Geometry = STANDARD) -> list[Position]:
    """Unfinished positions of all stages."""
    positions: list[Position] = []
    while len(positions) < count:
        position = Position.from_moves("", geometry)
        for _ in range(rng.integers(0, geometry.cells)):
            position = position.play(int(rng.choice(position.legal_columns())))
            if position.outcome() is not None:
                break
        else:
            positions.append(position)
    return positions


@pytest.mark.parametrize("geometry", [STANDARD, make_geometry(5, 6), make_geometry(7, 8)])
def test_a_position_and_its_mirror_image_have_one_canonical_form(geometry: Geometry, rng: np.random.Generator) -> None:
    """Checked against the mirror image that replaying the moves in mirrored columns gives."""
    positions = random_positions(200, rng, geometry)
    forms = []
    for part in (positions, [position.mirror() for position in positions]):
        own, occupied = stones(part)
        keys, mirrored = canonical_keys(geometry, own, occupied)
        forms.append((mirror_where(geometry, own, mirrored), mirror_where(geometry, occupied, mirrored), keys))
    for ours, theirs in zip(*forms, strict=True):
        assert (ours == theirs).all()
    distinct = {frozenset({(p.own, p.occupied), (p.mirror().own, p.mirror().occupied)}) for p in positions}
    assert len(np.unique(forms[0][2])) == len(distinct)


def test_search_is_exactly_symmetric(network: PolicyValueNetwork, rng: np.random.Generator) -> None:
    """A network that values mirror images differently still searches them alike."""
    positions = random_positions(40, rng)
    evaluator = Evaluator(network, backend="torch-fp32")
    logits = [
        evaluator.evaluate(make_planes(STANDARD, *stones(part)))[0]
        for part in (positions, [position.mirror() for position in positions])
    ]
    assert np.abs(logits[0] - logits[1][:, ::-1]).max() > 0.1  # the network itself is not symmetric
    results = [
        NetworkSearch(evaluator, rng=rng).search(part, Budget(simulations=1))
        for part in (positions, [position.mirror() for position in positions])
    ]
    assert (results[0].priors == results[1].priors[:, ::-1]).all()
    assert (results[0].wdl == results[1].wdl).all()
