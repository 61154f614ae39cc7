"""The vectors of texts, and the index of passages, that the arguments of commands ask for.

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
from pathlib import Path

from bertcore.apply.compact import PRECISIONS
from bertcore.apply.embed import Embedder
from bertcore.apply.pooling import POOLINGS
from bertcore.apply.search import Index
from bertcore.commands.options import at_least_one, model_directory

PROGRESS = "passages"


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


def add_precision(parser: argparse.ArgumentParser) -> None:
    """The argument that says in how many bits vectors are kept."""
    parser.add_argument(
        "--precision", choices=PRECISIONS, default="float32", help="of each number that is kept (default: %(default)s)"
    )


def add_index(parser: argparse.ArgumentParser) -> None:
    """The arguments that say what an index is made of, and where it is kept."""
    parser.add_argument("--index", type=Path, metavar="DIR", help="where the index is kept (default: with the texts)")
    parser.add_argument(
        "--words", type=at_least_one("--words"), default=120, help="of a passage at most (default: %(default)s)"
    )
    add_precision(parser)


def index_of(options: argparse.Namespace, place: Path, embedder: Embedder) -> Index:
    """The index of the texts at `place` that the arguments ask for, by default within a directory, beside a file; says
    what had to be made."""
    beside = place / ".bertcore-index" if place.is_dir() else place.with_name(f".{place.name}.bertcore-index")
    directory = options.index or beside
    index = Index.open(place, directory, embedder, options.words, PROGRESS, options.precision)
    if index.embedded:
        print(f"{directory}: {len(index.passages):,} passages, {index.embedded:,} of them new", file=sys.stderr)
    if index.cut:
        print(
            f"{directory}: {index.cut:,} of the new passages were cut to what the model reads, so that their ends are "
            "not found; give fewer --words",
            file=sys.stderr,
        )
    return index
