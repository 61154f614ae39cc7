"""Pairing, masking and feeding batches, beside the published procedure in plain Python, in turns on the same text.

    python -m benchmarks.mask_data --text TEXT --vocab VOCAB.txt --length 128

Every variant has its own process and they take turns; a ratio is that of neighbouring turns. One core each. The result
is printed, and kept in benchmarks/results/ with --keep.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import numpy as np

from benchmarks import results
from benchmarks.machine import describe
from benchmarks.options import make_parser
from benchmarks.plain_masking import Plain, documents_of
from benchmarks.text import SEED, Text, mask_config, prepared, text_arguments
from benchmarks.turns import Turns, Work, faster, take_turns
from bertcore.audit import Audit
from bertcore.instances.config import MaskConfig
from bertcore.instances.sources import DrawnInstances, InstanceSource, StaticInstances
from bertcore.shards.store import Manifest, TokenShard
from bertcore.training.loader import Loader

_EPOCHS = 8
"""Epochs of the text in one unit of work; the plain procedure makes one."""
_BATCHES = 256
"""Batches in one unit of work."""
_BATCH_SIZE = 256
_POOL = 16
"""Shards that the loader draws from at a time."""


@dataclass(frozen=True)
class Setting:
    """What all variants work on."""

    text: Path
    """A directory that `Text.prepare` made."""
    mask: MaskConfig


def plain(setting: Setting) -> Work:
    """The published procedure."""
    text, mask = Text(setting.text), setting.mask
    assert mask.max_predictions_per_seq is not None
    procedure = Plain(text.vocabulary, mask.sequence_length, mask.max_predictions_per_seq, mask.masking == "whole_word")
    documents, rng = [document for shard in _shards(text) for document in documents_of(shard)], Random(1)
    return lambda: sum(len(instance.tokens) for instance in procedure.instances(documents, rng))


def drawn(setting: Setting) -> Work:
    """`bertcore`'s pairing and masking of whole shards, as stage `mask` does it, without audit and writing."""
    text, epochs = Text(setting.text), count()
    vocabulary, shards = text.vocabulary, _shards(text)

    def work() -> int:
        tokens = 0
        for _ in range(_EPOCHS):
            epoch = next(epochs)
            for number, shard in enumerate(shards):
                source = DrawnInstances.of(shard, str(number), epoch, setting.mask, vocabulary)
                tokens += sum(len(instances.tokens) for instances in source.blocks())
        return tokens

    return work


def audited(setting: Setting) -> Work:
    """The same with the audit."""
    text, epochs = Text(setting.text), count()
    vocabulary, shards = text.vocabulary, _shards(text)

    def work() -> int:
        epoch, audit = next(epochs), Audit(setting.mask, vocabulary)
        for number, shard in enumerate(shards):
            audit.add_drawn(DrawnInstances.of(shard, str(number), epoch, setting.mask, vocabulary))
        audit.check()
        return audit.counts["tokens"]

    return work


def loader_drawn(setting: Setting) -> Work:
    """Batches of a loader whose masks are drawn when asked for, from as many shards as it opens at a time."""
    text = Text(setting.text)
    vocabulary, parts = text.vocabulary, list(_parts(_shards(text)))

    def open_epoch(epoch: int, counts: tuple[int | None, ...] = (None,) * _POOL) -> list[InstanceSource]:
        return [
            DrawnInstances.of(part, str(number), epoch, setting.mask, vocabulary, counts[number])
            for number, part in enumerate(parts)
        ]

    counts = tuple(len(source) for source in open_epoch(0))
    return _feed(Loader(partial(open_epoch, counts=counts), _BATCH_SIZE, SEED))


def loader_static(setting: Setting) -> Work:
    """Batches of a loader that reads static copies."""
    text, directory = Text(setting.text), setting.text / "static"
    directory.mkdir(exist_ok=True)
    sources: list[InstanceSource] = []
    for number, part in enumerate(_parts(_shards(text))):
        source = DrawnInstances.of(part, str(number), 0, setting.mask, text.vocabulary)
        instances = source.take(np.arange(len(source)))
        path = directory / f"{number}.arrow"
        instances.write(path)
        sources.append(StaticInstances(path, len(instances)))
    return _feed(Loader(lambda epoch: sources, _BATCH_SIZE, SEED))


def _feed(loader: Loader) -> Work:
    steps = count()
    return lambda: sum(len(loader.batch(next(steps)).tokens) for _ in range(_BATCHES))


def _shards(text: Text) -> list[TokenShard]:
    return [TokenShard.open(text.directory / entry.name) for entry in Manifest.read(text.directory).of_split("train")]


def _parts(shards: list[TokenShard]) -> Iterator[TokenShard]:
    """The documents of the first shard as `_POOL` shards."""
    whole = shards[0]
    bounds = np.linspace(0, len(whole.document_offsets) - 1, _POOL + 1).astype(int)
    for start, end in zip(bounds[:-1], bounds[1:], strict=True):
        documents = whole.document_offsets[start : end + 1]
        sentences = whole.sentence_offsets[documents[0] : documents[-1] + 1]
        yield TokenShard(whole.tokens[sentences[0] : sentences[-1]], sentences - sentences[0], documents - documents[0])


def main() -> None:
    parser = make_parser(__doc__, "--length", turns=7)
    text_arguments(parser, ".benchmarks/step", 400)
    arguments = parser.parse_args()

    text = prepared(arguments)
    token, whole, span = (
        Setting(text.directory, replace(mask_config(arguments.length), masking=masking))
        for masking in ("token", "whole_word", "span")
    )
    measured = take_turns(
        {
            "published procedure, token": partial(plain, token),
            "published procedure, whole_word": partial(plain, whole),
            "pairing + masking, token": partial(drawn, token),
            "pairing + masking, whole_word": partial(drawn, whole),
            "pairing + masking, span": partial(drawn, span),
            "pairing + masking + audit, token": partial(audited, token),
            f"loader, drawn from {_POOL} shards, token": partial(loader_drawn, token),
            f"loader, drawn from {_POOL} shards, whole_word": partial(loader_drawn, whole),
            f"loader, {_POOL} static copies": partial(loader_static, token),
        },
        arguments.turns,
        units=1,
        warmup=1,
    )
    facts = {
        **describe(),
        "work": f"pairs of at most {arguments.length} tokens from {arguments.documents} documents; batches of "
        f"{_BATCH_SIZE} sequences",
        "turns": str(arguments.turns),
    }
    rows = [_row(name, turns, measured) for name, turns in measured.items()]
    results.show(f"mask_data-{arguments.length}", facts, rows, keep=arguments.keep)


def _row(name: str, turns: Turns, measured: dict[str, Turns]) -> dict[str, str]:
    yardstick = measured[f"published procedure, {'whole_word' if name.endswith('whole_word') else 'token'}"]
    return {
        "variant": name,
        "tokens/s": f"{turns.median:,.0f}",
        "faster than the published procedure": faster(turns, yardstick, digits=1),
        "peak memory": f"{turns.peak_gib:.2f} GiB",
    }


if __name__ == "__main__":
    main()
