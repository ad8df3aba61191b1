"""A network's size, apart from the network itself, so that settings can be read without PyTorch."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from alphac4.storage.records import check_ranges

PlanesName = Literal["lines", "stones"]
RESIDUAL = "residual"  # the package's own architecture, `alphac4.nn.network.PolicyValueNetwork`
MAX_WEIGHTS = 1 << 30  # fifty times AlphaZero's; sizes beyond are typing errors or damaged files


def qualified_name(function: object) -> str:
    """Return the module and name of a function or class, by which a run's folder records it."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


@dataclass(frozen=True, kw_only=True)
class NetworkSize:
    """A network's input and size, whatever the board."""

    planes: PlanesName = "lines"
    """Planes that it sees of a position: "stones" alone (AlphaZero), or "lines" besides: cells that complete a run,
    cells where stones can land, and the like. That is knowledge of the rules, none of play."""
    channels: int = 64
    """Channels of the residual tower (AlphaZero: 256)."""
    blocks: int = 4
    """Residual blocks of two convolutions (AlphaZero: 19)."""


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(NetworkSize):
    """A network of some size for one board."""

    planes: PlanesName = "stones"  # which files mean that say nothing
    head_channels: int = 8
    """Channels of the 1 x 1 convolution before each head (AlphaZero: 2 for the policy, 1 for the value)."""
    value_hidden: int = 64
    """Units of the value head's hidden layer (AlphaZero: 256)."""
    rows: int = 6
    """Rows of the board."""
    columns: int = 7
    """Columns of the board, and moves of the policy."""
    ownership: bool = False
    """Whether it also learns to foresee whose stone ends up in each cell (KataGo's ownership target)."""
    architecture: str = RESIDUAL
    """"residual", or the qualified name of the function that built the module."""

    @property
    def is_custom(self) -> bool:
        """Whether a function of the user builds the network."""
        return self.architecture != RESIDUAL

    def __post_init__(self) -> None:
        if self.planes not in get_args(PlanesName):
            raise ValueError(f"planes must be one of {', '.join(get_args(PlanesName))}, not {self.planes!r}")
        check_ranges(self, rows=(1, 64), columns=(1, 64), channels=(1, 4096), blocks=(0, 256))
        check_ranges(self, head_channels=(1, 1024), value_hidden=(1, 65_536))
        if self.convolution_weights > MAX_WEIGHTS:
            raise ValueError(f"a tower of {self.convolution_weights:,} weights is too large: at most {MAX_WEIGHTS:,}")

    @property
    def input_planes(self) -> int:
        """Number of planes it takes."""
        from alphac4.game.planes import PLANES  # loads Numba, for which settings need not wait

        return PLANES[self.planes]

    @property
    def convolution_weights(self) -> int:
        """Weights in the tower's convolutions, which are nearly all that a large network has."""
        return 2 * 9 * self.channels**2 * self.blocks

    def check_can_initialize_from(self, other: "NetworkConfig") -> None:
        """Check that this network can take over ``other``'s weights: blocks, planes and ownership may be added.

        Raises:
            ValueError: if it differs in anything else.
        """
        if replace(other, planes=self.planes, blocks=self.blocks, ownership=self.ownership) != self:
            raise ValueError(f"a network of {self} cannot take over one of {other}: only blocks or planes may be added")
        if other.blocks > self.blocks or other.input_planes > self.input_planes:
            raise ValueError(f"a network of {self} cannot take over one of {other}: it would lose some of its weights")
