"""One interface to a tokenizer of any kind: its special tokens, where words begin, how texts are laid out."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertcore.errors import ArtifactError
from bertcore.tokens.kind import Kind
from bertcore.tokens.wordpiece import TOKENIZER_FILE, WORDPIECE, Texts


def kind_of(tokenizer: Tokenizer) -> Kind:
    """The kind of `tokenizer`; `ArtifactError` for one that is none of `KINDS`."""
    for kind in KINDS.values():
        if isinstance(tokenizer.model, kind.model):
            return kind
    found, known = type(tokenizer.model).__name__, ", ".join(KINDS)
    raise ArtifactError(f"{TOKENIZER_FILE}: found a tokenizer of the kind {found}, expected one of: {known}")


@dataclass(frozen=True)
class Vocabulary:
    """What the rest of the library needs to know of a tokenizer; ids stand for its entries."""

    size: int
    pad: int
    unk: int
    cls: int
    sep: int
    mask: int
    special: NDArray[np.bool_]
    """(size,) True for pad, unk, cls, sep and mask."""
    continues: NDArray[np.bool_]
    """(size,) True for entries that continue a word: a word begins at every other token, and behind a special one."""
    separators: int = 1
    """How many `sep` stand between the two texts of a pair."""
    segment_ids: bool = True
    """Whether the second text of a pair, with the `sep` behind it, has token type 1."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        """`ArtifactError` for a kind that is not known, or a special token that is missing."""
        kind, ids = kind_of(tokenizer), tokenizer.get_vocab(with_added_tokens=True)
        if missing := [token for token in kind.special.names if token not in ids]:
            raise ArtifactError(f"{TOKENIZER_FILE}: {', '.join(missing)} not found, expected all of {kind.name}'s")
        pad, unk, cls_, sep, mask = (ids[token] for token in kind.special.names)
        special, continues = np.zeros((2, len(ids)), dtype=bool)
        special[[pad, unk, cls_, sep, mask]] = True
        continues[[index for token, index in ids.items() if kind.continues(token)]] = True
        continues[special] = False
        return cls(len(ids), pad, unk, cls_, sep, mask, special, continues, kind.separators, kind.segment_ids)

    @property
    def special_per_text(self) -> int:
        """Special tokens of a sequence of one text."""
        return 2

    @property
    def special_per_pair(self) -> int:
        """Special tokens of a sequence of two texts."""
        return 2 + self.separators

    def start_of_second(self, first: int) -> int:
        """Where the second text of a pair begins in its sequence, if the first one has `first` tokens."""
        return 1 + first + self.separators

    def sequence(
        self, first: Sequence[int] | NDArray[Any], second: Sequence[int] | NDArray[Any] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(T,) ids and (T,) token types of one text, or of a pair of texts, given as ids without special tokens."""
        if second is None:
            ids = np.array([self.cls, *first, self.sep], dtype=np.int64)
            return ids, np.zeros_like(ids)
        ids = np.array([self.cls, *first, *[self.sep] * self.separators, *second, self.sep], dtype=np.int64)
        types = np.zeros_like(ids)
        if self.segment_ids:
            types[self.start_of_second(len(first)) :] = 1
        return ids, types

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned type that holds every id."""
        return np.dtype(np.uint16 if self.size <= 2**16 else np.uint32)


def load_tokenizer(directory: Path) -> Tokenizer:
    """The tokenizer that `save_tokenizer` (or Hugging Face) wrote, without truncation or padding."""
    path = directory / TOKENIZER_FILE
    if not path.is_file():
        raise ArtifactError(
            f"{path}: not found, expected a tokenizer in the Hugging Face layout; run `dvc repro tokenizer`"
        )
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def vocabulary_report(tokenizer: Tokenizer, texts: Texts) -> dict[str, Any]:
    """Share of unknown words, of words that are one entry, pieces per word and of the vocabulary that was used."""
    words = unknown = whole = pieces = 0
    used: set[int] = set()
    unknown_id = Vocabulary.of(tokenizer).unk
    for batch in texts:
        for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
            ids, word_ids = encoding.ids, encoding.word_ids
            used.update(ids)
            per_word = Counter(word_ids)
            words += len(per_word)
            pieces += len(ids)
            unknown += ids.count(unknown_id)
            whole += sum(count == 1 for count in per_word.values())
    return {
        "vocab_size": tokenizer.get_vocab_size(),
        "heldout_words": words,
        "heldout_unknown_word_share": unknown / max(words, 1),
        "heldout_whole_word_share": (whole - unknown) / max(words, 1),
        "heldout_pieces_per_word": pieces / max(words, 1),
        "heldout_vocabulary_used": len(used) / tokenizer.get_vocab_size(),
    }


def flatten(documents: Iterable[list[list[str]]]) -> Iterator[list[str]]:
    """Batches of documents as batches of sentences."""
    for batch in documents:
        yield [sentence for document in batch for sentence in document]


KINDS: dict[str, Kind] = {kind.name: kind for kind in (WORDPIECE,)}
