"""Task `tagging`: which words of a description of parameters are a parameter's name, which are its type?

The words stand in the order of the docstring; the layout that would give the tags away is removed.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bertcore.examples.docstrings.parameters import Parameter, parse_parameters
from bertcore.examples.docstrings.table import Docstring, Row, build_splits, read_docstrings, shuffled
from bertcore.examples.schema import TAGGING, ExampleSet

LABELS = ["B-NAME", "B-TYPE", "I-TYPE", "O"]
MAX_WORDS = 56  # about 100 word pieces
MIN_NAMES = 2  # in a sequence, so that its first word is not the only entity
MAX_SEQUENCES = 3  # from one docstring
WORD = re.compile(r"\w+(?:[.'-]\w+)*|[,.](?!\s*[,.])")  # no colons, brackets, quotes, dashes, stars
HIDDEN_TYPE = re.compile(  # at the start of a description: a type that the layout does not set apart
    r"\W*(an? )?(optional )?(list|tuple|dict|dictionary|str|string|int|integer|bool|boolean|float|number|callable"
    r"|sequence|array|set|iterable|path|object|function|ndarray|tensor|(list|dict|tuple|set|optional|union|callable|type)\[.*)\b",
    re.IGNORECASE,
)


def read_tagging(directory: Path) -> ExampleSet:
    """Sequences of at most `MAX_WORDS` words with IOB2 tags of two kinds of entities."""
    dropped: Counter[str] = Counter()

    def groups(members: list[Docstring], split: str) -> Iterator[list[Row]]:
        for docstring in shuffled(members, "tagging"):
            parameters = parse_parameters(docstring.docstring, docstring.parameters)
            if any(not each.type and HIDDEN_TYPE.match(each.description) for each in parameters):
                dropped["type inside a description"] += 1
                continue
            sequences = [each for each in tagged_sequences(parameters) if each[1].count("B-NAME") >= MIN_NAMES]
            if not sequences:
                dropped[f"under {MIN_NAMES} documented parameters"] += 1
            for number, (words, tags) in enumerate(sequences[:MAX_SEQUENCES], start=1):
                yield [{"id": f"{docstring.id}#{number}", "words": words, "tags": tags}]

    splits = build_splits(read_docstrings(directory), groups, lambda row: " ".join(row["words"]), TAGGING, dropped)
    return ExampleSet(
        family="tagging", labels=LABELS, metrics=["f1", "precision", "recall"], splits=splits, dropped=dict(dropped)
    )


def tagged_sequences(parameters: list[Parameter]) -> Iterator[tuple[list[str], list[str]]]:
    """(words, tags) of consecutive parameters' entries, as many as fit into `MAX_WORDS`; a longer entry is cut."""
    words: list[str] = []
    tags: list[str] = []
    for parameter in parameters:
        more_words, more_tags = tagged_entry(parameter)
        if words and len(words) + len(more_words) > MAX_WORDS:
            yield words, tags
            words, tags = [], []
        words, tags = [*words, *more_words][:MAX_WORDS], [*tags, *more_tags][:MAX_WORDS]
    if words:
        yield words, tags


def tagged_entry(parameter: Parameter) -> tuple[list[str], list[str]]:
    """One parameter: its name, its type, and the rest outside of any entity."""
    kind = WORD.findall(parameter.type)
    rest = [*WORD.findall(parameter.after_type), *WORD.findall(parameter.description)]
    type_tags = [("I" if index else "B") + "-TYPE" for index in range(len(kind))]
    return [parameter.name, *kind, *rest], ["B-NAME", *type_tags, *["O"] * len(rest)]
