"""`tokenizer.vocab_size: auto`: the vocabulary of the size that the text carries, by the rule of `tokens/size.py`."""

from collections.abc import Mapping
from functools import cache

from tokenizers import Tokenizer

from bertcore.tokens.kind import TokenizerKind, VocabularyConfig
from bertcore.tokens.size import ENOUGH, SMALLEST, STEP, largest, occurrences


def trained(kind: TokenizerKind, config: VocabularyConfig, counts: Mapping[str, int]) -> tuple[Tokenizer, str]:
    """A tokenizer of the largest size, a multiple of 64, that the words `counts` of a text carry, and a line that says
    why it is that.

    It is trained once, as large as any is made: merges are greedy, so that the first entries are those of a smaller
    vocabulary. The size is never below `SMALLEST` and what `kind` needs at least; a text with fewer entries gets all.
    """
    whole = kind.train(config, counts)
    most = whole.get_vocab_size()

    def first(size: int) -> Tokenizer:
        return whole if size == most else kind.first(whole, size)

    @cache
    def pieces(size: int) -> int:
        return count_pieces(first(size), counts)

    least = -(-max(SMALLEST, kind.least(config, counts)) // STEP) * STEP
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
    return first(size), why


def count_pieces(tokenizer: Tokenizer, counts: Mapping[str, int]) -> int:
    """How many tokens `tokenizer` makes of words that are cut already, with their counts."""
    encode = tokenizer.model.tokenize
    return sum(count * len(encode(word)) for word, count in counts.items())
