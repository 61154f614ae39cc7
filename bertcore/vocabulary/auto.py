"""`tokenizer.vocab_size: auto`: the vocabulary of the size that the text carries, by the rule of `size.py`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from tokenizers import Tokenizer

from bertcore.errors import InputError
from bertcore.tokens.kind import LARGEST, TokenizerKind, VocabularyConfig
from bertcore.vocabulary.size import ENOUGH, SMALLEST, STEP, largest, occurrences, too_little


@dataclass(frozen=True)
class Chosen:
    """A tokenizer whose size was left to the text."""

    tokenizer: Tokenizer
    why: str
    """A line that says why it has this size."""
    too_little: bool
    """Whether the text is too little even for that."""


def trained(kind: TokenizerKind, config: VocabularyConfig, counts: Mapping[str, int]) -> Chosen:
    """A tokenizer of the largest size, a multiple of 64, that the words `counts` of a text carry.

    It is trained once, as large as any is made: merges are greedy, so that the first entries are those of a smaller
    vocabulary. The size is never below `SMALLEST` and what `kind` needs at least; a text with fewer entries gets all.
    `InputError` where `kind` needs more than `LARGEST`.
    """
    if (needed := kind.least(config, counts)) > LARGEST:
        raise InputError(
            f"tokenizer.alphabet_size: found {needed:,} entries that the text's characters alone need, expected "
            f"at most {LARGEST:,} with vocab_size: auto; lower it, or set vocab_size"
        )
    whole = kind.train(config, counts)
    most = whole.get_vocab_size()

    def first(size: int) -> Tokenizer:
        return whole if size == most else kind.first(whole, size)

    @cache
    def pieces(size: int) -> int:
        return count_pieces(first(size), counts)

    least = -(-max(SMALLEST, needed) // STEP) * STEP
    sizes = range(least, most + 1, STEP) or [most]
    size = largest(pieces, sizes)
    found = occurrences(pieces(size), size)
    why = (
        f"{size:,} entries: one at the 95th percentile occurs about {found:,.0f} times among the {pieces(size):,} "
        f"pieces of the text (by Zipf's law; {ENOUGH} are enough)"
    )
    if found < ENOUGH:
        why += "; none smaller is made of it"
    elif size == sizes[-1]:
        why += "; none larger is made of it"
    return Chosen(first(size), why, too_little(pieces(size), size))


def count_pieces(tokenizer: Tokenizer, counts: Mapping[str, int]) -> int:
    """How many tokens `tokenizer` makes of words that are cut already, with their counts."""
    encode = tokenizer.model.tokenize
    return sum(count * len(encode(word)) for word, count in counts.items())
