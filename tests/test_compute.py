import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from alphac4.checkpoint import Checkpoint, save_checkpoint
from alphac4.cli import main
from alphac4.compute import Backends, choose, choose_for_run
from alphac4.compute import choice as compute_choice
from alphac4.compute.cores import Cores
from alphac4.cuda.device import simulated
from alphac4.game import Position, make_geometry
from alphac4.mcts import Budget, NetworkSearch
from alphac4.mcts.results import SearchResult
from alphac4.mcts.search import TreeSearch
from alphac4.nn import PolicyValueNetwork
from alphac4.nn.backends import INT8
from alphac4.nn.network import NetworkConfig
from alphac4.selfplay.config import SelfPlayConfig

POSITIONS = [Position.from_moves(moves) for moves in ("", "44", "112233")]


def other(network: PolicyValueNetwork) -> PolicyValueNetwork:
    """A network with the same shape and a policy that prefers the last column."""
    changed = PolicyValueNetwork(network.config).eval()
    changed.load_state_dict(network.state_dict())
    with torch.no_grad():
        changed.policy.bias.copy_(torch.linspace(-9, 9, network.config.columns))
    return changed


def test_a_search_by_compute_is_the_search_of_its_network(network: PolicyValueNetwork) -> None:
    """The same visits and values as a search made by hand over the same evaluator."""
    compute = choose("cpu", "torch-fp32")
    evaluator = compute.evaluator(network)
    ours = compute.search(evaluator, rng=np.random.default_rng(0)).search(POSITIONS, Budget(simulations=20))
    by_hand = NetworkSearch(evaluator, rng=np.random.default_rng(0)).search(POSITIONS, Budget(simulations=20))
    assert ours.visits.tolist() == by_hand.visits.tolist()
    np.testing.assert_array_equal(ours.value, by_hand.value)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_searches_follow_their_evaluator(network: PolicyValueNetwork, device: str) -> None:
    """After an update every search over the evaluator has the new network's opinion, wherever its trees are."""
    compute = choose(device, "auto" if device == "cuda" else "torch-fp32")
    evaluator = compute.evaluator(network)
    searches = [compute.search(evaluator, rng=np.random.default_rng(0)) for _ in range(2)]
    before = [search.search(POSITIONS[:2], Budget(simulations=4)).priors for search in searches]
    evaluator.update(other(network))
    for search, priors in zip(searches, before, strict=True):
        after = search.search(POSITIONS[:2], Budget(simulations=4)).priors
        assert after.argmax(axis=1).tolist() == [6, 6] != priors.argmax(axis=1).tolist()


def test_a_search_that_forgets_is_like_a_new_one(network: PolicyValueNetwork) -> None:
    """Proofs of the games before are gone: the same visits as those of a search that has never seen them."""
    compute = choose("cpu", "torch-fp32")
    evaluator = compute.evaluator(network)
    nearly_won = [Position.from_moves("414141")]
    kept, fresh = (compute.search(evaluator, rng=np.random.default_rng(0), reuse="proofs") for _ in range(2))
    expected = fresh.search(nearly_won, Budget(simulations=30))
    kept.search(nearly_won, Budget(simulations=30))
    assert kept.search(nearly_won, Budget(simulations=30)).simulations.sum() == 0  # proven, so kept
    kept.forget()
    assert kept.search(nearly_won, Budget(simulations=30)).visits.tolist() == expected.visits.tolist()


def test_the_first_evaluator_settles_the_backend(network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is measured once; whatever comes later runs alike, even were the measurement to turn out otherwise."""
    rates = iter([{"torch-fp32": 2.0, "torch-bf16": 1.0}, {"torch-fp32": 1.0, "torch-bf16": 2.0}])
    monkeypatch.setattr("alphac4.nn.evaluator.measure_backends", lambda *_args: next(rates))
    compute = choose("cpu")
    assert [compute.evaluator(network).backend for _ in range(2)] == ["torch-fp32", "torch-fp32"]
    assert compute.backends.evaluators == compute.inference == "torch-fp32"


def test_only_self_play_may_use_8_bits(network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were 8 bits the fastest by far, or asked for, or remembered: evaluators of a run take something else."""

    def measured(_network: object, available: dict[str, object], *_args: int) -> dict[str, float]:
        return {name: 100.0 if name == INT8 else 1.0 for name in available}

    monkeypatch.setattr("alphac4.nn.evaluator.measure_backends", measured)
    config, geometry = SelfPlayConfig(games=4), make_geometry()
    for backend, remembered in (("auto", "auto"), (INT8, "auto"), ("auto", INT8)):
        compute = choose_for_run("cpu", backend, Backends(evaluators="auto", actors=remembered))
        actors = compute.actors(network, geometry, config, np.random.default_rng)
        assert actors.backend == compute.backends.actors == INT8
        assert compute.evaluator(network).backend != INT8
    assert choose("cpu").evaluator(network).backend != INT8


def test_a_run_takes_up_what_it_remembers_where_it_exists() -> None:
    """In place of "auto" only; a backend of another machine, and 8 bits for strength, are measured anew."""
    remembered = Backends(evaluators="torch-bf16", actors="torch-fp32")
    assert choose_for_run("cpu", "auto", remembered).backends == remembered
    asked = choose_for_run("cpu", "torch-fp32", remembered)
    assert asked.backends == Backends(evaluators="torch-fp32", actors="torch-fp32")
    foreign = Backends(evaluators="cuda-fp32", actors="device-bfloat16")
    assert choose_for_run("cpu", "auto", foreign).backends == Backends()
    assert choose_for_run("cpu", "auto", replace(remembered, evaluators=INT8)).backends.evaluators == "auto"


def test_games_under_way_move_from_one_set_of_actors_to_another() -> None:
    """Their state makes the same games go on; a state of fewer actors is refused."""
    geometry = make_geometry(4, 5, 3)
    small = PolicyValueNetwork(NetworkConfig(rows=4, columns=5, channels=8, blocks=1)).eval()
    config = SelfPlayConfig(games=4, full_simulations=4, fast_simulations=2)

    first, second = (
        Cores("cpu", Backends(actors="torch-fp32"), 2).actors(
            small, geometry, config, lambda index, seed=seed: np.random.default_rng([seed, index])
        )
        for seed in (1, 2)
    )
    second.restore(first.state())
    for name, array in first.state().items():
        np.testing.assert_array_equal(second.state()[name], array)
    alone = Cores("cpu", Backends(actors="torch-fp32"), 1).actors(small, geometry, config, np.random.default_rng)
    with pytest.raises(ValueError, match="do not fit"):
        first.restore(alone.state())


@pytest.mark.gpu
def test_a_gpu_keeps_the_trees_and_a_single_one_stays_on_a_core(network: PolicyValueNetwork) -> None:
    """Searches of batches run on the device, with any of its precisions; names say so."""
    from alphac4.cuda.search import DeviceSearch

    for backend in ("auto", "device-float32"):
        compute = choose("cuda", backend)
        assert compute.learning.resident
        assert compute.inference.startswith("device-float32" if simulated() or backend != "auto" else "device-")
        rng = np.random.default_rng(0)
        assert isinstance(compute.search(compute.evaluator(network), rng=rng), DeviceSearch)
        assert not isinstance(compute.search(compute.evaluator(network, batch_size=1), rng=rng), DeviceSearch)


@pytest.mark.slow
def test_nothing_of_cuda_is_loaded_without_a_gpu() -> None:
    """Choosing the cores imports neither Numba's CUDA part nor the kernels."""
    code = (
        "import sys; from alphac4.compute import choose; choose('cpu', 'torch-fp32');"
        "print([name for name in sys.modules if name.startswith(('numba.cuda.', 'alphac4.cuda.kernels'))])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_missing_gpu_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is made."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for backend in ("auto", *compute_choice.GPU_BACKENDS):
        with pytest.raises(RuntimeError, match="no CUDA device"):
            choose("cuda", backend)


@pytest.mark.gpu
@pytest.mark.parametrize("command", ["arena", "prove"])
def test_commands_keep_their_trees_on_the_gpu(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --device cuda every search of the network is one of the device."""
    from alphac4.cuda.search import DeviceSearch

    geometry = make_geometry(4, 4, 3)
    small = PolicyValueNetwork(NetworkConfig(rows=4, columns=4, channels=8, blocks=1)).eval()
    path = tmp_path / "net.safetensors"
    save_checkpoint(path, Checkpoint(network=small, geometry=geometry))
    searched: list[type] = []
    search = TreeSearch.search

    def seen(self: TreeSearch, *arguments: Any, **named: Any) -> SearchResult:
        searched.append(type(self))
        return search(self, *arguments, **named)

    monkeypatch.setattr(TreeSearch, "search", seen)
    arguments = {"arena": [f"{path}@4", "random", "--games", "2"], "prove": [f"{path}@4", "--plies", "2"]}
    assert main([command, *arguments[command], "--device", "cuda"]) in (0, 1)  # whether it errs
    capsys.readouterr()
    assert DeviceSearch in searched
    assert NetworkSearch not in searched
