"""The words of a text and how often each of them occurs, in bounded memory: all that a vocabulary is trained on.

Blocks of the text are counted each for itself and added up in their order. Where more than `MOST_WORDS` different words
are held after a block, or more than `MOST_CHARACTERS` in them, the rarest are forgotten until at most half as many are
left. What is forgotten depends on the text alone. A word that comes back begins anew, so that its count is too small by
what it had before.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

logger = logging.getLogger(__name__)

MOST_WORDS = 2_000_000
"""Different words that are held, 0.3 GB of them; the library's trainer takes 1.3 KB for each."""
MOST_CHARACTERS = 20_000_000
"""In all words that are held, bytes where a word is one of bytes: without blanks a word is a clause, for which the
trainer takes as much as for four words of a script that has them."""
MOST_OCCURRENCES = 1 << 27
"""Words that the library's trainer, which takes each occurrence for itself, is given; some 0.8 GB of text."""

_VISIBLE_ASCII = "^ ?[!-~]*$"
_BERT_WORDS = "([0-9A-Za-z]+|[^0-9A-Za-z])"
_BYTE_WORDS = "('(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^ 0-9A-Za-z]+| )"
"""What BERT's tokenizer, and those of bytes, make a word of in texts of `_VISIBLE_ASCII`."""
_UNUSUAL_BLANKS = "  |[\t-\r\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"


@dataclass
class WordCounts:
    """Words and their occurrences, the rarest forgotten where there are too many."""

    counts: Counter[str] = field(default_factory=Counter)
    most: int = MOST_WORDS
    most_characters: int = MOST_CHARACTERS
    characters: int = field(default=0, init=False)
    """In the words that are held."""
    forgotten: int = 0
    """Occurrences of the words that were forgotten."""
    short: int = 0
    """By how much a word's count is too small at most."""

    def add(self, counts: Mapping[str, int]) -> None:
        """Those of a further block."""
        self.characters += sum(len(word) for word in counts if word not in self.counts)
        self.counts.update(counts)
        if len(self.counts) > self.most or self.characters > self.most_characters:
            self._forget()

    def _forget(self) -> None:
        occurrences = np.fromiter(self.counts.values(), np.int64, len(self.counts))
        often = np.argsort(-occurrences, kind="stable")  # of words that are as rare, the older ones stay
        held = np.cumsum(np.fromiter(map(len, self.counts), np.int64, len(self.counts))[often])
        kept = min(self.most // 2, int(np.searchsorted(held, self.most_characters // 2, side="right")))
        stays = np.zeros(len(often), bool)
        stays[often[:kept]] = True
        self.counts = Counter(dict(compress(self.counts.items(), stays)))
        self.characters = sum(map(len, self.counts))
        self.forgotten += int(occurrences[~stays].sum())
        self.short += int(occurrences[often[kept]])

    def report(self) -> dict[str, int]:
        """For the metrics of stage `tokenizer`."""
        total = self.counts.total() + self.forgotten
        return {
            "train_words": total,
            "train_different_words": len(self.counts),
            "train_words_forgotten": self.forgotten,
        }


def cutter(normalizer: normalizers.Normalizer | None, pre_tokenizer: pre_tokenizers.PreTokenizer) -> Tokenizer:
    """A tokenizer that cuts texts into words and knows none."""
    tokenizer = Tokenizer(models.WordLevel({}, unk_token=""))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    return tokenizer


def count_texts(cut: Tokenizer, texts: pa.StringArray | list[str], blank: str = "") -> Counter[str]:
    """The words of `texts` as `cut` cuts them.

    A blank ends a word for every kind of tokenizer, and belongs to the word behind it where the kind's `blank` is one
    (see `encoding`). So only the different ones of what stands between blanks are cut; a text with several blanks
    together, or with others than a space, is cut as a whole.
    """
    sentences = pa.array(texts, pa.string()) if isinstance(texts, list) else texts
    whole = pc.match_substring_regex(sentences, _UNUSUAL_BLANKS)
    parts = pc.split_pattern(sentences.filter(pc.invert(whole)), " ")
    words = parts.flatten()
    if blank:
        follows = np.ones(len(words), bool)
        follows[parts.offsets.to_numpy()[:-1] - parts.offsets[0].as_py()] = False
        words = pc.if_else(follows, pc.binary_join_element_wise(blank, words, ""), words)
    found = pc.value_counts(pa.concat_arrays([words, sentences.filter(whole)]))
    different, occurrences = found.field("values"), found.field("counts")
    counts: Counter[str] = Counter()
    if (ascii_words := _ascii_words(cut, blank)) is not None:
        lowercase = getattr(cut.normalizer, "lowercase", False)
        plain = pc.match_substring_regex(different, _VISIBLE_ASCII)
        counts = _count_ascii(different.filter(plain), occurrences.filter(plain), ascii_words, lowercase)
        different, occurrences = (column.filter(pc.invert(plain)) for column in (different, occurrences))
    for text, number in zip(different.to_pylist(), occurrences.to_pylist(), strict=True):
        normal = text if cut.normalizer is None else cut.normalizer.normalize_str(text)
        for word, _ in cut.pre_tokenizer.pre_tokenize_str(normal):
            counts[word] += number
    return counts


def _ascii_words(cut: Tokenizer, blank: str) -> str | None:
    """A pattern for the words that `cut` finds in texts of `_VISIBLE_ASCII`; None where none is known."""
    normalizer, pre_tokenizer = cut.normalizer, cut.pre_tokenizer
    if isinstance(pre_tokenizer, pre_tokenizers.BertPreTokenizer):
        return _BERT_WORDS if isinstance(normalizer, normalizers.BertNormalizer) and not blank else None
    if isinstance(pre_tokenizer, pre_tokenizers.ByteLevel) and isinstance(normalizer, normalizers.NFC | None):
        return None if pre_tokenizer.add_prefix_space else _BYTE_WORDS
    return None


def _count_ascii(texts: pa.StringArray, occurrences: pa.Int64Array, words: str, lowercase: bool) -> Counter[str]:
    """What the loop of `count_texts` does one by one, for all `texts` at once."""
    lowered = pc.ascii_lower(texts) if lowercase else texts
    parts = pc.split_pattern(pc.replace_substring_regex(lowered, words, "\\1\t"), "\t")
    table = pa.table({"word": parts.flatten(), "count": occurrences.take(pc.list_parent_indices(parts))})
    added = table.filter(pc.field("word") != "").group_by("word", use_threads=False).aggregate([("count", "sum")])
    visible = pc.replace_substring(added["word"], " ", "\u0120")  # as ByteLevel writes a blank
    return Counter(dict(zip(visible.to_pylist(), added["count_sum"].to_pylist(), strict=True)))


def train(
    tokenizer: Tokenizer, trainer: trainers.WordPieceTrainer | trainers.BpeTrainer, counts: Mapping[str, int]
) -> None:
    """Train an empty `tokenizer` on words that are cut already.

    The library's trainers count for themselves, so they are given every occurrence. Where these are more than
    `MOST_OCCURRENCES`, all counts are halved, rounded down, until they are not.
    """
    halvings = 0
    while sum(count >> halvings for count in counts.values()) > MOST_OCCURRENCES:
        halvings += 1
    if halvings:
        logger.warning(
            "the text has %d words: the counts are divided by %d, so that pieces that occur fewer times are not found",
            *(sum(counts.values()), 1 << halvings),
        )
        trainer.min_frequency = max(trainer.min_frequency >> halvings, 1)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(_occurrences(counts, halvings), trainer)


_WORDS_AT_ONCE = 10_000


def _occurrences(counts: Mapping[str, int], halvings: int) -> Iterator[str]:
    """Every word as often as it occurs, in texts of at most `_WORDS_AT_ONCE` words."""
    text: list[str] = []
    for word, count in counts.items():
        left = count >> halvings
        while left:
            taken = min(left, _WORDS_AT_ONCE - len(text))
            text += [word] * taken
            left -= taken
            if len(text) == _WORDS_AT_ONCE:
                yield " ".join(text)
                text = []
    yield " ".join(text)
