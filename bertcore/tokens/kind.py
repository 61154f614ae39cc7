"""What a kind of tokenizer must say of itself, so that nothing else in the library knows it by name.

A kind is a module with a `TokenizerKind` (`wordpiece`, `byte_bpe`, `modernbert_bpe`) and a row in `tokenizer.KINDS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer

from bertcore.config import within
from bertcore.errors import InputError
from bertcore.files import write_json
from bertcore.words import UNSPACED_SENTENCES

TOKENIZER_FILE, SETTINGS_FILE = "tokenizer.json", "tokenizer_config.json"
MOST = 10_000_000
"""Entries, far above any vocabulary; with many more the trainer ends the process, without an error."""
LARGEST = 49_984
"""Entries that `vocab_size: auto` chooses at most, a multiple of 64: those of published encoders of one language end at
some 50,000 (RoBERTa 50,265, ModernBERT 50,368)."""


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """What section `tokenizer` of params.yaml says of a vocabulary, whatever its kind."""

    vocab_size: int | Literal["auto"] = 8192
    """Entries of the vocabulary, special and `[unused]` tokens included; `auto`: as many as the training text shows
    often enough (docs/family.md), 49,984 at most, and fewer than 512 where it has no more."""
    lowercase: bool | None = None
    """Lower-case and strip accents (BERT's uncased); False keeps both (cased). None = as the published tokenizers of
    the kind: `wordpiece` lower-cases; those of bytes keep every byte, and allow nothing else."""
    min_frequency: int = 2
    """Occurrences that a pair of pieces needs in the training text to become an entry."""
    alphabet_size: int = 1000
    """Most frequent characters that become entries; rarer ones are unknown. Of `wordpiece`: the alphabet of the others
    is the 256 bytes."""
    unused_tokens: int = 0
    """Slots `[unused0]` … kept free for a team's own tokens; of `wordpiece`."""
    vocab_file: str | None = None
    """An existing vocabulary to use instead of training one: a vocab.txt of `wordpiece`, a vocab.json or tokenizer.json
    of `byte_bpe`, a tokenizer.json of `modernbert_bpe` (plain, .gz or .zst); of the other fields only `lowercase`,
    `merges_file` and `new_entries` are used."""
    new_entries: int = 0
    """Words of the corpus that are added to the `vocab_file` of `wordpiece`: those that save the most pieces, of
    `min_frequency` occurrences at least. A model of `pretrain.init_from` begins with the mean of their old pieces."""
    merges_file: str | None = None
    """The merges.txt that belongs to a vocab.json; a tokenizer.json holds its own."""

    def __post_init__(self) -> None:
        for name in ("vocab_size", "min_frequency", "alphabet_size", "unused_tokens", "new_entries"):
            if getattr(self, name) != "auto":
                within(self, name, f"at most {MOST:,}; lower it", most=MOST)
        for name in ("min_frequency", "alphabet_size"):
            within(self, name, "at least 1", least=1)
        within(self, "unused_tokens", "0 or more", least=0)
        within(self, "new_entries", "0 or more", least=0)
        if self.new_entries and self.vocab_file is None:
            raise ValueError(
                f"new_entries: found {self.new_entries} without vocab_file, expected the vocabulary that they are "
                "added to; set vocab_file, or raise vocab_size instead"
            )
        if self.merges_file is not None and self.vocab_file is None:
            raise ValueError(
                f"merges_file: found {self.merges_file!r} without vocab_file, expected the vocab.json that it belongs "
                "to; set vocab_file, or remove it"
            )

    @property
    def size_is_chosen(self) -> bool:
        """Whether the stage chooses the size by the text."""
        return self.vocab_size == "auto" and self.vocab_file is None

    @property
    def most_entries(self) -> int:
        """`vocab_size`, or the most entries that `auto` chooses."""
        return self.vocab_size if isinstance(self.vocab_size, int) else LARGEST


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The special tokens as they are written in a vocabulary."""

    pad: str
    unk: str
    cls: str
    """Begins every sequence."""
    sep: str
    """Ends every text of a sequence."""
    mask: str

    @property
    def names(self) -> tuple[str, ...]:
        """All of them: pad, unk, cls, sep, mask."""
        return astuple(self)

    @property
    def settings(self) -> dict[str, str]:
        """As tokenizer_config.json names them: `pad_token` and so on."""
        return {f"{role}_token": token for role, token in asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class TokenizerKind:
    """A kind of tokenizer."""

    name: str
    """Its key in `tokenizer.KINDS`, `tokenizer.kind` of params.yaml."""
    model: type
    """The class of its model in the library `tokenizers`: by it, and by its special tokens, a tokenizer is
    recognised."""
    special: SpecialTokens
    continues: Callable[[str], bool]
    """Whether an entry of the vocabulary that is no special token continues a word; all others begin one."""
    separators: int
    """How many `sep` stand between the two texts of a pair."""
    segment_ids: bool
    """Whether the second text of a pair, with the `sep` behind it, has token type 1; else every token has type 0."""
    blank: str = ""
    """What is put before a word or a sentence that is encoded for itself but follows another one in its text, so that
    it gets the tokens that it has there; empty where the tokenizer drops blanks."""
    vocabulary_files: tuple[str, ...]
    """Hugging Face's names of the files that hold the vocabulary without the tokenizer, the one with the entries first;
    of the others only one, `tokenizer.merges_file`. Empty where there is only a tokenizer.json."""
    classes: tuple[str, ...] = ()
    """Classes of `transformers`, without `Fast`, that cut texts as this kind does where there are only those files."""
    lay_out: Callable[[Tokenizer], None] | None = None
    """Gives a tokenizer that others have saved the kind's own layout of texts, where theirs differ."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Keys of tokenizer_config.json beside the special tokens: what the only tokenizers of this kind that are read have
    there, if anything."""
    check: Callable[[VocabularyConfig], None]
    """`ValueError` for a field that this kind cannot do."""
    cutter: Callable[[VocabularyConfig], Tokenizer]
    """What cuts texts into words as a tokenizer of this kind does (see `words.cutter`)."""
    train: Callable[[VocabularyConfig, Mapping[str, int]], Tokenizer]
    """The config and the words of a text, as `cutter` cuts them, with their counts -> a tokenizer of exactly
    `vocab_size` entries, the same bytes for the same counts; `InputError` where they do not support so many. With
    `auto`, as many entries as they support, up to `most_entries`."""
    least: Callable[[VocabularyConfig, Mapping[str, int]], int]
    """The same -> the entries that every vocabulary of theirs has: special and unused tokens, and characters."""
    first: Callable[[Tokenizer, int], Tokenizer]
    """A trained tokenizer -> that of its first entries, so many, which are `least` or more: the same that training to
    that size gives."""
    read: Callable[[Sequence[Path], bool | None, str], Tokenizer]
    """`vocabulary_files` (or a tokenizer.json), `lowercase`, and what errors call the first of them -> the tokenizer.
    `InputError` for files that hold no such vocabulary."""
    recognises: Callable[[str], bool]
    """Whether the content of a file can be the entries of a vocabulary of this kind."""
    save: Callable[[Tokenizer, Path, int | None], None]
    """Write the files that `AutoTokenizer.from_pretrained` reads into an existing directory, with the longest sequence
    in tokens where it is given; the same tokenizer gives the same bytes."""

    @property
    def files(self) -> tuple[str, ...]:
        """Hugging Face's names of the files that hold the vocabulary, the one with the entries first."""
        return self.vocabulary_files or (TOKENIZER_FILE,)

    @property
    def entries_file(self) -> str:
        """The first of `files`."""
        return self.files[0]


def running(block: pa.ListArray, blank: str) -> pa.StringArray:
    """The sentences of all documents of a block, as they are in running text: with the `blank` of the tokenizer's kind
    before each one but the first of its document, so that its first word has the token that it mostly has. There is
    none behind a sentence that ends in Chinese or Japanese."""
    sentences = block.flatten()
    if not blank:
        return sentences
    follows = np.ones(len(sentences), bool)
    first = block.offsets.to_numpy() - block.offsets[0].as_py()
    follows[first[:-1][np.diff(first) > 0]] = False
    follows &= pc.binary_length(sentences).to_numpy(zero_copy_only=False) > 0
    if not pc.all(pc.string_is_ascii(sentences)).as_py():
        follows[1:] &= ~pc.match_substring_regex(sentences, _ENDS_UNSPACED).to_numpy(zero_copy_only=False)[:-1]
    return pc.if_else(follows, pc.binary_join_element_wise(blank, sentences, ""), sentences)


_ENDS_UNSPACED = f"[{UNSPACED_SENTENCES}][\u2014\u2026\u2019\u201d\"')]*$"
"""With quotes and dashes, which these scripts share with others, behind it."""


def require_size(vocabulary: Mapping[str, int], config: VocabularyConfig, alphabet: int) -> None:
    """`InputError` where training has found fewer (or, with a large alphabet, more) entries than were asked for."""
    if config.vocab_size != "auto" and (found := len(vocabulary)) != config.vocab_size:
        if found < config.vocab_size:
            remedy = f"set vocab_size to {found}, or give more text"
        else:
            remedy = f"raise vocab_size to {found}, or lower alphabet_size"
        raise InputError(
            f"params.yaml: tokenizer.vocab_size: found {config.vocab_size}, but the corpus supports {found} entries at "
            f"min_frequency {config.min_frequency} and an alphabet of {alphabet}; {remedy}"
        )


def max_length_of(settings: Mapping[str, Any]) -> int | None:
    """The longest sequence that a tokenizer_config.json names; None where it names none, for which `transformers`
    writes a number of 30 digits."""
    found = settings.get("model_max_length")
    return found if isinstance(found, int) and found < _NO_LIMIT else None


_NO_LIMIT = 10**9


def save_files(
    tokenizer: Tokenizer,
    directory: Path,
    settings: Mapping[str, Any],
    special: Mapping[str, str],
    max_length: int | None,
) -> None:
    """tokenizer.json, tokenizer_config.json and special_tokens_map.json, with keys in order; `max_length`: the longest
    sequence in tokens, where it is known."""
    longest = {"model_max_length": max_length} if max_length else {}
    (directory / TOKENIZER_FILE).write_text(tokenizer.to_str(pretty=True) + "\n", encoding="utf-8")
    write_json(directory / SETTINGS_FILE, dict(sorted({**settings, **special, **longest}.items())))
    write_json(directory / "special_tokens_map.json", dict(sorted(special.items())))


def ordered_entries(tokenizer: Tokenizer) -> list[str]:
    """All entries, special tokens included, by id."""
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    return sorted(vocabulary, key=vocabulary.__getitem__)


def is_whole(content: Mapping[str, Any]) -> bool:
    """Whether JSON is that of a tokenizer.json, and not of a vocab.json, in which "model" may be an entry."""
    return isinstance(content.get("model"), dict)


def entries_of_file(content: Mapping[str, Any]) -> dict[str, int]:
    """The ids of all entries, from what a tokenizer.json holds."""
    added = {str(each["content"]): int(each["id"]) for each in content.get("added_tokens") or ()}
    return {**content["model"]["vocab"], **added}
