"""Metrics in the format of Prometheus: counts and times of requests and jobs, no content."""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The counters of one application.

    >>> metrics = Metrics()
    >>> metrics.request("POST", "/epsilon", 200, 0.01)
    >>> 'sottovoce_requests_total{method="POST",path="/epsilon",status="200"} 1.0' in metrics.text()
    True
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "sottovoce_requests", "Requests.", ["method", "path", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "sottovoce_request_seconds",
            "Seconds from the first byte of a request to the end of its answer.",
            ["path"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._jobs = Counter(
            "sottovoce_jobs",
            "Jobs by outcome: answered, refused, late (killed at the time limit) or stopped.",
            ["verb", "outcome"],
            registry=self._registry,
        )

    def request(self, method: str, path: str, status: int, seconds: float) -> None:
        self._requests.labels(method, path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def job(self, verb: str, outcome: str) -> None:
        self._jobs.labels(str(verb), outcome).inc()

    def text(self) -> str:
        """All metrics."""
        return generate_latest(self._registry).decode()
