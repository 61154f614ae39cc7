"""One interface to a tokenizer of any kind: its special tokens, where words begin, how texts are laid out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertcore.compressed import parse_json, read_text
from bertcore.config import suggest
from bertcore.errors import ArtifactError, ConfigError
from bertcore.tokens.byte_bpe import BYTE_BPE
from bertcore.tokens.kind import MOST, TOKENIZER_FILE, TokenizerKind, VocabularyConfig, entries_of_file, is_whole
from bertcore.tokens.modernbert_bpe import MODERNBERT_BPE
from bertcore.tokens.wordpiece import WORDPIECE

KINDS: dict[str, TokenizerKind] = {kind.name: kind for kind in (WORDPIECE, BYTE_BPE, MODERNBERT_BPE)}
ENTRIES_FILES = tuple(dict.fromkeys([kind.entries_file for kind in KINDS.values()]))
"""Hugging Face's names of the files in which entries are looked for, a whole tokenizer last."""


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(VocabularyConfig):
    """Section `tokenizer` of params.yaml."""

    kind: str = "wordpiece"
    """BERT's pieces of words, RoBERTa's merges of bytes, or such merges with BERT's special tokens, as ModernBERT has
    them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in KINDS:
            raise ValueError(f"kind: found {self.kind!r}; {suggest(self.kind, KINDS)}")
        KINDS[self.kind].check(self)


def check_vocabulary_file(config: TokenizerConfig) -> None:
    """`ConfigError` where `config.vocab_file` is there, and of another kind than `config.kind`."""
    if config.vocab_file is None or not Path(config.vocab_file).is_file():
        return
    content = read_text(Path(config.vocab_file))
    fitting = [kind.name for kind in KINDS.values() if kind.recognises(content)]
    if not fitting:
        raise ConfigError(
            f"params.yaml: tokenizer.vocab_file: found a whole tokenizer in {config.vocab_file}, expected its "
            f"{' and '.join(KINDS[config.kind].files)} (of wordpiece the entries in the order of their ids, "
            "one a line); give that"
        )
    if config.kind not in fitting:
        raise ConfigError(
            f"params.yaml: tokenizer.vocab_file: found a vocabulary of the kind {' or '.join(map(repr, fitting))} in "
            f"{config.vocab_file}, expected {config.kind!r} as tokenizer.kind says; set tokenizer.kind to "
            f"{fitting[0]!r}, or give another file"
        )


def tokenizer_kind(tokenizer: Tokenizer) -> TokenizerKind:
    """The kind of `tokenizer`; `ArtifactError` for one that is none of `KINDS`."""
    if kind := _tokenizer_kind(tokenizer):
        return kind
    found, known = type(tokenizer.model).__name__, ", ".join(KINDS)
    raise ArtifactError(f"{TOKENIZER_FILE}: found a tokenizer of the kind {found}, expected one of: {known}")


def _tokenizer_kind(tokenizer: Tokenizer) -> TokenizerKind | None:
    fitting = [kind for kind in KINDS.values() if isinstance(tokenizer.model, kind.model)]
    for kind in fitting:
        if all(tokenizer.token_to_id(token) is not None for token in kind.special.names):
            return kind
    return fitting[0] if fitting else None  # of one of them, but without all special tokens


@dataclass(frozen=True)
class Vocabulary:
    """What the rest of the library needs to know of a tokenizer; ids stand for its entries."""

    size: int
    """One more than the highest id. Published vocabularies may have ids below that stand for nothing."""
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
    blank: str = ""
    """What is put before a word or a sentence that follows another one in its text; see `TokenizerKind.blank`."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        """`ArtifactError` for a kind that is not known, or a special token that is missing."""
        kind, ids = tokenizer_kind(tokenizer), tokenizer.get_vocab(with_added_tokens=True)
        if missing := [token for token in kind.special.names if token not in ids]:
            raise ArtifactError(f"{TOKENIZER_FILE}: {', '.join(missing)} not found, expected all of {kind.name}'s")
        pad, unk, cls_, sep, mask = (ids[token] for token in kind.special.names)
        size = size_of(ids)
        special, continues = np.zeros((2, size), dtype=bool)
        special[[pad, unk, cls_, sep, mask]] = True
        continues[[index for token, index in ids.items() if kind.continues(token)]] = True
        continues[special] = False
        layout = kind.separators, kind.segment_ids, kind.blank
        return cls(size, pad, unk, cls_, sep, mask, special, continues, *layout)

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
    """The tokenizer that its kind's `save` (or Hugging Face) wrote, without truncation or padding, in its kind's
    layout."""
    path = directory / TOKENIZER_FILE
    if not path.is_file():
        raise ArtifactError(
            f"{path}: not found, expected a tokenizer in the Hugging Face layout; run `dvc repro tokenizer`"
        )
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # `tokenizers` raises nothing more precise
        raise ArtifactError(f"{path}: not a tokenizer ({error}); save or fetch it again") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    kind = _tokenizer_kind(tokenizer)
    if kind and kind.lay_out:
        kind.lay_out(tokenizer)
    return tokenizer


def vocabulary_report(tokenizer: Tokenizer, texts: Iterable[list[str]]) -> dict[str, Any]:
    """Share of unknown words and of the characters in them, of words that are one entry, pieces per word and of the
    vocabulary that was used."""
    words = unknown = whole = pieces = characters = unknown_characters = 0
    used: set[int] = set()
    unknown_id = Vocabulary.of(tokenizer).unk
    for batch in texts:
        for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
            ids, word_ids = encoding.ids, encoding.word_ids
            used.update(ids)
            per_word = Counter(word_ids)
            words += len(per_word)
            pieces += len(ids)
            spans = [end - start for start, end in encoding.offsets]
            characters += sum(spans)
            if unknown_id in ids:
                unknown += ids.count(unknown_id)
                unknown_characters += sum(span for id_, span in zip(ids, spans, strict=True) if id_ == unknown_id)
            whole += sum(count == 1 for count in per_word.values())
    return {
        "vocab_size": tokenizer.get_vocab_size(),
        "heldout_words": words,
        "heldout_unknown_word_share": unknown / max(words, 1),
        "heldout_unknown_character_share": unknown_characters / max(characters, 1),
        "heldout_whole_word_share": (whole - unknown) / max(words, 1),
        "heldout_pieces_per_word": pieces / max(words, 1),
        "heldout_vocabulary_used": len(used) / tokenizer.get_vocab_size(),
    }


def ids_of(path: Path) -> dict[str, int]:
    """The ids of the entries of a vocab.txt, a vocab.json or a tokenizer.json, plain or packed; empty where there is
    none. `ArtifactError` for JSON that is none of these."""
    if not path.is_file():
        return {}
    content = read_text(path)
    if not content.lstrip().startswith("{"):
        return {line.removesuffix("\r"): index for index, line in enumerate(content.rstrip("\r\n").split("\n"))}
    try:
        values = parse_json(content)
        ids = entries_of_file(values) if is_whole(values) else values
        found = {entry: int(index) for entry, index in ids.items()}
        if wrong := [index for index in found.values() if not 0 <= index < MOST]:
            raise ValueError(f"the id {wrong[0]}")
        return found
    except (ValueError, TypeError, KeyError) as error:
        raise ArtifactError(f"{path}: found no vocabulary ({' '.join(str(error).split())}); fetch it again") from None


def size_of(ids: Mapping[str, int]) -> int:
    """Rows that a table needs for the entries with these ids."""
    return max(ids.values(), default=-1) + 1


def by_id(ids: Mapping[str, int]) -> list[str]:
    """The entries with these ids, in their order, "" for an id that stands for nothing."""
    entries = [""] * size_of(ids)
    for entry, index in ids.items():
        entries[index] = entry
    return entries


def entries_of(path: Path) -> list[str]:
    """The entries that `ids_of` finds, `by_id`."""
    return by_id(ids_of(path))


def entries_in(directory: Path) -> list[str]:
    """The entries by id of the tokenizer in a Hugging Face directory; empty where there is none."""
    return next((found for file in ENTRIES_FILES if (found := entries_of(directory / file))), [])


def check_entries(found: Sequence[str], expected: Sequence[str], name: str, whose: str, remedy: str) -> None:
    """`ArtifactError` at the first id, of those that have an entry in both, whose entry in `name` is not that of
    `whose`."""
    for index, (theirs, mine) in enumerate(zip(found, expected, strict=False)):
        if theirs and mine and theirs != mine:
            raise ArtifactError(
                f"{name}: found {theirs!r} as entry {index}, expected {mine!r} as in {whose} "
                f"({len(found):,} and {len(expected):,} entries); {remedy}"
            )
