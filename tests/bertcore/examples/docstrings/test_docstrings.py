import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertcore.corpus.sources.pydoc.source import RECORD_SCHEMA
from bertcore.errors import ArtifactError
from bertcore.examples.docstrings import READERS, topic
from bertcore.examples.docstrings.parameters import DEFAULT, Parameter, parse_parameters
from bertcore.examples.docstrings.questions import MAX_CONTEXT_WORDS
from bertcore.examples.docstrings.tagging import tagged_sequences
from bertcore.examples.docstrings.topic import label_names, without_names

SUBJECTS = ["penguin", "seal", "whale", "krill", "albatross", "orca", "squid", "petrel", "walrus", "narwhal"]
PLACES = ["ice", "shore", "ocean", "bay", "cliff", "island", "glacier", "beach"]


def invented(rng: random.Random, count: int) -> str:
    """Words without a meaning, so that no two texts are alike."""
    return " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(count))


def docstring(package: str, subject: str, place: str) -> str:
    rng = random.Random(f"{package} {subject} {place}")
    return f"""Send the {subject} of {package} over {invented(rng, 6)}.

This belongs to {package}.core and follows send_{subject} along {invented(rng, 20)} with another.

Parameters
----------
{subject}_count : int, default={len(subject)}
    Number of animals, each a {subject}, that go to the {place}.
speed_{place} : float or array of {place}
    How fast a {subject} moves on the {place}.

Returns
-------
int
    Animals that came back.
"""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Docstrings of two packages; every fourth module is held out, and one held-out docstring is a copy from train."""
    rows: list[dict[str, Any]] = []
    for package in ("birdlib", "np_tools"):
        for module, place in enumerate(PLACES):
            for subject in SUBJECTS:
                rows.append(
                    {
                        "document_id": f"pydoc:{package}.m{module}",
                        "split": "heldout" if module % 4 == 3 else "train",
                        "package": package,
                        "qualname": f"send_{subject}",
                        "kind": "function",
                        "parameters": [f"{subject}_count", f"speed_{place}"],
                        "docstring": docstring(package, subject, place),
                    }
                )
    copy = next(row for row in rows if row["split"] == "train")
    rows.append({**copy, "document_id": "pydoc:birdlib.m7", "split": "heldout", "qualname": "copied"})
    pq.write_table(pa.Table.from_pylist(rows, RECORD_SCHEMA), tmp_path / "docstrings.parquet")
    return tmp_path


def text_of(row: dict[str, Any]) -> str:
    return str(row.get("context") or row.get("words") or (row["text_a"], row["text_b"]))


@pytest.mark.parametrize("task", READERS)
def test_splits_are_disjoint_and_the_same_every_time(task: str, corpus: Path) -> None:
    first, second = READERS[task](corpus), READERS[task](corpus)
    assert first == second
    splits = {name: table.to_pylist() for name, table in first.splits.items()}
    assert set(splits) == {"train", "dev"} and all(splits.values())
    assert not {text_of(row) for row in splits["train"]} & {text_of(row) for row in splits["dev"]}
    ids = [row["id"] for rows in splits.values() for row in rows]
    assert len(ids) == len(set(ids))
    assert {re.search(r"\.m(\d)", row["id"])[1] for row in splits["dev"]} <= {"3", "7"}  # type: ignore[index]


@pytest.mark.parametrize("task", ["topic", "tagging", "qa"])
def test_a_dev_copy_of_a_train_example_is_dropped_and_counted(task: str, corpus: Path) -> None:
    examples = READERS[task](corpus)
    assert examples.dropped["dev copy of an example"] >= 1
    assert not any("copied" in row["id"] for row in examples.splits["dev"].to_pylist())


@pytest.mark.parametrize("task", READERS)
def test_the_budget_is_kept(task: str, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(topic.BUDGETS, "train", 8)
    monkeypatch.setitem(topic.BUDGETS, "dev", 4)
    splits = READERS[task](corpus).splits
    assert 0 < splits["train"].num_rows <= 8 and 0 < splits["dev"].num_rows <= 4


@pytest.fixture(autouse=True)
def few_docstrings_make_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    for split in ("train", "dev"):
        monkeypatch.setitem(topic.MIN_LONG_DOCSTRINGS, split, 2)


def test_topic_labels_are_packages_and_stand_in_no_text(corpus: Path) -> None:
    examples = READERS["topic"](corpus)
    assert examples.labels == ["birdlib", "np_tools"]
    for table in examples.splits.values():
        for row in table.to_pylist():
            assert row["label"] in row["id"] and row["text_b"] is None
            assert "birdlib" not in row["text_a"].lower() and "np_tools" not in row["text_a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Call numpy.array or np.array, not NumPyArray here", "Call or not here"),
        ("scikit-learn and Sklearn's API on\nsklearn.base lines", "and API on lines"),
        ("the input of unpack is a snapshot", "the input of unpack is a snapshot"),
    ],
)
def test_names_of_labels_are_removed_with_their_word(text: str, expected: str) -> None:
    assert " ".join(without_names(text, label_names(["numpy", "sklearn"])).split()) == expected


def test_pair_is_balanced_on_each_side_and_inside_each_module(corpus: Path) -> None:
    for table in READERS["pair"](corpus).splits.values():
        rows = table.to_pylist()
        for side in ("text_a", "text_b"):
            counts = {label: Counter(row[side] for row in rows if row["label"] == label) for label in ("no", "yes")}
            assert counts["no"] == counts["yes"]
        for row in rows:
            (module_a, name_a), (module_b, name_b) = (part.split(":")[:2] for part in row["id"].split("|"))
            assert module_a == module_b
            assert (row["label"] == "yes") == (name_a == name_b)
            assert name_a not in row["text_a"] + row["text_b"] and name_b not in row["text_a"] + row["text_b"]


def test_tagging_marks_names_and_types_without_layout(corpus: Path) -> None:
    examples = READERS["tagging"](corpus)
    for table in examples.splits.values():
        for row in table.to_pylist():
            assert len(row["words"]) == len(row["tags"]) and set(row["tags"]) <= set(examples.labels or [])
            assert not re.search(r"[:`\n\[\]()*=]", "".join(row["words"]))
            names = [word for word, tag in zip(row["words"], row["tags"], strict=True) if tag == "B-NAME"]
            assert len(names) == 2 and names[0].endswith("_count") and names[1].startswith("speed_")
            inside = [(a, b) for a, b in zip(row["tags"], row["tags"][1:], strict=False) if b == "I-TYPE"]
            assert all(before in ("B-TYPE", "I-TYPE") for before, _ in inside)


def test_tagged_sequences_cut_between_parameters() -> None:
    parameters = [Parameter(f"p{number}", "list of int", "optional", "word " * 20) for number in range(5)]
    sequences = list(tagged_sequences(parameters))
    assert [tags.count("B-NAME") for _, tags in sequences] == [2, 2, 1]
    assert sequences[0][0][:6] == ["p0", "list", "of", "int", "optional", "word"]
    assert sequences[0][1][:6] == ["B-NAME", "B-TYPE", "I-TYPE", "I-TYPE", "O", "O"]


def test_answers_are_spans_of_the_context(corpus: Path) -> None:
    questions = set()
    for table in READERS["qa"](corpus).splits.values():
        for row in table.to_pylist():
            ((text, start),) = [(answer["text"], answer["answer_start"]) for answer in row["answers"]]
            assert text and row["context"][start : start + len(text)] == text
            assert len(row["context"].split()) <= MAX_CONTEXT_WORDS
            questions.add(row["question"].split()[0])
    assert {"What", "Which"} <= questions


NUMPY = """Fit.

Parameters
----------
alpha : {float, "auto"}, default="auto"
    Strength of it.
x, y : array-like of shape (n, m), optional
    The data.
rows : number of rows
unknown : int
    Not in the signature.
flag : the switch that turns it on

Returns
-------
beta : int
    Nothing.
"""
GOOGLE = """Fit.

Args:
    alpha (float): Strength: it is
        a number.
    x (list[int], optional): The data.
    **flag: More.

Returns:
    beta: no parameter
"""
SPHINX = """Fit.

:param float alpha: Strength of
  it.
:param x: The data.
:type x: list[int]
:param y: str
  A typed one.
:returns: nothing
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            NUMPY,
            [
                Parameter("alpha", '{float, "auto"}', 'default="auto"', "Strength of it."),
                Parameter("x", "array-like", "of shape (n, m), optional", "The data."),
                Parameter("y", "array-like", "of shape (n, m), optional", "The data."),
                Parameter("rows", "", "", "number of rows"),
                Parameter("flag", "", "", "the switch that turns it on"),
            ],
        ),
        (
            GOOGLE,
            [
                Parameter("alpha", "float", "", "Strength: it is a number."),
                Parameter("x", "list[int]", "optional", "The data."),
                Parameter("flag", "", "", "More."),
            ],
        ),
        (
            SPHINX,
            [
                Parameter("alpha", "float", "", "Strength of it."),
                Parameter("x", "list[int]", "", "The data."),
                Parameter("y", "str", "", "A typed one."),
            ],
        ),
    ],
)
def test_parameters_of_three_layouts(text: str, expected: list[Parameter]) -> None:
    assert parse_parameters(text, ("alpha", "x", "y", "rows", "flag", "beta")) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("int, default=1e-3. The step.", "1e-3"),
        ("The axis (defaults to 'rows').", "rows"),
        ("Which one. Default is None.", "None"),
        ("bool, default False", "False"),
        ("Defaults to the empty string.", None),
        ("the default behaviour of it", None),
    ],
)
def test_defaults(text: str, value: str | None) -> None:
    match = DEFAULT.search(text)
    assert (match and match["value"]) == value


def test_a_missing_table_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="docstrings.parquet: not found, expected .* run `dvc repro corpus`"):
        READERS["topic"](tmp_path)
    (tmp_path / "docstrings.parquet").write_bytes(b"nothing")
    with pytest.raises(ArtifactError, match="damaged"):
        READERS["qa"](tmp_path)
