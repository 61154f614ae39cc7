"""The real `datasets` library against a hub on this machine, in a process that can reach no other host."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import datasets
import httpx2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import HfApi, constants

from bertcore.corpus.sources.hub import HubSource
from bertcore.errors import ConfigError
from bertcore.hub import HubLocation, commit_of, load
from tests.hub_server import COMMIT, HubServer

PROGRAM = """
import json, sys
from collections import Counter
from itertools import islice
from bertcore.corpus.sources import source_of
from bertcore.errors import BertcoreError
results = []
for uri in json.loads(sys.argv[1]):
    dropped = Counter()
    try:
        found = source_of(uri).documents([], dropped, None)
        documents = [[each.id, each.text, each.source] for each in islice(found, 100_000)]
        results.append([documents, dropped])
    except BertcoreError as error:
        results.append([type(error).__name__, str(error)])
print(json.dumps(results))
"""
README = b"""---
configs:
- config_name: english
  data_files:
  - split: train
    path: english/*.parquet
---
"""


def parquet(**columns: list) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


@pytest.fixture(scope="module")
def hub() -> Iterator[HubServer]:
    shards = {
        f"data/train-{index:05d}-of-00002.parquet": parquet(text=[f"text {index} {row}" for row in range(3)])
        for index in range(2)
    }
    configured = {
        "README.md": README,
        "english/a.parquet": parquet(body=["one", None, "three"]),
        "german/a.parquet": parquet(body=["eins"]),
    }
    with HubServer({"org/plain": shards, "org/configured": configured}) as server:
        yield server


def run(hub: HubServer, home: Path, *uris: str) -> list:
    command = [sys.executable, "-c", PROGRAM, json.dumps(uris)]
    done = subprocess.run(command, env=hub.environment(home), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_documents_and_errors(hub: HubServer, tmp_path: Path) -> None:
    plain, english, absent, no_split, no_column = run(
        hub,
        tmp_path,
        "hf://org/plain",
        "hf://org/configured/english@v1?column=body",
        "hf://org/absent",
        "hf://org/plain?split=dev",
        "hf://org/plain?column=body",
    )
    texts = [f"text {index} {row}" for index in range(2) for row in range(3)]
    assert plain == [[[f"org/plain:train:{row}", text, "hf://org/plain"] for row, text in enumerate(texts)], {}]
    assert [document[:2] for document in english[0]] == [
        ["org/configured/english:train:0", "one"],
        ["org/configured/english:train:2", "three"],
    ]
    assert english[1] == {"no_text": 1}
    for found, reason in (
        (absent, "Not Found"),
        (no_split, "Bad split: dev"),
        (no_column, "no column 'body' among text"),
    ):
        assert found[0] == "InputError" and reason in found[1] and "\n" not in found[1]


def test_the_column_stands_in_the_entry_or_in_the_address() -> None:
    assert HubSource("hf://org/plain", column="body")._location.column == "body"
    with pytest.raises(ConfigError, match=r"found column 'body' beside \?column=text, expected one of them"):
        HubSource("hf://org/plain?split=dev&column=text", column="body")


def test_the_endpoints_of_the_hub_are_called_and_no_other_host(hub: HubServer, tmp_path: Path) -> None:
    run(hub, tmp_path, "hf://org/plain")
    assert f"GET /datasets/org/plain/resolve/{COMMIT}/data/train-00001-of-00002.parquet" in hub.requests
    # the hub's own side server for data set previews; neither telemetry nor download counters
    assert all(url.startswith("http://datasets-server.127.0.0.1") for url in hub.strangers), hub.strangers


COMMITS = """
import json
from bertcore.errors import InputError
from bertcore.hub import commit_of, parse_uri
found = [commit_of(parse_uri(uri)) for uri in ("hf://org/plain", "hf://org/configured/english@v1")]
try:
    commit_of(parse_uri("hf://org/absent"))
except InputError as error:
    found.append(str(error))
print(json.dumps(found))
"""


def test_the_commit_that_is_read(hub: HubServer, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMITS], env=hub.environment(tmp_path), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    plain, configured, absent = json.loads(done.stdout)
    assert plain == configured == COMMIT and "hf://org/absent: cannot be read" in absent
    assert "GET /api/datasets/org/configured/revision/v1" in hub.requests


@pytest.mark.parametrize("switched_off", [True, False])
def test_without_a_hub_no_commit_is_known(switched_off: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise httpx2.ConnectError("refused")

    monkeypatch.setattr(HfApi, "dataset_info", refuse)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", switched_off)
    assert commit_of(HubLocation(repository="org/plain", revision=f"switched off: {switched_off}")) is None


def test_what_is_read_is_the_commit_that_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    newest = iter(["first", "second"])
    monkeypatch.setattr(HfApi, "dataset_info", lambda *_, **__: SimpleNamespace(sha=next(newest)))
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, revision, **__: revision)
    location = HubLocation(repository="org/that-moves", split="train")
    assert commit_of(location) == load(location) == load(replace(location, split="test")) == "first"
