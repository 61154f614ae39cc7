"""Task `qa`: questions about documented parameters whose answers are spans of the documentation, as SQuAD has them."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bertcore.corpus.sources.pydoc.prose import prose
from bertcore.examples.docstrings.parameters import DEFAULT, Parameter, parse_parameters
from bertcore.examples.docstrings.table import Docstring, Row, build_splits, draw, read_docstrings, shuffled
from bertcore.examples.schema import QUESTION_ANSWERING, ExampleSet

MAX_CONTEXT_WORDS = 70  # with the question mostly under 128 word pieces
MIN_PARAMETERS = 2  # in the context, so that the question's name decides
QUESTIONS_PER_CONTEXT = 3
MAX_ANSWER_WORDS = 20
SENTENCE = re.compile(r"(.+?[\w)\]'\"])[.;](?=\s+[A-Z]|\s*$)|.+")

ENTRY = r"^(?:[\w*]+, )*\*{{0,2}}({})\b(?:, [\w*]+)*(?: ?\([^\n]*?\))? ?:[^\n]*"

PHRASINGS = {
    "type": ["What is the type of {0}?", "Of which type is the parameter {0}?", "What kind of value must {0} be?"],
    "description": ["What does the parameter {0} mean?", "What is {0}?", "What is the argument {0} for?"],
    "default": ["What is the default of {0}?", "Which value does {0} have by default?", "What does {0} default to?"],
    "by_type": ["Which parameter is of type {0}?", "Which argument must be given as {0}?"],
    "by_default": ["Which parameter defaults to {0}?", "Which argument has the default {0}?"],
}


@dataclass(frozen=True)
class Span:
    """Where something about a parameter stands in the context."""

    kind: str
    about: str
    """What the question names: the parameter, or its type or default when the parameter is asked for."""
    start: int
    text: str


def read_qa(directory: Path) -> ExampleSet:
    """Contexts of up to `MAX_CONTEXT_WORDS` words and up to `QUESTIONS_PER_CONTEXT` questions about each."""
    dropped: Counter[str] = Counter()

    def groups(members: list[Docstring], split: str) -> Iterator[list[Row]]:
        for docstring in shuffled(members, "qa"):
            parameters = parse_parameters(docstring.docstring, docstring.parameters)
            rows = _rows(docstring, parameters) if len(parameters) >= MIN_PARAMETERS else []
            if rows:
                yield rows
            else:
                dropped[f"no context with {MIN_PARAMETERS} documented parameters"] += 1

    splits = build_splits(read_docstrings(directory), groups, lambda row: row["context"], QUESTION_ANSWERING, dropped)
    return ExampleSet(
        family="question_answering", labels=None, metrics=["f1", "exact_match"], splits=splits, dropped=dict(dropped)
    )


def find_spans(context: str, parameters: list[Parameter]) -> list[Span]:
    """Everything that can be asked about the parameters whose entries stand in `context`, by parameter."""
    spans: list[Span] = []
    for parameter in parameters:
        entry = re.search(ENTRY.format(re.escape(parameter.name)), context, re.MULTILINE)
        if entry is not None:
            spans.extend(_spans_of(parameter, context, entry))
    return spans


def _spans_of(parameter: Parameter, context: str, entry: re.Match[str]) -> Iterator[Span]:
    name = parameter.name
    if parameter.type and (start := context.find(parameter.type, entry.end(1), entry.end())) >= 0:
        yield Span("type", name, start, parameter.type)
        if _occurrences(parameter.type, context) == 1:
            yield Span("by_type", parameter.type, entry.start(1), name)
    if default := DEFAULT.search(context, entry.end(1), entry.end()):
        value = default["value"]
        yield Span("default", name, default.start("value"), value)
        if _occurrences(value, context) == 1:
            yield Span("by_default", value, entry.start(1), name)
    sentence = SENTENCE.match(parameter.description)
    answer = (sentence[1] or sentence[0]).rstrip(" .") if sentence else ""
    start = context.find(answer, entry.end(1), entry.end())
    if 2 <= len(answer.split()) <= MAX_ANSWER_WORDS and start >= 0:
        yield Span("description", name, start, answer)


def _occurrences(text: str, context: str) -> int:
    return len(re.findall(rf"(?<!\w){re.escape(text)}(?!\w)", context))


def contexts(paragraphs: list[str]) -> Iterator[str]:
    """From each paragraph on, as many consecutive ones, one a line, as the limit of words allows."""
    for first in range(len(paragraphs)):
        words, end = 0, first
        while end < len(paragraphs) and (words := words + len(paragraphs[end].split())) <= MAX_CONTEXT_WORDS:
            end += 1
        if end > first:
            yield "\n".join(paragraphs[first:end])


def _rows(docstring: Docstring, parameters: list[Parameter]) -> list[Row]:
    for context in contexts(prose(docstring.docstring).splitlines()):
        spans = find_spans(context, parameters)
        names = {span.about for span in spans if span.kind in ("type", "description", "default")}
        if len(names) >= MIN_PARAMETERS:
            return [_row(docstring, context, span) for span in _choose(docstring.id, spans)]
    return []


def _choose(key: str, spans: list[Span]) -> list[Span]:
    """Spans of different kinds first, so that the rarer kinds (default) are asked about as often as possible."""
    order = sorted(spans, key=lambda span: draw("qa", key, span.kind, span.about))
    seen: Counter[str] = Counter()
    ranked = []
    for span in order:
        ranked.append((seen[span.kind], draw("qa", key, span.kind), span))
        seen[span.kind] += 1
    return [span for _, _, span in sorted(ranked, key=lambda item: item[:2])[:QUESTIONS_PER_CONTEXT]]


def _row(docstring: Docstring, context: str, span: Span) -> Row:
    assert context[span.start : span.start + len(span.text)] == span.text
    phrasings = PHRASINGS[span.kind]
    phrasing = phrasings[draw("qa", docstring.id, span.kind, span.about, "phrasing") % len(phrasings)]
    return {
        "id": f"{docstring.id}:{span.kind}:{span.about}",
        "title": docstring.module,
        "context": context,
        "question": phrasing.format(span.about),
        "answers": [{"text": span.text, "answer_start": span.start}],
    }
