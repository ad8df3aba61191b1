"""Sizes of networks. This module does not import PyTorch, so that settings can be read quickly."""

from dataclasses import asdict, dataclass, replace
from typing import Annotated, Literal

from alphac4.storage.records import CheckedSettings, Range

PlanesName = Literal["lines", "stones"]
RESIDUAL = "residual"  # the package's own architecture, `alphac4.nn.network.PolicyValueNetwork`
MAX_WEIGHTS = 1 << 30  # fifty times AlphaZero's; more must be a typing error or a damaged file


def qualified_name(function: object) -> str:
    """Return the module and name under which a run records a function or class."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


@dataclass(frozen=True, kw_only=True)
class NetworkSize(CheckedSettings):
    """A network's input and size, for any board."""

    planes: PlanesName = "lines"
    """Input planes: "stones" (AlphaZero), or "lines", which adds planes that the rules derive from the stones, such as
    the cells that complete a run."""
    channels: Annotated[int, Range(1, 4096)] = 64
    """Channels of the residual tower (AlphaZero: 256)."""
    blocks: Annotated[int, Range(0, 256)] = 4
    """Residual blocks of two convolutions (AlphaZero: 19)."""


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(NetworkSize):
    """A network's size and the board that it plays on."""

    planes: PlanesName = "stones"  # the default of files without this entry
    head_channels: Annotated[int, Range(1, 1024)] = 8
    """Channels of the 1 x 1 convolution before each head (AlphaZero: 2 for the policy, 1 for the value)."""
    value_hidden: Annotated[int, Range(1, 65_536)] = 64
    """Units of the value head's hidden layer (AlphaZero: 256)."""
    rows: Annotated[int, Range(1, 64)] = 6
    """Rows of the board."""
    columns: Annotated[int, Range(1, 64)] = 7
    """Columns of the board, and moves of the policy."""
    ownership: bool = False
    """Whether the network also learns to predict the owner of each cell at the end (KataGo's ownership target)."""
    heads: tuple[tuple[str, int], ...] = ()
    """Names and sizes of further heads, for a user's losses."""
    architecture: str = RESIDUAL
    """"residual", or the qualified name of the function that builds the module."""

    @property
    def is_custom(self) -> bool:
        """Whether a function of the user builds the network."""
        return self.architecture != RESIDUAL

    def _check(self) -> None:
        super()._check()
        if self.convolution_weights > MAX_WEIGHTS:
            raise ValueError(f"a tower of {self.convolution_weights:,} weights is too large: at most {MAX_WEIGHTS:,}")

    @property
    def input_planes(self) -> int:
        from alphac4.game.planes import PLANES  # loads Numba, which settings do not need

        return PLANES[self.planes]

    @property
    def convolution_weights(self) -> int:
        """Number of weights in the tower's convolutions: nearly all weights of a large network."""
        return 2 * 9 * self.channels**2 * self.blocks

    def check_can_initialize_from(self, other: "NetworkConfig") -> None:
        """Raise ValueError unless this network can start from the weights of ``other``.

        It may have more blocks and planes, and different ``ownership`` and ``heads``. All else must be equal.
        """
        added = {name: getattr(self, name) for name in ("planes", "blocks", "ownership", "heads")}
        sizes = dict(self.heads)
        is_same = replace(other, **added) == self and all(sizes.get(name, size) == size for name, size in other.heads)
        if not is_same or other.blocks > self.blocks or other.input_planes > self.input_planes:
            old, new = asdict(other), asdict(self)
            changes = ", ".join(f"{name} {old[name]} -> {new[name]}" for name in new if old[name] != new[name])
            raise ValueError(
                f"a network cannot start from this one ({changes}): "
                "it may only have more blocks and planes, or other heads"
            )
