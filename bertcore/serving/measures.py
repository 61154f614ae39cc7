"""What a server measures, in Prometheus' text format: no text and no name of a user is among it."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Measures:
    """Of one server; another one in the same process has its own."""

    def __init__(self) -> None:
        own = self._registry = CollectorRegistry()
        self.requests = Counter("bertcore_requests", "Requests by use and HTTP status", ["use", "status"], registry=own)
        self.seconds = Histogram(
            "bertcore_request_seconds", "From a request's arrival to its answer", ["use"], buckets=SECONDS, registry=own
        )
        self.texts = Counter("bertcore_texts", "Texts that were computed", registry=own)
        self.batch = Histogram("bertcore_batch_texts", "Texts computed at once", buckets=TEXTS, registry=own)
        self.unseen = Gauge(
            "bertcore_unseen", "Texts, or parts of them, that a model did not see", ["model", "reason"], registry=own
        )
        self.waiting = Gauge("bertcore_waiting_texts", "Texts that wait", registry=own)

    def computed(self, texts: int) -> None:
        """A batch of so many texts is done."""
        self.texts.inc(texts)
        self.batch.observe(texts)

    def text(self) -> bytes:
        """All of it, as /metrics gives it."""
        return generate_latest(self._registry)
