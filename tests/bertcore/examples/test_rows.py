from itertools import chain
from unicodedata import category

import pytest

from bertcore.examples.rows import is_empty
from bertcore.tokens.wordpiece import SPECIAL_TOKENS, make_tokenizer

CHARACTERS = [chr(point) for point in chain(range(0x3100), range(0xE000, 0x10000), range(0xE0000, 0xE0200))]


def test_what_is_empty_has_no_pieces() -> None:
    tokenizer = make_tokenizer({token: index for index, token in enumerate(SPECIAL_TOKENS)}, lowercase=False)
    encodings = tokenizer.encode_batch(CHARACTERS, add_special_tokens=False)
    gone = {character for character, encoding in zip(CHARACTERS, encodings, strict=True) if not encoding.ids}
    empty = set(filter(is_empty, CHARACTERS))
    assert len(gone) > 6000 and gone <= empty
    assert all(category(character) == "Cf" for character in empty - gone)  # of newer Unicode than the library's


@pytest.mark.parametrize(("text", "empty"), [("", True), (" \u200b\n", True), ("\u200ba", False), ("\u0301", False)])
def test_empty_texts(text: str, empty: bool) -> None:
    assert is_empty(text) is empty
