"""`bertcore similar`."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from bertcore.apply.embed import nearest
from bertcore.commands.options import COLUMN, LAYOUT, add_layout, add_model, at_least_one, refuse
from bertcore.commands.parts import progress_of
from bertcore.commands.results import Record, add_output, check_output, write
from bertcore.commands.texts import check_arguments, refuse_wordless, texts_in
from bertcore.commands.vectors import add_pooling, embedder_of, say_cut
from bertcore.embedding.vectors import normalized
from bertcore.errors import ConfigError
from bertcore.examples.bad_rows import has_words

EXAMPLES = """\
  bertcore similar "open a file" "read a file" "sort a list"     # the first text with each of the others
  bertcore similar "open a file" --file lines.txt --top 5        # the lines nearest to it
"""


_TOP = 10


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("texts", nargs="+", metavar="TEXT", help="the first one is compared with the others")
    parser.add_argument("--file", type=Path, help="find the nearest of these texts to each TEXT instead")
    parser.add_argument("--column", help=f"of the texts in a table (default: {COLUMN})")
    add_layout(parser)
    parser.add_argument("--top", type=at_least_one("--top"), help=f"of the texts of --file (default: {_TOP})")
    add_model(parser)
    add_pooling(parser)
    add_output(parser)


def run(options: argparse.Namespace) -> None:
    check_output(options)
    check_arguments(options.texts)
    refuse_wordless(options.texts)
    if options.file is None and len(options.texts) < 2:
        raise ConfigError("found one text, expected two or more, or --file with texts to compare it with; add some")
    if options.file is None:
        refuse(options, ("top", "column", *LAYOUT), "{} without --file, expected texts in a file; leave it out")
        queries, texts, top = options.texts[:1], options.texts[1:], len(options.texts)
    else:
        queries, lines, top = options.texts, texts_in(options), options.top or _TOP
        numbers = [number for number, text in enumerate(lines, start=1) if has_words(text)]
        texts = [lines[number - 1] for number in numbers]
    embedder = embedder_of(options)
    found, cut = embedder.embed([*queries, *texts], progress_of("embed", len(texts)))
    say_cut(cut, len(queries) + len(texts))
    vectors = normalized(found)
    rows, cosines = nearest(vectors[: len(queries)], vectors[len(queries) :], top)

    def records() -> Iterator[Record]:
        for query, nearest_rows, values in zip(queries, rows.tolist(), cosines.tolist(), strict=True):
            for row, cosine in zip(nearest_rows, values, strict=True):
                line = {} if options.file is None else {"number": numbers[row]}
                yield {"cosine": cosine, **line, "text": texts[row], "query": query}

    write(options, records())
