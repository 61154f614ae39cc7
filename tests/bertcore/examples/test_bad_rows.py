from itertools import chain, filterfalse
from unicodedata import category

import pytest

from bertcore.examples.bad_rows import has_words
from bertcore.tokens.wordpiece import SPECIAL_TOKENS, make_tokenizer

CHARACTERS = [chr(point) for point in chain(range(0x3100), range(0xE000, 0x10000), range(0xE0000, 0xE0200))]


def test_what_has_no_words_has_no_pieces() -> None:
    tokenizer = make_tokenizer({token: index for index, token in enumerate(SPECIAL_TOKENS)}, lowercase=False)
    encodings = tokenizer.encode_batch(CHARACTERS, add_special_tokens=False)
    gone = {character for character, encoding in zip(CHARACTERS, encodings, strict=True) if not encoding.ids}
    wordless = set(filterfalse(has_words, CHARACTERS))
    assert len(gone) > 6000 and gone <= wordless
    assert all(category(character) == "Cf" for character in wordless - gone)  # of newer Unicode than the library's


@pytest.mark.parametrize(
    ("text", "found"),
    [("", False), (" \u200b\n", False), ("\u200ba", True), ("\u0301", True), ((" ", ""), False), (("", "a"), True)],
)
def test_texts_without_words(text: str | tuple[str, ...], found: bool) -> None:
    assert has_words(text) is found
