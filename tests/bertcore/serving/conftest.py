"""Small models of several heads, and a real server with them in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from bertcore.model.bert import BertConfig
from bertcore.model.config import build_head, build_pretraining
from bertcore.model.huggingface import READING, label_names, save_pretrained
from bertcore.serving.limits import TOKEN_VARIABLE
from bertcore.tokens.wordpiece import save_tokenizer
from tests.bertcore.finetune.conftest import config, one_thread, tokenizer
from tests.import_closure import ROOT

__all__ = ["config", "one_thread", "tokenizer"]

COLOURS = ["red", "green", "blue"]
TAGS = ["O", "B-X", "I-X"]


@pytest.fixture(scope="session")
def models(tokenizer: Tokenizer, config: BertConfig, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """`encoder`, `colours`, `tags`, `answers`, `choices` and `texts`, which are no model."""
    root = tmp_path_factory.mktemp("served")
    (root / "tokenizer").mkdir()
    save_tokenizer(tokenizer, root / "tokenizer", lowercase=True)
    reading = {"sequence_length": 32, "doc_stride": 8}
    answering = {"max_query_length": 8, "max_answer_length": 4, "n_best": 3, "null_threshold": 0.0}
    classes = {"problem_type": "single_label_classification", **label_names(COLOURS)}
    heads: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
        "encoder": (lambda: build_pretraining(config), {}),
        "colours": (
            lambda: build_head(config, "sequence_classification", 3),
            {READING: {**reading, "long_texts": "truncate"}, **classes},
        ),
        "tags": (lambda: build_head(config, "token_classification", 3), {READING: reading, **label_names(TAGS)}),
        "answers": (lambda: build_head(config, "question_answering"), {READING: {**reading, **answering}}),
        "choices": (lambda: build_head(config, "multiple_choice", 1), {READING: reading}),
    }
    torch.manual_seed(1)
    for name, (build, extra) in heads.items():
        model = build()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        save_pretrained(model, root / name, root / "tokenizer", extra)
    (root / "texts").mkdir()
    (root / "texts" / "a.txt").write_text("the red cat\n\nwhere is berlin\n")
    return {name: root / name for name in (*heads, "texts")}


@dataclass(frozen=True)
class Server:
    """A server that answers at `address`."""

    address: str
    process: "subprocess.Popen[str]"
    token: str | None = None

    def request(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """Status, body (as JSON where it is) and headers."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        own = {"content-type": "application/json"} | ({"authorization": f"Bearer {self.token}"} if self.token else {})
        request = urllib.request.Request(self.address + path, data=data, headers={**own, **headers})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, _read(answer), {key.lower(): value for key, value in answer.headers.items()}
        except urllib.error.HTTPError as error:
            return error.code, _read(error), {key.lower(): value for key, value in error.headers.items()}

    def end(self) -> int:
        """The exit status after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


def _read(answer: Any) -> Any:
    content = answer.read()
    return json.loads(content) if "json" in (answer.headers.get("content-type") or "") else content.decode()


Starter = Callable[..., Server]


@pytest.fixture(scope="session")
def start(models: dict[str, Path]) -> Iterator[Starter]:
    """Start a server of models by name; all of them end with the tests."""
    running: list[subprocess.Popen[str]] = []

    def started(*names: str, options: tuple[str, ...] = (), token: str | None = None) -> Server:
        directories = [str(models[name]) for name in names]
        environment = {key: value for key, value in os.environ.items() if key != TOKEN_VARIABLE}
        environment |= {"OMP_NUM_THREADS": "1", "BERTCORE_PRECISION": "no"} | ({TOKEN_VARIABLE: token} if token else {})
        process = subprocess.Popen(
            [sys.executable, "-m", "bertcore", "serve", *directories, "--port", "0", *options],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        assert process.stdout is not None and process.stderr is not None
        said = process.stdout.readline()
        assert said.startswith("serving "), process.stderr.read()
        return Server(process.stdout.readline().strip(), process, token)

    yield started
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def server(start: Starter, models: dict[str, Path]) -> Server:
    """With all models, a search, and no token."""
    options = (
        "--search",
        str(models["texts"]),
        "--max-texts",
        "8",
        "--max-words",
        "100",
        "--max-characters",
        "500",
        "--max-body-bytes",
        "4000",
    )
    return start("encoder", "colours", "tags", "answers", "choices", options=options)
