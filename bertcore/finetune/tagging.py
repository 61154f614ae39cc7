"""A tag for each word, from the hidden state of its first piece (Devlin et al. 2018, section 5.3).

Long sentences are read in overlapping windows of whole words. Each word is learned and tagged exactly once, in the
window that has most context around it. A chain over the tags (`crf`) is learned over the words that each window has,
and predicts over all words of the sentence, whatever windows they come from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from bertcore.examples.schema import ExampleSet
from bertcore.files import replace_file
from bertcore.finetune.config import RunConfig
from bertcore.finetune.crf import LinearChain
from bertcore.finetune.family import Exported, Family, label_index
from bertcore.finetune.features import (
    IGNORED,
    Batch,
    Features,
    best_windows,
    chunks,
    concatenated,
    own_tokenizer,
    windows,
)
from bertcore.finetune.kl_divergence import class_divergence
from bertcore.model.config import build_head
from bertcore.model.encoder import EncoderModule
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import CRF, label_names
from bertcore.tokens.tokenizer import Vocabulary, tokenizer_kind


def chain_of(model: EncoderModule) -> LinearChain | None:
    """The chain over the tags that a tagger was built with, if it was."""
    chain = getattr(model, CRF, None)
    assert chain is None or isinstance(chain, LinearChain)
    return chain


def without_chain(model: EncoderModule, labels: int) -> EncoderModule:
    """A copy that Hugging Face has a class for."""
    plain = build_head(model.config, "token_classification", labels)
    own = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith(f"{CRF}.")}
    plain.load_state_dict(own)
    return plain.to(model.base_model.token_embeddings.weight.device)


@dataclass(frozen=True, kw_only=True)
class TaggingFeatures(Features):
    """Windows, and where the words are that count."""

    word_places: NDArray[np.int64]
    """(all words,) the token whose logits tag a word, by sentence and word."""


@dataclass(frozen=True, kw_only=True)
class Tagged:
    """One tag for each word of each sentence."""

    words: list[list[str]]
    predicted: list[list[str]]
    gold: list[list[str] | None]

    def write(self, directory: Path, split: str) -> None:
        """`SPLIT.txt`, as `write_file` writes it."""
        self.write_file(directory / f"{split}.txt")

    def write_file(self, path: Path) -> None:
        """Word, gold tag (where there is one) and predicted tag, a blank line after each sentence.

        White space in a word or a tag, which would be read as a border between columns, becomes `_`.
        """
        with replace_file(path) as beside, beside.open("w", encoding="utf-8") as file:
            for words, predicted, gold in zip(self.words, self.predicted, self.gold, strict=True):
                columns = (words, predicted) if gold is None else (words, gold, predicted)
                visible = [["_".join(cell.split()) or "_" for cell in column] for column in columns]
                file.writelines(" ".join(cells) + "\n" for cells in zip(*visible, strict=True))
                file.write("\n")


class Tagging(Family):
    """A tag of `labels` for each word."""

    head = "token_classification"
    gold = "tags"
    reading: tuple[str, ...] = ("sequence_length", "doc_stride")
    own_fields = ("crf", "labels_on")

    def __init__(self, task: RunConfig, examples: ExampleSet, tokenizer: Tokenizer) -> None:
        assert examples.labels is not None, "a tagging task without tags"
        self._labels = examples.labels
        self._tokenizer = own_tokenizer(tokenizer)
        self._vocabulary, self._unknown = Vocabulary.of(tokenizer), tokenizer_kind(tokenizer).special.unk
        self._capacity = task.sequence_length - self._vocabulary.special_per_text
        self._stride = task.doc_stride
        self._crf, self._all_pieces = task.crf, task.labels_on == "all"

    def build(self, config: EncoderConfig) -> EncoderModule:
        model = build_head(config, self.head, len(self._labels))
        if self._crf:
            model.add_module(CRF, LinearChain(len(self._labels)))
        return model

    def exported(self, model: EncoderModule) -> Exported:
        """config.json holds the chain's scores under `crf`: transformers ignores them and gives each word its own best
        tag, `bertcore tag` applies the chain."""
        if (chain := chain_of(model)) is not None:
            plain = without_chain(model, len(self._labels))
            return Exported(plain, {CRF: chain.to_config(), **label_names(self._labels)})
        return Exported(model, label_names(self._labels))

    def featurize(self, table: pa.Table) -> TaggingFeatures:
        sequences: list[NDArray[np.int64]] = []
        places: list[NDArray[np.int64]] = []
        pieces_of_words: list[NDArray[np.int64]] = []
        counts = {"words_cut": 0, "words_without_pieces": 0, "sentences_in_windows": 0}
        cut: list[bool] = []
        total = 0
        for sentences in chunks(table["words"].to_pylist()):
            for pieces, sizes in self._pieces(sentences, counts, cut):
                parts, owned = self._windows(pieces, sizes)
                sequences += parts
                places.append(owned + total)
                pieces_of_words.append(sizes)
                total += sum(map(len, parts))
                counts["sentences_in_windows"] += len(parts) > 1
        tokens, word_places = concatenated(sequences, np.int32), concatenated(places, np.int64)
        sizes = concatenated(pieces_of_words, np.int64) if self._all_pieces else np.ones_like(word_places)
        return TaggingFeatures(
            tokens=tokens,
            token_types=np.zeros(len(tokens), dtype=np.int8),
            lengths=np.asarray([len(sequence) for sequence in sequences], dtype=np.int64),
            targets=self._targets(table, len(tokens), word_places, sizes),
            per_token=True,
            cut=np.asarray(cut, dtype=np.bool_),
            counts=counts,
            word_places=word_places,
        )

    def loss(self, model: EncoderModule, logits: Tensor, batch: Batch) -> Tensor:
        """Cross entropy in nats, over the words; with a chain, over the words that each window has of a sentence."""
        assert batch.targets is not None, "a batch without targets"
        if (chain := chain_of(model)) is not None:
            (places,) = (batch.targets != IGNORED).nonzero(as_tuple=True)
            if not len(places):  # windows that own no word
                return logits.sum() * 0.0
            sequences = batch.layout.sequences[places]
            lengths = torch.bincount(sequences, minlength=batch.layout.batch_size)
            return chain.loss(logits[places].float(), batch.targets[places], lengths[lengths > 0])
        return functional.cross_entropy(logits.float(), batch.targets, ignore_index=IGNORED, reduction="sum")

    def soft_loss(self, logits: Tensor, teacher_logits: Tensor, batch: Batch, temperature: float) -> Tensor:
        """Over the words, as `loss`."""
        assert batch.targets is not None, "a batch without targets"
        places = (batch.targets != IGNORED).nonzero().squeeze(1)
        return class_divergence(logits[places], teacher_logits[places], temperature)

    def predict(
        self, table: pa.Table, features: TaggingFeatures, logits: NDArray[np.float32], model: EncoderModule
    ) -> Tagged:
        words = table["words"].to_pylist()
        of_words = logits[features.word_places]
        if (chain := chain_of(model)) is not None and len(of_words):
            lengths = torch.tensor([len(sentence) for sentence in words if sentence])
            device = chain.start.device
            indices = chain.best(torch.from_numpy(of_words).to(device), lengths.to(device)).cpu().numpy()
        else:
            indices = of_words.argmax(axis=1)
        tags = [self._labels[index] for index in indices]
        ends = np.cumsum([len(sentence) for sentence in words])
        predicted = [tags[end - len(sentence) : end] for sentence, end in zip(words, ends, strict=True)]
        return Tagged(words=words, predicted=predicted, gold=table["tags"].to_pylist())

    def _pieces(
        self, sentences: Sequence[list[str]], counts: dict[str, int], cut: list[bool]
    ) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The pieces of each sentence and the number of pieces of each of its words: at least one, and what fits. Adds
        to `cut` whether that is less than all of a word."""
        result = []
        for words, encoding in zip(sentences, self._encode(sentences), strict=True):
            word_of = np.asarray(encoding.word_ids, dtype=np.int64)
            sizes = np.bincount(word_of, minlength=len(words))
            if len(sizes) and not sizes.min():  # an accent alone, say: it is unknown, but it is there
                counts["words_without_pieces"] += int((sizes == 0).sum())
                named = [word if size else self._unknown for word, size in zip(words, sizes, strict=True)]
                (encoding,) = self._encode([named])
                word_of = np.asarray(encoding.word_ids, dtype=np.int64)
                sizes = np.bincount(word_of, minlength=len(words))
            pieces = np.asarray(encoding.ids, dtype=np.int64)
            cut.append(bool((sizes > self._capacity).any()))
            if cut[-1]:
                counts["words_cut"] += int((sizes > self._capacity).sum())
                inside = np.arange(len(pieces)) - (np.cumsum(sizes) - sizes)[word_of]
                pieces, sizes = pieces[inside < self._capacity], np.minimum(sizes, self._capacity)
            result.append((pieces, sizes))
        return result

    def _encode(self, sentences: Sequence[list[str]]) -> list[Any]:
        blank = self._vocabulary.blank
        running = [[blank + word if place else word for place, word in enumerate(words)] for words in sentences]
        return self._tokenizer.encode_batch(running, is_pretokenized=True, add_special_tokens=False)

    def _windows(
        self, pieces: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """The sequences of one sentence, and for each word where its first piece stands in them, laid end to end."""
        ends = np.cumsum(sizes)
        starts = ends - sizes
        units = windows(sizes, self._capacity, self._stride)
        spans = np.stack([starts[units[:, 0]], ends[units[:, 1] - 1]], axis=1)
        sequences = [self._vocabulary.sequence(pieces[first:end])[0] for first, end in spans]
        if not sequences:
            return [], np.zeros(0, dtype=np.int64)
        window = best_windows(spans, starts)
        before = np.cumsum([0, *map(len, sequences[:-1])])
        return sequences, before[window] + 1 + starts - spans[window, 0]

    def _targets(
        self, table: pa.Table, total: int, places: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> NDArray[np.int64] | None:
        """The tag of a word on its first piece; on the `sizes` - 1 further ones, inside of the same entity."""
        if table["tags"].null_count:
            return None
        index_of = {label: index for index, label in enumerate(self._labels)}
        targets = np.full(total, IGNORED, dtype=np.int64)
        tags = np.asarray(
            [
                label_index(index_of, tag, f"example {key}")
                for key, tags in zip(table["id"].to_pylist(), table["tags"].to_pylist(), strict=True)
                for tag in tags
            ],
            dtype=np.int64,
        )
        inside = np.asarray(
            [index_of.get(f"I{tag[1:]}" if tag.partition("-")[0] == "B" else tag, index_of[tag]) for tag in index_of]
        )
        words = np.repeat(np.arange(len(places)), sizes)
        nth = np.arange(len(words)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        targets[places[words] + nth] = np.where(nth > 0, inside[tags[words]], tags[words]) if len(words) else tags
        return targets
