"""The policy/value network: a small residual CNN, or a module built by a function of the user."""

import contextlib
import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from alphac4.nn.config import NetworkConfig, qualified_name
from alphac4.storage.records import first_line

NetworkBuilder = Callable[[NetworkConfig], nn.Module]
"""Builds an untrained module for a board and a size; `CustomNetwork` describes the module."""

seed_lock = threading.RLock()  # held by the thread in a `torch_seed` block


class Outputs(NamedTuple):
    """Outputs of a network for B positions, A moves and R x C cells, for the side to move."""

    policy: Tensor  # [B, A] logits
    value: Tensor  # [B, 3] logits of win, draw and loss
    ownership: Tensor | None = None  # [B, 3, R, C] logits of each cell at the end: own stone, the opponent's, empty
    extra: Mapping[str, Tensor] = MappingProxyType({})  # [B, ...] each: further outputs by name, for a custom loss


class Network(nn.Module, ABC):
    """A module that search, self-play and learning can use."""

    config: NetworkConfig

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Compute policy logits [B, A] and win/draw/loss logits [B, 3] of ``planes`` [B, P, R, C]."""
        outputs = self.forward_all(planes)
        return outputs.policy, outputs.value

    @abstractmethod
    def forward_all(self, planes: Tensor) -> Outputs:
        """Compute all outputs, for learning."""

    @abstractmethod
    def initialize_from(self, other: "Network") -> None:
        """Copy the weights of ``other``; raise ValueError if they do not fit."""


L = TypeVar("L", bound=nn.Module)
N = TypeVar("N", bound=Network)


class ConvNorm(nn.Sequential):
    """A convolution without bias, then batch norm, which folds into it for inference."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def folded(self) -> nn.Conv2d:
        """Return one convolution, equal to these layers in evaluation mode."""
        return fuse_conv_bn_eval(cast(nn.Conv2d, self[0]), cast(nn.BatchNorm2d, self[1]))


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions with a skip connection around them (He et al. 2016)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = ConvNorm(channels, channels, 3)
        self.second = ConvNorm(channels, channels, 3)
        # Zero-initialised last norm: a deep tower starts as the identity (Goyal et al. 2017).
        nn.init.zeros_(cast(nn.BatchNorm2d, self.second[1]).weight)

    def forward(self, x: Tensor) -> Tensor:
        # In place: the norm's output is still in the cache, and its backward pass needs only its input.
        return torch.relu_(self.second(torch.relu_(self.first(x))).add_(x))


class PolicyValueNetwork(Network):
    """The package's residual network, from planes [B, P, R, C] to policy and win/draw/loss logits.

    Args:
        config: the board and sizes.
        heads: sizes K of further heads by name: linear functions [B, K] of the features from which the policy is
            computed. They are `Outputs.extra`, for learning only. By default those of ``config``.
    """

    def __init__(self, config: NetworkConfig, heads: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self.config = config = config if heads is None else replace(config, heads=tuple(heads.items()))
        cells = config.rows * config.columns
        self.stem = ConvNorm(config.input_planes, config.channels, 3)
        self.tower = nn.Sequential(*(ResidualBlock(config.channels) for _ in range(config.blocks)))
        # Both heads read one 1 x 1 convolution, split afterwards: one call instead of two.
        self.heads = ConvNorm(config.channels, 2 * config.head_channels, 1)
        self.policy = nn.Linear(config.head_channels * cells, config.columns)
        self.value_hidden = nn.Linear(config.head_channels * cells, config.value_hidden)
        self.value = nn.Linear(config.value_hidden, 3)
        self.ownership = nn.Conv2d(config.channels, 3, 1) if config.ownership else None
        for output in (self.policy, self.value):  # so that untrained outputs are nearly uniform
            if not output.weight.is_meta:  # on the meta device, PyTorch would import its compiler for seconds
                nn.init.normal_(output.weight, std=0.01)
            nn.init.zeros_(output.bias)
        self.extra = nn.ModuleDict({name: nn.Linear(config.head_channels * cells, size) for name, size in config.heads})

    def forward_all(self, planes: Tensor) -> Outputs:
        """Compute all outputs, for learning."""
        features = self.tower(torch.relu_(self.stem(planes)))
        policy, value = torch.relu_(self.heads(features)).chunk(2, dim=1)
        hidden = torch.relu(self.value_hidden(value.flatten(1)))
        of_policy = policy.flatten(1)
        return Outputs(
            self.policy(of_policy),
            self.value(hidden),
            None if self.ownership is None else self.ownership(features),
            {name: head(of_policy) for name, head in self.extra.items()},
        )

    @torch.no_grad()
    def initialize_from(self, other: Network) -> None:
        """Copy the weights of ``other``, which may have fewer blocks and planes; policy and value become the same.

        Additional blocks become the identity, and additional planes get zero weights (Chen et al. 2016, "Net2Net").
        """
        self.config.check_can_initialize_from(other.config)
        weights = other.state_dict()
        added = self.config.input_planes - other.config.input_planes
        weights["stem.0.weight"] = F.pad(weights["stem.0.weight"], (0, 0, 0, 0, 0, added))  # stones come first
        self.load_state_dict(weights, strict=False)
        for block in list(self.tower)[other.config.blocks :]:
            cast(nn.BatchNorm2d, cast(ResidualBlock, block).second[1]).weight.zero_()


class CustomNetwork(Network):
    """A network whose module was built by a function of the user, which may ignore the configuration's sizes.

    The module's ``forward(planes)`` takes float32 [B, P, R, C], where P is ``config.input_planes``
    (`alphac4.game.planes`). It returns policy logits [B, A] and win/draw/loss logits [B, 3], for the side to move, or
    `Outputs` with ownership logits or further outputs for a custom loss. In evaluation mode its outputs for a position
    must not depend on the other positions of the batch.
    """

    def __init__(self, config: NetworkConfig, module: nn.Module) -> None:
        super().__init__()
        self.config = config
        self.module = module
        self._check()

    def forward_all(self, planes: Tensor) -> Outputs:
        """Compute all outputs and check their shapes; if the module raises, a note names the user's function."""
        config, name = self.config, self.config.architecture
        try:
            outputs = self.module(planes)
        except Exception as error:
            error.add_note(f"raised on planes {list(planes.shape)} by the network of {name}, passed as `network`")
            raise
        parts = outputs if isinstance(outputs, tuple | list) else (outputs,)
        if torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call] # shapes are tensors then
            return Outputs(*parts)
        shapes = [list(each.shape) if isinstance(each, Tensor) else type(each).__name__ for each in parts]
        count = planes.shape[0]
        expected = {"policy": [count, config.columns], "win/draw/loss": [count, 3]}
        if len(parts) > 2 and parts[2] is not None:
            expected["ownership"] = [count, 3, config.rows, config.columns]
        if shapes[: len(expected)] != list(expected.values()):
            logits = ", ".join(f"{output} logits {shape}" for output, shape in expected.items())
            raise ValueError(f"{name} returned {shapes} for planes {list(planes.shape)}; expected {logits}")
        return Outputs(*parts)

    def initialize_from(self, other: Network) -> None:
        try:
            self.load_state_dict(other.state_dict())
        except RuntimeError as error:
            raise ValueError(f"the weights do not fit {self.config.architecture}: {first_line(error)}") from error

    def _check(self) -> None:
        """Check the module's type, its state, the shapes of its outputs, and that it does not change its input."""
        config, name = self.config, self.config.architecture
        if not isinstance(self.module, nn.Module):
            raise ValueError(f"{name} returned {type(self.module).__name__}; expected a torch.nn.Module")
        for entry, tensor in self.module.state_dict().items():
            if not isinstance(tensor, Tensor):
                raise ValueError(f"{name} has {entry!r} in its state, which is not a tensor: a run cannot save it")
            if not torch.isfinite(tensor).all():
                raise ValueError(
                    f"{name} has {entry!r}, which is not finite: use a large number, or a buffer with persistent=False"
                )
        planes = torch.zeros(2, config.input_planes, config.rows, config.columns)
        planes[1, 0, 0] = 1.0
        before = planes.clone()
        was_training = self.module.training
        try:
            with torch.no_grad():
                self.eval().forward_all(planes)
        finally:
            self.module.train(was_training)
        if not torch.equal(planes, before):
            raise ValueError(f"{name} changes its input in place: start with planes = planes.clone()")


@contextlib.contextmanager
def torch_seed(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed PyTorch's random numbers on the CPU, and on a GPU if given, and restore their state after the block."""
    gpus = [device] if device is not None and device.type == "cuda" else []
    with seed_lock, torch.random.fork_rng(devices=gpus):  # one thread at a time, because PyTorch's state is global
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also change the state of all GPUs
        if gpus:
            torch.cuda.manual_seed(seed)
        yield


def build_network(config: NetworkConfig, build: NetworkBuilder | None = None) -> Network:
    """Return an untrained network: the package's own, or that of the user's function ``build``."""
    if build is None:
        if config.is_custom:
            raise ValueError(f"the network was built by {config.architecture}: pass that function as `network`")
        return PolicyValueNetwork(config)
    name = qualified_name(build)
    try:
        module = build(config)
    except Exception as error:
        error.add_note(f"raised by the function {name}, which was passed as `network`")
        raise
    if type(module) is not PolicyValueNetwork:  # a file does not describe what a subclass changes
        return CustomNetwork(replace(config, architecture=name), module)
    asked, built = ((each.rows, each.columns, each.input_planes) for each in (config, module.config))
    if asked != built:
        raise ValueError(f"{name} returned a network for rows, columns and planes {built}; expected {asked}")
    return module


def fold_batch_norm(network: N) -> N:
    """Return a copy for inference, float32 on the CPU; the package's batch norms are folded into convolutions."""
    # Building a network instead of copying it would draw from the caller's global random numbers.
    folded = copy.deepcopy(network).to("cpu", torch.float32).eval()
    if isinstance(folded, PolicyValueNetwork):
        folded.ownership, folded.extra = None, nn.ModuleDict()  # for learning only
        replace_layers(folded, ConvNorm, ConvNorm.folded)
    return folded.requires_grad_(False)


def replace_layers(module: nn.Module, kind: type[L], make: Callable[[L], nn.Module]) -> None:
    """Replace each layer of a kind within a module by ``make(layer)``."""
    for parent in list(module.modules()):
        for name, layer in parent.named_children():
            if isinstance(layer, kind):
                setattr(parent, name, make(layer))
