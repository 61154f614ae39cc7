"""Multiple choice in the layouts that its sets have, and what is wrong with a row."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from bertcore.errors import InputError
from bertcore.examples import choices
from bertcore.examples.bad_rows import EMPTY_TEXT, NO_LABEL, NOT_TEXT, UNKNOWN_LABEL, WRONG_COLUMNS
from bertcore.examples.choices import EMPTY_CHOICE, FEW_CHOICES, ChoicesOptions
from bertcore.examples.schema import ExampleSet

GOOD = {"context": "It rains.", "choices": ["I am wet.", "I am dry."], "label": 0}


def read(directory: Path, **options: Any) -> ExampleSet:
    return choices.read(directory, ChoicesOptions(**options))


def jsonl(path: Path, *rows: Any) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def both(directory: Path, name: str, content: str) -> Path:
    for split in ("train", "dev"):
        (directory / f"{split}{name}").write_text(content)
    return directory


LAYOUTS: dict[str, tuple[str, str, dict[str, Any], tuple[str, str | None, list[str], int]]] = {
    "race": (
        ".jsonl",
        json.dumps({"article": "A text.", "question": "Why?", "options": ["a", "b", "c", "d"], "answer": "C"}),
        {
            **{"context_column": "article", "question_column": "question", "choices_column": "options"},
            **{"label_column": "answer", "label_is": "letter"},
        },
        ("A text.", "Why?", ["a", "b", "c", "d"], 2),
    ),
    "swag": (
        ".csv",
        "sent1,sent2,ending0,ending1,ending2,ending3,label\nShe sits.,She,runs.,walks.,sleeps.,eats.,3\n",
        {
            **{"context_column": "sent1", "question_column": "sent2"},
            "choices_column": [f"ending{place}" for place in range(4)],
        },
        ("She sits.", "She", ["runs.", "walks.", "sleeps.", "eats."], 3),
    ),
    "hellaswag": (
        ".jsonl",
        json.dumps({"ctx": "She", "endings": ["runs", "walks"], "label": "1"}),
        {"context_column": "ctx", "choices_column": "endings"},
        ("She", None, ["runs", "walks"], 1),
    ),
    "commonsenseqa, of the hub": (
        ".jsonl",
        json.dumps(
            {"question": "Where?", "choices": {"label": ["A", "B"], "text": ["here", "there"]}, "answerKey": "B"}
        ),
        {
            **{"context_column": "question", "choices_column": "choices.text"},
            **{"label_column": "answerKey", "label_is": "letter"},
        },
        ("Where?", None, ["here", "there"], 1),
    ),
    "commonsenseqa, its own": (
        ".jsonl",
        json.dumps(
            {"stem": "Where?", "q": {"choices": [{"label": "A", "text": "x"}, {"label": "B", "text": "y"}]}, "key": "a"}
        ),
        {
            **{"context_column": "stem", "choices_column": "q.choices.text"},
            **{"label_column": "key", "label_is": "letter"},
        },
        ("Where?", None, ["x", "y"], 0),
    ),
    "winogrande": (
        ".jsonl",
        json.dumps({"sentence": "It fits as _ is small.", "option1": "it", "option2": "the box", "answer": "2"}),
        {
            **{"context_column": "sentence", "choices_column": ["option1", "option2"]},
            **{"label_column": "answer", "label_is": "number"},
        },
        ("It fits as _ is small.", None, ["it", "the box"], 1),
    ),
    "by text": (
        ".tsv",
        'context\tchoices\tlabel\nA?\t["so", "thus ", "so"]\tthus\n',
        {"label_is": "text"},
        ("A?", None, ["so", "thus ", "so"], 1),
    ),
    "copa, by the column": (
        ".jsonl",
        json.dumps({"premise": "It broke.", "question": "cause", "c1": "It fell.", "c2": "It rose.", "label": "c1"}),
        {
            **{"context_column": "premise", "question_column": "question"},
            **{"choices_column": ["c1", "c2"], "label_is": "column"},
        },
        ("It broke.", "cause", ["It fell.", "It rose."], 0),
    ),
    "without a header": (
        ".csv",
        "A?,b,c,1\n",
        {"header": False, "context_column": "0", "choices_column": ["1", "2"], "label_column": "3"},
        ("A?", None, ["b", "c"], 1),
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_layouts_of_known_sets(name: str, tmp_path: Path) -> None:
    ending, content, options, (context, question, expected, label) = LAYOUTS[name]
    examples = read(both(tmp_path, ending, content), **options)
    assert (examples.family, examples.labels, examples.metrics) == ("multiple_choice", None, ["accuracy"])
    assert examples.splits["train"].to_pylist() == [
        {"id": "0", "context": context, "question": question, "choices": expected, "label": label}
    ]
    assert examples.splits["train"] == examples.splits["dev"]


def test_rows_may_have_different_numbers_of_choices(tmp_path: Path) -> None:
    content = "context,a,b,c,d,label\nx,1,2,3,4,3\ny,1,2,,,1\nz,1,2,3,,0\n"
    examples = read(both(tmp_path, ".csv", content), choices_column=["a", "b", "c", "d"])
    assert [len(row) for row in examples.splits["dev"]["choices"].to_pylist()] == [4, 2, 3]


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"label": 2}, UNKNOWN_LABEL, r"found the label '2' \(label_is: index\), expected one of the 2 choices"),
    ({"label": -1}, UNKNOWN_LABEL, "found the label '-1'"),
    ({"label": "first"}, UNKNOWN_LABEL, "found the label 'first'"),
    ({"label": True}, UNKNOWN_LABEL, "found the label 'True'"),
    ({"label": None}, NO_LABEL, "found no label, expected one"),
    ({"choices": ["alone"]}, FEW_CHOICES, "found 1 of the choices that an example has, expected two or more"),
    ({"choices": []}, FEW_CHOICES, "found 0 of the choices"),
    ({"choices": ["a", " "]}, EMPTY_CHOICE, "found an empty choice at place 1 from 0, expected words"),
    ({"choices": ["a", 3]}, NOT_TEXT, r"found \"\['a', 3\]\" in 'choices', expected a list of texts, in CSV as JSON"),
    ({"choices": "a or b"}, NOT_TEXT, "found 'a or b' in 'choices', expected a list of texts"),
    ({"choices": None}, NOT_TEXT, "found 'None' in 'choices'"),
    ({"context": " "}, EMPTY_TEXT, "found an empty context, expected words"),
    ({"context": 7}, NOT_TEXT, r"found 7 \(int\) in 'context', expected a text"),
    ({"label": ...}, WRONG_COLUMNS, "found no field 'label', expected one in every row"),
    ({"choices": ...}, WRONG_COLUMNS, "found no field 'choices'"),
]


@pytest.mark.parametrize(("label", "choice"), [("caf\u00e9", "cafe\u0301"), ("cafe\u0301", "caf\u00e9")])
def test_a_label_is_the_choice_that_looks_the_same(label: str, choice: str, tmp_path: Path) -> None:
    content = json.dumps({"context": "x", "choices": ["tea", choice], "label": label}) + "\n"
    dev = read(both(tmp_path, ".jsonl", content), label_is="text").splits["dev"]
    assert dev["label"].to_pylist() == [1] and dev["choices"].to_pylist() == [["tea", choice]]


def test_more_letters_than_one_are_no_label(tmp_path: Path) -> None:
    content = '{"sentence": "x", "a": "1", "b": "2", "key": "AB"}\n'
    with pytest.raises(InputError, match=r"found the label 'AB' \(label_is: letter\)"):
        read(
            both(tmp_path, ".jsonl", content),
            context_column="sentence",
            choices_column=["a", "b"],
            label_column="key",
            label_is="letter",
        )


@pytest.mark.parametrize(("change", "reason", "message"), BAD, ids=[str(change) for change, *_ in BAD])
def test_a_bad_row_is_named_or_counted(change: dict[str, Any], reason: str, message: str, tmp_path: Path) -> None:
    bad = {name: value for name, value in (GOOD | change).items() if value is not ...}
    jsonl(tmp_path / "train.jsonl", GOOD, bad, GOOD)
    jsonl(tmp_path / "dev.jsonl", GOOD)
    with pytest.raises(InputError, match=f"train.jsonl:2: {message}.*correct it or skip bad rows"):
        read(tmp_path)
    examples = read(tmp_path, on_error="skip")
    assert examples.splits["train"]["id"].to_pylist() == ["0", "2"] and examples.dropped == {reason: 1}


def test_an_empty_cell_before_a_choice_is_an_empty_choice(tmp_path: Path) -> None:
    content = "context,a,b,c,label\nx,1,,3,2\ny,1,2,3,0\n"
    with pytest.raises(InputError, match=r"train.csv:2: found an empty choice at place 1 from 0"):
        read(both(tmp_path, ".csv", content), choices_column=["a", "b", "c"])


def test_a_key_that_a_cell_lacks_is_named(tmp_path: Path) -> None:
    jsonl(tmp_path / "train.jsonl", GOOD | {"choices": {"text": ["a", "b"]}}, GOOD)
    with pytest.raises(InputError, match=r"train.jsonl:2: found no 'choices.text' in \['I am wet.', 'I am dry.'\]"):
        read(tmp_path, choices_column="choices.text")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context_column": "ctx"}, "no column 'ctx' among 'context', 'choices', 'label'; correct the option context_"),
        ({"question_column": "ask"}, "correct the option question_column"),
        ({"choices_column": ["choices", "other"]}, "no column 'other' among .* correct the option choices_column"),
        ({"choices_column": "options.text"}, "no column 'options' among .* correct the option choices_column"),
        ({"label_column": "answer"}, "correct the option label_column"),
    ],
)
def test_a_column_that_is_not_there_ends_the_reading(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    jsonl(tmp_path / "train.jsonl", GOOD)
    with pytest.raises(InputError, match=f"train.jsonl: .*{message}"):
        read(tmp_path, on_error="skip", **options)


@pytest.mark.parametrize("hidden", [{"label": -1}, {"label": ""}, {"label": None}, {"label": math.nan}, {}])
def test_a_test_file_may_hide_its_labels(hidden: dict[str, Any], tmp_path: Path) -> None:
    for split in ("train", "dev"):
        jsonl(tmp_path / f"{split}.jsonl", GOOD)
    shown = {name: value for name, value in GOOD.items() if name != "label"} | hidden
    jsonl(tmp_path / "test.jsonl", shown, shown)
    assert read(tmp_path).splits["test"]["label"].to_pylist() == [None, None]
    if hidden:
        jsonl(tmp_path / "test.jsonl", shown, GOOD)
        with pytest.raises(InputError, match=r"test.jsonl:1: found (no label|the label '-1')"):
            read(tmp_path)


def test_one_file_is_split_by_contexts(tmp_path: Path) -> None:
    jsonl(tmp_path / "all.jsonl", *(GOOD | {"context": f"text {number % 40}"} for number in range(120)))
    examples = read(tmp_path, dev_fraction=0.3)
    train, dev = (set(examples.splits[split]["context"].to_pylist()) for split in ("train", "dev"))
    assert len(train) + len(dev) == 40 and train and dev
