"""User functions that replace parts of the algorithm: their arguments, effects and invalid results."""

import copy
import dataclasses
import math
import re
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from campaigns.tiny_run import SETTINGS, tiny_run
from helpers import Linear
from torch import Tensor, nn

import alphac4
from alphac4.game import STANDARD, Position
from alphac4.mcts.puct import Puct
from alphac4.nn.evaluator import Evaluator
from alphac4.nn.network import build_network
from alphac4.runs.folder import RunFolder
from alphac4.runs.reports import checked_metrics
from alphac4.runs.session import TrainingSession
from alphac4.selfplay.config import PRIOR_TEMPERATURE
from alphac4.selfplay.games import Games
from alphac4.selfplay.replay import load_shard
from alphac4.selfplay.samples import Samples, lambda_returns, recorded_plies
from alphac4.storage.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from alphac4.storage.files import FileError
from alphac4.training.extensions import Extensions, as_probabilities, check_optimizers
from alphac4.training.learner import Learner
from alphac4.training.loop import Iteration
from alphac4.training.losses import batches

CONFIG = alphac4.TrainConfig.preset("tiny")


def train(**functions: Any) -> list[Iteration]:
    return list(alphac4.iterate(CONFIG, **functions))


@pytest.fixture(scope="module")
def plain() -> Iteration:
    return train()[0]


def weights(iteration: Iteration) -> list[Tensor]:
    return list(iteration.candidate.network.state_dict().values())


def same_weights(first: Iteration, second: Iteration) -> bool:
    return all(torch.equal(ours, theirs) for ours, theirs in zip(weights(first), weights(second), strict=True))


def test_functions_equal_to_the_builtin_ones_change_nothing(plain: Iteration) -> None:
    selfplay = CONFIG.selfplay
    again, _ = train(
        loss=alphac4.default_losses,
        temperature=lambda _iteration, ply: 0.25 + 0.75 * 0.5 ** (ply / 10),
        noise=lambda _iteration, _ply: selfplay.dirichlet_fraction,
        policy_target=lambda games, _rng: games.policy_target,
        visits=lambda _iteration, _ply, full: selfplay.full_visits if full else selfplay.fast_visits,
        start_positions=lambda _window, _rng: [""],
        gate=lambda play: play().score >= CONFIG.gate.threshold,
        selection_rule=CONFIG.search.puct(PRIOR_TEMPERATURE),
    )
    assert same_weights(again, plain)
    assert again.selfplay.simulations == plain.selfplay.simulations


def test_default_losses_have_the_weights_of_the_settings() -> None:
    light, heavy = (
        next(
            alphac4.iterate(
                tiny_run(learning=SETTINGS["learning"] | {"replay_ratio": 0.01, "ownership_weight": weight}),
                loss=lambda outputs, batch: alphac4.default_losses(outputs, batch),
            )
        ).learning.losses
        for weight in (0.5, 5.0)
    )
    assert heavy["ownership"] == pytest.approx(10 * light["ownership"], rel=1e-5)
    assert heavy["policy"] == light["policy"]


@pytest.mark.parametrize(
    "functions",
    [
        {"loss": lambda outputs, batch: {"policy": 2 * alphac4.default_losses(outputs, batch)["policy"]}},
        {"optimizer": lambda network: torch.optim.SGD(network.parameters(), lr=0.1)},
        {"schedule": lambda step, steps: 0.5 * (1 - step / steps)},
        {"sample_weights": lambda window, _rng: window.is_full_search + 0.1},
        {"value_target": lambda games, _rng: np.broadcast_to([0.0, 1.0, 0.0], (*games.value.shape, 3))},
        {"selection_rule": Puct(c_init=20.0)},
        {"visits": lambda iteration, ply, _full: 2 + iteration + ply % 2},
        {"temperature": lambda iteration, _ply: 2.0 * iteration},
        {"noise": lambda _iteration, ply: 0.5 if ply < 4 else 0.0},
        {"start_positions": lambda _window, _rng: ["44", "4455"]},
    ],
    ids=lambda functions: next(iter(functions)),
)
def test_each_function_changes_what_is_learned(functions: dict[str, Any], plain: Iteration) -> None:
    changed, _ = train(**functions)
    assert not same_weights(changed, plain)
    assert changed.learning.skipped_steps == 0


def test_budgets_may_exceed_those_of_the_settings() -> None:
    budget, visits = 3 * CONFIG.selfplay.full_visits, list[int]()

    def policy_target(games: Games, _rng: Any) -> Any:
        visits.extend(games.visits.sum(axis=2).flat)
        return games.policy_target

    train(policy_target=policy_target, visits=lambda *_: budget)
    assert max(visits) == budget  # less in positions that are proven before


def test_functions_are_called_with_the_documented_arguments() -> None:
    seen: dict[str, Any] = {}

    def policy_target(games: Any, _rng: Any) -> Any:
        seen["games"] = games
        return games.policy_target

    def start_positions(window: Any, _rng: Any) -> list[str]:
        seen["windows"] = [*seen.get("windows", []), window]
        return ["44"]

    def losses(outputs: Any, batch: Any) -> Any:
        seen["batch"] = batch
        return alphac4.default_losses(outputs, batch)

    iteration = train(policy_target=policy_target, start_positions=start_positions, loss=losses)[0]
    games = seen["games"]
    first = games.opening_plies[0]
    assert games.moves[0, :2].tolist() == [-1, -1]  # moves before the start position
    assert first >= 2
    assert games.visits[0, first].sum() > 0
    assert games.priors[0, first].sum() == pytest.approx(1, abs=1e-5)
    visited = games.visits[0, first] > 0
    assert np.isfinite(games.values[0, first][visited]).all()
    assert np.abs(games.greedy_value).max() <= 1
    assert seen["windows"][0] is None
    assert len(seen["windows"][1]) == iteration.selfplay.samples
    assert iteration.selfplay.games > 0
    assert iteration.selfplay.openings == {}  # the moves before a start position are unknown
    assert iteration.selfplay.sample_games == []
    batch = seen["batch"]
    assert batch.planes.shape[1:] == (8, 6, 7)
    torch.testing.assert_close(batch.value_target.sum(dim=1), torch.ones(len(batch.value_target)), atol=2e-3, rtol=0)


class Boldest:
    """Policy target that changes the most surprising tenth of the games that it gets, and some random ones."""

    def __call__(self, games: Games, rng: np.random.Generator) -> Any:
        """Return the policies [G, C, A]."""
        policy, surprise = games.policy_target.copy(), games.surprise.sum(axis=1)
        changed = (surprise >= np.quantile(surprise, 0.9)) | (rng.random(len(surprise)) < 0.2)
        policy[changed] = games.policy_target[changed] ** 2
        return policy / np.maximum(policy.sum(axis=-1, keepdims=True), 1e-9)


@pytest.mark.parametrize("idea", ["boldest", "re_search"])
def test_targets_do_not_depend_on_the_number_of_cores(idea: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alphac4.compute.cores.MIN_GAMES", 1)
    monkeypatch.syspath_prepend(Path(alphac4.__file__).parents[1] / "examples" / "ideas")
    results = []
    for cores in (1, 2, 2):
        monkeypatch.setenv("ALPHAC4_CORES", str(cores))
        target = import_module("re_search").ReSearch() if idea == "re_search" else Boldest()
        callbacks = [target] if isinstance(target, alphac4.Callback) else []
        config = tiny_run(
            iterations=2, positions_per_iteration=300, selfplay=SETTINGS["selfplay"] | {"parallel_games": 16}
        )
        results.append(list(alphac4.iterate(config, policy_target=target, callbacks=callbacks))[-1])
    assert same_weights(results[0], results[1])
    assert same_weights(results[1], results[2])


def test_functions_may_change_their_arguments(plain: Iteration) -> None:
    def policy_target(games: Games, _rng: Any) -> Any:
        policy = games.policy_target.copy()
        for array in games:
            array[:] = 0
        return policy

    def value_target(games: Games, _rng: Any) -> Any:
        games.value[:] = 0.5
        return lambda_returns(games, CONFIG.selfplay.td_lambda, CONFIG.selfplay.td_max_regret)

    def sample_weights(window: Samples, _rng: Any) -> Any:
        weights = window.value_target[:, 1]
        weights += 0.5
        return weights

    careless = train(policy_target=policy_target, sample_weights=sample_weights)[0]
    careful = train(sample_weights=lambda window, _rng: window.value_target[:, 1] + np.float16(0.5))[0]
    assert same_weights(careless, careful)
    assert careless.selfplay.policy_surprise == plain.selfplay.policy_surprise
    assert train(value_target=value_target)[0].selfplay.policy_surprise == plain.selfplay.policy_surprise


@pytest.mark.usefixtures("no_pictures")
def test_callbacks_and_loops_may_change_the_networks(tmp_path: Path) -> None:
    class Careless(alphac4.Callback):
        def on_iteration(self, iteration: Iteration) -> None:
            for network in (iteration.best.network, iteration.candidate.network):
                network.to(torch.float64).requires_grad_(False).zero_grad()
                for parameter in network.parameters():
                    parameter.zero_()

    config = tiny_run(iterations=2)
    runs = {name: tmp_path / name for name in ("careful", "careless")}
    alphac4.train(config, run=runs["careful"], progress=False)
    alphac4.train(config, run=runs["careless"], progress=False, callbacks=[Careless()])
    ours, theirs = (
        load_checkpoint(run / "checkpoints" / "000002.safetensors").network.state_dict() for run in runs.values()
    )
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    learned = []
    for iteration in alphac4.iterate(config):
        learned.append(iteration.candidate.network.state_dict()["stem.0.weight"].clone())
        Careless().on_iteration(iteration)
    torch.testing.assert_close(learned[-1], ours["stem.0.weight"])


def test_losses_of_any_name_are_reported() -> None:
    def losses(outputs: Any, batch: Any) -> Any:
        constant = torch.full((len(batch.planes),), 2.5)
        return alphac4.default_losses(outputs, batch) | {"policy entropy": constant, "gradient norm": 2 * constant}

    learning = train(loss=losses)[0].learning
    assert (learning.losses["policy entropy"], learning.losses["gradient norm"]) == (2.5, 5.0)
    assert 0 < learning.policy_entropy < 2  # of seven columns, at most log 7
    assert learning.gradient_norm != 5.0


class SometimesAbsent:
    """Losses of which one is missing in the second call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, outputs: Any, batch: Any) -> dict[str, Tensor]:
        self.calls += 1
        policy = alphac4.default_losses(outputs, batch)["policy"]
        return {"policy": policy, "mine": policy} if self.calls == 1 else {"policy": policy}


class Late(Linear):
    """A network that returns a column less, or raises, for large batches in training or in evaluation."""

    def __init__(self, config: Any, *, training: bool, raises: bool) -> None:
        super().__init__(config)
        self.fails_in, self.raises = training, raises

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        policy, value = super().forward(planes)
        if len(planes) > 2 and self.training == self.fails_in:
            if self.raises:
                raise KeyError("late")
            return policy[:, 1:], value
        return policy, value


@pytest.mark.parametrize("training", [True, False])
def test_late_failures_of_a_network_name_its_function(training: bool) -> None:
    function = r"passed as `network`"
    with pytest.raises(KeyError, match=r"raised on planes \[\d+, 8, 6, 7\] by the network of .*partial, " + function):
        train(network=partial(Late, training=training, raises=True))
    with pytest.raises(ValueError, match=r"partial returned \[\[\d+, 6\], .*; expected policy logits \[\d+, 7\]"):
        train(network=partial(Late, training=training, raises=False))


class InPlace(Linear):
    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(planes.mul_(2))


class WithExtraState(Linear):
    def get_extra_state(self) -> Any:
        return {"calls": 3}


class Masked(Linear):
    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.register_buffer("mask", torch.tensor([0.0, -math.inf]))


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"network": lambda _config: "CNN"}, "returned str; expected a torch.nn.Module"),
        ({"network": lambda _config: nn.Flatten()}, r"returned .* expected policy logits \[2, 7\], win/draw/loss"),
        ({"network": Masked}, "Masked has 'mask', which is not finite"),
        ({"network": WithExtraState}, "'_extra_state' in its state, which is not a tensor"),
        ({"network": InPlace}, "InPlace changes its input in place: start with planes = planes.clone()"),
        ({"loss": lambda _outputs, _batch: torch.ones(3)}, "loss returned Tensor; expected a dictionary"),
        (
            {"loss": lambda _o, batch: {"mine": batch.value_target.mean()}},
            r"loss returned \[\] for the loss 'mine'; expected",
        ),
        ({"loss": SometimesAbsent()}, r"loss returned \['policy'\], and \['policy', 'mine'\] in its first call"),
        ({"loss": lambda _o, batch: {"mine": torch.zeros(len(batch.planes))}}, "loss returned numbers without a grad"),
        ({"optimizer": lambda _network: []}, r"optimizer returned \[\]; expected a PyTorch optimizer"),
        ({"optimizer": lambda network: torch.optim.LBFGS(network.parameters())}, "LBFGS; expected one .* no closure"),
        (
            {"optimizer": lambda network: [torch.optim.SGD(network.parameters()) for _ in range(2)]},
            "two optimizers of the same parameter",
        ),
        (
            {"visits": lambda _iteration, _ply, _full: True},
            r"visits\(1, 0, False\) returned True; expected a whole number from 1 to 1",
        ),
        (
            {"policy_target": lambda games, _rng: games.value},
            r"policy_target returned ndarray float32 \[\d+, 42\]; expected probabilities that sum to 1, .*, 42, 7\] by",
        ),
        (
            {"policy_target": lambda games, _rng: np.full(games.policy_target.shape, 1 / 7)},
            "policy_target returned 0.143 for column . in game .*, ply .* because the column is full",
        ),
        (
            {"value_target": lambda games, _rng: np.ones((*games.value.shape, 3))},
            r"value_target returned \[1\., 1\., 1\.\] in game 0, ply \d; expected probabilities that sum to 1",
        ),
        (
            {"value_target": lambda games, _rng: np.ma.masked_invalid(np.ones((*games.value.shape, 3)))},
            "value_target returned MaskedArray; expected .*: fill the masked values",
        ),
        (
            {"value_target": lambda _games, _rng: ["win"]},
            r"value_target returned list <U3 \[1\]; expected probabilities",
        ),
        ({"visits": lambda *_: 0}, r"visits\(1, 0, False\) returned 0; expected a whole number"),
        ({"start_positions": lambda *_: []}, "start_positions returned 0 positions"),
        ({"start_positions": lambda *_: ["4444444"]}, "start_positions returned an invalid position: illegal move '4'"),
        (
            {"loss": lambda o, b: {"mine": alphac4.cross_entropy(o.policy * math.nan, b.policy_target)}},
            "loss returned numbers that are not finite, or have no finite gradient, in 3 steps",
        ),
        ({"start_positions": lambda *_: [44]}, "start_positions returned 44; expected positions or move strings"),
        ({"schedule": lambda *_: None}, r"schedule\(0, 6\) returned None; expected a finite number from 0"),
        ({"start_positions": lambda *_: ["1212121"]}, "start_positions returned a finished game: 1212121"),
        (
            {"sample_weights": lambda window, _rng: -window.value},
            r"sample_weights returned -\d.* in sample \d+; expected finite numbers from 0, ",
        ),
        (
            {"sample_weights": lambda *_: [1.0]},
            r"sample_weights returned list float64 \[1\]; expected finite numbers from 0, \[\d+\] by sample",
        ),
        ({"gate": lambda _play: None}, "gate returned None; expected True or False"),
    ],
)
def test_invalid_results_of_functions_are_named(functions: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(**functions)


class LastMove(NamedTuple):
    prior_temperature: float = 1.0

    def score(self, trees: Any, t: int, node: int, action: int, totals: Any) -> Any:  # noqa: ARG002
        return trees.priors[t, node, action]

    def final_score(self, trees: Any, t: int, node: int, action: int, totals: Any) -> Any:  # noqa: ARG002
        return action


@pytest.mark.parametrize(
    ("functions", "settings", "message"),
    [
        (
            {"value_target": lambda games, _rng: games.value},
            {"selfplay": {"td_lambda": 0.5}},
            r"`value_target` replaces selfplay.td_lambda, which is 0\.5 in the settings: leave out one of the two",
        ),
        ({"visits": lambda *_: 8}, {"selfplay": {"full_visits": 7}}, "replaces selfplay.full_visits"),
        ({"selection_rule": Puct()}, {"search": {"c_init": 2.0}}, "replaces search.c_init"),
        ({"selection_rule": LastMove()}, {"selfplay": {"temperature_end": 0.7}}, "replaces selfplay.temperature_end"),
        (
            {"selection_rule": LastMove(), "temperature": lambda *_: 1.0},
            {},
            "final_score, which replaces `temperature`",
        ),
        ({"gate": lambda _play: True}, {"gate": {"threshold": 0.6}}, "replaces gate.threshold"),
        ({"schedule": lambda *_: 1.0}, {"learning": {"final_learning_rate": 1e-3}}, "replaces learning.final_learning"),
        ({"optimizer": lambda *_: []}, {"learning": {"weight_decay": 0.01}}, "replaces learning.weight_decay"),
        ({"temperature": lambda *_: 1.0}, {"selfplay": {"temperature": 2.0}}, "replaces selfplay.temperature"),
    ],
)
def test_settings_that_a_function_replaces_are_refused(
    functions: dict[str, Any], settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        alphac4.train("tiny", run=tmp_path / "run", settings=settings, progress=False, **functions)
    assert not (tmp_path / "run").exists()


def test_own_optimizer_has_a_constant_rate_without_a_schedule() -> None:
    last = train(optimizer=lambda module: torch.optim.SGD(module.parameters(), lr=0.125))[-1]
    assert last.learning.learning_rate == 0.125


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("name", ["policy_target", "loss", "sample_weights", "gate"])
def test_run_resumes_after_a_late_exception_of_a_function(name: str, tmp_path: Path) -> None:
    """The error names the function, and the corrected function continues as if nothing had happened."""
    correct: dict[str, Any] = {
        "policy_target": lambda games, _rng: games.policy_target,
        "loss": alphac4.default_losses,
        "sample_weights": lambda window, _rng: window.is_full_search + 1.0,
        "gate": lambda play: play().score > 0.4,
    }
    options: dict[str, Any] = {"progress": False, "tensorboard": False}
    left = 1 if name != "loss" else CONFIG.steps_per_iteration  # correct calls, those of the first iteration

    def function(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyError("reply")
        return correct[name](*arguments)

    with pytest.raises(KeyError, match="raised by the function that was passed as `" + name):
        alphac4.train(CONFIG, run=tmp_path / "late", **options, **{name: function})
    left = 1000
    runs = [alphac4.train(CONFIG, run=tmp_path / run, **options, **{name: function}) for run in ("late", "straight")]
    ours, theirs = (load_checkpoint(run.best_checkpoint).network.state_dict() for run in runs)
    assert all(torch.equal(ours[entry], theirs[entry]) for entry in theirs)


class Tower(Linear):
    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.tower = nn.Linear(10, 10)


def test_names_in_a_module_do_not_choose_its_optimizer() -> None:
    def with_muon(module: nn.Module) -> list[torch.optim.Optimizer]:
        first, *rest = module.parameters()
        return [alphac4.Muon([first], lr=0.01), torch.optim.AdamW(rest)]

    for optimizer, expected in ((None, [torch.optim.AdamW]), (with_muon, [alphac4.Muon, torch.optim.AdamW])):
        learner = Learner(
            CONFIG.network_config(),
            CONFIG.learning,
            STANDARD,
            seed=0,
            extensions=Extensions(network=Tower, optimizer=optimizer),
        )
        assert [type(each) for each in learner.optimizers] == expected
    with pytest.raises(ValueError, match="at least two axes"):
        alphac4.Muon([nn.Parameter(torch.zeros(3))], lr=0.01)


def test_parameters_that_no_optimizer_learns_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    module[0].bias.requires_grad_(False)
    optimizers = [torch.optim.SGD([module[1].weight])]
    assert check_optimizers(optimizers, module) is optimizers
    assert "no optimizer learns ['0.weight', '1.bias']" in caplog.text


def test_arguments_that_are_not_functions_are_rejected_at_once() -> None:
    for name, value in {"loss": 5, "optimizer": "adam", "gate": True, "start_positions": ["44"]}.items():
        with pytest.raises(TypeError, match=f"{name} must be a function, not "):
            next(alphac4.iterate(CONFIG, **{name: value}))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="such as lambda module: AdamW"):
        next(alphac4.iterate(CONFIG, optimizer=torch.optim.AdamW))  # type: ignore[arg-type]


def test_budgets_by_a_function_limit_the_number_of_iterations() -> None:
    """All budgets are computed before the first iteration, which would take hours."""
    config = dataclasses.replace(CONFIG, iterations=10**9)
    with pytest.raises(ValueError, match="100,000 iterations at most, not 1,000,000,000"):
        next(alphac4.iterate(config, visits=lambda _iteration, _ply, _full: 8))


def test_gate_can_promote_without_a_match() -> None:
    history = train(gate=lambda _play: True)
    assert [iteration.gate.promoted for iteration in history] == [True, True]
    assert [iteration.best.iteration for iteration in history] == [1, 2]
    assert history[0].gate.games == ()


@pytest.mark.usefixtures("no_pictures")
def test_run_records_the_targets_of_user_functions(tmp_path: Path) -> None:
    def leftmost(recorded: Games | Samples, _rng: Any = None) -> Any:
        full = [(recorded.occupied >> np.uint64(7 * column + 5)) & np.uint64(1) for column in range(7)]
        return np.eye(7, dtype=np.float32)[np.argmin(full, axis=0)]

    def drawn(games: Games, _rng: Any) -> Any:
        return np.broadcast_to(np.array([0, 1, 0], np.float32), (*games.value.shape, 3))

    config = tiny_run(iterations=1)
    alphac4.train(config, run=tmp_path, progress=False, policy_target=leftmost, value_target=drawn)
    samples = load_shard(tmp_path / "replay" / "000001.safetensors")
    np.testing.assert_array_equal(samples.policy_target, leftmost(samples))
    assert (samples.value_target == [0, 1, 0]).all()
    assert set(samples.outcome) <= {-1, 0, 1}


class RecordAndStop(alphac4.Callback):
    """Callback that adds a figure to the first iteration's report and ends the run."""

    def on_iteration(self, iteration: Iteration) -> None:
        iteration.metrics["doubled"] = np.float32(2.0 * iteration.number)
        raise alphac4.StopTraining


def test_a_rejected_candidate_does_not_become_the_best_network() -> None:
    verdicts = iter([True, False])
    first, second = alphac4.iterate(tiny_run(iterations=2), gate=lambda _play: next(verdicts))
    assert [first.best.iteration, second.best.iteration, second.candidate.iteration] == [1, 1, 2]
    assert not torch.equal(second.best.network.policy.weight, second.candidate.network.policy.weight)


def test_every_iteration_draws_other_batches() -> None:
    drawn: list[float] = []

    def sample_weights(window: Samples, rng: np.random.Generator) -> Any:
        drawn.append(rng.bit_generator.state["state"]["state"])  # which also draws the batches
        return np.ones(len(window.value))

    config = tiny_run(iterations=3)
    assert len(list(alphac4.iterate(config, sample_weights=sample_weights))) == len(set(drawn)) == 3


def test_weights_of_a_sampler_may_be_huge() -> None:
    np.testing.assert_array_equal(as_probabilities(np.array([1e308, 1e308, 0.0])), [0.5, 0.5, 0.0])


def test_metrics_of_callbacks_are_numbers() -> None:
    metrics = {"array": np.array(1.5), "tensor": torch.tensor(2.0), "flag": True, "int": 3}
    assert checked_metrics(metrics) == {"array": 1.5, "tensor": 2.0, "flag": 1.0, "int": 3.0}
    for wrong in (None, "1.5", [1], np.ones(2), torch.ones(2), 10**400):
        with pytest.raises(TypeError, match=r"a callback set iteration.metrics\['mine'\] to .*; set a number"):
            checked_metrics({"mine": wrong})
    with pytest.raises(TypeError, match="set a number"):
        checked_metrics({"\ud800": 1.0})  # TensorBoard could not write the name


def test_the_name_of_a_selection_has_its_numbers() -> None:
    names = Extensions(selection_rule=alphac4.Puct(c_init=np.float64(2), prior_temperature=1)).names()
    assert re.fullmatch(
        r"alphac4\.mcts\.puct\.Puct\(c_init=2\.0, .*, prior_temperature=1\) #\w{16}", names["selection_rule"]
    )


def scaled(factor: float) -> Any:
    """Return a function that encloses a number, itself, and a list, which does not identify it."""
    calls: list[int] = []

    def schedule(step: int, steps: int) -> float:
        calls.append(step)
        return factor if step or steps else schedule(1, 1)

    return schedule


HALF = lambda _step, _steps: 0.5  # noqa: E731
QUARTER = lambda _step, _steps: 0.25  # noqa: E731


class Counting:
    """A function with state."""

    calls = 0

    def __call__(self, _step: int, _steps: int) -> float:
        """Count the calls."""
        self.calls += 1
        return 1.0


counting = Counting()


@pytest.mark.parametrize(
    ("same", "first", "second"),
    [
        (True, scaled(0.5), scaled(0.5)),
        (False, scaled(0.5), scaled(0.25)),
        (False, HALF, QUARTER),
        (False, *(lambda _step, _steps, rate=rate: rate for rate in (0.5, 0.25))),
        (True, partial(scaled(1.0), steps=2), partial(scaled(1.0), steps=2)),
        (False, partial(scaled(1.0), steps=2), partial(scaled(1.0), steps=3)),
        (False, partial(math.pow, 2), partial(math.fmod, 2)),
        (True, counting, Counting()),
        (False, counting, counting.__call__),
        (True, math.pow, math.pow),
    ],
)
def test_digest_of_a_function_covers_its_source_and_what_it_encloses(same: bool, first: Any, second: Any) -> None:
    counting(0, 1)
    scaled(0.5)(0, 0)
    first, second = (Extensions(schedule=each).names()["schedule"].partition(" #")[2] for each in (first, second))
    assert (first == second) == same


@pytest.mark.usefixtures("no_pictures")
def test_run_that_resumes_with_changed_code_warns_and_records_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    schedules = [scaled(0.5), scaled(0.25)]
    options: dict[str, Any] = {"run": tmp_path, "progress": False}
    alphac4.train(CONFIG, callbacks=[RecordAndStop()], schedule=schedules[0], **options)
    assert not caplog.messages
    alphac4.train(CONFIG, schedule=schedules[1], **options)
    (message,) = caplog.messages
    assert message.startswith("`schedule`: the code of test_extensions.scaled.<locals>.schedule has changed")
    (change,) = load_checkpoint(tmp_path / "checkpoints" / "000002.safetensors").provenance["changes"]
    names = [Extensions(schedule=each).names()["schedule"] for each in schedules]
    assert change == {"after_iteration": 1, "setting": "schedule", "from": names[0], "to": names[1]}


def replies(games: Games, _rng: Any) -> dict[str, alphac4.Target]:
    """Return the opponent's next move [G, C, A], 0 at the end of a game, and the plies left [G, C]."""
    plies = np.arange(games.moves.shape[1])
    following = np.roll(games.moves, -1, axis=1)
    has_reply = plies + 1 < games.plies[:, None]
    reply = np.eye(games.policy_target.shape[2])[following] * has_reply[:, :, None]
    return {
        "reply": alphac4.Target(reply, per_column=True),
        "left": alphac4.Target(games.plies[:, None] - plies, False),
    }


def with_reply(outputs: Any, batch: Any) -> dict[str, Tensor]:
    reply = alphac4.cross_entropy(outputs.extra["reply"], batch.targets["reply"])
    return alphac4.default_losses(outputs, batch) | {"reply": reply}


def reply_network(config: Any) -> nn.Module:
    return alphac4.PolicyValueNetwork(config, heads={"reply": config.columns})


def test_further_heads_do_not_change_the_choice_of_the_backend() -> None:
    network = reply_network(alphac4.TrainConfig.preset("tiny").network_config()).eval()
    evaluator = Evaluator(network, batch_size=4, batch_invariant=True)
    assert network(torch.zeros(1, 8, 6, 7))[0].shape == (1, 7)
    assert evaluator.backend


def test_subclass_of_the_network_is_not_loaded_without_its_function(tmp_path: Path) -> None:
    """Its file has the weights of the package's network, but not what the subclass computes from them."""

    class Scaled(alphac4.PolicyValueNetwork):
        def forward_all(self, planes: Tensor) -> alphac4.Outputs:
            outputs = super().forward_all(planes)
            return outputs._replace(policy=2 * outputs.policy)

    network = build_network(CONFIG.network_config(), Scaled).eval()
    save_checkpoint(tmp_path / "scaled.safetensors", Checkpoint(network=network, board=STANDARD))
    planes = torch.ones(1, 8, 6, 7)
    loaded = load_checkpoint(tmp_path / "scaled.safetensors", Scaled).network
    assert torch.equal(loaded.eval()(planes)[0], network(planes)[0])
    with pytest.raises(FileError, match="pass that function as `network`"):
        load_checkpoint(tmp_path / "scaled.safetensors")


OWN_TARGETS: dict[str, Any] = {"targets": replies, "loss": with_reply, "network": reply_network}


def test_own_targets_are_stored_and_learned_by_a_further_head(tmp_path: Path) -> None:
    """They are those of each sample, and the network needs no function of the user afterwards."""
    seen: list[Games] = []

    def targets(games: Games, rng: Any) -> Any:
        seen.append(copy.deepcopy(games))
        return replies(games, rng)

    options = {"progress": False, "tensorboard": False, "loss": with_reply, "network": reply_network}
    run = alphac4.train("tiny", run=tmp_path, settings={"positions_per_iteration": 300}, targets=targets, **options)
    assert run.history[-1].learning.losses["reply"] < math.log(7)
    samples = alphac4.read_samples(tmp_path)
    expected = {}
    for games in seen:
        for game, ply in np.argwhere(recorded_plies(games)):
            key = int(games.own[game, ply]), int(games.occupied[game, ply]), int(games.plies[game] - ply)
            move = games.moves[game, ply + 1] if key[2] > 1 else -1
            expected.setdefault(key, set()).add(int(move))
    assert len(samples) == sum(int(recorded_plies(games).sum()) for games in seen)
    for row in range(len(samples)):
        left, reply = int(samples.targets["left"].values[row]), samples.targets["reply"].values[row]
        move = int(reply.argmax()) if reply.any() else -1
        assert move in expected[int(samples.own[row]), int(samples.occupied[row]), left]
    assert load_checkpoint(run.best_checkpoint).network.config.heads == (("reply", 7),)
    assert 0 <= alphac4.load(run.best_checkpoint).search("44", simulations=4).move < 7


def test_targets_are_mirrored_with_their_positions_as_declared() -> None:
    samples = alphac4.Samples.from_games(["1212121"])
    targets = {
        "column": alphac4.Target(samples.policy_target.astype(np.float32), per_column=True),
        "row": alphac4.Target(samples.policy_target.astype(np.float32), per_column=False),
    }
    samples = dataclasses.replace(samples, targets=targets)
    (batch,) = batches(samples, STANDARD, 7, 1, np.random.default_rng(1))
    assert torch.equal(batch.targets["column"], batch.policy_target)
    is_mirrored = batch.policy_target[:, 6] + batch.policy_target[:, 5] > 0
    assert 0 < is_mirrored.sum() < 7
    assert torch.equal(batch.targets["row"][~is_mirrored], batch.policy_target[~is_mirrored])
    assert torch.equal(batch.targets["row"][is_mirrored], batch.policy_target[is_mirrored].flip(1))


def test_samples_of_games_agree_with_the_game_by_hand() -> None:
    samples = alphac4.Samples.from_games(["1212121", "1212121"], [np.eye(7)[[0, 1, 0, 1, 0, 1, 0]], np.zeros((7, 7))])
    assert len(samples) == 7  # of the first game only
    assert samples.outcome.tolist() == [1, -1, 1, -1, 1, -1, 1]
    assert samples.value_target[:2].tolist() == [[1, 0, 0], [0, 0, 1]]
    assert samples.policy_target.argmax(axis=1).tolist() == [0, 1, 0, 1, 0, 1, 0]
    board = np.zeros((6, 7), int)
    board[:2, 0], board[0, 1] = 1, -1  # after 121, for the second player
    np.testing.assert_array_equal(samples.boards[3], -board)
    assert samples.planes("lines").shape == (7, 8, 6, 7)
    end = Position.from_moves("1212121")
    assert (samples.final_occupied == end.occupied).all()
    assert samples.final_own.tolist() == [int(end.opponent), int(end.own)] * 3 + [int(end.opponent)]
    for games, message in ((["1212"], "game 0, 1212, is not finished"), (["11111111"], "illegal move")):
        with pytest.raises(ValueError, match=message):
            alphac4.Samples.from_games(games)


def test_extra_samples_take_a_part_of_an_iteration(tmp_path: Path) -> None:
    extra = alphac4.Samples.from_games(["1212121"] * 10)
    calls = []

    def extra_samples(iteration: int, best: alphac4.Network, rng: np.random.Generator) -> alphac4.Samples:
        calls.append((best.config.channels, iteration, rng.random()))
        return extra

    options: dict[str, Any] = {"progress": False, "tensorboard": False}
    run = alphac4.train("tiny", run=tmp_path, extra_samples=extra_samples, **options)
    first = load_shard(tmp_path / "replay" / "000001.safetensors")
    own, _ = run.history
    assert len(first) == own.selfplay.samples + 70
    assert own.selfplay.samples < 100
    assert np.isin(first.own, extra.own).sum() >= 70
    assert [call[:2] for call in calls] == [(8, 1), (8, 2)]
    assert calls[0][2] != calls[1][2]


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (
            {"targets": lambda *_: {"reply": np.zeros(3)}},
            "targets returned .*; expected a dictionary of names to alpha",
        ),
        (
            {"targets": lambda *_: {"reply": alphac4.Target(np.zeros((3, 42)), False)}},
            r"targets\['reply'\] returned ndarray float64 \[3, 42\]; expected finite numbers, \[\d+, 42\] by game, ply",
        ),
        (
            {"targets": lambda games, _rng: {"reply": alphac4.Target(games.value * np.nan, False)}},
            r"targets\['reply'\] returned nan in game 0, ply \d; expected finite numbers",
        ),
        (
            {"targets": lambda games, _rng: {"reply": alphac4.Target(games.value, True)}},
            r"targets\['reply'\] returned \[\d+, 42\] per column; expected the columns as last axis",
        ),
        ({"extra_samples": lambda *_: None}, "extra_samples returned NoneType; expected alphac4.Samples"),
        (
            {"extra_samples": lambda *_: alphac4.Samples.from_games(["1212121"] * 15)},
            "extra_samples returned 105 samples; expected fewer than those of an iteration, 100 by the setting",
        ),
        (
            {"extra_samples": lambda *_: alphac4.Samples.from_games(["1212121"]), **OWN_TARGETS},
            "extra_samples returned nothing as .*target.*, as in the run's other samples",
        ),
        (
            {
                "extra_samples": lambda *_: dataclasses.replace(
                    alphac4.Samples.from_games(["1212121"]), policy_target=np.zeros((7, 7), np.float16)
                )
            },
            r"extra_samples\(\).policy_target returned \[0.*\] in sample 0; expected probabilities",
        ),
        (
            {"network": lambda config: alphac4.PolicyValueNetwork(dataclasses.replace(config, rows=5))},
            "expected .6, 7, 8",
        ),
    ],
)
def test_invalid_targets_and_samples_are_named(functions: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(**functions)


def test_learning_from_samples_of_a_run_needs_no_selfplay(tmp_path: Path) -> None:
    """The network learns the targets, with the functions of a run, and the same settings give the same weights."""
    alphac4.train("tiny", run=tmp_path, progress=False, tensorboard=False)
    samples = alphac4.read_samples(tmp_path)
    assert set(samples.iteration) == {1, 2}
    config = alphac4.TrainConfig.preset("tiny", learning={"ema_decay": 0.5})
    networks = [alphac4.learn(samples, config, steps=steps) for steps in (40, 40, 1)]
    losses = []
    for network in networks:
        policy, _ = network(torch.from_numpy(samples.planes("lines")))
        target = torch.from_numpy(samples.policy_target.astype(np.float32))
        losses.append(float(alphac4.cross_entropy(policy, target).mean()))
    assert losses[0] == losses[1] < losses[2]
    own = alphac4.learn(
        samples, config, steps=2, network=Linear, optimizer=lambda module: torch.optim.SGD(module.parameters(), lr=0.1)
    )
    assert isinstance(own.module, Linear)
    assert alphac4.load(own).name == "Linear"
    assert 0 <= alphac4.load(networks[0]).search("44", simulations=4).move < 7
    with pytest.raises(ValueError, match="samples are of another board"):
        alphac4.learn(samples, alphac4.TrainConfig.preset("tiny", board={"rows": 5}))
    with pytest.raises(ValueError, match="no samples of a run here"):
        alphac4.read_samples(tmp_path / "other")


class Reports(alphac4.Callback):
    """Callback that keeps the reports and stops after the first one."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_report(self, report: Any) -> None:
        """Keep the report."""
        self.seen.append(report)
        raise alphac4.StopTraining


def test_callbacks_get_the_reports_of_committed_iterations(tmp_path: Path) -> None:
    callback, settings = Reports(), {"baseline": {"interval": 1, "simulations": [2], "pairs": 1}}
    run = alphac4.train(
        "tiny", run=tmp_path, settings=settings, callbacks=[callback], progress=False, tensorboard=False
    )
    assert callback.seen == run.history
    assert [report.matches[0].game_count for report in callback.seen] == [2]
    assert not (tmp_path / "tensorboard").exists()


@pytest.mark.usefixtures("no_pictures")
def test_run_with_functions_resumes_only_with_the_same_ones(tmp_path: Path) -> None:
    """A callback's figures are recorded, and a custom network is loaded with the function that builds it."""
    extensions = {"network": Linear, "gate": lambda _play: True}
    straight = alphac4.train(CONFIG, run=tmp_path / "straight", progress=False, **extensions)
    stopped = alphac4.train(CONFIG, run=tmp_path / "stopped", callbacks=[RecordAndStop()], progress=False, **extensions)
    assert [report.metrics for report in stopped.history] == [{"doubled": 2.0}]
    rule = Extensions(**extensions, selection_rule=alphac4.Puct())
    for wrong in (Extensions(), Extensions(network=Linear), Extensions(network=dataclasses.replace, gate=bool), rule):
        with pytest.raises(ValueError, match="pass the same again"):
            TrainingSession(RunFolder(tmp_path / "stopped", CONFIG, wrong))
    resumed = alphac4.train(CONFIG, run=tmp_path / "stopped", progress=False, **extensions)
    assert load_checkpoint(resumed.best_checkpoint, Linear).provenance["functions"] == Extensions(**extensions).names()
    ours, theirs = (load_checkpoint(run.best_checkpoint, Linear).network.state_dict() for run in (resumed, straight))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    with pytest.raises(FileError, match=r"was built by helpers\.Linear: pass that function"):
        load_checkpoint(resumed.best_checkpoint)
    assert alphac4.train(CONFIG, run=resumed.folder, progress=False, **extensions).history == resumed.history
    agent = alphac4.load(resumed.best_checkpoint, network=Linear)
    assert 0 <= agent.search("44", simulations=4).move < 7
