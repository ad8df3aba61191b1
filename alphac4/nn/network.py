"""The policy/value network: a small residual CNN."""

import copy
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from alphac4.nn.config import NetworkConfig

Tower = Callable[[Tensor], Tensor]  # features [B, channels, R, C] to the same shape


class ConvNorm(nn.Sequential):
    """A convolution without bias, then batch norm, which folds into it for inference."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def folded(self) -> nn.Conv2d:
        """One convolution that computes the same in evaluation mode."""
        return fuse_conv_bn_eval(cast(nn.Conv2d, self[0]).eval(), cast(nn.BatchNorm2d, self[1]).eval())


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions around a skip connection (He et al. 2016)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first: nn.Module = ConvNorm(channels, channels, 3)
        self.second: nn.Module = ConvNorm(channels, channels, 3)
        # Zero-initialised last norm: a deep tower starts as the identity (Goyal et al. 2017).
        nn.init.zeros_(cast(nn.BatchNorm2d, self.second[1]).weight)

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, R, C] to the same shape."""
        # In place: what a norm has just written is in the cache, and its backward pass needs its input alone.
        return torch.relu_(self.second(torch.relu_(self.first(x))).add_(x))


class PolicyValueNetwork(nn.Module):
    """Planes [B, P, R, C] (`alphac4.game.planes`) to policy and win/draw/loss logits."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        cells = config.rows * config.columns
        self.stem: nn.Module = ConvNorm(config.input_planes, config.channels, 3)
        self.tower = nn.Sequential(*(ResidualBlock(config.channels) for _ in range(config.blocks)))
        # Both heads read one 1 x 1 convolution, split afterwards: one call instead of two.
        self.heads: nn.Module = ConvNorm(config.channels, 2 * config.head_channels, 1)
        self.policy = nn.Linear(config.head_channels * cells, config.columns)
        self.value_hidden = nn.Linear(config.head_channels * cells, config.value_hidden)
        self.value = nn.Linear(config.value_hidden, 3)
        self.ownership = nn.Conv2d(config.channels, 3, 1) if config.ownership else None
        for output in (self.policy, self.value):  # near-uniform opinions before any training
            if not output.weight.is_meta:  # where there are only shapes, PyTorch would import its compiler for seconds
                nn.init.normal_(output.weight, std=0.01)
            nn.init.zeros_(output.bias)

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Policy logits [B, C] and win/draw/loss logits [B, 3], seen by the side to move."""
        return self._answers(self.tower(torch.relu_(self.stem(planes))))

    def forward_all(self, planes: Tensor, tower: Tower | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        """`forward`, and for learning the logits [B, 3, R, C] of each cell's end: own stone, opponent's, or empty.

        ``tower`` is another way to compute what its own tower does.
        """
        features = (self.tower if tower is None else tower)(torch.relu_(self.stem(planes)))
        policy, value = self._answers(features)
        return policy, value, None if self.ownership is None else self.ownership(features)

    @torch.no_grad()
    def take_over(self, other: "PolicyValueNetwork") -> None:
        """Compute what ``other`` does, whose tower may be shorter and whose planes fewer.

        The blocks beyond its last become the identity, and planes that it does not see weigh nothing. So a network can
        grow while it learns (Chen et al. 2016, "Net2Net").

        Raises:
            ValueError: if the sizes differ otherwise, or this network is the smaller one.
        """
        self.config.check_grown_from(other.config)
        weights = other.state_dict()
        unseen = self.config.input_planes - other.config.input_planes
        weights["stem.0.weight"] = F.pad(weights["stem.0.weight"], (0, 0, 0, 0, 0, unseen))  # the stones come first
        self.load_state_dict(weights, strict=False)
        for block in list(self.tower)[other.config.blocks :]:
            cast(nn.BatchNorm2d, cast(ConvNorm, cast(ResidualBlock, block).second)[1]).weight.zero_()

    def _answers(self, features: Tensor) -> tuple[Tensor, Tensor]:
        policy, value = torch.relu_(self.heads(features)).chunk(2, dim=1)
        hidden = torch.relu(self.value_hidden(value.flatten(1)))
        return self.policy(policy.flatten(1)), self.value(hidden)


def fold_batch_norm(network: PolicyValueNetwork) -> PolicyValueNetwork:
    """A copy for inference, float32 on the CPU, with every batch norm folded into its convolution."""
    # Copied, not built anew: initialising weights would draw from the caller's global random numbers.
    folded = copy.deepcopy(network).to("cpu", torch.float32).eval()
    folded.stem = cast(ConvNorm, folded.stem).folded()
    for block in folded.tower:
        block = cast(ResidualBlock, block)
        block.first, block.second = cast(ConvNorm, block.first).folded(), cast(ConvNorm, block.second).folded()
    folded.ownership = None  # for learning only
    folded.heads = cast(ConvNorm, folded.heads).folded()
    return folded.requires_grad_(False)
