"""The pipeline on real text and on the tasks that everyone knows: its own encoder beside random weights and baselines.

    python -m benchmarks.tasks [benchmarks/german.yaml --published MODEL] --data DATA --keep

Works in a clone of this repository with FILE as its params.yaml, by `dvc repro`: killed and run again it goes on, task
by task. DATA holds what that file names below `real/`, laid out as the tests' BERTCORE_DATA; MODEL is a directory that
others have published, for tasks that start from it (`init_from: published`).
"""

import csv
import io
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks import results
from benchmarks.clones import make_clone, place_of, repro
from benchmarks.machine import describe
from benchmarks.options import make_parser
from bertcore.compressed import read_text
from bertcore.examples.tag_schemes import entities
from tasks.params import PARAMS, task_entries, values_of
from tasks.paths import METRICS
from tasks.reporting import results as report
from tasks.reporting.comparison import read_comparison
from tasks.reporting.measurements import Measurements
from tasks.reporting.summary import summarize
from tasks.reporting.task_tables import SECONDS, protocol

HERE = Path(__file__).parent
_OF_PROTOCOL = ("Train", "Dev", "Epochs", SECONDS)
_OF_A_PAGE = 5
_OF_AN_ABSTRACT = 10


def main() -> None:
    parser = make_parser(__doc__, "--directory")
    parser.add_argument("file", nargs="?", type=Path, default=HERE / "tasks.yaml", help="(benchmarks/tasks.yaml)")
    parser.add_argument("--data", type=Path, required=True, help="the real data sets")
    parser.add_argument("--published", type=Path, help="a model directory of others")
    arguments = parser.parse_args()
    params = arguments.file.read_text(encoding="utf-8")
    clone = place_of(arguments.file, arguments.directory)
    if make_clone(clone):
        (clone / PARAMS).write_text(params, encoding="utf-8")
        prepare(arguments.data.resolve(), clone, params)
        if arguments.published:
            (clone / "published").symlink_to(arguments.published.resolve())
    if (clone / PARAMS).read_text(encoding="utf-8") != params:
        sys.exit(f"{clone}: found another params.yaml than {arguments.file}; remove it, or name another directory")
    repro(clone)
    show(clone, arguments.file.stem, arguments.keep)


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


def show(clone: Path, name: str, keep: bool) -> None:
    """The report's table of results with the protocol of each task, and what it all cost."""
    params = values_of((clone / PARAMS).read_text(encoding="utf-8"), clone / PARAMS)
    measured = Measurements.read(clone / METRICS, list(task_entries(params)))
    trained, timing = measured.numbers("pretrain"), measured.numbers("timing/pretrain")
    pretraining = trained["tokens"] / timing["tokens_per_second"]
    seconds = sum(sum(measured.numbers(f"timing/finetune/{task}", "seconds").values()) for task in measured.tasks)
    facts = {
        **describe(clone),
        "encoder": f"{params['pretrain']['model']['preset']}, {trained['parameters']:,.0f} parameters, "
        f"{trained['steps']:,.0f} steps of {params['pretrain']['batch_size']} sequences, "
        f"{trained['tokens'] / 1e6:,.1f} million tokens of {', '.join(map(str, params['corpus']['sources']))}",
        "params": f"benchmarks/{name}.yaml",
        "cost": f"{pretraining / 60:,.0f} minutes of pre-training on {timing['threads']:.0f} threads, "
        f"{seconds / 60:,.0f} of fine-tuning and evaluation, random initialisation included",
        "scores": "of the dev_file in percent, median and range over the seeds; every task once from the encoder and "
        "once from random weights with the same budget",
    }
    results.show(name, facts, _rows(measured), keep)


def _rows(measured: Measurements) -> list[dict[str, str]]:
    """The report's results; beside those of the tasks, which are the last ones, how each was trained."""
    comparisons = [read_comparison(measured, task) for task in measured.tasks]
    scores = report.results(measured, summarize(measured, comparisons), comparisons)
    protocols = protocol(measured)
    trained = [dict(zip(protocols.header, row, strict=True)) for row in protocols.rows]
    others = [dict.fromkeys(_OF_PROTOCOL, "")] * (len(scores.rows) - len(trained))
    return [
        dict(zip(scores.header, row, strict=True)) | {column: how[column] for column in _OF_PROTOCOL}
        for row, how in zip(scores.rows, [*others, *trained], strict=True)
    ]


if __name__ == "__main__":
    main()
