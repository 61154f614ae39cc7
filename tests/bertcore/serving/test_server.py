"""A real server: its answers are those of the library, its limits hold, and it ends when it is told to."""

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from fastapi.routing import APIRoute

from bertcore.apply.choose import Asked, choose
from bertcore.apply.classify import classify
from bertcore.apply.embed import Embedder
from bertcore.apply.fill_mask import MaskedLanguageModel, fill_mask
from bertcore.apply.finetuned import FineTuned
from bertcore.apply.tag import tag
from bertcore.commands.main import main
from bertcore.errors import BAD_INPUT, UNAVAILABLE
from bertcore.serving import app
from bertcore.serving.app import TooMuchError
from bertcore.serving.limits import TOKEN_VARIABLE, Limits
from bertcore.serving.models import Models
from tests.bertcore.serving.conftest import Server, Starter
from tests.import_closure import ROOT
from tests.waiting import until


def rounded(value: Any) -> Any:
    """Batches of another size round otherwise."""
    return json.loads(json.dumps(value), parse_float=lambda text: round(float(text), 4))


def test_answers_are_those_of_the_library(server: Server, models: dict[str, Path]) -> None:
    texts = ["the red cat", "where is the dog, on the table?"]
    expected = {
        "classify": classify(FineTuned.load(models["colours"], "classify"), texts),
        "tag": tag(FineTuned.load(models["tags"], "tag"), texts),
    }
    for use, of_library in expected.items():
        status, found, _ = server.request(f"/v1/{use}", {"texts": texts})
        assert status == 200
        assert rounded(
            [{key: each[key] for key in row} for each, row in zip(found, of_library, strict=True)]
        ) == rounded(of_library)
    masked = MaskedLanguageModel.load(models["encoder"])
    status, found, _ = server.request("/v1/fill-mask", {"texts": ["a [MASK] [MASK]"], "top": 2})
    assert status == 200 and rounded(found) == rounded(fill_mask(masked, ["a [MASK] [MASK]"], 2))


def test_answers_search_and_vectors(server: Server, models: dict[str, Path]) -> None:
    context = "the red cat is on the table . " * 6
    status, found, _ = server.request("/v1/answer", {"questions": ["what colour is the cat"], "context": context})
    assert status == 200 and found[0]["answer"] in context and len(found[0]["best"]) == 3
    status, found, _ = server.request("/v1/search", {"queries": ["the red cat"], "top": 1})
    (row,) = found[0]
    assert (row["text"], row["source"], row["line"]) == ("the red cat", "a.txt", 1) and row["score"] > 0.999
    _, vectors, _ = server.request("/v1/embed", {"texts": ["red", "red"], "model": "tags"})
    assert vectors == Embedder.load(models["tags"]).unit(["red", "red"]).tolist()


def test_an_index_that_search_has_made_is_taken_as_it_is(
    models: dict[str, Path], start: Starter, tmp_path: Path
) -> None:
    place = tmp_path / "index"
    settings = ("--index", str(place), "--words", "7", "--precision", "int8")
    main(["search", "cat", "--in", str(models["texts"]), "--model", str(models["encoder"]), *settings])
    before = {path.name: path.stat().st_mtime_ns for path in place.iterdir()}
    server = start("encoder", options=("--search", str(models["texts"]), *settings))
    assert server.request("/v1/search", {"queries": ["the red cat"], "top": 1})[0] == 200
    assert before == {path.name: path.stat().st_mtime_ns for path in place.iterdir()}


def test_choices(server: Server, models: dict[str, Path]) -> None:
    asked = {"context": "the red cat", "choices": ["a cat", "the river", "red"], "question": "where is"}
    status, found, _ = server.request("/v1/choose", asked)
    expected = choose(FineTuned.load(models["choices"], "choose"), [Asked(**asked)])
    assert status == 200 and rounded(found) == rounded(expected) and len(found[0]["ranked"]) == 3


def test_it_says_what_it_has(server: Server) -> None:
    _, found, _ = server.request("/v1/models")
    assert {each["name"]: each["uses"] for each in found} == {
        "encoder": ["embed", "fill-mask", "search"],
        "colours": ["classify", "embed"],
        "tags": ["embed", "tag"],
        "answers": ["answer", "embed"],
        "choices": ["choose", "embed"],
    }
    assert server.request("/health")[1] == {"status": "ok"}
    _, schema, _ = server.request("/openapi.json")
    assert {"/v1/classify", "/v1/search", "/health"} <= schema["paths"].keys()
    assert schema["paths"]["/v1/tag"]["post"]["responses"]["429"]["content"]["application/json"]["schema"]


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        (
            "/v1/regress",
            {"texts": ["a"]},
            404,
            "regress: found no model for it, expected one of: encoder: embed, fill-",
        ),
        ("/v1/classify", {"texts": ["a"], "model": "colour"}, 404, "did you mean 'colours'"),
        ("/v1/classify", {"texts": ["a"], "model": "tags"}, 404, "classify: found no model for it in 'tags'"),
        ("/v1/fill-mask", {"texts": ["a"]}, 422, "'a': found no [MASK]"),
        ("/v1/classify", {"texts": ["a"], "pairs": ["b", "c"]}, 422, "pairs: found 2 second texts, expected 1"),
        ("/v1/classify", {"texts": ["a", " \u200b"]}, 422, "text 2: found no word, expected one; leave the text out"),
        ("/v1/search", {"queries": [""]}, 422, "text 1: found no word, expected one"),
        ("/v1/answer", {"questions": [" "], "context": "a"}, 422, "question: found ' ', expected words"),
        ("/v1/choose", {"context": "a", "choices": ["b"]}, 422, "body.choices: List should have at least 2 items"),
        ("/v1/choose", {"context": "a", "choices": ["b", " "]}, 422, "context 'a': found an empty choice at place 1"),
        ("/v1/choose", {"context": "a", "choices": ["b"] * 9}, 413, "found 9 texts, expected at most 8"),
        ("/v1/choose", {"context": "a" * 499, "choices": ["b", "cc"]}, 413, "found a text of 501 characters"),
        ("/v1/classify", {"texts": ["a"] * 9}, 413, "found 9 texts, expected at most 8"),
        ("/v1/classify", {"texts": ["a" * 501]}, 413, "found a text of 501 characters, expected at most 500"),
        ("/v1/classify", {"texts": ["a" * 5000]}, 413, "bytes, expected at most 4000"),
        ("/v1/tag", {"texts": ["!" * 50, "!" * 51]}, 413, "found more than 100 words, expected at most so many"),
        ("/v1/classify", {"texts": []}, 422, "body.texts: List should have at least 1 item"),
        ("/v1/classify", {"text": ["a"]}, 422, "body.texts: Field required"),
        ("/v1/classify", {"texts": ["a \ud800 b"]}, 422, "body.texts.0: Value error, 'utf-8' codec can't encode"),
        ("/v1/answer", {"questions": ["a"], "context": "\udfff"}, 422, "body.context: Value error, 'utf-8' codec"),
        ("/v1/fill-mask", {"texts": ["[MASK]"], "top": float("nan")}, 422, "body.top: Input should be a finite number"),
        ("/v1/fill-mask", {"texts": ["[MASK] " * 70], "top": 100}, 413, "the answer would hold 3,430,000 characters"),
        ("/v1/nothing", {}, 404, "Not Found"),
    ],
)
def test_what_cannot_be_answered_says_why(path: str, body: Any, status: int, said: str, server: Server) -> None:
    found, answer, _ = server.request(path, body)
    assert found == status and said in answer["detail"]


def test_a_context_counts_for_each_question() -> None:
    with pytest.raises(TooMuchError, match="found 2408 characters to read, expected at most 2000"):
        app._check([("q", "c" * 300)] * 8, Limits(body_bytes=2000))


def test_without_a_token_no_page_from_elsewhere_is_answered(server: Server) -> None:
    statuses = {host: server.request("/health", host=host)[0] for host in ("evil.example", "127.0.0.1:80", "localhost")}
    assert statuses == {"evil.example": 200 if server.token else 403, "127.0.0.1:80": 200, "localhost": 200}


def test_a_body_that_does_not_say_how_long_it_is_is_cut_off(server: Server) -> None:
    def parts() -> Iterator[bytes]:
        yield b'{"texts": ["'
        for _ in range(10):
            yield b"a" * 1000
        yield b'"]}'

    answer = httpx.post(f"{server.address}/v1/classify", content=parts(), headers={"content-type": "application/json"})
    assert answer.status_code == 413 and "expected, at most 4000" in answer.json()["detail"]
    assert "content-security-policy" in answer.headers


def test_a_bad_text_does_not_spoil_what_is_computed_with_it(server: Server) -> None:
    found: dict[str, int] = {}

    def ask(text: str) -> None:
        found[text] = server.request("/v1/fill-mask", {"texts": [text]})[0]

    texts = [f"[MASK] {n}" if n % 3 else f"none {n}" for n in range(24)]
    threads = [threading.Thread(target=ask, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {text: 200 if text.startswith("[") else 422 for text in texts}


def test_which_of_several_texts_cannot_be_used_is_said(server: Server) -> None:
    status, found, _ = server.request("/v1/fill-mask", {"texts": ["a [MASK]", "no mask", "[MASK]"]})
    assert status == 422 and found["detail"].startswith("text 2: 'no mask': found no [MASK]")


def test_each_text_that_is_cut_is_said(server: Server) -> None:
    short, long = "the red cat", "the red cat " * 20
    asked: dict[str, dict[str, Any]] = {
        "classify": {"texts": [long, short], "model": "colours"},
        "tag": {"texts": ["cat" * 20, short]},
        "answer": {"questions": [long, short], "context": "the cat is red"},
    }
    for use, body in asked.items():
        status, rows, _ = server.request(f"/v1/{use}", body)
        assert (status, [row["cut"] for row in rows]) == (200, [True, False]), use
    for choices, cut in (([long, short], True), ([short, "a dog"], False)):
        (row,) = server.request("/v1/choose", {"context": "a cat", "choices": choices})[1]
        assert row["cut"] is cut


def test_metrics_count_uses_and_nothing_that_a_user_made_up(server: Server) -> None:
    server.request("/v1/classify", {"texts": ["a", "the red cat " * 20]})
    server.request("/v1/secret-name", {})
    _, text, headers = server.request("/metrics")
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(lines['bertcore_requests_total{status="200",use="classify"}']) >= 1
    assert float(lines["bertcore_texts_total"]) >= 2 and float(lines["bertcore_waiting_texts"]) == 0
    assert float(lines['bertcore_unseen{model="colours",reason="truncated"}']) >= 1
    assert float(lines["bertcore_batch_texts_count"]) >= 1 and "secret" not in text


def test_every_answer_forbids_foreign_scripts(server: Server) -> None:
    for path in ("/", "/page.js", "/health", "/v1/nothing"):
        _, _, headers = server.request(path)
        assert "default-src 'none'" in headers["content-security-policy"] and headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff" and "server" not in headers


def test_the_page_is_of_this_server_alone(server: Server) -> None:
    """No address of another, no markup from text."""
    for path, kind in (("/", "text/html"), ("/page.js", "javascript"), ("/page.css", "text/css")):
        status, content, headers = server.request(path)
        assert status == 200 and kind in headers["content-type"]
        assert "http://" not in content and "https://" not in content and "//cdn" not in content
        assert not any(
            word in content for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(")
        )
        assert "<style" not in content and "onclick" not in content and "style=" not in content


def test_no_query_leads_to_another_file(server: Server, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("not for the net")
    for path in ("/", "/page.js", "/page.css", "/page.svg", "/health", "/v1/models"):
        _, expected, _ = server.request(path)
        for name in (secret, "../app.py", "page.svg"):
            assert server.request(f"{path}?name={name}&file={name}&path={name}")[1] == expected
    for route in app.create_app(Models({}), Limits()).routes:
        if isinstance(route, APIRoute):
            assert route.dependant.query_params == [], route.path


def test_without_the_token_nobody_comes_in(start: Starter) -> None:
    server = start("colours", token="right")
    stranger = Server(server.address, server.process)
    assert server.request("/v1/classify", {"texts": ["a"]})[0] == 200
    for path in ("/v1/models", "/v1/classify", "/metrics", "/openapi.json"):
        status, answer, headers = stranger.request(path)
        assert status == 401 and "no right bearer token" in answer["detail"] and headers["www-authenticate"] == "Bearer"
    assert stranger.request("/v1/models", authorization="Bearer wrong")[0] == 401
    assert stranger.request("/health")[0] == stranger.request("/")[0] == 200
    assert server.end() == 0


def test_an_overload_is_answered_and_not_queued_without_end(start: Starter) -> None:
    server = start("answers", options=("--max-queue", "12", "--max-texts", "4", "--max-batch", "4"))
    statuses: list[int] = []
    body = {"questions": ["what colour is the cat"] * 4, "context": "the red cat is on the table . " * 600}

    def ask() -> None:
        status, answer, headers = server.request("/v1/answer", body)
        statuses.append(status)
        assert status == 200 or (status == 429 and headers["retry-after"] == "1" and "texts wait" in answer["detail"])

    threads = [threading.Thread(target=ask) for _ in range(30)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    assert server.request("/health")[0] == 200
    for thread in threads:
        thread.join()
    assert set(statuses) == {200, 429} and statuses.count(200) >= 3
    assert server.request("/v1/answer", {**body, "context": "the red cat"})[0] == 200  # it has not collapsed
    assert server.end() == 0


def test_it_ends_when_what_runs_is_done(start: Starter) -> None:
    server = start("answers")
    connection = http.client.HTTPConnection(server.address.removeprefix("http://"), timeout=60)
    connection.request("GET", "/health")  # so that the server has taken the connection
    assert connection.getresponse().read() == b'{"status":"ok"}'
    body = {"questions": ["what colour is the cat"] * 8, "context": "the red cat is on the table . " * 1000}
    seconds = psutil.Process(server.process.pid).cpu_times
    before = seconds().user
    connection.request("POST", "/v1/answer", json.dumps(body), {"content-type": "application/json"})
    until(lambda: seconds().user > before + 0.2, lambda: "nothing is computed", 60)
    assert server.end() == 0
    answer = connection.getresponse()
    assert answer.status == 200 and len(json.loads(answer.read())) == 8
    connection.close()
    assert server.process.stderr is not None and server.process.stderr.read().endswith("ended\n")


SLOW = """
import sys, time
from types import SimpleNamespace

from bertcore.serving.app import create_app
from bertcore.serving.limits import Limits
from bertcore.serving.run import serve

def work(items):
    if items == ["broken"]:
        raise RuntimeError("a mistake of the program")
    print("begun", flush=True)
    time.sleep(600)

served = SimpleNamespace(name="slow", works={"classify": work})
models = SimpleNamespace(index=None, by_name={}, choose=lambda *_: served)
limits = Limits(grace=1)
serve(create_app(models, limits), "127.0.0.1", 0, limits, lambda address: print(address, flush=True))
"""


def test_nobody_is_kept_out_by_those_who_ask_nothing() -> None:
    """Neither by connections without a request, nor by bodies that do not come."""
    patience = "from bertcore.serving import guard, run\nguard.PATIENCE = run.PATIENCE = 1.0\n"
    program = patience + SLOW.replace("grace=1", "grace=1, connections=8")
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    server = Server(process.stdout.readline().strip(), process)
    host, _, port = server.address.removeprefix("http://").rpartition(":")
    head = f"POST /v1/classify HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as slow:
        slow.sendall(head.encode() + b"{")
        assert slow.recv(100).startswith(b"HTTP/1.1 408 ")
    second = http.client.HTTPConnection(host, int(port), timeout=30)
    second.request("GET", "/health")
    assert second.getresponse().read() == b'{"status":"ok"}'
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # closed, too
        second.sock.sendall(b"GET / HT")
        assert second.sock.recv(100) == b""
    second.close()
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection((host, int(port)), timeout=30)) for _ in range(8)]
        for connection in silent[:4]:
            connection.sendall(b"GET /health HTTP/1.1\r\nX-A: ")
        assert server.request("/health")[0] == 503
        for connection in silent:
            assert connection.recv(100) == b""
        assert server.request("/health")[0] == 200
    assert server.end() == 0
    process.stdout.close()


def test_what_is_not_done_in_time_ends_with_the_server_and_mistakes_are_counted() -> None:
    process = subprocess.Popen([sys.executable, "-c", SLOW], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    server = Server(process.stdout.readline().strip(), process)
    status, answer, headers = server.request("/v1/classify", {"texts": ["broken"]})
    assert (status, answer) == (500, {"detail": "internal error"}) and "content-security-policy" in headers
    assert 'bertcore_requests_total{status="500",use="classify"} 1.0' in server.request("/metrics")[1]
    asked = threading.Thread(target=server.request, args=("/v1/classify", {"texts": ["a"]}))
    asked.start()
    assert process.stdout.readline() == "begun\n"
    assert server.end() == 0
    asked.join()
    process.stdout.close()


def test_mistakes_at_the_start_are_one_line(
    server: Server, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    model, port = str(models["colours"]), server.address.rpartition(":")[2]
    for arguments, status, said in (
        ([model, "--host", "0.0.0.0"], BAD_INPUT, "--host: found 0.0.0.0, which others can reach, without a token; "),
        ([model, model], BAD_INPUT, "found two models with the name 'colours'"),
        ([model, "--max-queue", "0"], BAD_INPUT, "error: --max-queue: found 0, expected 1 or more"),
        ([model, "--grace", "0"], BAD_INPUT, "error: --grace: found 0, expected 1 or more"),
        ([model, "--port", "99999"], BAD_INPUT, "error: --port: found 99999, expected 0 to 65535"),
        ([str(models["texts"])], BAD_INPUT, "texts/config.json: not found"),
        ([model, "--port", port], UNAVAILABLE, "expected a free port of this machine"),
    ):
        assert main(["serve", *arguments]) == status
        error = capsys.readouterr().err
        assert said in error
