"""The check of the installation."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from alphac4.commands import EXIT_BROKEN_INSTALL
from alphac4.commands.arguments import Device, loading, metavar
from alphac4.storage.networks import check_network
from alphac4.storage.records import CheckedSettings


@dataclass(frozen=True, kw_only=True)
class DoctorCommand(CheckedSettings):
    """Check the installation, and measure the speed of inference, self-play and learning on this machine.

        alphac4 doctor --only checks
        alphac4 doctor --only inference --network mine.safetensors

    A full run takes about a minute on two idle cores, and longer the first time, when code is compiled. The exit code
    is 1 if a required part does not work. `alphac4 train` prints how long the rest of a run takes.
    """

    only: Annotated[tuple[str, ...], metavar("PART [PART ...]")] = ("checks", "inference", "training")
    """Parts to run: checks; inference (a network with every backend); training (self-play and learning of an untrained
    network with the settings of quick, or gpu-quick on a GPU)."""
    network: Annotated[Path, metavar("NETWORK")] = Path("best")
    """Network that inference measures: best, quick, or a checkpoint's file."""
    device: Device = "auto"
    """Device of the part training; auto takes CUDA if available."""
    json: bool = False
    """Print JSON instead of text."""

    def _check(self) -> None:
        check_network(self.network.as_posix())

    def __call__(self) -> int:
        """Print each result; return 1 if a check fails."""
        with loading():
            from alphac4.commands.doctor import diagnose
        return 0 if diagnose(self) else EXIT_BROKEN_INSTALL
