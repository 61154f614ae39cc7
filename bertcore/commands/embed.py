"""`bertcore embed`.

Pooling: `cls` is the state of [CLS]; `mean` and `max` are over all tokens, [CLS] and [SEP] among them; `attention` is
the mean weighted by what [CLS] attends to, averaged over the heads, in the layer that gives the states (by default the
last one). Layers count as Hugging Face's `hidden_states` do: 0 are the embeddings, -1 is the last layer.

A directory of SentenceTransformers, such as stage embed leaves in models/embedding, says itself how it pools, how many
tokens it reads, and whether its vectors have the length 1; models/embedding is the first choice where no --model is
given.

Precision: int8 are whole numbers from -127 to 127 in the direction of the vector; binary is a bit for each number, 1
where it is positive, eight to a byte, the highest first.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bertcore.apply.compact import PRECISIONS, compact
from bertcore.apply.embed import ENDINGS, Embedder, write_vectors
from bertcore.apply.pooling import POOLINGS
from bertcore.commands.results import WRITERS, Record, add_output, check_place, write
from bertcore.commands.texts import add_input, add_model, model_directory, progress_of, texts_of
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


def add_precision(parser: argparse.ArgumentParser) -> None:
    """The argument that says in how many bits vectors are kept."""
    parser.add_argument(
        "--precision", choices=PRECISIONS, default="float32", help="of each number that is kept (default: %(default)s)"
    )


def add_pooling(parser: argparse.ArgumentParser) -> None:
    """The arguments that say how the states of a text become one vector."""
    parser.add_argument("--pooling", choices=POOLINGS, help="of the tokens (default: the model's own, else mean)")
    parser.add_argument("--layer", type=int, default=-1, help="0 = embeddings, -1 = last (default: %(default)s)")
    parser.add_argument("--max-length", type=int, help="tokens of a text at most (default: what the model reads)")
    parser.add_argument("--dimensions", type=int, metavar="N", help="keep the first N numbers of a vector")


def embedder_of(options: argparse.Namespace) -> Embedder:
    """The encoder that the arguments name."""
    model = model_directory(options, "embed")
    return Embedder.load(model, options.pooling, options.layer, options.max_length, options.dimensions)


def say_cut(cut: int, count: int) -> None:
    """How many of `count` texts the model did not see to their end, on the standard error."""
    if cut:
        print(f"{cut} of {count} texts were cut to what the model reads", file=sys.stderr)


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
    check_place(options.out)
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
