"""What files of parameters name below `real/` and `prepared/`, in the clone in which they are measured."""

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bertcore.compressed import read_text
from bertcore.examples.tag_schemes import entities

_OF_A_PAGE = 5
_OF_AN_ABSTRACT = 10


def is_named_in(params: str) -> bool:
    """Whether `params`, the text of such a file, ask for the data sets."""
    return "real/" in params or "prepared/" in params


def prepare(data: Path, clone: Path, params: str) -> None:
    """What `params` name in a new clone: `real/`, which is `data`, and below `prepared/` what is made of it."""
    (clone / "real").symlink_to(data)
    for name, make in PREPARED.items():
        if re.search(rf"prepared/{name}\b", params):
            out = clone / "prepared" / name
            out.mkdir(parents=True)
            make(data, out)


def _prepare_squad(data: Path, out: Path) -> None:
    for name in ("train-v1.1.json.zst", "dev-v1.1.json.zst"):
        (out / name).symlink_to(data / "squad" / name)


def _prepare_docstring_pages(data: Path, out: Path) -> None:
    """Every five contexts of the default's task `qa` as one, with the questions that one of the five alone answers."""
    for split, name in (("train", "train-v1.1.json"), ("dev", "dev-v1.1.json")):
        paragraphs: dict[str, list[dict[str, Any]]] = {}
        for row in pq.read_table(data / "examples" / "qa" / f"{split}.parquet").to_pylist():
            paragraphs.setdefault(row["context"], []).append(row)
        pages = _pages([{"context": context, "qas": rows} for context, rows in paragraphs.items()])
        document = {"version": "1.1", "data": [{"title": "documentation", "paragraphs": pages}]}
        (out / name).write_text(json.dumps(document), encoding="utf-8")


def _pages(paragraphs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [_joined(paragraphs[first : first + _OF_A_PAGE]) for first in range(0, len(paragraphs), _OF_A_PAGE)]


def _joined(paragraphs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One paragraph of SQuAD in place of several; of their questions those whose subject no other of them names."""
    contexts = [paragraph["context"] for paragraph in paragraphs]
    questions = []
    for number, paragraph in enumerate(paragraphs):
        others = "\n".join(contexts[:number] + contexts[number + 1 :])
        before = sum(len(context) + 1 for context in contexts[:number])
        for question in paragraph["qas"]:
            subject = question["id"].rpartition(":")[2]
            if not re.search(rf"(?<!\w){re.escape(subject)}(?!\w)", others):
                questions.append(_moved(question, before))
    return {"context": "\n".join(contexts), "qas": questions}


def _moved(question: dict[str, Any], characters: int) -> dict[str, Any]:
    answers = [{**answer, "answer_start": answer["answer_start"] + characters} for answer in question["answers"]]
    return {**question, "answers": answers}


def _prepare_nli(data: Path, out: Path) -> None:
    for split, name in (("train", "train"), ("dev", "valid")):
        (out / f"{split}.jsonl.zst").symlink_to(data / "nli" / f"mnli_en.{name}.jsonl.zst")


def _prepare_wikiann(data: Path, out: Path) -> None:
    """Without the prefix that every word has, its language."""
    for name in ("train", "test"):
        text = read_text(data / "ner" / "wikiann_de" / f"{name}.txt.zst")
        (out / f"{name}.txt").write_text(re.sub(r"(?m)^de:", "", text), encoding="utf-8")


def _prepare_bc5cdr_documents(data: Path, out: Path) -> None:
    """Sentences of BC5CDR ten by ten as documents: they stand in the order of their abstracts, whose borders are not
    marked, and an abstract has nine on average. Once with their tags, and once with those of `_as_mentions`."""
    for split, name in (("train", "train"), ("dev", "test")):
        sentences = read_text(data / "ner" / "bc5cdr" / f"{name}.tsv.zst").strip("\n").split("\n\n")
        starts = range(0, len(sentences), _OF_AN_ABSTRACT)
        documents = ["\n\n".join(sentences[start : start + _OF_AN_ABSTRACT]) for start in starts]
        for kind, texts in (("types", documents), ("mentions", map(_as_mentions, documents))):
            text = "".join(f"-DOCSTART-\tO\n\n{document}\n\n" for document in texts)
            (out / kind).mkdir(exist_ok=True)
            (out / kind / f"{split}.tsv").write_text(text, encoding="utf-8")


def _as_mentions(document: str) -> str:
    """The entities of a document are `First`, or `Later` where the same words, whatever their case, were one before."""
    rows = [line.split("\t") for line in document.split("\n")]
    seen: set[tuple[str, ...]] = set()
    for _, start, end in entities([row[-1] or "O" for row in rows]):  # nothing stands between sentences
        words = tuple(row[0].lower() for row in rows[start:end])
        for row in rows[start:end]:
            row[-1] = f"{row[-1][0]}-{'Later' if words in seen else 'First'}"
        seen.add(words)
    return "\n".join(map("\t".join, rows))


def _prepare_ag_news(data: Path, out: Path) -> None:
    """The training rows ("title description", class from 0) and the test rows (class from 1, title, description)."""
    source = data / "topic" / "ag_news"
    train = csv.reader(io.StringIO(read_text(source / "train_5k_subset.csv.zst")))
    test = csv.reader(io.StringIO(read_text(source / "test.csv.zst")))
    splits = {
        "train": [(text, label) for text, label in train],
        "dev": [(f"{title} {description}", str(int(label) - 1)) for label, title, description in test],
    }
    for split, rows in splits.items():
        lines = (json.dumps({"text": text, "label": label}, ensure_ascii=False) + "\n" for text, label in rows)
        (out / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")


PREPARED = {
    "squad": _prepare_squad,
    "docstring_pages": _prepare_docstring_pages,
    "ag_news": _prepare_ag_news,
    "nli": _prepare_nli,
    "bc5cdr_documents": _prepare_bc5cdr_documents,
    "wikiann": _prepare_wikiann,
}
"""What stands below `prepared/` -> the function that makes it of the data."""
