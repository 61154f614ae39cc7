"""Labels, sets of labels and numbers of texts and pairs: a regression on words and pairs of words, whose penalty is
chosen within train."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertcore import draws
from bertcore.evaluation.baselines import Texts, regressed
from bertcore.evaluation.scoring import score
from bertcore.examples.schema import ExampleSet
from bertcore.examples.sharing import groups

FOLDS = 3
LENGTHS = (1, 2)
"""Neighbouring words that are a feature at most."""
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""What the penalty is divided by; both are chosen together."""


def labels(examples: ExampleSet, seed: int) -> list[Any]:
    """Of each row of dev: a label, a number or a list of labels."""
    train = examples.splits["train"]
    longest, strength = _chosen(examples, seed)
    texts = Texts(train, longest)
    return regressed(
        examples, train, texts.features(train), texts.features(examples.splits["dev"]), strength=strength, seed=seed
    )


def too_few(examples: ExampleSet) -> str | None:
    """Why nothing can be chosen within train; None where it can."""
    if (found := len(set(groups(examples.splits["train"])))) < FOLDS:
        return f"found {found} different texts in train, expected at least {FOLDS} to choose on; leave it out"
    return None


def folds(table: pa.Table) -> NDArray[np.int64]:
    """(rows,) the fold of each row, the same for rows that share a text."""
    texts = groups(table)
    order = sorted(set(texts), key=lambda text: draws.fraction_of(0, f"fold {text}"))
    fold = {text: place % FOLDS for place, text in enumerate(order)}
    return np.asarray([fold[text] for text in texts])


def _chosen(examples: ExampleSet, seed: int) -> tuple[int, float]:
    """The length and the strength that are best by the headline metric, over all folds; of equals the first."""
    train, metric = examples.splits["train"], examples.metrics_of("dev")[0]
    scores = {
        (longest, strength): score(examples, train, said, [metric])[metric]
        for longest in LENGTHS
        for strength, said in _out_of_fold(examples, longest, seed).items()
    }
    return max(scores, key=scores.__getitem__)


def _out_of_fold(examples: ExampleSet, longest: int, seed: int) -> dict[float, list[Any]]:
    """By strength, what is said of each row of train by what was learned from the other folds."""
    train = examples.splits["train"]
    fold_of_row, said = folds(train), {strength: [None] * train.num_rows for strength in STRENGTHS}
    for fold in range(FOLDS):
        inside = fold_of_row == fold
        known, held_out = (train.filter(pa.array(rows)) for rows in (~inside, inside))
        texts = Texts(known, longest)
        features, asked = texts.features(known), texts.features(held_out)
        for strength, of_strength in said.items():
            found = regressed(examples, known, features, asked, strength=strength, seed=seed)
            for row, each in zip(np.flatnonzero(inside), found, strict=True):
                of_strength[row] = each
    return said
