"""More entries for an existing WordPiece vocabulary: the words of a corpus that cost it the most pieces.

The entries that were there keep their ids, so that a published model's weights still mean what they meant; the new ones
stand behind them, and begin as the mean of the pieces that they replace (`training/initial.py`).
"""

from collections.abc import Iterator, Mapping

from tokenizers import Tokenizer

from bertcore.errors import InputError
from bertcore.tokens.kind import ordered_entries
from bertcore.tokens.wordpiece import UNK, make_tokenizer

_LONGEST = 100
"""Characters; a longer word is unknown whatever the vocabulary."""
_BATCH = 10_000
"""Words encoded at a time."""


def extended(tokenizer: Tokenizer, counts: Mapping[str, int], new_entries: int, min_frequency: int) -> Tokenizer:
    """`tokenizer` with the `new_entries` words of a text (see `words`) behind its entries that save the most pieces in
    all.

    A word of n pieces that occurs f times saves f (n - 1), an unknown one f. Only words with a letter that occur
    `min_frequency` times are taken; `InputError` where there are fewer than asked for.
    """
    words = {word: count for word, count in counts.items() if count >= min_frequency and _is_word(word)}
    saved = [(count * gain, word) for word, count, gain in _gains(tokenizer, words) if gain]
    if len(saved) < new_entries:
        raise InputError(
            f"tokenizer.new_entries: found {new_entries:,}, expected at most the {len(saved):,} words of the training "
            f"text that occur {min_frequency} times and are more than one piece; lower it, or tokenizer.min_frequency"
        )
    best = sorted(saved, key=lambda item: (-item[0], item[1]))[:new_entries]
    entries = [*ordered_entries(tokenizer), *(word for _, word in best)]
    return make_tokenizer({entry: index for index, entry in enumerate(entries)}, tokenizer.normalizer.lowercase)


def _is_word(word: str) -> bool:
    """With a letter."""
    return len(word) <= _LONGEST and any(map(str.isalpha, word))


def _gains(tokenizer: Tokenizer, words: dict[str, int]) -> Iterator[tuple[str, int, int]]:
    """Each word, how often it occurs, and how many pieces an entry of its own saves each time."""
    names = list(words)
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        for word, encoding in zip(batch, tokenizer.encode_batch(batch, add_special_tokens=False), strict=True):
            pieces = encoding.tokens
            yield word, words[word], 1 if pieces == [UNK] else len(pieces) - 1
