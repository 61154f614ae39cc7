"""What all tests share."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import bertcore  # noqa: F401  (before any test imports torch: it says how torch's threads wait)

# A shell that starts the tests in the background has them ignore Ctrl-C, and so does all that they start: Prefect's
# worker, which ends itself by that signal, would not end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Examples may take as long as they do: how long depends on the machine, and on what else it does.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The directory of the real texts and data sets; a test that needs it is skipped where there is none."""
    place = os.environ.get("BERTCORE_DATA")
    if not place:
        pytest.skip("BERTCORE_DATA is not set: it names the directory of the real texts and data sets")
    directory = Path(place).resolve()
    if not directory.is_dir():
        pytest.skip(f"BERTCORE_DATA={place} is not a directory")
    return directory


@pytest.fixture
def no_accelerator() -> Iterator[None]:
    """Accelerate keeps one precision for the whole process; this test's may not be that of the others."""
    from accelerate.state import AcceleratorState  # here, as most tests need none of it

    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, so that none of them is left to one process alone at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
