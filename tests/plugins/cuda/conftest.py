"""Skip tests without a GPU."""

import pytest

from alphac4.plugins.cuda.device import cuda_device


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that are marked gpu where there is neither a GPU nor the simulator."""
    try:
        cuda_device()
    except RuntimeError as error:
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason=str(error)))
