"""Settings of a run: presets, settings files and overrides."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from alphac4.compute.registry import DeviceCheck
from alphac4.nn.config import NetworkConfig, NetworkSize
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.storage.files import read_bytes
from alphac4.storage.records import (
    MAX_NUMBER,
    MAX_SEED,
    MAX_SIMULATIONS,
    MIN_POSITIVE,
    BoardConfig,
    CheckedSettings,
    Range,
    did_you_mean,
    parse_json,
    quote,
    read_record,
)

if TYPE_CHECKING:
    from alphac4.mcts.puct import Puct


@dataclass(frozen=True, kw_only=True)
class SearchConfig(CheckedSettings):
    """Settings of a run's searches with a network: self-play, gate, matches and evaluation."""

    c_init: Annotated[float, Range(MIN_POSITIVE, MAX_NUMBER)] = 1.25
    """Weight of the prior (AlphaZero 2018: 1.25); `alphac4.mcts.puct` has the formula. Self-play uses the
    policy's priors unchanged, because it learns from them. All other searches divide the policy's logits by 1.4
    (``prior_temperature`` of `alphac4.Puct`)."""

    def puct(self, prior_temperature: float | None = None) -> "Puct":
        """Return the selection of matches and measurements; self-play passes its own ``prior_temperature``."""
        from alphac4.mcts.puct import Puct  # imports Numba, which options do not need

        puct = Puct(c_init=self.c_init)
        return puct if prior_temperature is None else puct._replace(prior_temperature=prior_temperature)


@dataclass(frozen=True, kw_only=True)
class LearningConfig(CheckedSettings):
    """Settings of learning from the replay window."""

    batch_size: Annotated[int, Range(1, 1 << 20)] = 128
    """Positions per gradient step (AlphaZero: 4096). Retune ``learning_rate`` with it. The number of steps follows from
    ``replay_ratio``."""
    replay_ratio: Annotated[float, Range(MIN_POSITIVE, 1000)] = 2.0
    """Average number of times that each new position is trained on (KataGo: about 4). An iteration has
    ``replay_ratio`` * `positions_per_iteration` / ``batch_size`` gradient steps."""
    optimizer: Literal["adamw", "muon"] = "muon"
    """Optimiser: AdamW (Loshchilov and Hutter 2019), or Muon for the tower's kernels and AdamW for the rest
    (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; AlphaZero: SGD with momentum). A network of your own
    has no tower: AdamW updates all of it."""
    learning_rate: Annotated[float, Range(MIN_POSITIVE, 1e38)] = 4e-3  # float32 overflows above
    """Peak learning rate of AdamW; Muon's is 1.5 times as high. Retune it with ``batch_size`` and ``weight_decay``."""
    final_learning_rate: Annotated[float, Range(0, MAX_NUMBER)] = 2e-4
    """Learning rate at the end of the run. The rate falls to it along a cosine over all `iterations`."""
    weight_decay: Annotated[float, Range(0, MAX_NUMBER)] = 1e-3
    """Decoupled weight decay on kernels (AlphaZero: L2 of 1e-4). A batch norm follows every kernel of the tower, so
    a kernel's norm does not change the network's outputs. But the larger the norm, the less a step changes the
    kernel's direction, and without decay the norm grows. So weight decay and ``learning_rate`` together set the
    effective learning rate."""
    ownership_weight: Annotated[float, Range(0, MAX_NUMBER)] = 0.5
    """Weight of the loss for predicting the final owner of each empty cell, a richer target than the outcome (KataGo's
    ownership). With 0, the network has no ownership head. The losses of policy and value have the weight 1
    (AlphaZero)."""
    fast_search_weight: Annotated[float, Range(0, 1)] = 0.5
    """Weight of a fast search's policy target, relative to a full search's (KataGo: 0). Lower it if
    `selfplay.fast_visits` is small."""
    ema_decay: Annotated[float, Range(0, 1)] = 0.99
    """Decay per gradient step of the moving average of the weights; the average is the network that plays (KataGo:
    stochastic weight averaging). Lower it if an iteration has fewer steps."""
    base_window: Annotated[int, Range(1, MAX_NUMBER)] = 60_000
    """Smallest replay window (KataGo: 250 000): while a run has recorded fewer positions, the window holds all of them.
    Beyond, it grows sublinearly; see `alphac4.selfplay.replay.window_size`. Raise the number with
    `positions_per_iteration`."""


@dataclass(frozen=True, kw_only=True)
class GateConfig(CheckedSettings):
    """Settings of the gate, which promotes candidates."""

    pairs: Annotated[int, Range(1, 1_000_000)] = 50
    """Colour-swapped pairs of games against the best network, each from its own opening (AlphaGo Zero: 400 games). With
    fewer pairs, the score is noisier: raise ``threshold``."""
    simulations: Annotated[int, Range(1, 1_000_000)] = 48
    """Simulations per move in these games (AlphaGo Zero: 1600)."""
    threshold: Annotated[float, Range(MIN_POSITIVE, 1 - MIN_POSITIVE)] = 0.52
    """Lowest score that promotes the candidate; a draw counts half (AlphaGo Zero: 0.55; AlphaZero has no gate)."""


@dataclass(frozen=True, kw_only=True)
class BaselineConfig(CheckedSettings):
    """Settings of the best network's matches against classic MCTS, a baseline that does not change during a run."""

    interval: Annotated[int, Range(0, MAX_NUMBER)] = 5
    """The matches are played every ``interval`` iterations; 0 plays only the closing matches at the end of the run."""
    simulations: Annotated[tuple[int, ...], Range(1, MAX_SIMULATIONS)] = (1000,)
    """Simulations per move of classic MCTS, one match for each number. Without numbers, there are no matches at all."""
    pairs: Annotated[int, Range(1, 1_000_000)] = 20
    """Colour-swapped pairs of games per match; closing matches always have 50."""

    def _check(self) -> None:
        super()._check()
        if len(set(self.simulations)) < len(self.simulations):
            raise ValueError(f"baseline.simulations has a number twice: {', '.join(map(str, self.simulations))}")


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(CheckedSettings):
    """Settings of the evaluation against exact play. It is for people only: no other part of a run depends on it."""

    interval: Annotated[int, Range(0, MAX_NUMBER)] = 1
    """The best network is evaluated every ``interval`` iterations; 0 for never. Networks for other boards than the
    standard one are not evaluated."""


@dataclass(frozen=True, kw_only=True)
class MachineConfig(CheckedSettings):
    """Settings of the machine and of the files to keep.

    A backend changes the resulting network by rounding only. A GPU also changes it by batch norm, which normalises
    whole batches on a GPU, but parts of at most 64 positions on a CPU.
    """

    device: Annotated[str, DeviceCheck()] = "auto"
    """Device that runs and trains the network: cpu, cuda, or auto (a GPU if it works). `alphac4 doctor` lists all
    devices, also those that only play the games. A run can move to another device. Apple's GPU (mps) is not
    supported."""
    backend: str = "auto"
    """Inference backend; auto chooses by a fixed rule for this processor. On a CPU, auto prefers backends whose outputs
    for a position do not depend on the rest of its batch, and may use 8-bit integers in self-play."""
    keep_checkpoints: Annotated[int, Range(1, MAX_NUMBER)] = 5
    """Number of recent networks to keep besides the best."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig(CheckedSettings):
    """Settings of a run."""

    iterations: Annotated[int, Range(1, MAX_NUMBER)] = 60
    """Rounds of self-play, learning and gating. The learning rate falls over all of them."""
    positions_per_iteration: Annotated[int, Range(1, MAX_NUMBER)] = 40_000
    """Positions recorded by self-play per iteration. With fewer, candidates come more often, but their difference from
    the best network is smaller and harder for the gate to measure."""
    seed: Annotated[int, Range(0, MAX_SEED)] = 0
    """Seed of the run. On cores of one kind of processor, one seed gives bit-identical networks on any number of cores;
    not on a GPU or a cluster."""
    start_from: str = ""
    """Checkpoint (FILE.safetensors, hf://OWNER/NAME, best or quick) of the network to start from, instead of random
    weights. It must have the run's number of channels. Blocks and input planes that it lacks are added."""
    board: BoardConfig = field(default_factory=BoardConfig)
    """The board."""
    network: NetworkSize = field(default_factory=NetworkSize)
    """The network."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """Search."""
    selfplay: SelfPlayConfig = field(default_factory=SelfPlayConfig)
    """Self-play."""
    learning: LearningConfig = field(default_factory=LearningConfig)
    """Learning."""
    gate: GateConfig = field(default_factory=GateConfig)
    """The gate."""
    baseline: BaselineConfig = field(default_factory=BaselineConfig)
    """Matches against classic MCTS."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """Evaluation against exact play."""
    machine: MachineConfig = field(default_factory=MachineConfig)
    """The machine, and the files to keep."""

    def _check(self) -> None:
        super()._check()
        if self.board != BoardConfig():  # valid by definition; making it would load Numba
            self.board.make()
        self.network_config()

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "TrainConfig":
        """Return the settings of a preset with changes.

        Args:
            name: "quick" or "standard" for cores, "gpu-quick" or "gpu-best" for an NVIDIA GPU; "tiny" takes seconds,
                to check a program.
            changes: values of settings, such as ``iterations=12``. For a group, a mapping changes the settings that it
                names (``learning={"replay_ratio": 1.0}``), and an instance such as `LearningConfig` replaces the group.

        Raises:
            TypeError: if ``name`` is not a string.
            ValueError: for an unknown preset or setting, or a value of the wrong type or out of range.
        """
        if not isinstance(name, str):
            raise TypeError(f"a preset has a name, not {quote(name)}; the presets are {', '.join(PRESETS)}")
        if name not in PRESETS:
            raise ValueError(
                f"unknown preset {quote(name)}{did_you_mean(name, PRESETS)}; the presets are {', '.join(PRESETS)}"
            )
        groups = {key: vars(value) for key, value in changes.items() if dataclasses.is_dataclass(value)}
        return from_dict(changes | groups, PRESETS[name])

    @property
    def steps_per_iteration(self) -> int:
        """Gradient steps per iteration."""
        return max(1, round(self.positions_per_iteration * self.learning.replay_ratio / self.learning.batch_size))

    def network_config(self) -> NetworkConfig:
        """Return the network's configuration; its heads are proportional to its width.

        AlphaZero's tower has 256 channels, its policy head 2, its value head 1 and 256 hidden units. Here a head's
        channels and the inputs of its linear layers are multiples of 4, if ``channels`` is even. With other numbers,
        the order in which PyTorch adds products depends on the row of the batch, so that a position's evaluation would
        depend on its row.
        """
        return NetworkConfig(
            **vars(self.network),
            head_channels=4 * -(-self.network.channels // 16),
            value_hidden=2 * self.network.channels,
            rows=self.board.rows,
            columns=self.board.columns,
            ownership=self.learning.ownership_weight > 0,
        )


def random_generator(seed: int, iteration: int, purpose: str, index: int = 0) -> np.random.Generator:
    """Return a run's generator for a purpose in an iteration; ``index`` distinguishes generators of one purpose."""
    return np.random.default_rng([seed, iteration, index, *purpose.encode()])


# Games of the larger presets: with many random openings, a lower temperature suffices.
_RANDOM_OPENINGS = SelfPlayConfig(
    full_search_prob=0.33, max_opening_plies=16, opening_prob=0.95, temperature=0.5, temperature_end=0.1
)

PRESETS: dict[str, TrainConfig] = {
    "tiny": TrainConfig(
        iterations=2,
        positions_per_iteration=100,
        network=NetworkSize(channels=8, blocks=1),
        selfplay=SelfPlayConfig(parallel_games=8, full_visits=8, fast_visits=4),
        learning=LearningConfig(batch_size=64),
        gate=GateConfig(pairs=1, simulations=2),
        baseline=BaselineConfig(interval=0, simulations=()),
        evaluation=EvaluationConfig(interval=0),
        machine=MachineConfig(device="cpu", backend="torch-fp32"),
    ),
    "quick": TrainConfig(
        iterations=24,
        positions_per_iteration=30_000,
        network=NetworkSize(channels=32, blocks=4),
        selfplay=SelfPlayConfig(full_visits=64, fast_visits=16, full_search_prob=0.4),
        learning=LearningConfig(weight_decay=0.4, base_window=80_000),
        gate=GateConfig(pairs=20, simulations=16),
        baseline=BaselineConfig(interval=6),
    ),
    "standard": TrainConfig(
        iterations=30,
        positions_per_iteration=80_000,
        network=NetworkSize(channels=64, blocks=5),
        selfplay=replace(_RANDOM_OPENINGS, full_visits=96, fast_visits=24),
        learning=LearningConfig(final_learning_rate=1e-4, weight_decay=0.2, ema_decay=0.995, base_window=200_000),
        gate=GateConfig(pairs=30, simulations=32),
        baseline=BaselineConfig(interval=9, pairs=10),
    ),
    "gpu-quick": TrainConfig(
        iterations=20,
        positions_per_iteration=100_000,
        network=NetworkSize(channels=32, blocks=4),
        selfplay=SelfPlayConfig(parallel_games=4096, full_visits=64, fast_visits=16, full_search_prob=0.4),
        learning=LearningConfig(batch_size=512, weight_decay=0.4, base_window=300_000),
        gate=GateConfig(pairs=30, simulations=16),
        baseline=BaselineConfig(interval=0),
        machine=MachineConfig(device="cuda"),
    ),
    "gpu-best": TrainConfig(
        iterations=28,
        positions_per_iteration=250_000,
        network=NetworkSize(channels=64, blocks=8),
        selfplay=replace(_RANDOM_OPENINGS, parallel_games=8192, full_visits=160, fast_visits=32),
        learning=LearningConfig(
            batch_size=1024,
            replay_ratio=3.0,
            final_learning_rate=5e-5,
            weight_decay=0.2,
            ema_decay=0.995,
            base_window=1_000_000,
        ),
        gate=GateConfig(pairs=50, simulations=32),
        baseline=BaselineConfig(interval=0),
        machine=MachineConfig(device="cuda"),
    ),
}


def from_dict(data: Mapping[str, Any], base: TrainConfig | None = None) -> TrainConfig:
    """Read settings from nested dictionaries as of `dataclasses.asdict`; missing ones are taken from ``base``."""
    return read_record(TrainConfig, _over(dataclasses.asdict(base or TrainConfig()), data))


def load_config(path: Path, base: TrainConfig | None = None) -> TrainConfig:
    """Read a JSON file of settings; missing ones are taken from ``base``. A ValueError names the file."""
    try:
        return from_dict(parse_json(read_bytes(path)), base)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _over(base: Any, changes: Any) -> Any:
    """Return ``base`` with the entries of ``changes`` replaced, in nested dictionaries too."""
    if not (isinstance(base, Mapping) and isinstance(changes, Mapping)):
        return changes
    return {**base, **{key: _over(base.get(key), value) for key, value in changes.items()}}
