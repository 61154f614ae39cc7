"""The words of a text, whose tags `bertcore tag` gives."""

import pytest

from bertcore.apply.tag import words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's here, now.", ["It's", "here", ",", "now", "."]),
        ("हिन्दी भाषा।", ["हिन्दी", "भाषा", "।"]),
        ("cafe\u0301 noir", ["cafe\u0301", "noir"]),
    ],
)
def test_a_combining_mark_belongs_to_its_word(text: str, words: list[str]) -> None:
    assert [word.word for word in words_of(text)] == words
