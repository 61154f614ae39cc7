"""Sentences to token ids, many times faster than the tokenizer alone: every distinct word is encoded once.

Most words of a text are repeats, so a batch of sentences is cut into words, the words are numbered (both by Arrow, in
C++), only words that were not met before go to the tokenizer, and the ids are gathered. The result is bit-equal to
`Tokenizer.encode_batch_fast`, for WordPiece for these reasons:

* A blank ends a word for BERT's tokenizer, and its normaliser never looks across one. So sentences may be cut there.
* ASCII punctuation is always a word of its own. So blanks may be put around it.
* Where the normaliser lower-cases, ASCII letters may be lower-cased before.
* A special token in the text (`[MASK]`) is matched before all of that: its sentence is cut at blanks only.

And for byte-level BPE:

* Its pattern ends a word before every blank that alone stands between two words, and the blank is a part of the second.
* Of several blanks together all but the last are a word, or an entry: a sentence that has such is not cut, nor is one
  with a special token, which may take the blanks before it.
* No composed character (NFC) is made of a blank.
"""

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertcore.ragged import offsets_of, ranges
from bertcore.tokens.byte_bpe import BYTE_BPE
from bertcore.tokens.modernbert_bpe import MODERNBERT_BPE
from bertcore.tokens.tokenizer import Vocabulary, tokenizer_kind
from bertcore.tokens.wordpiece import WORDPIECE

ASCII_PUNCTUATION = r"([!-/:-@\[-`{-~])"
WORDS_PER_CALL = 4096
"""New words that the tokenizer is given at once, with a separator ([SEP]) between them."""
REMEMBERED_WORDS = 1 << 18
"""Words that are remembered at most, about 40 MB."""


class WordEncoder:
    """Encodes as `tokenizer` does, one of `wordpiece.make_tokenizer`'s, without special tokens around the sentences."""

    def __init__(self, tokenizer: Tokenizer, remembered_words: int = REMEMBERED_WORDS):
        self.vocabulary = Vocabulary.of(tokenizer)
        self._tokenizer, self._limit = tokenizer, remembered_words
        self._lowercase = getattr(tokenizer.normalizer, "lowercase", False)
        self._separator = tokenizer_kind(tokenizer).special.sep
        added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        assert self._separator in added, "a tokenizer without its separator"
        self._special = "|".join(re.escape(token) for token in sorted(added))
        self._is_special = re.compile(self._special)
        self._known: dict[str, bytes] = {}

    def encode(self, sentences: pa.StringArray) -> tuple[NDArray[np.unsignedinteger], NDArray[np.int64]]:
        """(T,) ids of all sentences, one after the other, and (S + 1,) where each sentence begins in them."""
        words, offsets = self._words(sentences)
        numbered = pc.dictionary_encode(words)
        ids, starts = self._ids_of(numbered.dictionary.to_pylist())
        which = numbered.indices.to_numpy()
        lengths = np.diff(starts)[which]
        return ids[ranges(starts[which], lengths)], offsets_of(lengths)[offsets]

    def _words(self, sentences: pa.StringArray) -> tuple[pa.StringArray, NDArray[np.int32]]:
        """What can be encoded each for itself, and (S + 1,) where each sentence begins in it."""
        spaced = pc.replace_substring_regex(
            pc.ascii_lower(sentences) if self._lowercase else sentences, ASCII_PUNCTUATION, r" \1 "
        )
        special = pc.match_substring_regex(sentences, self._special)
        words = pc.split_pattern(pc.if_else(special, sentences, spaced), " ")
        return words.flatten(), words.offsets.to_numpy()

    def _ids_of(self, words: list[str]) -> tuple[NDArray[np.unsignedinteger], NDArray[np.int64]]:
        """The ids of `words`, one after the other, and where each begins."""
        if len(self._known) > self._limit:
            self._known.clear()
        missing = [word for word in words if word not in self._known]
        for start in range(0, len(missing), WORDS_PER_CALL):
            self._learn(missing[start : start + WORDS_PER_CALL])
        encoded = [self._known[word] for word in words]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded)) // self.vocabulary.dtype.itemsize
        return np.frombuffer(b"".join(encoded), self.vocabulary.dtype), offsets_of(lengths)

    def _learn(self, words: list[str]) -> None:
        """Encode new words together: no ordinary text gives the separator's id, so it marks where each one ends."""
        plain = []
        for word in words:
            if self._is_special.search(word):
                self._known[word] = self._encode(word).tobytes()
            else:
                plain.append(word)
        ids = self._encode(self._separator.join(plain))
        bounds = [-1, *np.flatnonzero(ids == self.vocabulary.sep).tolist(), len(ids)]
        for word, start, end in zip(plain, bounds[:-1], bounds[1:], strict=True) if plain else ():
            self._known[word] = ids[start + 1 : end].tobytes()

    def _encode(self, text: str) -> NDArray[np.unsignedinteger]:
        return np.array(self._tokenizer.encode(text, add_special_tokens=False).ids, self.vocabulary.dtype)


class ByteEncoder(WordEncoder):
    """The same for one of bytes, `byte_bpe`'s or `modernbert_bpe`'s."""

    def _words(self, sentences: pa.StringArray) -> tuple[pa.StringArray, NDArray[np.int32]]:
        whole = pc.match_substring_regex(sentences, f"  |{self._special}")
        cut = pc.split_pattern(pc.if_else(whole, "", sentences), " ")
        words, offsets = cut.flatten(), cut.offsets.to_numpy()
        follows = np.ones(len(words), bool)
        follows[offsets[:-1]] = False
        words = pc.if_else(follows, pc.binary_join_element_wise(" ", words, ""), words)
        uncut = np.zeros(len(words), bool)  # of such a sentence the only word is "" until here
        uncut[offsets[:-1][whole.to_numpy(zero_copy_only=False)]] = True
        return pc.replace_with_mask(words, pa.array(uncut), sentences.filter(whole)), offsets


def encoder_of(tokenizer: Tokenizer) -> WordEncoder:
    """The encoder for `tokenizer`, by its kind."""
    return ENCODERS[tokenizer_kind(tokenizer).name](tokenizer)


ENCODERS: dict[str, Callable[[Tokenizer], WordEncoder]] = {
    WORDPIECE.name: WordEncoder,
    BYTE_BPE.name: ByteEncoder,
    MODERNBERT_BPE.name: ByteEncoder,
}
