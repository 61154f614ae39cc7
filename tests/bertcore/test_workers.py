"""Pieces of work on processes and on a real Dask cluster, with workers that die."""

import importlib
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import distributed
import numpy as np
import psutil
import pytest

from bertcore import workers
from bertcore.corpus.contamination import find_in_corpus
from bertcore.corpus.documents import corpus_shards, row_groups
from bertcore.errors import ConfigError, UnavailableError
from bertcore.instances.config import MaskConfig
from bertcore.masks import write_phase
from bertcore.shards.build import build_shards
from bertcore.shards.store import ShardsConfig
from bertcore.tokens import wordpiece
from bertcore.tokens.kind import VocabularyConfig
from bertcore.vocabulary.corpus_words import count_corpus
from tests.bertcore.corpus.test_build import mixed
from tests.bertcore.shards.test_build import build, contents
from tests.bertcore.shards.test_build import corpus as corpus  # the fixture
from tests.import_closure import ROOT
from tests.samples import vocabulary


def square(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def die_on_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fail_and_note(path: Path) -> None:
    with path.open("a") as notes:
        notes.write("tried\n")
    raise ConfigError("three: found 3")


def fail_on_three(number: int) -> int:
    if number == 3:
        raise ConfigError("three: found 3")
    return number


def page_faults(arrays: int) -> int:
    """Of making so many arrays of a megabyte, one after the other, each of 256 pages of 4 KB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(arrays):
        np.ones(2**17)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident_after(arrays: int) -> int:
    """Bytes of this process after it has held so many arrays of a megabyte."""
    kept = [np.ones(2**17) for _ in range(arrays)]
    del kept
    return psutil.Process().memory_info().rss


def test_pieces_are_done_in_processes() -> None:
    results = list(workers.run(square, range(8), workers=2))
    assert sorted(value for value, _ in results) == [n * n for n in range(8)]
    assert os.getpid() not in {process for _, process in results}


def test_one_worker_is_this_process() -> None:
    assert list(workers.run(square, range(3), workers=1)) == [(n * n, os.getpid()) for n in range(3)]
    assert list(workers.run(square, [])) == []


def test_the_program_is_imported_once(tmp_path: Path) -> None:
    """What a stage imports for its tracking is not for its workers."""
    program = tmp_path / "program.py"
    program.write_text(
        "print('imported', flush=True)\n"
        "if __name__ == '__main__':\n"
        "    from bertcore import workers\n"
        "    from tests.bertcore.test_workers import square\n"
        "    print(sum(value for value, _ in workers.run(square, range(8), workers=2)))\n"
    )
    said = subprocess.run(
        [sys.executable, program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["imported", "140"]


def test_a_killed_process_is_said() -> None:
    with pytest.raises(UnavailableError, match="one of 2 worker processes was killed.*run the stage again, on fewer"):
        list(workers.run(die_on_three, range(8), workers=2))


def test_an_error_of_a_piece_is_the_callers() -> None:
    with pytest.raises(ConfigError, match="three: found 3"):
        list(workers.run(fail_on_three, range(8), workers=2))


def test_a_cluster_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(workers.SCHEDULER, "tcp://127.0.0.1:9")
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "300ms"}),
        pytest.raises(ConfigError, match="BERTCORE_DASK=tcp://127.0.0.1:9: no Dask scheduler answers"),
    ):
        list(workers.run(square, range(3)))


@pytest.mark.parametrize("address", ["foo", "tcp://127.0.0.1:9"])
def test_a_cluster_is_looked_for_before_any_work(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(workers.SCHEDULER, raising=False)
    workers.check_cluster()
    monkeypatch.setenv(workers.SCHEDULER, address)
    with pytest.raises(ConfigError, match=f"BERTCORE_DASK={address}: no Dask scheduler answers .*; start one or corr"):
        workers.check_cluster()


class Cluster:
    """A scheduler and two workers, each a process of its own, as an administrator would start them."""

    def __init__(self, directory: Path, allowed_failures: int = 3):
        self._directory = directory
        settings = {
            "LOGGING__DISTRIBUTED": "warning",
            "DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(allowed_failures),
        }
        own = {f"DASK_{name}": value for name, value in settings.items()}
        as_nannies_do = {"MALLOC_TRIM_THRESHOLD_": "65536"}
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), **as_nannies_do, **own}
        file = directory / "scheduler.json"
        options = ["--host", "127.0.0.1", "--scheduler-file", str(file), "--no-dashboard", "--port", "0"]
        self.scheduler = self._start("dask_scheduler", *options)
        while not file.exists():
            assert self.scheduler.poll() is None
            time.sleep(0.05)
        self.workers = [self._start_worker(file) for _ in range(2)]
        with distributed.Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)

    def _start_worker(self, file: Path) -> subprocess.Popen[bytes]:
        options = ["--scheduler-file", str(file), "--no-nanny", "--nthreads", "1", "--no-dashboard"]
        return self._start("dask_worker", *options, "--local-directory", str(self._directory))

    def _start(self, module: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{module}", *options]
        log = (self._directory / "log").open("ab")
        process = subprocess.Popen(command, env=self._environment, cwd=self._directory, stdout=log, stderr=log)
        log.close()
        return process

    @property
    def address(self) -> str:
        return json.loads((self._directory / "scheduler.json").read_text())["address"]

    def kill_one_at_work(self) -> None:
        """Stop one worker, which will finish none of the pieces that it is given, and kill it when it has some."""
        with distributed.Client(self.address, set_as_default=False) as client:
            processes = client.run(os.getpid)
        address = next(each for each, process in processes.items() if process == self.workers[0].pid)
        self.workers[0].send_signal(signal.SIGSTOP)

        def wait_and_kill() -> None:
            with distributed.Client(self.address, set_as_default=False) as client:
                while not client.processing()[address]:
                    time.sleep(0.05)
            self.workers[0].kill()

        threading.Thread(target=wait_and_kill, daemon=True).start()

    def stop_workers(self) -> None:
        for process in self.workers:
            process.kill()
            process.wait()

    def stop(self) -> None:
        self.stop_workers()
        self.scheduler.kill()
        self.scheduler.wait()


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("cluster"), getattr(request, "param", 3))
    yield running
    running.stop()


def test_a_cluster_that_loses_a_worker_makes_the_same_bytes(
    corpus: Path, tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ShardsConfig(shard_bytes=1500)
    build(corpus, tmp_path / "alone", config=config)
    monkeypatch.setenv(workers.SCHEDULER, cluster.address)
    work, output = tmp_path / "work", tmp_path / "out"
    output.mkdir()
    cluster.kill_one_at_work()
    manifest = build_shards(corpus, corpus / "tokenizer", config, output, work)
    assert cluster.workers[0].wait() == -signal.SIGKILL and len(manifest.shards) > 20
    assert contents(output) == contents(tmp_path / "alone" / "out")


def test_a_corpus_on_a_cluster_that_loses_a_worker_has_the_same_bytes(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = mixed(tmp_path, tmp_path / "alone", 1)
    monkeypatch.setenv(workers.SCHEDULER, cluster.address)
    cluster.kill_one_at_work()
    assert mixed(tmp_path, tmp_path / "out") == alone
    assert cluster.workers[0].wait() == -signal.SIGKILL
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")


def test_bad_input_on_a_cluster_is_said_at_once(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(workers.SCHEDULER, cluster.address)
    with pytest.raises(ConfigError, match="three: found 3"):
        list(workers.run(fail_and_note, [tmp_path / "notes"]))
    assert (tmp_path / "notes").read_text() == "tried\n"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library has no settings for it")
def test_a_cluster_keeps_the_memory_of_arrays_as_long_as_a_piece_is_made(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(workers.SCHEDULER, cluster.address)
    assert max(workers.run(page_faults, [1000] * 2)) < 10_000
    held = list(workers.run(resident_after, [500] * 2))
    assert max(workers.run(resident_after, [0] * 2)) < min(held) - 2**27, "given back after each piece"


def test_counts_on_a_cluster_that_loses_a_worker_are_the_same(
    corpus: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards, cut = corpus_shards(corpus, "train"), wordpiece.cutter(VocabularyConfig())
    alone = count_corpus(shards, cut, "", 1)
    monkeypatch.setenv(workers.SCHEDULER, cluster.address)
    cluster.kill_one_at_work()
    assert count_corpus(shards, cut, "") == alone
    assert cluster.workers[0].wait() == -signal.SIGKILL


def test_contamination_on_a_cluster_that_loses_a_worker_is_the_same(
    corpus: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [
        " ".join(row) for group in row_groups(corpus_shards(corpus, "train")) for row in group.read().to_pylist()
    ]
    texts = [*documents[::7], "what nobody has ever written down in any of those many documents of the corpus"]
    alone = find_in_corpus(texts, corpus, 1)
    assert 0 < alone[1].sum() < len(texts)
    monkeypatch.setenv(workers.SCHEDULER, cluster.address)
    cluster.kill_one_at_work()
    assert np.array_equal(find_in_corpus(texts, corpus), alone)
    assert cluster.workers[0].wait() == -signal.SIGKILL


def test_masks_on_a_cluster_that_loses_a_worker_have_the_same_bytes(
    corpus: Path, tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = build(corpus, tmp_path, config=ShardsConfig(shard_bytes=1500))
    config, found = MaskConfig(sequence_length=32, max_predictions_per_seq=5, duplicates=2), []
    for name in ("alone", "cluster"):
        if name == "cluster":
            monkeypatch.setenv(workers.SCHEDULER, cluster.address)
            cluster.kill_one_at_work()
        (tmp_path / name).mkdir()
        metrics = write_phase(config, manifest, vocabulary(), tmp_path / "out", tmp_path / name, 1)
        files = {path.name: path.read_bytes() for path in sorted((tmp_path / name).rglob("*")) if path.is_file()}
        found.append((metrics, files))
    assert cluster.workers[0].wait() == -signal.SIGKILL and len(found[0][1]) > 20
    assert found[0] == found[1]


@pytest.mark.parametrize("cluster", [0], indirect=True, ids=["no failures allowed"])
def test_a_cluster_that_gives_up_is_one_clear_error(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(workers.SCHEDULER, cluster.address)
    monkeypatch.setattr(workers, "PATIENCE", 1.0)
    lost = rf"^BERTCORE_DASK={cluster.address}: the Dask cluster has lost the work: %s.*run the stage again, or unset"

    (tmp_path / "not_on_the_cluster.py").write_text("def work(piece):\n    return piece\n")
    monkeypatch.syspath_prepend(tmp_path)
    elsewhere = importlib.import_module("not_on_the_cluster")
    workers.check_cluster()
    with pytest.raises(ConfigError, match="cannot import this project .*not_on_the_cluster.*start scheduler and work"):
        list(workers.run(elsewhere.work, [1, 2]))

    with pytest.raises(UnavailableError, match=lost % "Attempted to run task .* on 1 different workers"):
        list(workers.run(os._exit, [3]))  # one worker of two, and the scheduler allows for none
    assert list(workers.run(abs, [-1, -2], workers=2)) == [1, 2]

    cluster.stop_workers()
    with pytest.raises(UnavailableError, match=lost % "no worker is there for 1 seconds"):
        list(workers.run(abs, [-1, -2]))

    threading.Timer(1.0, cluster.scheduler.kill).start()
    with pytest.raises(UnavailableError, match=lost % "the scheduler (has forgotten a piece|does not answer)"):
        monkeypatch.setattr(workers, "PATIENCE", 30.0)
        list(workers.run(abs, [-1, -2]))
