"""What a run shows on the dashboard of its cluster, beside TensorBoard."""

import importlib
from collections.abc import Mapping

GAUGES: Mapping[str, str] = {
    "alphac4_actors": "Actors that play.",
    "alphac4_actors_lost": "Actors that have died since the driver began.",
    "alphac4_blocks_waiting": "Blocks of finished games that the driver has received and not recorded.",
    "alphac4_positions_waiting": "Their positions.",
    "alphac4_positions_per_second": "Positions that the driver has received, a second.",
    "alphac4_staleness": "Promotions since the weights that played the block recorded last.",
}


class Metrics:
    """Gauges of the driver, which Ray hands to Prometheus under the name with "ray_" before it."""

    def __init__(self) -> None:
        gauge = importlib.import_module("ray.util.metrics").Gauge
        self._gauges = {name: gauge(name, description=words) for name, words in GAUGES.items()}

    def show(self, name: str, value: float) -> None:
        """Set one of `GAUGES`, without its prefix."""
        self._gauges[f"alphac4_{name}"].set(value)
