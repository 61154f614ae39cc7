"""Vectors of texts from an encoder: one pooled vector for each, from any layer.

    python -m bertcore.apply.extract MODEL INPUT OUTPUT [--pooling mean] [--layer -1]

INPUT is a text a line (.txt), or the column --column of a .jsonl or .tsv file (with a header); also .gz, .zst. OUTPUT
is .npy, an array (texts, hidden_size), or .parquet with the columns `text` and `vector`.

Pooling: `cls` is the state of [CLS]; `mean` and `max` are over all tokens, [CLS] and [SEP] among them; `attention` is
the mean weighted by what [CLS] attends to, averaged over the heads, in the layer that gives the states (by default the
last one). Layers count as Hugging Face's `hidden_states` do: 0 are the embeddings, -1 is the last layer.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bertcore.apply.pooling import POOLINGS, extract, load_encoder
from bertcore.compressed import plain_name, read_lines
from bertcore.errors import BertcoreError, ConfigError, InputError
from bertcore.files import replace_file
from bertcore.finetune.encoder_tokenizer import tokenizer_directory
from bertcore.tokens.tokenizer import load_tokenizer

BAD_INPUT = 2


def read_texts(path: Path, column: str) -> list[str]:
    """The texts of a .txt, .jsonl or .tsv file; `InputError` names the row that has none."""
    name = plain_name(path)
    if name.endswith(".txt"):
        return [_decoded(line, path, number) for number, line in enumerate(read_lines(path), start=1)]
    if name.endswith(".jsonl"):
        return list(_jsonl(path, column))
    if name.endswith(".tsv"):
        return list(_tsv(path, column))
    raise InputError(f"{path}: found {name!r}, expected .txt, .jsonl or .tsv; rename or convert the file")


def _jsonl(path: Path, column: str) -> Iterator[str]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)[column]
        except (ValueError, KeyError, TypeError):
            text = None
        if not isinstance(text, str):
            raise InputError(f"{path}:{number}: found no text under {column!r}, expected one; correct it or --column")
        yield text


def _tsv(path: Path, column: str) -> Iterator[str]:
    place = -1
    for number, line in enumerate(read_lines(path), start=1):
        cells = _decoded(line, path, number).split("\t")
        if number == 1:
            if column not in cells:
                raise InputError(
                    f"{path}: found the columns {', '.join(cells)}, expected {column!r}; name one (--column)"
                )
            place = cells.index(column)
        elif cells != [""]:
            if place >= len(cells):
                raise InputError(f"{path}:{number}: found {len(cells)} columns, expected more than {place}; correct it")
            yield cells[place]


def _decoded(line: bytes, path: Path, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}:{number}: byte {error.start} is not UTF-8, expected UTF-8; convert the file"
        ) from None


def write_vectors(path: Path, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
    """Into .npy or .parquet; nothing half-written is left."""
    with replace_file(path) as beside:
        if path.suffix == ".npy":
            with beside.open("wb") as file:
                np.save(file, vectors)
        else:
            flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
            pq.write_table(pa.table({"text": pa.array(texts, pa.string()), "vector": flat}), beside, compression="zstd")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bertcore.apply.extract",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, help="a Hugging Face BERT directory, such as models/pretrained")
    parser.add_argument("input", type=Path, help=".txt, .jsonl or .tsv; also .gz, .zst")
    parser.add_argument("output", type=Path, help=".npy or .parquet")
    parser.add_argument("--pooling", choices=POOLINGS, default="mean", help="(default %(default)s)")
    parser.add_argument("--layer", type=int, default=-1, help="0 = embeddings, -1 = last (default %(default)s)")
    parser.add_argument("--column", default="text", help="of a .jsonl or .tsv file (default %(default)s)")
    parser.add_argument("--max-length", type=int, help="tokens of a text at most (default: what the model reads)")
    options = parser.parse_args(arguments)
    try:
        cut, shape = _run(options)
    except BertcoreError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    print(json.dumps({"texts": shape[0], "hidden_size": shape[1], "truncated": cut, "pooling": options.pooling}))
    return 0


def _run(options: argparse.Namespace) -> tuple[int, tuple[int, ...]]:
    if options.output.suffix not in (".npy", ".parquet"):
        raise ConfigError(f"{options.output}: found the ending {options.output.suffix!r}, expected .npy or .parquet")
    texts = read_texts(options.input, options.column)
    with tokenizer_directory(options.model) as directory:
        model, tokenizer = load_encoder(options.model), load_tokenizer(directory)
    chosen = {"pooling": options.pooling, "layer": options.layer, "max_length": options.max_length}
    vectors, cut = extract(model, tokenizer, texts, **chosen)
    write_vectors(options.output, texts, vectors)
    return cut, vectors.shape


if __name__ == "__main__":
    sys.exit(main())
