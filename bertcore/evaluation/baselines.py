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
    """`majority`: the most frequent label of train, or the mean score. `bag_of_words`: the features of `_Texts` under a
    logistic or ridge regression."""
    train, dev = examples.splits["train"], examples.splits["dev"]
    labels, gold = train["label"].to_pylist(), dev["label"].to_pylist()
    model = Ridge(random_state=seed) if examples.labels is None else LogisticRegression(max_iter=1000)
    constant = float(np.mean(labels)) if examples.labels is None else _most_frequent(labels)
    texts = _Texts(train)
    if len(set(labels)) > 1:
        predicted = model.fit(texts.features(train), labels).predict(texts.features(dev)).tolist()
    else:
        predicted = [constant] * len(gold)
    return {"majority": [constant] * len(gold), "bag_of_words": predicted}


def _multi_label(examples: ExampleSet, seed: int) -> Predicted:
    """`majority`: the labels that more than half of train have. `bag_of_words`: the features of `_Texts` under a
    logistic regression for each label."""
    train, dev = examples.splits["train"], examples.splits["dev"]
    gold, labels = dev["labels"].to_pylist(), examples.labels or []
    table = MultiLabelBinarizer(classes=labels).fit_transform(train["labels"].to_pylist())
    texts = _Texts(train)
    train_features, dev_features = texts.features(train), texts.features(dev)
    predicted: list[list[str]] = [[] for _ in gold]
    for label, column in zip(labels, table.T, strict=True):
        varies = 0 < column.sum() < len(column)
        model = LogisticRegression(max_iter=1000).fit(train_features, column) if varies else None
        chosen = model.predict(dev_features) if model is not None else [column[0]] * len(gold)
        for found, has_label in zip(predicted, chosen, strict=True):
            found += [label] if has_label else []
    constant = [label for label, share in zip(labels, table.mean(axis=0), strict=True) if share > 0.5]
    return {"majority": [constant] * len(gold), "bag_of_words": predicted}


class _Texts:
    """TF-IDF of the words of each text on its own, and for pairs how much of either's vocabulary the other shares."""

    def __init__(self, train: pa.Table):
        self._columns = [name for name in ("text_a", "text_b") if train[name].null_count < train.num_rows]
        self._vectorizers = [
            TfidfVectorizer(token_pattern=word(), sublinear_tf=True).fit([*_texts(train, name), "word"])
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
        "majority": [[constant] * len(words) for words in sentences],
        "word_lookup": [[lookup.get(each, constant) for each in words] for words in sentences],
    }


def _question_answering(examples: ExampleSet, seed: int) -> Predicted:
    """`majority`: the most frequent answer of train (which may be "no answer") to every question. `overlap_sentence`:
    the sentence of the context that shares most words with the question, the first of several."""
    answers = (answers[0]["text"] if answers else "" for answers in examples.splits["train"]["answers"].to_pylist())
    constant = _most_frequent(answers)
    rows = examples.splits["dev"].select(["id", "context", "question"]).to_pylist()
    return {
        "majority": {row["id"]: constant for row in rows},
        "overlap_sentence": {row["id"]: _nearest_sentence(row["context"], row["question"]) for row in rows},
    }


def _multiple_choice(examples: ExampleSet, seed: int) -> Predicted:
    """`majority`: the place that is right most often in train, of those that the example has. `word_overlap`: the
    choice that shares most words with context and question, the first of several."""
    counts = Counter(examples.splits["train"]["label"].to_pylist())
    places = sorted(counts, key=lambda place: (-counts[place], place))
    rows = examples.splits["dev"].select(["context", "question", "choices"]).to_pylist()
    return {
        "majority": [next((place for place in places if place < len(row["choices"])), 0) for row in rows],
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
