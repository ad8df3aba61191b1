"""The option that lets a command use the cores of a cluster."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated

import tyro

from alphac4.compute import Pool, choose_pool

Cluster = Annotated[
    str | None,
    tyro.conf.arg(
        help="Use the cores of a Ray cluster: HOST:PORT of its head, or auto for the one that this machine or job "
        "belongs to (docs/cluster.md)."
    ),
]


def device_with(cluster: str | None, device: str) -> str:
    """Where a command thinks: on its own ``device``, or on the cores of a cluster.

    Raises:
        ValueError: in one line, for a GPU, which a cluster's cores do without.
    """
    if cluster is not None and device == "cuda":
        raise ValueError("--device cuda: with --cluster its cores do the work; leave one of the two out")
    return device if cluster is None else "cpu"


@contextmanager
def pool_or_none(cluster: str | None) -> Iterator[Pool | None]:
    """The processes of a cluster until the end of the block, or None without its address.

    Raises:
        RuntimeError: in one line, for a cluster that cannot be used.
        ValueError: in one line, for anything else than an address.
    """
    if cluster is None:
        yield None
    else:
        with closing(choose_pool(cluster)) as pool:
            yield pool
