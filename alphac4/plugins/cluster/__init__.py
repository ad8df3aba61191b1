"""Self-play on the cores or GPUs of many machines, and matches on their cores, with Ray.

Ray is imported when a cluster is used.
"""

import re
from typing import TYPE_CHECKING

from alphac4.compute.registry import ComputeKind, register
from alphac4.storage.records import quote

if TYPE_CHECKING:
    from alphac4.compute.cores import Compute


@register
class RayKind(ComputeKind):
    """A Ray cluster, whose driver is this process."""

    forms = {
        "ray:HOST:PORT": "the cores of a Ray cluster, by the address of its head",
        "ray:auto": "the cores of the Ray cluster of this machine or job",
        "ray:ADDRESS,cuda": "the GPUs of a Ray cluster",
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.address, comma, device = text.removeprefix("ray:").partition(",")
        self.device = device if comma else "cpu"
        if not re.fullmatch(r"auto|[^/\s]+:\d+", self.address) or self.device not in ("cpu", "cuda"):
            expected = 'ray:auto or ray:HOST:PORT of its head, and ",cuda" for its GPUs'
            raise ValueError(f"invalid cluster {quote(text)}: expected {expected}")

    @classmethod
    def matches(cls, text: str) -> bool:
        return text.partition(":")[0] == "ray"

    def build(self, backend: str, threads: int | None, *, for_run: bool) -> "Compute":
        if not for_run:
            raise ValueError(f"{self.text}: a cluster only plays the games of train, selfplay and arena")
        from alphac4.plugins.cluster.compute import ClusterCompute

        return ClusterCompute(self.address, self.device, backend, threads)
