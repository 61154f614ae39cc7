"""The words of a corpus, counted block by block on all cores: the same counts for any number of workers."""

import logging
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from tokenizers import Tokenizer

from bertcore import workers
from bertcore.corpus.documents import RowGroup, row_groups
from bertcore.progress import track
from bertcore.tokens.kind import running
from bertcore.tokens.words import WordCounts, count_texts

logger = logging.getLogger(__name__)


def count_corpus(shards: Iterable[Path], cut: Tokenizer, blank: str, count: int | None = None) -> WordCounts:
    """The words of the corpus' `shards` as `cut` cuts them, with the `blank` of the tokenizer's kind before every
    sentence that follows another one. `count`: worker processes, see `workers.run`."""
    found = WordCounts()
    groups = list(row_groups(path.resolve() for path in shards))
    counted = workers.run(partial(_count_group, cut.to_str(), blank), groups, count)
    for counts in track(counted, "words", len(groups)):
        found.add(counts)
    if found.forgotten:
        logger.warning(
            "the text has more than %d different words, or %d characters in them: the rarest were forgotten in "
            "passing, %d occurrences in all; no word's count is too small by more than %d",
            *(found.most, found.most_characters, found.forgotten, found.short),
        )
    return found


def _count_group(cut: str, blank: str, group: RowGroup) -> Counter[str]:
    return count_texts(Tokenizer.from_str(cut), running(group.read(), blank), blank)
