"""How many requests a server answers, and how soon: by clients that ask again at once, from few to too many.

    python -m benchmarks.serving --model models/finetuned/topic [--seconds 8] [--keep]

The server is a process of its own, as `bertcore serve` starts it; the clients are threads here, each with a connection
of its own, so that on a small machine they take some of the server's time. Texts are of 8 to 64 words.
"""

import http.client
import itertools
import json
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from benchmarks import results
from benchmarks.machine import describe
from benchmarks.options import make_parser

CLIENTS = (1, 4, 16, 64, 256)
QUEUE = 128
"""Texts that wait at most."""
WORDS = ("list", "file", "read", "write", "of", "the", "a", "in", "one", "step", "where", "returned", "as", "copy")


@cache
def texts() -> list[str]:
    """Made once: making them for every client would be a part of the seconds in which few of 256 clients ask."""
    generator = np.random.default_rng(1)
    return [" ".join(generator.choice(WORDS, size)) for size in generator.integers(8, 65, 64)]


class Client(threading.Thread):
    """Asks, one text at a time, until it is told to stop."""

    def __init__(self, address: str, number: int, until: float) -> None:
        super().__init__(daemon=True)
        split = urlsplit(address)
        self._connection = http.client.HTTPConnection(split.hostname or "", split.port, timeout=60)
        self._texts, self._until = texts()[number % 64 :], until
        self.seconds: list[float] = []
        """Of the requests that were answered 200."""
        self.refused = 0

    def run(self) -> None:
        for text in itertools.cycle(self._texts):
            body = json.dumps({"texts": [text]})
            if (began := time.perf_counter()) >= self._until:
                break
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


def serve(model: Path) -> tuple["subprocess.Popen[str]", str]:
    """The server, and its address; `RuntimeError` where it ends at once, after what it has said itself."""
    options = ["--port", "0", "--max-queue", str(QUEUE), "--max-texts", "1"]
    command = [sys.executable, "-m", "bertcore", "serve", str(model), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    address = process.stdout.readline().strip()
    if not address:
        raise RuntimeError(f"{' '.join(command)} ended with status {process.wait()}")
    return process, address


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/finetuned/topic"), help="that classifies")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each row (%(default)s)")
    options = parser.parse_args()
    process, address = serve(options.model)
    try:
        measure(address, 4, 2.0)
        rows = [measure(address, clients, options.seconds) for clients in CLIENTS]
    finally:
        process.terminate()
        process.wait(timeout=60)
    work = f"{options.model.name}, one text of 8 to 64 words a request, at most {QUEUE} texts waiting"
    facts = {**describe(), "work": work, "seconds": f"{options.seconds:g} a row"}
    results.show("serving", facts, rows, options.keep)


if __name__ == "__main__":
    main()
