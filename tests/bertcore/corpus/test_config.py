"""Weights of sources: how params name them, and how often each document is used."""

from typing import Any

import pytest

from bertcore.config import parse
from bertcore.corpus.config import CorpusConfig, SourceEntry, copies
from bertcore.errors import ConfigError


@pytest.mark.parametrize("weight", [0.25, 1.0, 2.5])
def test_documents_are_used_as_often_as_the_weight_says(weight: float) -> None:
    found = [copies(weight, 7, f"d:{index}") for index in range(4000)]
    assert set(found) <= {int(weight), int(weight) + 1}
    assert abs(sum(found) / 4000 - weight) < 0.03
    assert found == [copies(weight, 7, f"d:{index}") for index in range(4000)]


def test_a_larger_weight_takes_the_same_documents_and_more() -> None:
    few, many = ({i for i in range(500) if copies(weight, 1, f"d:{i}")} for weight in (0.2, 0.4))
    assert few < many


def test_stop_words_of_another_language_are_taken() -> None:
    quality = {"min_stop_words": 2, "stop_words": ["der", "und"]}
    assert parse(CorpusConfig, {"sources": ["a"], "language": "de", "quality": quality}, "corpus").quality.english == []


def test_entries_with_and_without_a_weight() -> None:
    config = parse(CorpusConfig, {"sources": ["a.txt", {"uri": "b.txt", "weight": 2}, {"uri": "c.txt"}]}, "corpus")
    assert config.uris == ["a.txt", "b.txt", "c.txt"] and [each.weight for each in config.sources] == [1.0, 2.0, 1.0]
    assert parse(CorpusConfig, {"sources": ["a.txt"]}, "corpus").sources == [SourceEntry(uri="a.txt")]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sources": [{"uri": "a", "wight": 1}]}, r"corpus.sources\[0\]: unknown key 'wight'; did you mean 'weight'"),
        (
            {"sources": ["a", {"weight": 1}]},
            r"corpus.sources\[1\]: the key 'uri' is missing, expected text; add it",
        ),
        ({"sources": [{"uri": "a", "weight": 0}]}, r"corpus.sources\[0\].weight: found 0.0, expected more than 0"),
        ({"sources": [{"uri": "a", "weight": "x"}]}, r"corpus.sources\[0\].weight: found 'x' \(str\), expected number"),
        ({"sources": [{"uri": "a", "license": 4}]}, r"corpus.sources\[0\].license: found 4 \(int\), expected text"),
        (
            {"sources": [{"uri": "a", "wrapped": "yes"}]},
            r"corpus.sources\[0\].wrapped: found 'yes' \(str\), expected true or false",
        ),
        ({"sources": ["a", {"uri": "a", "weight": 3}]}, r"corpus.sources: found 'a' twice.*{uri: a, weight: 2}"),
        (
            {"sources": ["a"], "min_words": 8, "quality": {"max_words": 7}},
            r"corpus.quality.max_words: found 7 with min_words 8, which drop every document",
        ),
        (
            {"sources": ["a"], "language": "de", "quality": {"min_stop_words": 2}},
            r"corpus.quality.stop_words: found nothing \(null\) with language 'de' and min_stop_words 2, which",
        ),
        ({"sources": ["a"], "min_words": 0}, r"corpus.min_words: found 0, expected at least 1"),
        ({"sources": [3]}, r"corpus.sources\[0\]: found 3 \(int\), expected a mapping with the keys uri"),
    ],
)
def test_entries_that_cannot_be_read_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(CorpusConfig, values, "corpus")
