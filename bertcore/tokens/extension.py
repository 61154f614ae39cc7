"""More entries for an existing WordPiece vocabulary: the words of a corpus that cost it the most pieces.

The entries that were there keep their ids, so that a published model's weights still mean what they meant; the new ones
stand behind them, and begin as the mean of the pieces that they replace (`training/initial.py`).
"""

from collections import Counter
from collections.abc import Iterator

from tokenizers import Tokenizer

from bertcore.errors import InputError
from bertcore.tokens.kind import Texts, ordered_entries
from bertcore.tokens.wordpiece import UNK, make_tokenizer

_LONGEST = 100
"""Characters; a longer word is unknown whatever the vocabulary."""
_BATCH = 10_000
"""Words encoded at a time."""


def extended(tokenizer: Tokenizer, texts: Texts, new_entries: int, min_frequency: int) -> Tokenizer:
    """`tokenizer` with the `new_entries` words of `texts` behind its entries that save the most pieces in all.

    A word of n pieces that occurs f times saves f (n - 1), an unknown one f. Only words with a letter that occur
    `min_frequency` times are taken; `InputError` where there are fewer than asked for. Holds every distinct word.
    """
    words = {word: count for word, count in _count(tokenizer, texts).items() if count >= min_frequency}
    saved = [(count * gain, word) for word, count, gain in _gains(tokenizer, words) if gain]
    if len(saved) < new_entries:
        raise InputError(
            f"tokenizer.new_entries: found {new_entries:,}, expected at most the {len(saved):,} words of the training "
            f"text that occur {min_frequency} times and are more than one piece; lower it, or tokenizer.min_frequency"
        )
    best = sorted(saved, key=lambda item: (-item[0], item[1]))[:new_entries]
    entries = [*ordered_entries(tokenizer), *(word for _, word in best)]
    return make_tokenizer({entry: index for index, entry in enumerate(entries)}, tokenizer.normalizer.lowercase)


def _count(tokenizer: Tokenizer, texts: Texts) -> Counter[str]:
    """The words of the texts as the tokenizer normalises them, those with a letter."""
    counts: Counter[str] = Counter()
    for batch in texts:
        text = tokenizer.normalizer.normalize_str("\n".join(batch))
        counts.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))
    for word in [word for word in counts if len(word) > _LONGEST or not any(map(str.isalpha, word))]:
        del counts[word]
    return counts


def _gains(tokenizer: Tokenizer, words: dict[str, int]) -> Iterator[tuple[str, int, int]]:
    """Each word, how often it occurs, and how many pieces an entry of its own saves each time."""
    names = list(words)
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        for word, encoding in zip(batch, tokenizer.encode_batch(batch, add_special_tokens=False), strict=True):
            pieces = encoding.tokens
            yield word, words[word], 1 if pieces == [UNK] else len(pieces) - 1
