"""Everything that defines a run: presets, files, overrides."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from alphac4.nn.config import NetworkConfig, NetworkSize
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.storage.records import (
    MAX_NUMBER,
    MAX_SEED,
    MAX_SIMULATIONS,
    BoardConfig,
    check_finite,
    check_ranges,
    did_you_mean,
    parse_json,
    read_record,
)


@dataclass(frozen=True, kw_only=True)
class LearningConfig:
    """Learning from the replay window."""

    batch_size: int = 128
    """Positions a gradient step (AlphaZero: 4096)."""
    passes: float = 2.0
    """Average number of times that each new position is learned from; sets an iteration's steps (KataGo: about 4)."""
    optimizer: Literal["adamw", "muon"] = "muon"
    """Optimiser: AdamW (Loshchilov and Hutter 2019), or Muon for the tower's kernels and AdamW for the rest
    (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; AlphaZero: SGD with momentum)."""
    learning_rate: float = 4e-3
    """Peak learning rate of AdamW."""
    final_learning_rate: float = 2e-4
    """Learning rate at the end of the run; it falls along a cosine."""
    weight_decay: float = 1e-3
    """Decoupled weight decay on kernels (AlphaZero: L2 of 1e-4). A batch norm follows every kernel of the tower, so a
    kernel's length does not change the network's answers. But the longer it is, the less a step turns it, and without
    decay kernels grow."""
    ownership_weight: float = 0.5
    """Weight of the loss for predicting whose stone ends up in each empty cell, a target that tells more of a game
    than its outcome (KataGo's ownership); 0 learns without. Policy and value weigh 1 each (AlphaZero)."""
    fast_search_weight: float = 0.5
    """Weight of what fast searches make of the policy, beside that of full ones (KataGo: 0)."""
    ema_decay: float = 0.99
    """Decay a step of the averaged weights, which are the ones that play (KataGo: stochastic weight averaging)."""
    min_window: int = 60_000
    """Positions below which the window is everything recorded (KataGo: 250 000); beyond, it grows
    ever more slowly, see `alphac4.selfplay.replay.window_size`."""

    def __post_init__(self) -> None:
        check_finite(self)
        check_ranges(
            self,
            batch_size=(1, 1 << 20),
            passes=(0, 1000),
            final_learning_rate=(0, MAX_NUMBER),
            weight_decay=(0, MAX_NUMBER),
            ownership_weight=(0, MAX_NUMBER),
            fast_search_weight=(0, 1),
            ema_decay=(0, 1),
            min_window=(1, MAX_NUMBER),
        )
        for name in ("passes", "learning_rate"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class GateConfig:
    """The gate that a candidate has to pass, and the matches of the best network against classic MCTS."""

    pairs: int = 50
    """Colour-swapped pairs of games against the best network, each from its own opening (AlphaGo Zero: 400 games)."""
    simulations: int = 48
    """Simulations a move in those games (AlphaGo Zero: 1600)."""
    threshold: float = 0.52
    """Score that lets the candidate in, draws counting half (AlphaGo Zero: 0.55; AlphaZero and KataGo ask less or
    nothing)."""
    baseline_interval: int = 5
    """Iterations between matches of the best network against classic MCTS; 0 for none but the closing one."""
    baseline_rollouts: tuple[int, ...] = (1000,)
    """Rollouts a move of classic MCTS, a match for each."""
    baseline_pairs: int = 20
    """Colour-swapped pairs of games in such a match."""

    def __post_init__(self) -> None:
        check_ranges(
            self,
            pairs=(1, 1_000_000),
            simulations=(1, 1_000_000),
            baseline_interval=(0, MAX_NUMBER),
            baseline_rollouts=(1, MAX_SIMULATIONS),
            baseline_pairs=(1, 1_000_000),
        )
        if not 0 < self.threshold < 1:
            raise ValueError(f"threshold must be within 0 and 1, not {self.threshold}")


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Measuring of the best network against exact play, for people to see: nothing else in the run knows of it."""

    every: int = 1
    """Iterations between two evaluations; 0 for none. There are none on boards other than the standard one."""

    def __post_init__(self) -> None:
        check_ranges(self, every=(0, MAX_NUMBER))


@dataclass(frozen=True, kw_only=True)
class MachineConfig:
    """The place where a run works and the files that it keeps; none of it changes what is learned, but for rounding."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device that runs and trains the network; auto takes CUDA where there is one. Apple's GPU (mps) is left out."""
    backend: str = "auto"
    """Inference backend; auto takes the fastest here that agrees with fp32 for the weights in question."""
    keep_checkpoints: int = 5
    """Number of recent networks to keep beside the best."""

    def __post_init__(self) -> None:
        check_ranges(self, keep_checkpoints=(1, MAX_NUMBER))


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """A run."""

    iterations: int = 60
    """Rounds of self-play, learning and gating."""
    samples: int = 40_000
    """Positions recorded by self-play in an iteration."""
    seed: int = 0
    """Fixes the networks of a run, bit for bit, on processors of one kind, however many cores there are."""
    start_from: str = ""
    """A checkpoint (FILE.safetensors, best, fast or hf://OWNER/NAME) whose network the run begins with, instead of
    random weights. It must be as wide as the run's; with fewer blocks, or seeing stones alone, it grows."""
    board: BoardConfig = field(default_factory=BoardConfig)
    """The board."""
    network: NetworkSize = field(default_factory=NetworkSize)
    """The network."""
    selfplay: SelfPlayConfig = field(default_factory=SelfPlayConfig)
    """Self-play."""
    learning: LearningConfig = field(default_factory=LearningConfig)
    """Learning."""
    gate: GateConfig = field(default_factory=GateConfig)
    """Gating and matches."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """Mistakes, by exact play."""
    machine: MachineConfig = field(default_factory=MachineConfig)
    """The place where the run works."""

    def __post_init__(self) -> None:
        check_ranges(self, iterations=(1, MAX_NUMBER), samples=(1, MAX_NUMBER), seed=(0, MAX_SEED))
        if self.board != BoardConfig():  # the standard one exists, and to make it loads Numba
            self.board.geometry()
        self.network_config()

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "TrainConfig":
        """Make the settings of a preset with some of them changed.

        Args:
            name: "quick" or "standard" for cores, "gpu-quick" or "gpu-best" for an NVIDIA GPU.
            changes: numbers for the settings themselves, such as ``iterations=12``. For a group, a mapping changes the
                settings it names (``learning={"passes": 1.0}``), and an instance such as `LearningConfig` replaces all.

        Raises:
            ValueError: for an unknown preset or setting, or a value of the wrong type or out of range.
        """
        if name not in PRESETS:
            raise ValueError(
                f"unknown preset {name!r}{did_you_mean(name, PRESETS)}; the presets are {', '.join(PRESETS)}"
            )
        groups: dict[str, Any] = {key: value for key, value in changes.items() if dataclasses.is_dataclass(value)}
        plain = {key: value for key, value in changes.items() if key not in groups}
        for key, value in groups.items():
            if type(value) is not type(getattr(PRESETS[name], key, None)):
                raise ValueError(f"{key} is not a group of settings of the type {type(value).__name__}")
        return dataclasses.replace(from_dict(plain, PRESETS[name]), **groups)

    @property
    def learning_steps(self) -> int:
        """Gradient steps an iteration."""
        return max(1, round(self.samples * self.learning.passes / self.learning.batch_size))

    def network_config(self) -> NetworkConfig:
        """The network for the board; its heads grow with its width (AlphaZero: 2 and 1 of 256 channels, 256 units).

        They have channels in fours: what a layer takes in is a multiple of four numbers then, or else PyTorch would sum
        them otherwise in one row of a batch than in another, and a position's answer would depend on its row.
        """
        return NetworkConfig(
            planes=self.network.planes,
            channels=self.network.channels,
            blocks=self.network.blocks,
            head_channels=4 * -(-self.network.channels // 16),
            value_hidden=2 * self.network.channels,
            rows=self.board.rows,
            columns=self.board.columns,
            ownership=self.learning.ownership_weight > 0,
        )


@dataclass(frozen=True, kw_only=True)
class RunRandom:
    """Makes a run's random numbers: independent for each purpose, the same whenever an iteration is run again."""

    seed: int

    def generator(self, iteration: int, purpose: str, index: int = 0) -> np.random.Generator:
        """The numbers of an iteration for a purpose; ``index`` tells several of one purpose apart."""
        return np.random.default_rng([self.seed, iteration, index, *purpose.encode()])


PRESETS: dict[str, TrainConfig] = {
    "quick": TrainConfig(
        iterations=24,
        samples=30_000,
        network=NetworkSize(channels=32, blocks=4),
        selfplay=SelfPlayConfig(full_simulations=64, fast_simulations=16, full_search_prob=0.4),
        learning=LearningConfig(weight_decay=0.4, min_window=80_000),
        gate=GateConfig(pairs=20, simulations=16, baseline_interval=6),
    ),
    "standard": TrainConfig(
        iterations=30,
        samples=80_000,
        network=NetworkSize(channels=64, blocks=5),
        selfplay=SelfPlayConfig(
            full_simulations=96,
            fast_simulations=24,
            full_search_prob=0.33,
            opening_plies=16,
            opening_prob=0.95,
            temperature=0.5,
            temperature_end=0.1,
        ),
        learning=LearningConfig(final_learning_rate=1e-4, weight_decay=0.2, ema_decay=0.995, min_window=200_000),
        gate=GateConfig(pairs=30, simulations=32, baseline_interval=9, baseline_pairs=10),
    ),
    "gpu-quick": TrainConfig(
        iterations=20,
        samples=100_000,
        network=NetworkSize(channels=32, blocks=4),
        selfplay=SelfPlayConfig(games=4096, full_simulations=64, fast_simulations=16, full_search_prob=0.4),
        learning=LearningConfig(batch_size=512, weight_decay=0.4, min_window=300_000),
        gate=GateConfig(pairs=30, simulations=16, baseline_interval=0),
        machine=MachineConfig(device="cuda"),
    ),
    "gpu-best": TrainConfig(
        iterations=28,
        samples=250_000,
        network=NetworkSize(channels=64, blocks=8),
        selfplay=SelfPlayConfig(
            games=8192,
            full_simulations=160,
            fast_simulations=32,
            full_search_prob=0.33,
            opening_plies=16,
            opening_prob=0.95,
            temperature=0.5,
            temperature_end=0.1,
        ),
        learning=LearningConfig(
            batch_size=1024,
            passes=3.0,
            final_learning_rate=5e-5,
            weight_decay=0.2,
            ema_decay=0.995,
            min_window=1_000_000,
        ),
        gate=GateConfig(pairs=50, simulations=32, baseline_interval=0),
        machine=MachineConfig(device="cuda"),
    ),
}


def to_dict(config: TrainConfig) -> dict[str, Any]:
    """The configuration as nested dictionaries of plain values."""
    return dataclasses.asdict(config)


def from_dict(data: Mapping[str, Any], base: TrainConfig | None = None) -> TrainConfig:
    """Read `to_dict`'s form, or part of it over ``base``.

    Raises:
        ValueError: naming an unknown key, or a value of the wrong type or out of range.
    """
    return read_record(TrainConfig, _over(to_dict(base or TrainConfig()), data))


def load_config(path: Path, base: TrainConfig | None = None) -> TrainConfig:
    """Read a JSON file of settings over ``base``.

    Raises:
        ValueError: in one line that names the file and what is wrong.
    """
    try:
        return from_dict(parse_json(path.read_bytes()), base)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _over(base: Any, changes: Any) -> Any:
    """Nested dictionaries with some entries of ``base`` replaced."""
    if not (isinstance(base, Mapping) and isinstance(changes, Mapping)):
        return changes
    return {**base, **{key: _over(base.get(key), value) for key, value in changes.items()}}
