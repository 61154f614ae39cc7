"""Accuracy, F1, Matthews and the correlations, equal to scikit-learn's and SciPy's but computed with NumPy alone.

Every metric takes the gold labels and the predicted ones, in the same order, and returns a share or a coefficient,
never a percentage. A prediction that says nothing (one constant, for Matthews and the correlations, where the quotient
is 0/0) scores 0.0, as scikit-learn has it for Matthews; SciPy's correlations give NaN there, which JSON cannot hold.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bertcore.errors import InputError

Labels = Sequence[Any]


def accuracy(gold: Labels, predicted: Labels) -> float:
    """Share of equal labels."""
    return sum(bool(a == b) for a, b in _pairs(gold, predicted)) / len(gold)


def f1(gold: Labels, predicted: Labels) -> float:
    """F1 of the class 1; labels are 0 and 1, as numbers or as strings. 0.0 where no 1 is gold or predicted."""
    pairs = [(_is_one(a), _is_one(b)) for a, b in _pairs(gold, predicted)]
    return f1_of_counts(sum(a and b for a, b in pairs), sum(a for a, _ in pairs), sum(b for _, b in pairs))


def macro_f1(gold: Labels, predicted: Labels) -> float:
    """Unweighted mean of the F1 of every class that is gold or predicted somewhere."""
    table, names = _confusion(gold, predicted)
    return float(np.mean([f1_of_counts(table[k, k], table[k].sum(), table[:, k].sum()) for k in range(len(names))]))


def mcc(gold: Labels, predicted: Labels) -> float:
    """Matthews' correlation coefficient, for two or more classes (Gorodkin's R_K)."""
    table, _ = _confusion(gold, predicted)
    gold_totals, predicted_totals = table.sum(axis=1).astype(float), table.sum(axis=0).astype(float)
    correct, total = float(np.trace(table)), float(table.sum())
    covariance = correct * total - gold_totals @ predicted_totals
    spread = (total**2 - gold_totals @ gold_totals) * (total**2 - predicted_totals @ predicted_totals)
    return float(covariance / np.sqrt(spread)) if spread else 0.0


def pearson(gold: Labels, predicted: Labels) -> float:
    """Pearson's correlation of two lists of numbers; 0.0 where one of them is constant."""
    x, y = _numbers(gold, predicted)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    # In SciPy's order of operations, down to the last digit. Dividing by the largest value first keeps the norm of very
    # large or small numbers finite; `axis` selects the plain sum of squares and not BLAS's.
    x_norm, y_norm = (np.abs(z).max() * np.linalg.norm(z / np.abs(z).max(), axis=0) for z in (x, y))
    r = float(np.clip(np.vecdot(x / x_norm, y / y_norm), -1.0, 1.0))
    return float(round(r)) if len(x) == 2 else r


def spearmanr(gold: Labels, predicted: Labels) -> float:
    """Spearman's correlation: Pearson's of the ranks, ties having their mean rank; 0.0 where one list is constant."""
    x, y = _numbers(gold, predicted)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(np.corrcoef(_ranks(x), _ranks(y))[1, 0])  # not [0, 1], which differs in the last digit from SciPy


def compute(metrics: Sequence[str], gold: Labels, predicted: Labels) -> dict[str, float]:
    """Each of `metrics`, which are keys of `METRICS`, by name."""
    return {name: METRICS[name](gold, predicted) for name in metrics}


def by_label(gold: Labels, predicted: Labels) -> dict[Any, dict[str, Any]]:
    """`scores_of_counts` of every class that is gold or predicted somewhere; and `confused_with`, the class that is
    most often predicted where it is gold, and `confused`, how often, for those that are not always right."""
    table, names = _confusion(gold, predicted)
    correct, result = table.diagonal(), {}
    for place, (name, wrong) in enumerate(zip(names, table - np.diag(correct), strict=True)):
        counts = correct[place], table[place].sum(), table[:, place].sum()
        result[name] = scores_of_counts(*map(int, counts))
        if wrong.any():
            result[name] |= {"confused_with": names[wrong.argmax()], "confused": int(wrong.max())}
    return result


def scores_of_counts(correct: int, gold: int, predicted: int) -> dict[str, Any]:
    """How often a label is `gold` and `predicted`, its `precision`, `recall` and `f1`; 0/0 is 0.0."""
    precision, recall = correct / predicted if predicted else 0.0, correct / gold if gold else 0.0
    scores = {"precision": precision, "recall": recall, "f1": f1_of_counts(correct, gold, predicted)}
    return {"gold": gold, "predicted": predicted, **scores}


def _pairs(gold: Labels, predicted: Labels) -> list[tuple[Any, Any]]:
    _check(gold, predicted)
    return list(zip(gold, predicted, strict=True))


def _check(gold: Labels, predicted: Labels) -> None:
    if len(gold) != len(predicted) or not len(gold):
        raise InputError(f"predictions: found {len(predicted)} for {len(gold)} gold labels, expected one for each")


def _is_one(label: Any) -> bool:
    if label not in (0, 1, "0", "1"):
        raise InputError(f"f1: found the label {label!r}, expected 0 or 1; use macro_f1 for other labels")
    return label in (1, "1")


def f1_of_counts(correct: int, gold: int, predicted: int) -> float:
    """2 right / (gold + predicted); 0/0 is 0.0."""
    return float(2 * correct / (gold + predicted)) if gold + predicted else 0.0


def _confusion(gold: Labels, predicted: Labels) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Counts by (gold class, predicted class), and the classes, which are sorted."""
    _check(gold, predicted)
    names, codes = np.unique(np.concatenate([np.asarray(gold), np.asarray(predicted)]), return_inverse=True)
    table = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(table, (codes[: len(gold)], codes[len(gold) :]), 1)
    return table, names.tolist()


def _numbers(gold: Labels, predicted: Labels) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    _check(gold, predicted)
    return np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Ranks from 1, equal values sharing the mean of theirs."""
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[codes], dtype=np.float64)


METRICS: dict[str, Callable[[Labels, Labels], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": macro_f1,
    "mcc": mcc,
    "pearson": pearson,
    "spearmanr": spearmanr,
}
