"""Texts and pairs of texts as sequences: cut to what the encoder reads, or in windows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertcore.finetune.config import RunConfig
from bertcore.finetune.features import Features, chunks, concatenated, own_tokenizer, token_windows
from bertcore.model.huggingface import PAIRS
from bertcore.tokens.tokenizer import Vocabulary

Text = str | tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class TextFeatures(Features):
    """The sequences of one text follow each other."""

    examples: NDArray[np.int64]
    """(N,) row of the text in its table."""

    def pooled(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """(N, …) logits of all sequences -> (texts, …): of each text the mean over its windows."""
        if not len(self) or int(self.examples[-1]) + 1 == len(self):
            return logits
        counts = np.bincount(self.examples)
        sums = np.add.reduceat(logits, np.cumsum(counts) - counts, axis=0)
        return (sums / counts[:, None]).astype(np.float32)


class TextReader:
    """Makes sequences of at most `task.sequence_length` tokens, special ones included, of texts and pairs of texts."""

    def __init__(self, task: RunConfig, tokenizer: Tokenizer) -> None:
        self._tokenizer = own_tokenizer(tokenizer)
        self._length, self._stride = task.sequence_length, task.doc_stride
        self._in_windows = task.long_texts == "windows"
        self._vocabulary = Vocabulary.of(tokenizer)
        # Tokens are taken off the end of the longer text of a pair, as Hugging Face does with `truncation=True`.
        self._cut = own_tokenizer(tokenizer)
        self._cut.enable_truncation(task.sequence_length, strategy="longest_first")

    def read(self, texts: Sequence[Text], targets: NDArray[Any] | None = None) -> TextFeatures:
        """The sequences of `texts`. `targets` has a row for each text, which all of its windows share. Counted are
        texts `truncated`, and with windows those `in_windows`."""
        tokens: list[NDArray[np.int64]] = []
        types: list[NDArray[np.int64]] = []
        examples: list[int] = []
        cut: list[bool] = []
        for row, (sequences, is_cut) in enumerate(self._windows(texts) if self._in_windows else self._one(texts)):
            for ids, kinds in sequences:
                tokens.append(ids)
                types.append(kinds)
                examples.append(row)
            cut.append(is_cut)
        rows = np.asarray(examples, dtype=np.int64)
        in_windows = {"in_windows": int((np.bincount(rows) > 1).sum())} if self._in_windows else {}
        return TextFeatures(
            tokens=concatenated(tokens, np.int32),
            token_types=concatenated(types, np.int8),
            lengths=np.asarray([len(ids) for ids in tokens], dtype=np.int64),
            targets=None if targets is None else targets[rows],
            cut=np.asarray(cut, dtype=np.bool_),
            counts={"truncated": sum(cut), **in_windows},
            examples=rows,
        )

    def _one(self, texts: Sequence[Text]) -> Iterator[tuple[list[tuple[Any, Any]], bool]]:
        """The sequence of each text, and whether it is cut."""
        for part in chunks(texts):
            for encoding in self._cut.encode_batch_fast(part):
                yield [(np.asarray(encoding.ids), np.asarray(encoding.type_ids))], bool(encoding.overflowing)

    def _windows(self, texts: Sequence[Text]) -> Iterator[tuple[list[tuple[Any, Any]], bool]]:
        """The sequences of each text, and whether it is cut. Windows move over the only text, or over the longer one of
        a pair, the shorter one standing in all of them: whole, or cut to half of the room."""
        for part in chunks(texts):
            first = self._ids([text if isinstance(text, str) else text[0] for text in part])
            second = self._ids(["" if isinstance(text, str) else text[1] for text in part])
            for text, a, b in zip(part, first, second, strict=True):
                if isinstance(text, str):
                    room = self._length - self._vocabulary.special_per_text
                    found = [(a[start:end], None) for start, end in token_windows(len(a), room, self._stride)]
                    is_cut = False
                else:
                    found, is_cut = self._pair(a, b)
                yield [self._vocabulary.sequence(*pair) for pair in found], is_cut

    def _pair(self, a: Any, b: Any) -> tuple[list[tuple[Any, Any]], bool]:
        room, swapped = self._length - self._vocabulary.special_per_pair, len(a) >= len(b)
        short, long = (b, a) if swapped else (a, b)
        is_cut = len(short) + len(long) > room and len(short) > room // 2
        if is_cut:
            short = short[: room // 2]
        spans = token_windows(len(long), room - len(short), self._stride)
        parts = (long[start:end] for start, end in spans)
        return [(part, short) if swapped else (short, part) for part in parts], is_cut

    def _ids(self, texts: list[str]) -> list[list[int]]:
        return [each.ids for each in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def all_pairs(train: pa.Table | None) -> dict[str, bool]:
    """`PAIRS` of the examples that were learned from, as it is saved."""
    if train is None or 0 < train["text_b"].null_count < len(train):
        return {}
    return {PAIRS: train["text_b"].null_count == 0}


def texts_of(table: pa.Table) -> list[Text]:
    """The columns `text_a` and, where it is not null, `text_b`."""
    pairs = zip(table["text_a"].to_pylist(), table["text_b"].to_pylist(), strict=True)
    return [first if second is None else (first, second) for first, second in pairs]
