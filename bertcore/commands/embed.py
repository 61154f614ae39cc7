"""`bertcore embed`."""

import argparse
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bertcore.apply.compact import compact
from bertcore.apply.embed import ENDINGS, Embedder, write_vectors
from bertcore.commands.options import add_input, add_model
from bertcore.commands.parts import progress_of
from bertcore.commands.results import WRITERS, Record, add_output, check_place, write
from bertcore.commands.texts import texts_of
from bertcore.commands.vectors import add_pooling, add_precision, embedder_of, say_cut
from bertcore.embedding.vectors import normalized
from bertcore.errors import ConfigError
from bertcore.examples.bad_rows import has_words

EXAMPLES = """\
  bertcore embed --file texts.txt --out vectors.parquet          # columns text and vector
  bertcore embed --file texts.jsonl --column body --out vectors.npy --pooling cls
  bertcore embed "open a file" | jq .vector
  bertcore embed --file texts.txt --out vectors.npy --precision binary   # a bit a number
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    add_model(parser)
    add_pooling(parser)
    add_precision(parser)
    add_output(parser, ".npy")


def embed_words(embedder: Embedder, texts: Sequence[str]) -> tuple[NDArray[np.float32], int]:
    """As `Embedder.embed`; a text without a word has a vector of zeros, which is as near to all others."""
    places = [place for place, text in enumerate(texts) if has_words(text)]
    found, cut = embedder.embed([texts[place] for place in places], progress_of("embed", len(places)))
    vectors = np.zeros((len(texts), found.shape[1]), np.float32)
    vectors[places] = found
    return vectors, cut


def run(options: argparse.Namespace) -> None:
    if options.out is not None and options.out.suffix not in (expected := {*ENDINGS, *WRITERS}):
        raise ConfigError(f"--out: found {options.out.name!r}, expected the ending {', '.join(sorted(expected))}")
    check_place(options.out, options.file)
    texts = texts_of(options)
    embedder = embedder_of(options)
    vectors, cut = embed_words(embedder, texts)
    if options.precision != "float32":
        vectors = compact(normalized(vectors), options.precision)
    say_cut(cut, len(texts))
    if options.out is not None and options.out.suffix in ENDINGS:
        write_vectors(options.out, texts, vectors)
        unit = "bytes" if options.precision == "binary" else "numbers"
        print(f"{options.out}: {len(texts):,} vectors of {vectors.shape[1]} {unit}", file=sys.stderr)
        return

    def records() -> Iterator[Record]:
        for text, vector in zip(texts, vectors, strict=True):
            yield {"text": text, "vector": vector.tolist()}

    write(options, records(), _rows if options.out is None and options.format in (None, "table") else None)


def _rows(record: Record) -> Iterator[Record]:
    first = " ".join(f"{value:.4g}" for value in record["vector"][:4])
    yield {"text": record["text"], "numbers": len(record["vector"]), "vector": f"{first} …"}
