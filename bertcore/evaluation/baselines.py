"""What a task's score is worth: the scores, on dev, of methods that learn nothing or next to nothing.

Every family has `majority`; the others are named for what they are. All are deterministic.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import MultiLabelBinarizer

from bertcore.evaluation.scoring import score
from bertcore.evaluation.systems import MAJORITY
from bertcore.examples.schema import ExampleSet
from bertcore.words import word

Scores = dict[str, dict[str, float]]
Predicted = dict[str, Any]
"""Baseline -> what it says about the rows of dev: a list, or a mapping of question ids to answers."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


def baselines(example_set: ExampleSet, seed: int) -> tuple[Predicted, Scores]:
    """What every baseline, learned on train, says about dev; and baseline -> metric -> value, for the metrics of
    `example_set`."""
    found = BASELINES[example_set.family](example_set, seed)
    dev, metrics = example_set.splits["dev"], example_set.metrics
    return found, {name: score(example_set, dev, predicted, metrics) for name, predicted in found.items()}


def _classification(examples: ExampleSet, seed: int) -> Predicted:
    """`majority`: the most frequent label of train, or the mean score. `bag_of_words`: the features of `Texts` under a
    logistic or ridge regression."""
    labels = examples.splits["train"]["label"].to_pylist()
    constant = float(np.mean(labels)) if examples.labels is None else _most_frequent(labels)
    return {MAJORITY: [constant] * examples.splits["dev"].num_rows, "bag_of_words": _bag_of_words(examples, seed)}


def _multi_label(examples: ExampleSet, seed: int) -> Predicted:
    """`majority`: the labels that more than half of train have. `bag_of_words`: the features of `Texts` under a
    logistic regression for each label."""
    table = _by_label(examples, examples.splits["train"])
    constant = [label for label, share in zip(examples.labels or [], table.mean(axis=0), strict=True) if share > 0.5]
    return {MAJORITY: [constant] * examples.splits["dev"].num_rows, "bag_of_words": _bag_of_words(examples, seed)}


def _bag_of_words(examples: ExampleSet, seed: int) -> list[Any]:
    train = examples.splits["train"]
    texts = Texts(train)
    return regressed(examples, train, texts.features(train), texts.features(examples.splits["dev"]), 1.0, seed)


def regressed(
    examples: ExampleSet,
    train: pa.Table,
    features: sparse.csr_matrix,
    asked: sparse.csr_matrix,
    strength: float,
    seed: int,
) -> list[Any]:
    """What logistic regressions (of numbers: a ridge regression), learned from the rows of `train` with their
    `features`, say of rows with the features `asked`: a label, a number or a list of labels each. The penalty is
    divided by `strength`, scikit-learn's C."""
    if examples.family == "multi_label":
        columns = [
            _one(LogisticRegression(C=strength, max_iter=1000), column.tolist(), features, asked)
            for column in _by_label(examples, train).T
        ]
        labels = examples.labels or []
        return [[label for label, has in zip(labels, row, strict=True) if has] for row in zip(*columns, strict=True)]
    numbers = examples.labels is None
    model = Ridge(alpha=1.0 / strength, random_state=seed) if numbers else LogisticRegression(C=strength, max_iter=1000)
    return _one(model, train["label"].to_pylist(), features, asked)


def _one(
    model: LogisticRegression | Ridge, targets: list[Any], features: sparse.csr_matrix, asked: sparse.csr_matrix
) -> list[Any]:
    """What `model` says; where there is nothing to tell apart, the only target."""
    if len(set(targets)) == 1:
        return targets[:1] * asked.shape[0]
    return list(model.fit(features, targets).predict(asked).tolist())


def _by_label(examples: ExampleSet, table: pa.Table) -> npt.NDArray[np.int64]:
    """Shape (rows, labels): 1 where the row has the label."""
    binarizer = MultiLabelBinarizer(classes=examples.labels or [])
    return np.asarray(binarizer.fit_transform(table["labels"].to_pylist()))


class Texts:
    """TF-IDF of the words of each text on its own, and for pairs how much of either's vocabulary the other shares."""

    def __init__(self, train: pa.Table, longest: int = 1):
        """Up to `longest` neighbouring words are a feature."""
        self._columns = [name for name in ("text_a", "text_b") if train[name].null_count < train.num_rows]
        self._vectorizers = [
            TfidfVectorizer(token_pattern=word(), sublinear_tf=True, ngram_range=(1, longest)).fit(
                [*_texts(train, name), "word"]
            )
            for name in self._columns
        ]

    def features(self, table: pa.Table) -> sparse.csr_matrix:
        """Shape (rows, features)."""
        parts: list[Any] = [
            vectorizer.transform(_texts(table, name))
            for vectorizer, name in zip(self._vectorizers, self._columns, strict=True)
        ]
        if len(self._columns) == 2:
            parts.append(_overlap(_texts(table, "text_a"), _texts(table, "text_b")))
        return sparse.csr_matrix(sparse.hstack(parts))


def _overlap(texts_a: list[str], texts_b: list[str]) -> npt.NDArray[np.float64]:
    """Share of a's words in b, of b's in a, and of both in either; shape (rows, 3)."""
    rows = []
    for a, b in zip(map(_words, texts_a), map(_words, texts_b), strict=True):
        common = len(a & b)
        rows.append([common / max(len(a), 1), common / max(len(b), 1), common / max(len(a | b), 1)])
    return np.asarray(rows, dtype=np.float64)


def _tagging(examples: ExampleSet, seed: int) -> Predicted:
    """`majority`: every word has the most frequent tag, commonly O. `word_lookup`: each word has its own most frequent
    tag of train, and the majority's if it was never seen."""
    train, dev = examples.splits["train"], examples.splits["dev"]
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for words, tags in zip(train["words"].to_pylist(), train["tags"].to_pylist(), strict=True):
        for each, tag in zip(words, tags, strict=True):
            counts[each][tag] += 1
    constant = _most_frequent(tag for of_word in counts.values() for tag in of_word.elements())
    lookup = {each: _most_frequent(of_word.elements()) for each, of_word in counts.items()}
    sentences = dev["words"].to_pylist()
    return {
        MAJORITY: [[constant] * len(words) for words in sentences],
        "word_lookup": [[lookup.get(each, constant) for each in words] for words in sentences],
    }


def _question_answering(examples: ExampleSet, seed: int) -> Predicted:
    """`majority`: the most frequent answer of train (which may be "no answer") to every question. `overlap_sentence`:
    the sentence of the context that shares most words with the question, the first of several."""
    answers = (answers[0]["text"] if answers else "" for answers in examples.splits["train"]["answers"].to_pylist())
    constant = _most_frequent(answers)
    rows = examples.splits["dev"].select(["id", "context", "question"]).to_pylist()
    return {
        MAJORITY: {row["id"]: constant for row in rows},
        "overlap_sentence": {row["id"]: _nearest_sentence(row["context"], row["question"]) for row in rows},
    }


def _multiple_choice(examples: ExampleSet, seed: int) -> Predicted:
    """`majority`: the place that is right most often in train, of those that the example has. `word_overlap`: the
    choice that shares most words with context and question, the first of several."""
    counts = Counter(examples.splits["train"]["label"].to_pylist())
    places = sorted(counts, key=lambda place: (-counts[place], place))
    rows = examples.splits["dev"].select(["context", "question", "choices"]).to_pylist()
    return {
        MAJORITY: [next((place for place in places if place < len(row["choices"])), 0) for row in rows],
        "word_overlap": [_most_shared(f"{row['context']} {row['question'] or ''}", row["choices"]) for row in rows],
    }


def _most_shared(text: str, choices: list[str]) -> int:
    wanted = _words(text)
    return max(range(len(choices)), key=lambda place: len(_words(choices[place]) & wanted))


def _nearest_sentence(context: str, question: str) -> str:
    wanted = _words(question)
    return max(_SENTENCE_END.split(context), key=lambda sentence: len(_words(sentence) & wanted))


def _words(text: str) -> set[str]:
    return set(re.findall(word(), text.lower()))


def _texts(table: pa.Table, name: str) -> list[str]:
    return [text or "" for text in table[name].to_pylist()]


def _most_frequent(values: Iterable[str]) -> str:
    """The most frequent value; of several, the first in sorted order."""
    return min(Counter(values).items(), key=lambda item: (-item[1], item[0]))[0]


BASELINES: dict[str, Callable[[ExampleSet, int], Predicted]] = {
    "classification": _classification,
    "multi_label": _multi_label,
    "tagging": _tagging,
    "question_answering": _question_answering,
    "multiple_choice": _multiple_choice,
}
