"""What requests and answers look like; the OpenAPI page is made from it."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[
    str | None, Field(description="a model's name, as /v1/models lists them; null: the first for this use")
]
Top = Annotated[int, Field(ge=1, le=100)]


def _encodable(text: str) -> str:
    """`ValueError` for half of a surrogate pair, as JSON may hold it: no tokenizer can read that."""
    text.encode("utf-8")
    return text


Text = Annotated[str, AfterValidator(_encodable)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TextsRequest(_Strict):
    """Texts for a model."""

    texts: Annotated[list[Text], Field(min_length=1)]
    model: Name = None


class PairsRequest(TextsRequest):
    """Texts, or pairs of texts."""

    pairs: Annotated[list[Text] | None, Field(description="the second text of each, for models of two")] = None


class FillMaskRequest(TextsRequest):
    """Texts with [MASK] in them."""

    top: Top = 5


class AnswerRequest(_Strict):
    """Questions about one text of any length."""

    questions: Annotated[list[Text], Field(min_length=1)]
    context: Annotated[Text, StringConstraints(min_length=1)]
    top: Top = 3
    model: Name = None


class ChooseRequest(_Strict):
    """A context with its choices; `question`: what is put before each of them."""

    context: Annotated[Text, StringConstraints(min_length=1)]
    choices: Annotated[list[Text], Field(min_length=2)]
    question: Text | None = None
    model: Name = None


class SearchRequest(_Strict):
    """Queries for the passages that the server was started with."""

    queries: Annotated[list[Text], Field(min_length=1)]
    top: Top = 5


class Word(BaseModel):
    """A word for a mask."""

    word: str
    probability: float
    text: str


class FilledText(BaseModel):
    """The likeliest words of each mask of a text."""

    masks: list[list[Word]]


class _Read(BaseModel):
    cut: Annotated[bool, Field(description="whether the model has not read all of what it was given")]


class Label(_Read):
    """The class of a text, or the set of its labels, and what all labels are given."""

    label: str | None = None
    labels: list[str] | None = None
    probability: float | None = None
    probabilities: dict[str, float]


class Score(_Read):
    """A number for a text."""

    score: float


class TaggedWord(BaseModel):
    """A word with its tag; `start` and `end` count characters."""

    word: str
    tag: str
    start: int
    end: int


class Entity(BaseModel):
    """What the tags mark."""

    text: str
    label: str
    start: int
    end: int


class TaggedText(_Read):
    """The words and the entities of a text."""

    words: list[TaggedWord]
    entities: list[Entity]


class Span(BaseModel):
    """An answer; "" with null places is "no answer"."""

    text: str
    probability: float
    start: int | None
    end: int | None


class AnswerResult(_Read):
    """The answer to a question, and the best ones."""

    answer: str
    best: list[Span]


class Choice(BaseModel):
    """One of the choices; `index` counts from 0."""

    choice: str
    index: int
    probability: float


class ChoiceResult(Choice, _Read):
    """The best choice of a context, and all of them, the best first."""

    ranked: list[Choice]


class Passage(BaseModel):
    """A passage that was found."""

    score: float
    source: str
    line: int
    text: str


class ModelInfo(BaseModel):
    """A model of this server."""

    name: str
    architecture: str
    uses: list[str]
    labels: list[str] | None


class Problem(BaseModel):
    """What is wrong with a request, in one line."""

    detail: str
