"""Vectors that no label has made: search on text that the encoder has not read, and STS-B's similarities.

    python -m benchmarks.retrieval [--model models/pretrained] [--corpus data/corpus] [--trained NAME=DIR …]
        [--published NAME=DIR …] [--sts DIR] [--name NAME] [--keep]

Of every held-out document (a corpus of docstrings: of every held-out docstring) the first sentence is a query, and what
follows a passage; the one relevant passage of a query is its own. With `--sts`, the cosines of STS-B's dev pairs
beside what people said. Beside words alone (BM25; cosines of tf-idf), the encoder's embeddings alone, and the same
architecture with random weights; what stage `embed` has made of it (`--trained`), whole, cut to `WIDTHS` numbers and in
fewer bits; and what others have published (`--published`).
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer

from benchmarks import results
from benchmarks.machine import describe
from benchmarks.options import make_parser
from bertcore.apply.compact import PRECISIONS, Precision, compact, restored
from bertcore.apply.embed import Embedder
from bertcore.embedding.config import EmbedConfig
from bertcore.embedding.pairs import read_pair_sets
from bertcore.embedding.scoring import Search
from bertcore.embedding.vectors import normalized
from bertcore.evaluation.classification import spearmanr
from bertcore.evaluation.retrieval import BM25
from bertcore.examples.glue import GlueOptions, read
from bertcore.model.config import architecture_of

WIDTHS = (64, 32)
"""To which trained vectors are cut, too."""

Unit = Callable[[list[str]], NDArray[np.float32]]
"""Texts -> vectors of length 1."""


class Similarity:
    """STS-B's pairs of its dev set: Spearman's correlation, x100, of their cosines with what people said."""

    def __init__(self, directory: Path) -> None:
        dev = read("stsb", directory, GlueOptions()).splits["dev"]
        self.first, self.second, self.gold = (dev[name].to_pylist() for name in ("text_a", "text_b", "label"))

    def score(self, unit: Unit) -> float:
        return 100 * spearmanr(self.gold, np.sum(unit(self.first) * unit(self.second), 1).tolist())

    def words(self) -> float:
        """Of words alone."""
        vectorizer = TfidfVectorizer().fit([*self.first, *self.second])
        return self.score(lambda texts: vectorizer.transform(texts).toarray())


def systems(options: argparse.Namespace) -> dict[str, Unit]:
    """What makes vectors, by its name."""
    embedder = Embedder.load(options.model)
    torch.manual_seed(1)
    untrained = Embedder.load(options.model)
    untrained.model.load_state_dict(architecture_of(embedder.model.config).encoder(embedder.model.config).state_dict())
    found: dict[str, Unit] = {
        "mean of the last layer": embedder.unit,
        "mean of the embeddings": Embedder.load(options.model, layer=0).unit,
        "random weights": untrained.unit,
    }
    for name, place in options.trained:
        trained = Embedder.load(place)
        found[name] = trained.unit
        found |= {f"{name}, {width} numbers": partial(_cut, trained, width) for width in WIDTHS}
        found |= {f"{name}, {precision}": partial(_kept, trained, precision) for precision in PRECISIONS[1:]}
    return found | {name: Embedder.load(place).unit for name, place in options.published}


def named(given: str) -> tuple[str, Path]:
    name, place = given.split("=", 1)
    return name, Path(place)


def _cut(embedder: Embedder, width: int, texts: list[str]) -> NDArray[np.float32]:
    return normalized(embedder.unit(texts)[:, :width])


def _kept(embedder: Embedder, precision: Precision, texts: list[str]) -> NDArray[np.float32]:
    vectors = embedder.unit(texts)
    return restored(compact(vectors, precision), precision, vectors.shape[1])


def _row(system: str, found: dict[str, float], similarity: float | None) -> dict[str, str]:
    scores = {name.replace("ndcg_at_", "nDCG@").replace("_at_", "@"): f"{value:.3f}" for name, value in found.items()}
    row = {"system": system, **scores}
    return row if similarity is None else {**row, "STS-B": f"{similarity:.1f}"}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/pretrained"))
    parser.add_argument("--corpus", type=Path, default=Path("data/corpus"))
    pairs: dict[str, Any] = {"type": named, "nargs": "*", "default": [], "metavar": "NAME=DIR"}
    parser.add_argument("--trained", help="directories of stage embed", **pairs)
    parser.add_argument("--published", help="directories of others", **pairs)
    parser.add_argument("--sts", type=Path, help="directory of STS-B in GLUE's layout")
    parser.add_argument("--name", default="docstrings", help="of the text, for the file of the result (%(default)s)")
    options = parser.parse_args()
    search = Search(read_pair_sets(EmbedConfig(pairs="title_body"), options.corpus).heldout)
    similarity = Similarity(options.sts) if options.sts else None
    words = search.score(BM25(search.passages).scores(search.queries))
    rows = [_row("words (BM25; tf-idf)", words, similarity.words() if similarity else None)]
    for name, unit in systems(options).items():
        found = search.score(unit(search.queries) @ unit(search.passages).T)
        rows.append(_row(name, found, similarity.score(unit) if similarity else None))
    work = f"{len(search.queries):,} held-out beginnings of {options.name}, each to what follows it among all"
    facts = {**describe(), "model": str(options.model), "work": work}
    if similarity:
        facts["STS-B"] = f"{len(similarity.gold):,} pairs of dev, Spearman's correlation x100; no label was used"
    results.show(f"retrieval-{options.name}", facts, rows, options.keep)


if __name__ == "__main__":
    main()
