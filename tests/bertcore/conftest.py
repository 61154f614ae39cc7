"""What the tests of the library share."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def float32() -> Iterator[None]:
    """What is compared with a tolerance is not computed in bfloat16, which some processors would choose."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTCORE_PRECISION", "no")
        yield
