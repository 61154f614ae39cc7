"""The server's paths: what may be asked, and how a question becomes work for a model."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response

from bertcore.apply.choose import Asked
from bertcore.apply.finetuned import UNSEEN
from bertcore.apply.tag import count_words
from bertcore.errors import BertcoreError, InputError, TextError
from bertcore.examples.bad_rows import has_words
from bertcore.serving import schema
from bertcore.serving.batching import Batcher, FullError
from bertcore.serving.guard import SECURITY, Guard
from bertcore.serving.limits import Limits
from bertcore.serving.measures import Measures
from bertcore.serving.models import Models

logger = logging.getLogger(__name__)

PAGE = Path(__file__).parent / "page"
PREFIX = "/v1/"
_LAST_SECONDS = 1.0
"""For what is computed still when all requests have had their seconds of grace."""

_ANSWER = 16
"""How many times as long as a request its answer may be, where every result holds the text."""
_MASKS = re.compile(r"\[MASK\]|<mask>")

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": schema.Problem} for status in (401, 403, 404, 413, 422, 429)
}


class TooMuchError(InputError):
    """More texts, or longer ones, than the limits allow."""


class NotServedError(InputError):
    """No model of this server is asked for, or none can answer."""


@dataclass(frozen=True)
class Work:
    """What the models compute for requests, within the limits, several at once."""

    models: Models
    limits: Limits
    batcher: Batcher

    async def compute(
        self,
        use: str,
        name: str | None,
        items: Sequence[Any],
        texts: Sequence[Any] | None = None,
        pairs: bool | None = None,
        **settings: int,
    ) -> list[Any]:
        """A result for each of `items`, by the model `name` or the first one for `use`. `texts`: what the model reads,
        where that is more than the items. `pairs`: whether they are pairs of texts."""
        try:
            served = self.models.choose(use, name, pairs)
        except InputError as error:
            raise NotServedError(str(error)) from None
        read = items if texts is None else texts
        _check(read, self.limits)
        key = (served.name, use, tuple(settings.items()))
        try:
            return await self.batcher.submit(key, lambda batch: served.works[use](batch, **settings), items, len(read))
        except TextError as error:
            raise InputError(f"text {error.place + 1}: {error}" if len(items) > 1 else str(error)) from None


def create_app(models: Models, limits: Limits, token: str | None = None) -> FastAPI:
    """The application; `token`: what every request but the page's own files and /health must bear."""
    measures = Measures()
    batcher = Batcher(limits, measures.computed)
    measures.waiting.set_function(lambda: batcher.waiting)
    for name, served in models.by_name.items():
        if served.unseen is not None:
            for reason in UNSEEN:
                measures.unseen.labels(name, reason).set_function(partial(served.unseen.__getitem__, reason))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        running = asyncio.create_task(batcher.run())
        yield
        batcher.end()
        await asyncio.wait({running}, timeout=_LAST_SECONDS)  # whoever asked is answered, or has been told that it ends

    app = FastAPI(title="bertcore", version="1", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.batcher = batcher
    app.add_middleware(Guard, token=token, body_bytes=limits.body_bytes)
    _answer_errors(app)
    work = Work(models, limits, batcher)
    _add_work(app, work)
    _add_search(app, work)
    _add_measures(app, models, measures)
    _add_page(app)
    return app


def _answer_errors(app: FastAPI) -> None:
    statuses: dict[type[Exception], int] = {
        TooMuchError: 413,
        NotServedError: 404,
        FullError: 429,
        BertcoreError: 422,
    }

    @app.exception_handler(BertcoreError)
    async def problem(_: Request, error: BertcoreError) -> JSONResponse:
        status = next(status for kind, status in statuses.items() if isinstance(error, kind))
        headers = {"retry-after": "1"} if status == 429 else None
        return JSONResponse({"detail": str(error)}, status, headers)

    @app.exception_handler(RequestValidationError)
    async def misunderstood(request: Request, error: RequestValidationError) -> JSONResponse:
        """One line, which does not say again what was sent."""
        first = error.errors()[0]
        remedy = "" if "json" in request.headers.get("content-type", "") else "; send content-type: application/json"
        return JSONResponse({"detail": f"{'.'.join(map(str, first['loc']))}: {first['msg']}{remedy}"}, 422)


def _add_work(app: FastAPI, work: Work) -> None:
    limits = work.limits
    path = partial(_path, app)

    @path("fill-mask", schema.FilledText, "The words that fit in place of [MASK]")
    async def fill_mask(request: schema.FillMaskRequest) -> list[Any]:
        size = sum(len(text) * request.top * max(len(_MASKS.findall(text)), 1) for text in request.texts)
        if size > _ANSWER * limits.body_bytes:
            raise TooMuchError(
                f"the answer would hold {size:,} characters, the text for each word in each place, expected at most "
                f"{_ANSWER * limits.body_bytes:,}; ask for fewer words, or send the texts in parts"
            )
        return await work.compute("fill-mask", request.model, request.texts, top=request.top)

    @path("classify", schema.Label, "The class, or the set of labels, of texts", sparse=True)
    async def classify(request: schema.PairsRequest) -> list[Any]:
        return await work.compute("classify", request.model, _paired(request), pairs=request.pairs is not None)

    @path("regress", schema.Score, "A number for texts or pairs of texts")
    async def regress(request: schema.PairsRequest) -> list[Any]:
        return await work.compute("regress", request.model, _paired(request), pairs=request.pairs is not None)

    @path("tag", schema.TaggedText, "The words of texts with their tags")
    async def tag(request: schema.TextsRequest) -> list[Any]:
        if count_words(request.texts, limits.words + 1) > limits.words:
            raise TooMuchError(f"found more than {limits.words:,} words, expected at most so many; send them in parts")
        return await work.compute("tag", request.model, request.texts)

    @path("answer", schema.AnswerResult, "Answers to questions, cut out of a context of any length")
    async def answer(request: schema.AnswerRequest) -> list[Any]:
        pairs = [(question, request.context) for question in request.questions]
        return await work.compute("answer", request.model, pairs, top=request.top)

    @path("choose", schema.ChoiceResult, "The right one of a context's choices, and all of them in order")
    async def choose(request: schema.ChooseRequest) -> list[Any]:
        asked = Asked(request.context, request.choices, request.question)
        texts = [(request.context, request.question or "", choice) for choice in request.choices]
        return await work.compute("choose", request.model, [asked], texts)

    @path("embed", list[float], "A vector of length 1 for each text: their products are cosines")
    async def embed(request: schema.TextsRequest) -> list[Any]:
        return await work.compute("embed", request.model, request.texts)


def _add_search(app: FastAPI, work: Work) -> None:
    """With an index; without one, what to do about it."""
    if (index := work.models.index) is None:

        @app.post(f"{PREFIX}search", include_in_schema=False)
        async def refuse() -> None:
            raise NotServedError(
                "search: found nothing to search, expected passages; start the server with --search PATH"
            )

        return
    first = next(iter(work.models.by_name.values()))

    def search_all(queries: Sequence[str], top: int) -> list[Any]:
        found = index.search(first.embedder.unit(list(queries)), top)
        return [[{"score": each.score, **vars(each.passage)} for each in row] for row in found]

    @_path(app, "search", list[schema.Passage], "The passages nearest to each query")
    async def search(request: schema.SearchRequest) -> list[Any]:
        _check(request.queries, work.limits)
        key = ("search", request.top)
        return await work.batcher.submit(key, lambda batch: search_all(batch, request.top), request.queries)


def _path(app: FastAPI, use: str, result: Any, summary: str, *, sparse: bool = False) -> Callable[..., Any]:
    """A decorator: what answers there, with a list of `result`. `sparse`: what is null is left out of the answer."""
    return app.post(
        f"{PREFIX}{use}",
        summary=summary,
        response_model=list[result],
        response_model_exclude_none=sparse,
        responses=_PROBLEMS,
    )


def _paired(request: schema.PairsRequest) -> list[Any]:
    if request.pairs is None:
        return list(request.texts)
    if len(request.pairs) != len(request.texts):
        raise InputError(f"pairs: found {len(request.pairs)} second texts, expected {len(request.texts)}, one for each")
    return list(zip(request.texts, request.pairs, strict=True))


def _check(items: Sequence[Any], limits: Limits) -> None:
    if len(items) > limits.texts:
        raise TooMuchError(
            f"found {len(items)} texts, expected at most {limits.texts} in a request; send them in parts"
        )
    sizes = [sum(map(len, item)) if isinstance(item, tuple) else len(item) for item in items]
    if (total := sum(sizes)) > limits.body_bytes:  # a context is read once for each question
        raise TooMuchError(
            f"found {total} characters to read, expected at most {limits.body_bytes}; send them in parts"
        )
    if (longest := max(sizes)) > limits.characters:
        raise TooMuchError(f"found a text of {longest} characters, expected at most {limits.characters}; send parts")
    for number, item in enumerate(items, start=1):
        if not has_words(item):
            raise InputError(f"text {number}: found no word, expected one; leave the text out")


def _add_measures(app: FastAPI, models: Models, measures: Measures) -> None:
    @app.middleware("http")
    async def measure(request: Request, call_next: Callable[[Request], Any]) -> Response:
        began = time.perf_counter()
        try:
            response: Response = await call_next(request)
        except Exception:
            logger.exception("%s could not be answered", request.url.path)
            response = JSONResponse({"detail": "internal error"}, 500, SECURITY)
        route = request.scope.get("route")
        if route is not None and route.path.startswith(PREFIX):  # never a path that somebody has made up
            use = route.path.removeprefix(PREFIX)
            measures.requests.labels(use, str(response.status_code)).inc()
            measures.seconds.labels(use).observe(time.perf_counter() - began)
        return response

    @app.get("/health", summary="Whether the server answers")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics", summary="Numbers for Prometheus", response_class=Response)
    async def metrics() -> Response:
        return Response(measures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get(f"{PREFIX}models", summary="The models of this server, and what each can be asked")
    async def listed() -> list[schema.ModelInfo]:
        return [
            schema.ModelInfo(
                name=each.name,
                architecture=each.description.architecture,
                uses=[*each.uses, *(["search"] if models.index is not None and number == 0 else [])],
                labels=each.description.labels,
            )
            for number, each in enumerate(models.by_name.values())
        ]


def _add_page(app: FastAPI) -> None:
    for path, name in (
        ("/", "page.html"),
        ("/page.js", "page.js"),
        ("/page.css", "page.css"),
        ("/page.svg", "page.svg"),
    ):
        app.add_api_route(path, _sends(PAGE / name), include_in_schema=False, response_class=FileResponse)


def _sends(file: Path) -> Callable[[], FileResponse]:
    """An answer with `file`. It takes no arguments: FastAPI fills any that it has from the query."""

    def answer() -> FileResponse:
        return FileResponse(file)

    return answer
