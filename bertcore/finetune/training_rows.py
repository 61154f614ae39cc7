"""The examples of train that a task learns from, and those that it keeps back to choose on."""

import logging
from collections import Counter

import numpy as np
import pyarrow as pa

from bertcore import draws
from bertcore.errors import InputError
from bertcore.examples.sharing import groups
from bertcore.finetune.config import RunConfig
from bertcore.finetune.family import CHOICE

logger = logging.getLogger(__name__)

_NOTHING_TO_CHOOSE = "give one setting without early_choice, and a number as null_threshold"
_FEWEST_TO_CHOOSE_ON = 30
"""Of which one more that is right is three in a hundred; a correlation of one example is none."""


def training_rows(table: pa.Table, task: RunConfig, *, keeps_back: bool) -> dict[str, pa.Table]:
    """Of the split `table` what `task` trains on, as `train`, and what it keeps back to choose on, as `CHOICE`."""
    limited = _limit(table, task.max_train_examples)
    return _keep_back(limited, task) if keeps_back else {"train": limited}


def _limit(table: pa.Table, most: int | None) -> pa.Table:
    if most is None or most >= table.num_rows:
        return table
    return table.take(np.sort(draws.permutation(draws.key("finetune examples"), table.num_rows)[:most]))


def _keep_back(table: pa.Table, task: RunConfig) -> dict[str, pa.Table]:
    """`table` as what is trained on and what is chosen on: the same for every seed, and rows that share a text on one
    side. A text that would make it more than twice what is asked for is taken where all others are not enough."""
    texts = groups(table)
    sizes, chosen, count = Counter(texts), set[str](), 0
    wanted = max(int(task.choice_fraction * len(texts)), 1)
    order = sorted(sizes, key=lambda text: draws.fraction_of(0, f"choice {text}"))
    for candidates, most in ((order, 2 * wanted), (sorted(order, key=sizes.__getitem__), len(texts))):
        for text in candidates:
            if count < wanted and text not in chosen and count + sizes[text] <= most:
                chosen.add(text)
                count += sizes[text]
    kept_back = np.asarray([text in chosen for text in texts], dtype=bool)
    if kept_back.all():
        raise InputError(
            f"task {task.data}: found {len(sizes)} different training texts, expected more, as part of them "
            f"(choice_fraction {task.choice_fraction:g}) is kept back to choose on; {_NOTHING_TO_CHOOSE}"
        )
    if count < _FEWEST_TO_CHOOSE_ON:
        logger.warning(
            "task %s: settings are chosen on %d training examples that are kept back, where chance decides: raise "
            "choice_fraction, or %s",
            *(task.data, count, _NOTHING_TO_CHOOSE),
        )
    return {"train": table.filter(pa.array(~kept_back)), CHOICE: table.filter(pa.array(kept_back))}
