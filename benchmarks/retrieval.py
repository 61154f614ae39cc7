"""Search on documentation that the encoder has not read: from a docstring's summary to its body.

    python -m benchmarks.retrieval [--model models/pretrained] [--corpus data/corpus] [--trained NAME=DIR …] [--keep]

Every held-out docstring with a summary and a body is a query and a passage; the one relevant passage of a summary is
its own body. Beside BM25 on the same texts, the encoder's embeddings alone, and the same architecture with random
weights; and what stage `embed` has made of it (`--trained`), whole and cut to `WIDTHS` numbers.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import machine
from benchmarks.results import show
from bertcore.apply.embed import Embedder, normalized
from bertcore.evaluation.retrieval import BM25, ndcg, ranking, recall
from bertcore.examples.docstrings.pair import Parts, split_docstring
from bertcore.examples.docstrings.table import read_docstrings
from bertcore.model.config import architecture_of

TOP = 10
WIDTHS = (None, 64, 32)
"""Of trained vectors."""


def held_out(corpus: Path) -> list[Parts]:
    """The docstrings that no pre-training has read, each body once."""
    parts = (split_docstring(each) for each in read_docstrings(corpus)["dev"])
    return list({each.body: each for each in parts if each is not None}.values())


def cosines(embedder: Embedder, queries: list[str], passages: list[str]) -> NDArray[np.float32]:
    """(Q, P)."""
    return embedder.unit(queries) @ embedder.unit(passages).T


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=Path("models/pretrained"))
    parser.add_argument("--corpus", type=Path, default=Path("data/corpus"))
    parser.add_argument("--keep", action="store_true", help="write the table to benchmarks/results/")
    parser.add_argument("--trained", nargs="*", default=[], metavar="NAME=DIR", help="directories of stage embed")
    options = parser.parse_args()
    found = held_out(options.corpus)
    queries, passages = [each.summary for each in found], [each.body for each in found]
    embedder = Embedder.load(options.model)
    torch.manual_seed(1)
    untrained = Embedder.load(options.model)
    untrained.model.load_state_dict(architecture_of(embedder.model.config).encoder(embedder.model.config).state_dict())
    scores = {
        "BM25": BM25(passages).scores(queries),
        "mean of the last layer": cosines(embedder, queries, passages),
        "mean of the embeddings": cosines(Embedder.load(options.model, layer=0), queries, passages),
        "random weights": cosines(untrained, queries, passages),
    }
    for name, _, place in (each.partition("=") for each in options.trained):
        trained = Embedder.load(Path(place))
        whole = trained.unit(queries), trained.unit(passages)
        for width in WIDTHS:
            first, second = (normalized(vectors[:, :width]) for vectors in whole)
            scores[name if width is None else f"{name}, {width} numbers"] = first @ second.T
    relevant = [{row} for row in range(len(found))]
    rows = []
    for name, of_system in scores.items():
        ranked = ranking(of_system, TOP)
        rows.append(
            {
                "system": name,
                f"nDCG@{TOP}": f"{ndcg(ranked, relevant, TOP):.3f}",
                "recall@1": f"{recall(ranked, relevant, 1):.3f}",
                f"recall@{TOP}": f"{recall(ranked, relevant, TOP):.3f}",
            }
        )
    work = f"{len(found):,} held-out docstrings, from the summary to the body among all bodies"
    show("retrieval-docstrings", {**machine.describe(), "model": str(options.model), "work": work}, rows, options.keep)


if __name__ == "__main__":
    main()
