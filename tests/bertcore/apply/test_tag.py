"""The words of a text, whose tags `bertcore tag` gives."""

import pytest

from bertcore.apply.tag import words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's here, now.", ["It's", "here", ",", "now", "."]),
        ("हिन्दी भाषा।", ["हिन्दी", "भाषा", "।"]),
        ("cafe\u0301 noir", ["cafe\u0301", "noir"]),
        ("می\u200cخواهم بلند\u00adپایه", ["می\u200cخواهم", "بلند\u00adپایه"]),
        ("a\u2764\ufe0f \u200c b\x00\x1b", ["a", "\u2764", "b"]),
    ],
)
def test_a_combining_mark_or_a_joiner_belongs_to_its_word(text: str, words: list[str]) -> None:
    assert [word.word for word in words_of(text)] == words
