import dataclasses
import threading

import numpy as np
import pytest
import torch

from alphac4.game import Position
from alphac4.game.planes import make_planes
from alphac4.nn import Evaluator, NetworkConfig, PolicyValueNetwork
from alphac4.nn.backends import available_backends
from alphac4.nn.evaluator import softmax
from alphac4.nn.network import fold_batch_norm


def random_planes(batch: int, rows: int = 6, columns: int = 7) -> np.ndarray:
    """Planes [B, 2, R, C] with no cell taken twice."""
    stones = np.random.default_rng(batch).integers(0, 3, (batch, rows, columns))
    return np.stack([stones == 1, stones == 2], axis=1).astype(np.float32)


def reference(network: PolicyValueNetwork, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Policy logits and win/draw/loss probabilities by PyTorch, batch norm and all."""
    with torch.inference_mode():
        policy, value = network(torch.from_numpy(planes))
    return policy.numpy(), torch.softmax(value, dim=1).numpy()


def test_folding_batch_norm_changes_nothing(network: PolicyValueNetwork) -> None:
    """In evaluation mode, to float precision."""
    planes = random_planes(33)
    policy, _ = reference(network, planes)
    with torch.inference_mode():
        folded, _ = fold_batch_norm(network)(torch.from_numpy(planes))
    np.testing.assert_allclose(folded.numpy(), policy, atol=1e-4)


@pytest.mark.parametrize("name", list(available_backends("cpu", 64, 1, 1)))
@pytest.mark.parametrize("batch", [1, 3, 64, 150])
def test_every_backend_agrees_with_pytorch(network: PolicyValueNetwork, name: str, batch: int) -> None:
    """Also for batches smaller and larger than the usual one, which some backends pad or split."""
    planes = random_planes(batch)
    policy, wdl = reference(network, planes)
    evaluator = Evaluator(network, batch_size=64, backend=name)
    got_policy, got_wdl = evaluator.evaluate(planes)
    tolerance = 0.15 if "int8" in name else 0.04 if "bf16" in name else 1e-4
    np.testing.assert_allclose(softmax(got_policy), softmax(policy), atol=tolerance)
    np.testing.assert_allclose(got_wdl, wdl, atol=tolerance)


def test_threads_that_call_at_once_get_their_own_answers(network: PolicyValueNetwork) -> None:
    """Four threads with different batches, many times."""
    evaluator = Evaluator(network, batch_size=32, streams=4, threads=2)
    wrong: list[int] = []

    def call(seed: int) -> None:
        planes = random_planes(20 + seed)
        expected, _ = reference(network, planes)
        for _ in range(30):
            policy, _ = evaluator.evaluate(planes)
            if np.abs(softmax(policy) - softmax(expected)).max() > 0.05:
                wrong.append(seed)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_one_thread_computes_a_single_position(network: PolicyValueNetwork) -> None:
    """Several would wait for each other after every layer; batches are worth it."""
    evaluator = Evaluator(network, batch_size=1, backend="torch-fp32", threads=2)
    for batch, threads in ((1, 1), (8, 2), (1, 1)):
        evaluator.evaluate(random_planes(batch))
        assert torch.get_num_threads() == threads


def test_updating_loads_the_other_weights(network: PolicyValueNetwork) -> None:
    """The same evaluator then answers for the new network."""
    evaluator = Evaluator(PolicyValueNetwork(network.config).eval(), batch_size=8, backend="torch-fp32")
    evaluator.update(network)
    planes = random_planes(8)
    np.testing.assert_allclose(evaluator.evaluate(planes)[0], reference(network, planes)[0], atol=1e-4)


def test_an_unknown_backend_is_reported_with_those_available(network: PolicyValueNetwork) -> None:
    """One line that names what there is."""
    with pytest.raises(ValueError, match="torch-fp32"):
        Evaluator(network, backend="abacus")


def test_asking_for_cuda_without_one_is_reported(network: PolicyValueNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a crash in the depths of a library."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="no CUDA device"):
        Evaluator(network, device="cuda")


def test_a_new_network_has_no_strong_opinion() -> None:
    """Before training the policy and the outcome are near uniform."""
    policy, wdl = reference(PolicyValueNetwork(NetworkConfig()).eval(), random_planes(16))
    assert np.abs(softmax(policy) - 1 / 7).max() < 0.05
    assert np.abs(wdl - 1 / 3).max() < 0.05


def test_planes_show_the_side_to_move_first_and_the_bottom_row_first() -> None:
    """Against the position's own grid."""
    for moves in ("", "4", "445566", "1234567123"):
        position = Position.from_moves(moves)
        planes = make_planes(position.geometry, np.array([position.own]), np.array([position.occupied]))
        mover = 1 if position.first_to_move else 2
        np.testing.assert_array_equal(planes[0, 0], position.grid() == mover)
        np.testing.assert_array_equal(planes[0, 1], position.grid() == 3 - mover)


@pytest.mark.parametrize("field", ["channels", "rows", "value_hidden"])
def test_impossible_sizes_are_refused(field: str) -> None:
    """Named in the error."""
    with pytest.raises(ValueError, match=field):
        NetworkConfig(**{field: 0})


def test_a_network_grows_without_changing_its_mind(network: PolicyValueNetwork) -> None:
    """With blocks added it answers the same, and can learn in all of them; any other difference is refused."""
    config = network.config
    larger = PolicyValueNetwork(dataclasses.replace(config, blocks=config.blocks + 2)).eval()
    larger.take_over(network)
    planes = random_planes(17)
    for ours, theirs in zip(reference(larger, planes), reference(network, planes), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    policy, _ = larger(torch.from_numpy(planes))
    policy[:, 0].sum().backward()
    assert all(block.second[1].weight.grad.abs().sum() > 0 for block in larger.tower)
    with pytest.raises(ValueError, match="cannot take over"):
        network.take_over(larger)
    with pytest.raises(ValueError, match="only blocks may be added"):
        PolicyValueNetwork(dataclasses.replace(config, channels=config.channels + 1)).take_over(network)
