"""N-grams of evaluation texts in other texts, against a plain search."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcore.config import parse
from bertcore.corpus.contamination import ContaminationConfig, EvaluationNgrams
from bertcore.errors import ConfigError

TEXTS = st.lists(st.lists(st.sampled_from("aábc"), max_size=12).map(" ".join), max_size=8)


def plain(text: str, ngram: int) -> set[tuple[str, ...]]:
    words = re.findall(r"[^\W_]+", text.lower())
    return {tuple(words[at : at + ngram]) for at in range(len(words) - ngram + 1)}


@settings(max_examples=200)
@given(evaluation=TEXTS, corpus=TEXTS)
def test_shared_ngrams_are_those_of_a_plain_search(evaluation: list[str], corpus: list[str]) -> None:
    ngrams = EvaluationNgrams(evaluation, 3)
    wanted = [plain(text, 3) for text in evaluation]
    here = [plain(text, 3) for text in corpus]
    assert ngrams.meet(corpus).tolist() == [any(each & theirs for theirs in wanted) for each in here]
    assert ngrams.long_enough.tolist() == [bool(each) for each in wanted]
    assert ngrams.met.tolist() == [any(each & mine for mine in here) for each in wanted]


def test_case_punctuation_and_layout_make_no_difference() -> None:
    ngrams = EvaluationNgrams(["The reader -- it closes\tthe file!"], 6)
    met = ngrams.meet(["so the READER (it)\ncloses 'the' file again", "the reader it closes a file"])
    assert met.tolist() == [True, False]


def test_no_ngram_spans_two_texts() -> None:
    ngrams = EvaluationNgrams(["a b", "c d", "b c d e"], 4)
    assert not ngrams.meet(["x a b", "c d y", "b c", "d e"]).any()


def test_only_local_files_are_read() -> None:
    with pytest.raises(ConfigError, match=r"c.texts: found hf://rajpurkar/squad, expected a local file; download it"):
        parse(ContaminationConfig, {"texts": ["dev.tsv", "hf://rajpurkar/squad"]}, "c")
