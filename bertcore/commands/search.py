"""`bertcore search`."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from bertcore.commands.options import add_model, at_least_one
from bertcore.commands.results import Record, add_output, check_output, write
from bertcore.commands.texts import check_arguments, refuse_wordless
from bertcore.commands.vectors import add_index, add_pooling, embedder_of, index_of

EXAMPLES = """\
  bertcore search "sort a list in place" --in docs/               # the index is kept in docs/.bertcore-index
  bertcore search "read a file" "write a file" --in notes.txt --top 3 --index /tmp/notes
  bertcore search "close a socket" --in docs/ --precision int8    # an index of a quarter of the size
"""


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


def run(options: argparse.Namespace) -> None:
    check_output(options)
    check_arguments(options.queries)
    refuse_wordless(options.queries)
    embedder = embedder_of(options)
    found = index_of(options, options.place, embedder).search(embedder.unit(options.queries), options.top)

    def records() -> Iterator[Record]:
        for query, rows in zip(options.queries, found, strict=True):
            for row in rows:
                where = f"{row.passage.source}:{row.passage.line}"
                yield {"score": row.score, "where": where, "text": row.passage.text, "query": query}

    write(options, records())
