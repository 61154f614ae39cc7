"""How many requests a server answers, and how soon: by clients that ask again at once, from few to too many.

    python -m benchmarks.serving --model models/finetuned/topic [--seconds 8] [--keep]

The server is a process of its own, as `bertcore serve` starts it; the clients are threads here, each with a connection
of its own, so that on a small machine they take some of the server's time. Texts are of 8 to 64 words.
"""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from benchmarks import machine
from benchmarks.options import make_parser
from benchmarks.results import show

CLIENTS = (1, 4, 16, 64, 256)
WORDS = ("list", "file", "read", "write", "of", "the", "a", "in", "one", "step", "where", "returned", "as", "copy")


def texts(count: int) -> list[str]:
    generator = np.random.default_rng(1)
    return [" ".join(generator.choice(WORDS, size)) for size in generator.integers(8, 65, count)]


class Client(threading.Thread):
    """Asks, one text at a time, until it is told to stop."""

    def __init__(self, address: str, number: int, until: float) -> None:
        super().__init__(daemon=True)
        split = urlsplit(address)
        self._connection = http.client.HTTPConnection(split.hostname or "", split.port, timeout=60)
        self._texts, self._until = texts(64)[number % 64 :], until
        self.seconds: list[float] = []
        """Of the requests that were answered 200."""
        self.refused = 0

    def run(self) -> None:
        place = 0
        while time.perf_counter() < self._until:
            body = json.dumps({"texts": [self._texts[place % len(self._texts)]]})
            place += 1
            began = time.perf_counter()
            self._connection.request("POST", "/v1/classify", body, {"content-type": "application/json"})
            answer = self._connection.getresponse()
            answer.read()
            if answer.status == 200:
                self.seconds.append(time.perf_counter() - began)
                continue
            assert answer.status == 429, answer.status
            self.refused += 1
            time.sleep(0.05)


def measure(address: str, clients: int, seconds: float) -> dict[str, str]:
    """A row of the table."""
    began = time.perf_counter()
    asking = [Client(address, number, began + seconds) for number in range(clients)]
    for client in asking:
        client.start()
    for client in asking:
        client.join()
    took = time.perf_counter() - began
    found = np.asarray([each for client in asking for each in client.seconds])
    return {
        "clients": str(clients),
        "requests/s": f"{len(found) / took:,.0f}",
        "p50 ms": f"{1000 * np.percentile(found, 50):,.0f}",
        "p99 ms": f"{1000 * np.percentile(found, 99):,.0f}",
        "refused (429)": f"{sum(client.refused for client in asking):,}",
    }


def serve(model: Path, options: Sequence[str]) -> tuple["subprocess.Popen[str]", str]:
    """The server, and its address."""
    command = [sys.executable, "-m", "bertcore", "serve", str(model), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout is not None
    process.stdout.readline()
    return process, process.stdout.readline().strip()


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/finetuned/topic"), help="that classifies")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each row (default: %(default)s)")
    parser.add_argument("--queue", type=int, default=128, help="texts that wait at most (default: %(default)s)")
    options = parser.parse_args()
    process, address = serve(options.model, ["--max-queue", str(options.queue)])
    try:
        measure(address, 4, 2.0)
        rows = [measure(address, clients, options.seconds) for clients in CLIENTS]
    finally:
        process.terminate()
        process.wait(timeout=60)
    work = f"{options.model.name}, one text of 8 to 64 words a request, at most {options.queue} texts waiting"
    show("serving", {**machine.describe(), "work": work, "seconds": f"{options.seconds:g} a row"}, rows, options.keep)


if __name__ == "__main__":
    main()
