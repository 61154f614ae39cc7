"""What is to be written into MLflow's store; a store that does not answer costs a training time, but never its life."""

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from mlflow.entities import Metric
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from mlflow.utils.validation import MAX_METRICS_PER_BATCH

from bertcore.errors import may_pass, without_password

logger = logging.getLogger(__name__)

_PAUSE = 10
"""Times the seconds that a try in vain took: an outage takes no more than about a tenth of a training's time."""
_REST = 200
"""Times the seconds that points of curves took: they take no more than about half a hundredth of a training's time."""

CREDENTIALS = (
    "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, to those of an account that "
    "may write there"
)
"""What to do where a server refuses."""


@dataclass(frozen=True)
class Points:
    """Points of a run's curves."""

    client: MlflowClient
    run_id: str
    metrics: list[Metric]

    def __call__(self) -> None:
        self.client.log_batch(self.run_id, self.metrics)


class Outbox:
    """Calls, made in the order in which they were given.

    Where the store cannot be reached, a call and all after it are kept and made with a later one. One that the store
    refuses for good (its run was deleted) is left out; the first of several is told.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()
        self._next_try = self._next_points = 0.0
        self._out = self._refused = False

    def send(self, call: Callable[[], object]) -> None:
        """Make `call` now or later; what it is to write must be the same at any time."""
        self._waiting.append(call)
        if time.monotonic() >= self._next_try:
            self._deliver()

    def collect(self, points: Points) -> None:
        """Write `points` when those before them are long enough ago, in one call with others of the same run."""
        last = self._waiting[-1] if self._waiting else None
        if (
            isinstance(last, Points)
            and last.run_id == points.run_id
            and len(last.metrics) + len(points.metrics) <= MAX_METRICS_PER_BATCH
        ):
            last.metrics.extend(points.metrics)
        else:
            self._waiting.append(points)
        if time.monotonic() >= max(self._next_try, self._next_points):
            self._deliver()

    def close(self, *calls: Callable[[], object]) -> None:
        """Make `calls` and what was kept now, or tell that it is lost."""
        self._waiting.extend(calls)
        self._deliver()
        if self._waiting:
            logger.warning("MLflow does not answer: %d entries were not written there", len(self._waiting))

    def _deliver(self) -> None:
        while self._waiting:
            began = time.monotonic()
            try:
                self._waiting[0]()
            except (MlflowException, OSError) as error:
                if not isinstance(error, MlflowException) or may_pass(error.get_http_status_code()):
                    self._pause(time.monotonic() - began, error)
                    return
                self._refuse(error)
            else:
                self._out = self._refused = False
            if isinstance(self._waiting.popleft(), Points):
                now = time.monotonic()
                self._next_points = now + _REST * (now - began)

    def _refuse(self, error: MlflowException) -> None:
        if not self._refused:
            remedy = f"; {CREDENTIALS}" if refuses(error) else ""
            logger.warning("MLflow refuses an entry, and maybe others like it: %s%s", first_line(error), remedy)
        self._refused = True

    def _pause(self, seconds: float, error: Exception) -> None:
        self._next_try = time.monotonic() + _PAUSE * seconds
        if not self._out:
            said = first_line(error)
            logger.warning("MLflow does not answer, what is for it is kept and sent when it does: %s", said)
        self._out = True


def refuses(error: Exception) -> bool:
    """Whether a server has answered that it does not know who asks, or that they may not."""
    return isinstance(error, MlflowException) and error.get_http_status_code() in (401, 403)


def first_line(error: Exception) -> str:
    """The first line of `error`, without the user and the password of an address."""
    return without_password((str(error).splitlines() or [type(error).__name__])[0])
