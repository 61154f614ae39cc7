"""Pairs of texts that are to have near vectors, from the corpus or from a file; what is scored is never trained on."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertcore import draws
from bertcore.compressed import json_lines
from bertcore.corpus.documents import corpus_shards, read_sentences
from bertcore.embedding.config import EmbedConfig
from bertcore.errors import InputError
from bertcore.examples.docstrings.pair import split_docstring
from bertcore.examples.docstrings.table import FILE as DOCSTRINGS
from bertcore.examples.docstrings.table import read_docstrings

MIN_WORDS = 4
"""Of a text from the corpus; of shorter ones nobody can say what belongs to them."""
BODY_WORDS = 60
"""Of what follows a document's first sentence, at most."""


@dataclass(frozen=True)
class Pair:
    """Two texts that belong together."""

    anchor: str
    positive: str
    negatives: tuple[str, ...] = ()
    """Texts that look alike and do not belong to the anchor."""

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.anchor, self.positive, *self.negatives)


@dataclass(frozen=True)
class PairSets:
    """The pairs of a training, and those by which it is scored. No text stands in both."""

    train: list[Pair]
    heldout: list[Pair]
    dropped: int
    """Training pairs that were left out because a text of theirs is also held out."""


def read_pair_sets(config: EmbedConfig, corpus: Path, file: Path | None = None) -> PairSets:
    """What `config.pairs` names, the same every time; `file` is where it stands if it is no part of the `corpus`.

    `InputError` where nothing is left to train on, or to score.
    """
    assert config.pairs is not None, "a training without pairs"
    if config.file is None:
        sources = {split: _of_corpus(config.pairs, corpus, split) for split in ("train", "heldout")}
        heldout = _choose(sources["heldout"], config.heldout_pairs, "heldout")
        train, unseen = sources["train"], {text for pair in heldout for text in pair.texts}
    else:
        pairs = list(dict.fromkeys(read_pairs(file or config.file)))
        kept_back = {pair for pair in pairs if draws.fraction_of(0, f"embed {pair.anchor}") < config.heldout_fraction}
        heldout = _choose((pair for pair in pairs if pair in kept_back), config.heldout_pairs, "heldout")
        train = (pair for pair in pairs if pair not in kept_back)
        unseen = {text for pair in kept_back for text in pair.texts}
    dropped = 0

    def apart() -> Iterator[Pair]:
        nonlocal dropped
        for pair in train:
            if unseen.isdisjoint(pair.texts):
                yield pair
            else:
                dropped += 1

    chosen = _choose(apart(), config.max_pairs, "train")
    for name, found in (("to train on", chosen), ("to score", heldout)):
        if len(found) < 2:
            raise InputError(
                f"params.yaml: embed.pairs: {config.pairs}: found {len(found)} pairs {name}, expected at least 2; give "
                "more text, or a longer file"
            )
    return PairSets(chosen, heldout, dropped)


def _choose(pairs: Iterable[Pair], most: int, split: str) -> list[Pair]:
    """At most `most` different pairs, by a draw that depends on their texts alone."""
    return draws.smallest(((draws.key("embed", split, *pair.texts), pair) for pair in pairs), most)


def _of_corpus(kind: str, corpus: Path, split: str) -> Iterator[Pair]:
    documented = kind == "title_body" and (corpus / DOCSTRINGS).is_file()
    if documented:
        parts = map(split_docstring, read_docstrings(corpus)["dev" if split == "heldout" else split])
        yield from (Pair(each.summary, each.body) for each in parts if each is not None)
    # Of twins there is nothing to find; whether they give good vectors is seen on neighbours.
    make = _twins if kind == "twins" and split == "train" else _titled if kind == "title_body" else _neighbours
    for documents in read_sentences(corpus_shards(corpus, split), without="pydoc" if documented else None):
        for sentences in documents:
            yield from make(sentences)


def _neighbours(sentences: Sequence[str]) -> Iterator[Pair]:
    for first, second in zip(sentences, sentences[1:], strict=False):
        if _tells(first) and _tells(second) and first != second:
            yield Pair(first, second)


def _twins(sentences: Sequence[str]) -> Iterator[Pair]:
    return (Pair(sentence, sentence) for sentence in sentences if _tells(sentence))


def _titled(sentences: Sequence[str]) -> Iterator[Pair]:
    body = " ".join(" ".join(sentences[1:]).split()[:BODY_WORDS])
    if sentences and sentences[0] and _tells(body):
        yield Pair(sentences[0], body)


def _tells(text: str) -> bool:
    return len(text.split()) >= MIN_WORDS


def read_pairs(path: Path) -> Iterator[Pair]:
    """The pairs of a file of JSON lines, or of a directory of such, as `json_lines` reads them; `InputError` names the
    line that is none."""
    return (_pair(where, row) for where, row in json_lines(path, _EXPECTED))


def _pair(where: str, row: Any) -> Pair:
    if not isinstance(row, dict) or not {"anchor", "positive"} <= row.keys():
        found = ", ".join(sorted(row)) if isinstance(row, dict) else type(row).__name__
        raise InputError(f"{where}: found {found}, expected an object with {_EXPECTED}; correct the line")
    negative = row.get("negative") or []
    pair = Pair(row["anchor"], row["positive"], tuple(negative) if isinstance(negative, list) else (negative,))
    for text in pair.texts:
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{where}: found {text!r}, expected a text; correct the line")
    return pair


_EXPECTED = "anchor, positive and, if there is one, negative"
