"""Speed of this program's parts on a machine."""

from dataclasses import dataclass

from alphac4.storage.records import check_ranges


@dataclass(frozen=True, kw_only=True)
class BenchmarkOptions:
    """Measure rules, searches, inference, self-play and learning; each figure is the median of several runs."""

    only: tuple[str, ...] = ()
    """Parts to measure: rules, uct, puct, inference, selfplay, learning; by default all."""
    seconds: float = 1.0
    """Rough length of each measurement."""
    repeats: int = 3
    """Runs of each; the median counts."""
    channels: int = 64
    """Channels of the network."""
    blocks: int = 4
    """Residual blocks of the network."""
    batches: tuple[int, ...] = (1, 32, 128, 256)
    """Batch sizes for inference."""

    def __post_init__(self) -> None:
        check_ranges(
            self,
            seconds=(1e-6, 3600),
            repeats=(1, 1000),
            channels=(1, 4096),
            blocks=(0, 256),
            batches=(1, 65_536),
        )
