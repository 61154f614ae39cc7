"""How a process of the pipeline ends: with an exit status of `bertcore.errors`, and errors that are one line."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path

from bertcore.errors import INTERRUPTED, STOPPED, BertcoreError, StoppedError, status_of
from bertcore.files import disk_errors


class ProcessEnded(Exception):  # noqa: N818  (no error of its own: that process has said why)
    """A process that did the stage's work ended with `status`, which becomes the stage's."""

    def __init__(self, status: int) -> None:
        super().__init__(f"a process ended with status {status}; the log of the stage says why")
        self.status = status


def exit_status(work: Callable[[], None]) -> int:
    """Do `work` with the stages' logging; the status of its process. What is said to the user is one line."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # every further try of a call; its end is told
    for chatty in ("alembic", "mlflow", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        with disk_errors(Path("the stage's outputs")):
            work()
    except StoppedError as stop:
        print(f"stopped: {stop}", file=sys.stderr)
        return STOPPED
    except ProcessEnded as ended:
        return ended.status
    except BertcoreError as error:
        print(f"error: {error}", file=sys.stderr)
        return status_of(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0
