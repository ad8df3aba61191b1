"""Kinds of compute, which read specifications of devices: short texts such as "cuda".

`register` adds a kind to all settings, options and messages that name devices. This module loads nothing slow until a
compute is created.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from alphac4.discovery import load_plugins
from alphac4.storage.records import quote

if TYPE_CHECKING:
    from alphac4.compute.cores import Compute


class ComputeKind(ABC):
    """Base class of kinds of compute. An instance is one specification; creating it checks the text.

    Args:
        text: the specification, for which `matches` is true.

    Raises:
        ValueError: from subclasses, for an invalid text; the message quotes it.
    """

    forms: ClassVar[Mapping[str, str]]
    """The ways to write such a device, each with a description."""
    backends: ClassVar[tuple[str, ...]] = ()
    """Names of its own backends, in addition to those of `alphac4.nn.backends`."""

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def matches(cls, text: str) -> bool:
        """Return whether a text has the form of this kind's devices; its details may be invalid."""
        return text in cls.forms

    @abstractmethod
    def build(self, backend: str, threads: int | None, *, for_run: bool) -> "Compute":
        """Create the compute; the arguments are those of `choose_compute`.

        Raises:
            RuntimeError: for a device or a package that is missing.
            ValueError: for an unknown backend, or if this kind cannot be used here.
        """


_kinds: list[type[ComputeKind]] = []
_Kind = TypeVar("_Kind", bound=type[ComputeKind])


def register(kind: _Kind) -> _Kind:
    """Add a kind, as a decorator. If several kinds match a specification, the last one is used."""
    _kinds.append(kind)
    return kind


@register
class TorchKind(ComputeKind):
    """A device of PyTorch."""

    forms: ClassVar[Mapping[str, str]] = {
        "auto": "the NVIDIA GPU, if there is one that passes its self-test; otherwise the cores",
        "cpu": "the cores of this machine",
        "cuda": "the NVIDIA GPU of this machine",
    }

    def build(self, backend: str, threads: int | None, *, for_run: bool) -> "Compute":
        """Create the compute, on the cores if the GPU fails its self-test."""
        from alphac4.compute.cores import Compute
        from alphac4.compute.devices import choose_device

        device, backend = choose_device(self.text, backend)
        return Compute(device, backend, threads, for_run=for_run)


def device_forms() -> dict[str, str]:
    """Return the ways to write a device, each with a description; those of plugins come last."""
    load_plugins()
    return {form: about for kind in _kinds for form, about in kind.forms.items()}


def find_kind(text: str) -> type[ComputeKind]:
    """Return the kind of a specification.

    Raises:
        TypeError: if it is not a text.
        ValueError: for an unknown device.
    """
    if not isinstance(text, str):
        raise TypeError(f"device must be a text such as 'cuda', not {quote(text)}")
    load_plugins()
    for kind in reversed(_kinds):
        if kind.matches(text):
            return kind
    reason = " (Apple's GPU is not supported)" if text == "mps" else ""
    raise ValueError(f"unknown device {quote(text)}{reason}; available: {', '.join(device_forms())}")


@dataclass(frozen=True)
class DeviceCheck:
    """Annotation of settings and options that are a device's specification."""

    def check(self, name: str, value: str) -> None:  # noqa: ARG002 - as `Range.check`
        """Check the text.

        Raises:
            ValueError: for an unknown device or an invalid text.
        """
        if value not in TorchKind.forms:  # known without plugins, which may import the settings
            find_kind(value)(value)


def choose_compute(
    device: str = "auto",
    backend: str = "auto",  # chosen by a fixed rule for this processor; int8 only for self-play
    *,
    threads: int | None = None,  # by default all cores
    for_run: bool = False,  # outputs must not depend on batches, and only self-play may use int8
) -> "Compute":
    """Return the compute of a device's specification.

    Raises:
        RuntimeError: for a device or a package that is missing.
        TypeError: if the specification or the backend is not a text.
        ValueError: for an invalid specification, an unknown backend or fewer than one thread.
    """
    kind = find_kind(device)(device)
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    return kind.build(backend, threads, for_run=for_run)
