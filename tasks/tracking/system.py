"""What the machine does while a stage runs: MLflow's own system metrics, every ten seconds after the first minute."""

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

from tasks.tracking.store import tracking_uri

SWITCH = "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING"
"""MLflow's own variable; `false` turns them off."""


SYSTEM = "system/"
"""Begins the names of what is measured; of a long training many points, which no training reports again."""


AFTER = 60.0
"""Seconds until the first ones: a stage's own metrics come before, and pages that compare runs begin with what was
logged first. Shorter stages have none."""


@contextmanager
def monitored(run_id: str) -> Iterator[None]:
    """Processor, memory, disk and network into the run, in a thread; a store that is out ends that alone.

    GPUs too where `nvidia-ml-py` is installed. `MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL` sets the seconds.
    """
    if os.environ.get(SWITCH, "").lower() in ("false", "0"):
        yield
        return
    logging.getLogger("mlflow.system_metrics").setLevel(logging.ERROR)
    monitor = SystemMetricsMonitor(run_id, resume_logging=True, tracking_uri=tracking_uri())
    delay = threading.Timer(AFTER, monitor.start)
    delay.daemon = True
    delay.start()
    try:
        yield
    finally:
        delay.cancel()
        delay.join()
        monitor.finish()
