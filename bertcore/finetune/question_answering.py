"""The span of a context that answers a question, or none (Devlin et al. 2018, sections 4.2 and 4.3).

Long contexts are read in overlapping windows. In training, a window that does not hold the whole answer has the answer
[CLS], as has a question without an answer.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from bertcore.errors import ConfigError
from bertcore.evaluation import squad
from bertcore.evaluation.squad import to_articles
from bertcore.examples.schema import ExampleSet
from bertcore.files import write_json
from bertcore.finetune.answers import Answer, Window, best_answers, null_score, with_probabilities
from bertcore.finetune.config import RunConfig
from bertcore.finetune.family import CHOICE, Exported, Family
from bertcore.finetune.features import (
    IGNORED,
    Batch,
    Features,
    best_windows,
    chunks,
    concatenated,
    own_tokenizer,
    token_windows,
)
from bertcore.finetune.kl_divergence import class_divergence
from bertcore.model.config import build_head
from bertcore.model.encoder import EncoderModule
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import READING
from bertcore.tokens.tokenizer import Vocabulary

logger = logging.getLogger(__name__)

UNANSWERABLE = "unanswerable"
"""Under `READING`: whether the model may say that there is no answer."""


@dataclass(frozen=True, kw_only=True)
class WindowFeatures(Features):
    """[CLS] question [SEP] window of the context [SEP]; several windows of one question follow each other."""

    examples: NDArray[np.int64]
    """(N,) row of the question in its table."""
    context_starts: NDArray[np.int64]
    """(N,) tokens before the window of the context."""
    characters: NDArray[np.int32]
    """(T, 2) first character and end of each token in the context; 0 and 0 outside of the window."""
    owned: NDArray[np.bool_]
    """(T,) whether no other window has more context around this token; False outside of the window."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """For each question the best answers, best first; "" stands for no answer."""

    table: pa.Table
    spans: dict[str, str]
    """Question id -> best answer, whether or not "no answer" is better; "" where the context has no tokens."""
    n_best: dict[str, list[Answer]]
    null_odds: dict[str, float] | None
    """Question id -> score of "no answer" less that of the best answer; None where every question has an answer."""
    null_threshold: float
    """Where the null odds are above it, there is no answer."""

    @property
    def predicted(self) -> dict[str, str]:
        """Question id -> answer."""
        if self.null_odds is None:
            return self.spans
        return {key: "" if self.null_odds[key] > self.null_threshold else text for key, text in self.spans.items()}

    def write(self, directory: Path, split: str) -> None:
        """`SPLIT.json` as the official script takes it, `SPLIT_nbest.json`, and `SPLIT_null_odds.json` (2.0)."""
        write_json(directory / f"{split}.json", self.predicted)
        official = {
            key: [{name: value for name, value in each.items() if name != "start"} for each in answers]
            for key, answers in self.n_best.items()
        }
        write_json(directory / f"{split}_nbest.json", official)
        if self.null_odds is not None:
            write_json(directory / f"{split}_null_odds.json", self.null_odds)


def best_threshold(answers: Answers) -> float:
    """The null threshold of the highest F1, by the official search; lower than all odds where no answer is best."""
    assert answers.null_odds is not None, "questions that all have an answer"
    found = squad.evaluate_v2(to_articles(answers.table), answers.spans, answers.null_odds)["best_f1_thresh"]
    candidates = [found, min(answers.null_odds.values()) - 1.0]

    def f1(threshold: float) -> float:
        predicted = replace(answers, null_threshold=threshold).predicted
        return squad.shares(answers.table, predicted, ["f1"])["f1"]

    return max(candidates, key=f1)


class QuestionAnswering(Family):
    """A span of the context; with unanswered questions in the training examples, as in SQuAD 2.0, also none."""

    head = "question_answering"
    gold = "answers"
    reading: tuple[str, ...] = (
        "sequence_length",
        "doc_stride",
        "max_query_length",
        "max_answer_length",
        "n_best",
        "null_threshold",
    )
    own_fields = ("null_threshold",)
    always_pairs = True

    def __init__(
        self, task: RunConfig, examples: ExampleSet, tokenizer: Tokenizer, *, may_be_null: bool | None = None
    ) -> None:
        """`may_be_null`: whether a question may have no answer; None: where train has such questions."""
        self._vocabulary = Vocabulary.of(tokenizer)
        least = task.max_query_length + self._vocabulary.special_per_pair + 1
        if task.sequence_length < least:
            raise ConfigError(
                f"sequence_length: found {task.sequence_length}, expected at least {least} with max_query_length "
                f"{task.max_query_length}, so that some context fits; lower max_query_length"
            )
        self._task = task
        self._tokenizer = own_tokenizer(tokenizer)
        if may_be_null is None:
            may_be_null = not all(examples.splits["train"]["answers"].to_pylist())
        self._may_be_null = may_be_null
        self.tunes = may_be_null and task.null_threshold == "tuned"

    @classmethod
    def saved(cls, task: RunConfig, examples: ExampleSet, tokenizer: Tokenizer, config: Mapping[str, Any]) -> Self:
        """Whether a question may have no answer stands in `config`."""
        if READING not in config:
            logger.warning(
                "%s/config.json: nothing says whether questions may have no answer, as of models that others have "
                "trained: each gets one (docs/use.md)",
                task.data,
            )
        may_be_null = bool((config.get(READING) or {}).get(UNANSWERABLE))
        return cls(task, examples, tokenizer, may_be_null=may_be_null)

    def build(self, config: EncoderConfig) -> EncoderModule:
        return build_head(config, self.head)

    def exported(self, model: EncoderModule) -> Exported:
        return Exported(model, {READING: {UNANSWERABLE: self._may_be_null}})

    def featurize(self, table: pa.Table) -> WindowFeatures:
        questions = [ids for ids, _ in self._encode(table["question"].to_pylist())]
        distinct = list(dict.fromkeys(table["context"].to_pylist()))
        contexts = dict(zip(distinct, self._encode(distinct), strict=True))
        parts: list[_Question] = []
        cut = np.asarray([len(question) > self._task.max_query_length for question in questions], dtype=np.bool_)
        counts = {"questions_cut": int(cut.sum()), "contexts_in_windows": 0, "answers_without_tokens": 0}
        for question, context in zip(questions, table["context"].to_pylist(), strict=True):
            part = self._question(question, *contexts[context])
            counts["contexts_in_windows"] += len(part.spans) > 1
            parts.append(part)
        targets = None
        if not table["answers"].null_count:
            found = [_spans(part, answers) for part, answers in zip(parts, table["answers"].to_pylist(), strict=True)]
            targets = np.concatenate(found) if found else np.zeros((0, 2), dtype=np.int64)
            counts["answers_without_tokens"] = sum(int(spans[0, 0]) == IGNORED for spans in found)
        return WindowFeatures(
            tokens=concatenated([part.tokens for part in parts], np.int32),
            token_types=concatenated([part.token_types for part in parts], np.int8),
            lengths=concatenated([part.lengths for part in parts], np.int64),
            targets=targets,
            cut=cut,
            counts=counts,
            examples=np.repeat(np.arange(len(parts)), [len(part.spans) for part in parts]),
            context_starts=np.repeat([part.before for part in parts], [len(part.spans) for part in parts]),
            characters=concatenated([part.characters for part in parts], np.int32).reshape(-1, 2),
            owned=concatenated([part.owned for part in parts], np.bool_),
        )

    def loss(self, model: EncoderModule, logits: Tensor, batch: Batch) -> Tensor:
        """Cross entropy in nats of the start and of the end, each over the tokens of its own sequence."""
        assert batch.targets is not None, "a batch without targets"
        flat = _by_sequence(logits, batch)
        return functional.cross_entropy(flat, batch.targets.flatten(), ignore_index=IGNORED, reduction="sum")

    def soft_loss(self, logits: Tensor, teacher_logits: Tensor, batch: Batch, temperature: float) -> Tensor:
        """Of the start and of the end, as `loss`."""
        assert batch.targets is not None, "a batch without targets"
        counted = batch.targets.flatten() != IGNORED
        own, theirs = (_by_sequence(each, batch)[counted] for each in (logits, teacher_logits))
        return class_divergence(own, theirs, temperature)

    def predict(
        self, table: pa.Table, features: WindowFeatures, logits: NDArray[np.float32], model: EncoderModule
    ) -> Answers:
        spans, n_best, null_odds = {}, {}, {}
        per_question: list[list[Window]] = [[] for _ in range(table.num_rows)]
        for row, window in zip(features.examples, _with_logits(features, logits), strict=True):
            per_question[row].append(window)
        columns = zip(table["id"].to_pylist(), table["context"].to_pylist(), per_question, strict=True)
        for key, context, of_question in columns:
            answers = best_answers(of_question, context, self._task.n_best, self._task.max_answer_length)
            spans[key] = answers[0]["text"] if answers else ""
            if self._may_be_null:
                null = null_score(of_question)
                null_odds[key] = null["score"] - answers[0]["score"] if answers else float(np.finfo(np.float32).max)
                answers = [*answers[: max(self._task.n_best - 1, 1)], null]  # the best one, and none, in any case
            n_best[key] = with_probabilities(answers)
        return Answers(
            table=table,
            spans=spans,
            n_best=n_best,
            null_odds=null_odds if self._may_be_null else None,
            null_threshold=0.0 if self._task.null_threshold == "tuned" else self._task.null_threshold,
        )

    def tune(self, predictions: dict[str, Answers]) -> dict[str, float]:
        """Set the null threshold that is best by F1 on what was kept back from train, where it is to be tuned."""
        if not self.tunes:
            return {}
        threshold = best_threshold(predictions[CHOICE])
        predictions |= {split: replace(answers, null_threshold=threshold) for split, answers in predictions.items()}
        return {"null_threshold": float(threshold)}

    def _encode(self, texts: Sequence[str]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Ids (n,) and characters (n, 2) of each text, without special tokens."""
        return [
            (np.asarray(encoding.ids, dtype=np.int64), np.asarray(encoding.offsets, dtype=np.int64).reshape(-1, 2))
            for part in chunks(texts)
            for encoding in self._tokenizer.encode_batch(part, add_special_tokens=False)
        ]

    def _question(
        self, question: NDArray[np.int64], context: NDArray[np.int64], characters: NDArray[np.int64]
    ) -> "_Question":
        question = question[: self._task.max_query_length]
        before = self._vocabulary.start_of_second(len(question))
        capacity = self._task.sequence_length - len(question) - self._vocabulary.special_per_pair
        spans = token_windows(len(context), capacity, self._task.doc_stride)
        owner = best_windows(spans, np.arange(len(context)))
        sequences = [self._vocabulary.sequence(question, context[first:end]) for first, end in spans]
        padded = [np.pad(characters[first:end], ((before, 1), (0, 0))) for first, end in spans]
        owned = [owner[first:end] == index for index, (first, end) in enumerate(spans)]
        return _Question(
            before=before,
            spans=spans,
            characters_of_context=characters,
            lengths=np.asarray([len(ids) for ids, _ in sequences], dtype=np.int64),
            tokens=np.concatenate([ids for ids, _ in sequences], dtype=np.int32),
            token_types=np.concatenate([types for _, types in sequences], dtype=np.int8),
            characters=np.concatenate(padded, dtype=np.int32),
            owned=np.concatenate([np.pad(each, (before, 1)) for each in owned]),
        )


@dataclass(frozen=True, kw_only=True)
class _Question:
    """The W sequences of one question; `tokens` and what is like it lie end to end."""

    before: int
    """Tokens before the context in each."""
    spans: NDArray[np.int64]
    """(W, 2) first token of the context and end."""
    characters_of_context: NDArray[np.int64]
    """(tokens of the context, 2)."""
    lengths: NDArray[np.int64]
    tokens: NDArray[np.int64]
    token_types: NDArray[np.int64]
    characters: NDArray[np.int64]
    owned: NDArray[np.bool_]


def _by_sequence(logits: Tensor, batch: Batch) -> Tensor:
    """(T, 2) logits of start and end -> (2 * B, L) float32, minus infinity behind the end of a sequence."""
    return batch.layout.padded(logits.float(), float("-inf")).transpose(1, 2).flatten(0, 1)


def _spans(part: _Question, answers: list[dict[str, Any]]) -> NDArray[np.int64]:
    """(W, 2) first and last token of the first answer in each window: 0 and 0 where it is not, or not all, inside.

    `IGNORED` in all windows if the answer has no token, or no place in the context.
    """
    result = np.zeros((len(part.spans), 2), dtype=np.int64)
    if not answers:
        return result
    begin, stop = answers[0]["answer_start"], answers[0]["answer_start"] + len(answers[0]["text"])
    first, end = part.characters_of_context[:, 0], part.characters_of_context[:, 1]
    (inside,) = np.nonzero((end > begin) & (first < stop))
    if begin < 0 or not len(inside):
        return np.full_like(result, IGNORED)
    whole = (part.spans[:, 0] <= inside[0]) & (inside[-1] < part.spans[:, 1])
    answer = np.asarray([inside[0], inside[-1]]) - part.spans[:, :1] + part.before
    return np.where(whole[:, None], answer, result)


def _with_logits(features: WindowFeatures, logits: NDArray[np.float32]) -> Iterable[Window]:
    offsets = features.offsets
    for start, end, before in zip(offsets[:-1], offsets[1:], features.context_starts, strict=True):
        context = slice(start + before, end - 1)
        yield Window(
            start_logits=logits[context, 0],
            end_logits=logits[context, 1],
            null_logits=(float(logits[start, 0]), float(logits[start, 1])),
            characters=features.characters[context],
            owned=features.owned[context],
        )
