"""Real pre-training instances to measure with: text -> corpus -> token shards, made once by the pipeline's own code."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bertcore.corpus.build import build_corpus
from bertcore.corpus.config import CorpusConfig, SourceEntry
from bertcore.files import replace_directory
from bertcore.instances.config import MaskConfig, MaskingRule
from bertcore.instances.sources import DrawnInstances
from bertcore.shards.build import build_shards
from bertcore.shards.store import Manifest, ShardsConfig, TokenShard
from bertcore.tokens.tokenizer import Vocabulary, load_tokenizer
from bertcore.tokens.wordpiece import load_vocabulary, make_tokenizer, save_tokenizer
from bertcore.training.loader import Loader

SEED = 1
"""Of the order of batches, on both sides, and of weights."""


@dataclass(frozen=True)
class Text:
    """The token shards of a text, and the tokenizer that made them."""

    directory: Path

    @classmethod
    def prepare(cls, text: Path, vocab_file: Path, directory: Path, documents: int | None = None) -> "Text":
        """Read `text` (its first `documents`) into `directory`, unless that has been done already."""
        if not directory.exists():
            entries = load_vocabulary(vocab_file)
            tokenizer = make_tokenizer(entries, lowercase=True)
            config = CorpusConfig(sources=[SourceEntry(uri=str(text))], max_documents=documents)
            with replace_directory(directory) as beside:
                inputs, corpus = beside / "inputs", beside / "corpus"
                (inputs / "0").mkdir(parents=True)
                corpus.mkdir()
                (beside / "tokenizer").mkdir()
                (inputs / "0" / text.name).symlink_to(text.resolve())
                build_corpus(config, inputs, corpus)
                save_tokenizer(tokenizer, beside / "tokenizer", lowercase=True)
                build_shards(corpus, beside / "tokenizer", ShardsConfig(), beside, beside / "work")
        return cls(directory)

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.of(load_tokenizer(self.directory / "tokenizer"))

    def sources(
        self, mask: MaskConfig, split: str, epoch: int = 0, counts: Mapping[str, int] | None = None
    ) -> list[DrawnInstances]:
        """The instances of a split in an epoch, drawn as in training; `counts` by shard, or as many as drawn."""
        vocabulary = self.vocabulary
        return [
            DrawnInstances(
                partial(TokenShard.open, self.directory / entry.name),
                entry.name,
                epoch,
                mask,
                vocabulary,
                counts[entry.name] if counts else None,
            )
            for entry in Manifest.read(self.directory).of_split(split)
        ]

    def loader(self, mask: MaskConfig, batch_size: int, rule: Callable[[int], MaskingRule] | None = None) -> Loader:
        counts = {source.name: len(source) for source in self.sources(mask, "train")}
        return Loader(lambda epoch: self.sources(mask, "train", epoch, counts), batch_size, SEED, rule=rule)


def mask_config(sequence_length: int) -> MaskConfig:
    """BERT's rule for a length: at most 20 predictions in 128 tokens, 80 in 512."""
    return MaskConfig(sequence_length=sequence_length, max_predictions_per_seq=sequence_length * 20 // 128)


def text_arguments(parser: argparse.ArgumentParser, cache: str, documents: int | None = None) -> None:
    """The options that say which text is measured on, and where its shards are kept."""
    parser.add_argument("--text", type=Path, required=True, help="a text file (.txt, .jsonl, .parquet; .gz, .zst)")
    parser.add_argument("--vocab", type=Path, required=True, help="vocab.txt, uncased, such as BERT's 30,522 entries")
    used = "all" if documents is None else str(documents)
    parser.add_argument("--documents", type=int, default=documents, help=f"documents of the text to use ({used})")
    parser.add_argument("--cache", type=Path, default=Path(cache), help="shards are kept here (%(default)s)")


def prepared(arguments: argparse.Namespace) -> Text:
    """The text that the options of `text_arguments` name."""
    return Text.prepare(arguments.text, arguments.vocab, arguments.cache, arguments.documents)
