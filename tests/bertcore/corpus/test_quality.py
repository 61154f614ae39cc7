"""Filters of lines and documents: what each one objects to, in which words, and that the defaults are the old ones."""

import unicodedata
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bertcore.config import parse
from bertcore.corpus.config import CorpusConfig, SourceEntry
from bertcore.corpus.contamination import ContaminationConfig
from bertcore.corpus.near_duplicates import NearDuplicatesConfig
from bertcore.corpus.quality import QualityConfig, count_words, few_letters, first_reason, keep_lines
from bertcore.errors import ConfigError


def reason(text: str, min_words: int = 1, **options: Any) -> str | None:
    return first_reason(text, QualityConfig(**options).document_filters(min_words))


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("one two", {"min_words": 3}, "too_few_words"),
        ("ab 12 34", {}, "too_few_letters"),
        ("ab 12 34", {"min_letter_share": 0.3}, None),
        ("12 34", {"min_letter_share": 0.0}, None),
        ("\u1019\u103c\u1014\u103a\u1019\u102c 1", {"min_letter_share": 0.8}, None),
        ("\u4f60\u597d\uff0c\u4e16\u754c\u3002 ok", {"min_words": 5}, None),
        ("\u4f60\u597d\uff0c\u4e16\u754c\u3002 ok", {"min_words": 6}, "too_few_words"),
        ("one two three", {"max_words": 2}, "too_many_words"),
        ("a b c", {"min_mean_word_length": 2.0}, "too_short_words"),
        ("abcdefgh", {"max_mean_word_length": 7.5}, "too_long_words"),
        ("same\nsame\nsame\nother", {"max_repeated_line_share": 0.4}, "too_many_repeated_lines"),
        ("same\nsame\nsame\nother", {"max_repeated_line_share": 0.5}, None),
        ("the names of animals", {"min_stop_words": 2}, None),
        ("the name the name", {"min_stop_words": 2}, "too_few_stop_words"),
        ("the name of the dog", {"min_stop_words": 2, "stop_words": ["der", "und", "die"]}, "too_few_stop_words"),
        ("Der Hund und die Katze", {"min_stop_words": 3, "stop_words": ["der", "UND", "die"]}, None),
    ],
)
def test_documents(text: str, options: dict[str, Any], expected: str | None) -> None:
    assert reason(text, **options) == expected


def test_the_number_behind_a_reason_is_that_of_the_params() -> None:
    numbers = {
        "max_line_characters": ("too_long_line", 900),
        "max_repeated_line_share": ("too_many_repeated_lines", 0.3),
        "min_letter_share": ("too_few_letters", 0.25),
        "max_words": ("too_many_words", 1000),
        "min_mean_word_length": ("too_short_words", 3.0),
        "max_mean_word_length": ("too_long_words", 10.0),
        "min_stop_words": ("too_few_stop_words", 2),
    }
    quality = QualityConfig(**{name: number for name, (_, number) in numbers.items()})  # type: ignore[arg-type]
    others = {"near_duplicates": NearDuplicatesConfig(threshold=0.7), "contamination": ContaminationConfig(ngram=9)}
    found = CorpusConfig(sources=[SourceEntry(uri="x")], min_words=4, quality=quality, **others).thresholds  # type: ignore[arg-type]
    beside = {"too_few_words": 4, "near_duplicate": 0.7, "in_evaluation_text": 9}
    assert found == dict(numbers.values()) | beside
    assert CorpusConfig(sources=[SourceEntry(uri="x")]).thresholds == {"too_few_letters": 0.5, "too_few_words": 8}


def test_lines_are_left_out_and_counted() -> None:
    counts: Counter[str] = Counter()
    text = "A sentence.\nRead our Privacy Policy.\n" + "x" * 30 + "\nTerms of use\nThe policy of privacy."
    filters = QualityConfig(drop_boilerplate_lines=True, max_line_characters=29).line_filters()
    assert keep_lines(text, filters, counts) == "A sentence.\nThe policy of privacy."
    assert counts == {"boilerplate_line": 2, "too_long_line": 1}


def test_phrases_of_another_language_are_looked_for_in_place_of_the_english_ones() -> None:
    quality = QualityConfig(drop_boilerplate_lines=True, boilerplate=["alle Rechte vorbehalten", "c++ (alt)"])
    text = "Ein Satz.\nALLE RECHTE VORBEHALTEN!\nall rights reserved\nC++ (alt) bis 1998"
    assert keep_lines(text, quality.line_filters(), Counter()) == "Ein Satz.\nall rights reserved"


def test_by_default_no_line_is_left_out_and_only_letters_count() -> None:
    config = QualityConfig()
    assert config.line_filters() == [] and len(config.document_filters(8)) == 2
    assert keep_lines("all rights reserved", config.line_filters(), Counter()) == "all rights reserved"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"min_letter_share": 1.5}, "q.min_letter_share: found 1.5, expected a share between 0 and 1"),
        ({"max_words": 0}, "q.max_words: found 0, expected at least 1, or null"),
        ({"min_mean_word_length": -1}, "q.min_mean_word_length: found -1.0, expected more than 0"),
        ({"max_mean_word_length": 0}, "q.max_mean_word_length: found 0.0, expected more than 0"),
        (
            {"min_mean_word_length": 9, "max_mean_word_length": 3},
            "q.min_mean_word_length: found 9.0 with max_mean_word_length 3.0, which drop every document",
        ),
        ({"min_stop_words": 9}, "q.min_stop_words: found 9, expected 0 to 8, the stop words there are"),
        ({"min_stop_words": 2, "stop_words": ["und", "Und"]}, "q.min_stop_words: found 2, expected 0 to 1"),
        ({"stop_words": ["und"]}, r"q.stop_words: found \['und'\] without min_stop_words, which reads them; set"),
        ({"boilerplate": ["Impressum"]}, r"q.boilerplate: found \['Impressum'\] without drop_boilerplate_lines"),
        ({"boilerplate": [], "drop_boilerplate_lines": True}, r"q.boilerplate: found \[\], expected words; give some"),
    ],
)
def test_values_out_of_range_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(QualityConfig, values, "q")


@given(st.text() | st.text("a1 \n"), st.floats(0.01, 1))
@example("na\u00efve \u4e2d\u6587 \ud800 \u0301 \u00b2 \u2167", 0.7)
def test_letters_and_marks_are_counted_as_unicode_counts_them(text: str, share: float) -> None:
    visible = [character for character in text if character not in " \n"]
    few = sum(unicodedata.category(character)[0] in "LM" for character in text) < share * len(visible)
    assert (first_reason(text, [few_letters(share)]) is not None) == few


@pytest.mark.parametrize(
    "text",
    [
        "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",  # Thai
        "\u0eaa\u0eb0\u0e9a\u0eb2",  # Lao
        "\u1019\u103c\u1014\u103a",  # Burmese
        "\u1780\u17b6\u179a",  # Khmer
        "\u3072\u3089\u304c\u306a\u30ab\u30ca",  # Japanese
        "\u4e2d\u6587\U00020000",  # Chinese
    ],
)
def test_every_character_is_a_word_in_scripts_without_blanks(text: str) -> None:
    assert count_words(text) == len(text)
    assert count_words(f"two words\n{text}. {text}") == 2 * len(text) + 3  # the full stop between them is its own


@given(st.lists(st.text("a\u00e9\u0434\u0939\u093f\u2014\u2019\uac00\U0001f600.", min_size=1), min_size=1))
def test_elsewhere_blanks_part_words(words: list[str]) -> None:
    assert count_words(" ".join(words)) == count_words("\n".join(words)) == len(words)
