"""Which examples belong together: those that share a text, of pairs be it the first or the second one."""

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

_MOST = 0.5
"""Of all rows: the largest group that is still called one."""
_FREQUENT, _FEW = 0.01, 10
"""A text of more than that share of the rows, and of more than so many, is a target, a label or a template."""


def groups(table: pa.Table) -> list[str]:
    """Of each row of a split's table, the name of its group.

    The same words, or the same context; of texts and pairs of texts a premise with each of its hypotheses, a pair and
    the same one turned round, and all that hangs together through such rows. Blank texts connect nothing, and
    neither do those that are frequent (the few targets of many opinions) beside others. Where most rows would be one
    group all the same (two answers that stand beside many questions), only those with the same first text are.
    """
    if "words" in table.column_names:
        return [" ".join(words) for words in table["words"].to_pylist()]
    if "context" in table.column_names:
        return list(table["context"].to_pylist())
    texts = zip(table["text_a"].to_pylist(), table["text_b"].to_pylist(), strict=True)
    rows = _connecting([[text for text in row if text and text.strip()] or [""] for row in texts])
    found = _connected(rows)
    largest = max(Counter(found).values(), default=0)
    return [row[0] for row in rows] if largest > _MOST * len(rows) else found


def _connecting(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Of each row the texts that are not frequent; where all are, the least frequent one, the first of equals."""
    counts = Counter(text for row in rows for text in set(row))
    most = max(_FREQUENT * len(rows), _FEW)
    return [[text for text in row if counts[text] <= most] or [min(row, key=counts.__getitem__)] for row in rows]


def _connected(rows: Sequence[Sequence[str]]) -> list[str]:
    """The first in order of the texts that each row is connected with: it names a group whatever the rows' order."""
    above: dict[str, str] = {}

    def top(text: str) -> str:
        while (higher := above.setdefault(text, text)) != text:
            above[text] = above[higher]
            text = above[text]
        return text

    for first, *others in rows:
        for other in others:
            low, high = sorted((top(first), top(other)))
            above[high] = low
    return [top(first) for first, *_ in rows]
