"""`bertcore search`."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from bertcore.apply.embed import Embedder
from bertcore.apply.search import Index
from bertcore.commands.embed import add_pooling, add_precision, embedder_of
from bertcore.commands.results import Record, add_output, check_output, write
from bertcore.commands.texts import add_model, at_least_one, check_arguments

EXAMPLES = """\
  bertcore search "sort a list in place" --in docs/               # the index is kept in docs/.bertcore-index
  bertcore search "read a file" "write a file" --in notes.txt --top 3 --index /tmp/notes
  bertcore search "close a socket" --in docs/ --precision int8    # an index of a quarter of the size
"""

PROGRESS = "passages"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queries", nargs="+", metavar="QUERY")
    parser.add_argument("--in", dest="place", type=Path, required=True, metavar="PATH", help="a file, or a directory")
    add_index(parser)
    parser.add_argument(
        "--top", type=at_least_one("--top"), default=5, help="passages for each query (default: %(default)s)"
    )
    add_model(parser)
    add_pooling(parser)
    add_output(parser)


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


def run(options: argparse.Namespace) -> None:
    check_output(options)
    check_arguments(options.queries)
    embedder = embedder_of(options)
    found = index_of(options, options.place, embedder).search(embedder.unit(options.queries), options.top)

    def records() -> Iterator[Record]:
        for query, rows in zip(options.queries, found, strict=True):
            for row in rows:
                where = f"{row.passage.source}:{row.passage.line}"
                yield {"score": row.score, "where": where, "text": row.passage.text, "query": query}

    write(options, records())
