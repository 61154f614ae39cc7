"""GLUE and SQuAD through the real `datasets` library against a hub on this machine."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, Features, List, Value

from bertcore.errors import InputError
from bertcore.examples import schema
from bertcore.examples.bad_rows import EMPTY_TEXT, BadRows
from bertcore.examples.conll import ConllOptions
from bertcore.examples.hub_rows import question_table, read_tagged
from bertcore.examples.squad import REPAIRED
from tests.hub_server import HubServer

PROGRAM = """
import json, sys
from pathlib import Path
from bertcore.errors import BertcoreError
from bertcore.examples import schema
from bertcore.examples.hub import read_hub
errors = []
for number, (uri, format_name, *options) in enumerate(json.loads(sys.argv[1])):
    try:
        schema.write(read_hub(uri, format_name, *options), Path(sys.argv[2]) / str(number))
    except BertcoreError as error:
        errors.append([type(error).__name__, str(error)])
print(json.dumps(errors))
"""


def parquet(rows: list[dict], features: Features | None = None) -> bytes:
    """With `features`, as `datasets` itself writes it."""
    file = io.BytesIO()
    if features is None:
        pq.write_table(pa.Table.from_pylist(rows), file)
    else:
        Dataset.from_list(rows, features=features).to_parquet(file)
    return file.getvalue()


def repository(config: str, splits: dict[str, list[dict]], features: Features | None = None) -> dict[str, bytes]:
    files = "".join(f"  - split: {split}\n    path: {config}/{split}.parquet\n" for split in splits)
    readme = f"---\nconfigs:\n- config_name: {config}\n  data_files:\n{files}---\n"
    return {
        "README.md": readme.encode(),
        **{f"{config}/{split}.parquet": parquet(rows, features) for split, rows in splits.items()},
    }


def two_configurations(name: str, splits: dict, other: str, other_splits: dict) -> dict[str, bytes]:
    first, second = repository(name, splits), repository(other, other_splits)
    header = second["README.md"].removeprefix(b"---\nconfigs:\n")
    return {**first, **second, "README.md": first["README.md"].removesuffix(b"---\n") + header}


def run(asked: list[list[Any]], repositories: dict[str, dict[str, bytes]], directory: Path) -> list[list[str]]:
    """Read each of `asked` in a process of its own into `directory/out/INDEX`; the errors, by class and message."""
    with HubServer(repositories) as hub:
        command = [sys.executable, "-c", PROGRAM, json.dumps(asked), str(directory / "out")]
        environment = hub.environment(directory / "home")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_glue_and_squad(tmp_path: Path) -> None:
    cola = [{"sentence": "He goes.", "label": 1, "idx": 0}, {"sentence": "Him goes.", "label": 0, "idx": 1}]
    hidden = [{"sentence": "Who?", "label": -1, "idx": 0}]
    sevens = [*cola, {"sentence": "Who?", "label": 7, "idx": 0}]
    hidden_pair = [{"premise": "a", "hypothesis": "b", "label": -1, "idx": 0}]
    mnli = [{"premise": "a", "hypothesis": "b", "label": 2, "idx": 0}]
    stsb = [{"sentence1": "a", "sentence2": "b", "label": 2.5, "idx": 0}]
    answers = {"text": ["fox", "fox"], "answer_start": [4, 0]}
    question = {"id": "q", "title": "t", "context": "The fox.", "question": "Who?", "answers": answers}
    text, answer_lists = Value("string"), {"text": List(Value("string")), "answer_start": List(Value("int32"))}
    names = ("title", "context", "question")
    squad = Features({"id": Value("int64"), **dict.fromkeys(names, text), "answers": answer_lists})
    unanswered = {**question, "id": 8, "answers": {"text": [], "answer_start": []}}
    untitled = [
        {"id": f"q{number}", "context": f"The fox {number}.", "question": "Who?", "answers": answers}
        for number in range(20)
    ]
    repositories = {
        "o/cola": repository("cola", {"train": cola, "validation": cola, "test": hidden}),
        "o/glue": two_configurations(
            "mnli",
            {"train": mnli, "validation_matched": mnli, "validation_mismatched": mnli, "test_matched": hidden_pair},
            "ax",
            {"test": hidden_pair},
        ),
        "o/stsb": repository("stsb", {"train": stsb, "validation": stsb}),
        "o/squad": repository("plain_text", {"train": [question], "validation": [question]}),
        "o/hidden": repository(
            "plain_text",
            {"train": [{**question, "id": 7}], "validation": [{**question, "id": 7}], "test": [unanswered]},
            squad,
        ),
        "o/other": repository("plain_text", {"pages": untitled}),
        "o/half": repository("cola", {"train": cola}),
        "o/bad": repository("cola", {"train": [*cola, {"sentence": " ", "label": 1}, *hidden], "validation": sevens}),
    }
    asked = [
        ["hf://o/cola/cola", "glue/cola"],
        ["hf://o/glue/mnli", "glue/mnli"],
        ["hf://o/stsb/stsb", "glue/stsb"],
        ["hf://o/squad", "squad"],
        ["hf://o/half/cola", "glue/cola"],
        ["hf://o/cola/cola", "glue/mrpc"],
        ["hf://o/cola/cola", "glue/colla"],
        ["hf://o/bad", "glue/cola"],
        ["hf://o/bad", "glue/cola", {"on_error": "skip"}],
        ["hf://o/hidden", "squad"],
        ["hf://o/other", "squad", {"train_file": "pages", "dev_fraction": 0.5}],
    ]
    half, columns, unknown, bad = run(asked, repositories, tmp_path)
    assert half[0] == "InputError" and "no split 'validation' among train" in half[1]
    assert columns[0] == "InputError" and "no column 'sentence1', expected the columns of glue/mrpc" in columns[1]
    assert unknown[0] == "ConfigError" and "did you mean 'glue/cola'" in unknown[1]
    assert bad[0] == "InputError" and "hf://o/bad: train:3: found an empty text, expected words" in bad[1]
    skipped = schema.read(tmp_path / "out/8")
    assert skipped.dropped == {"empty text": 1, "no label": 1, "unknown label": 1}
    assert [skipped.splits[split]["id"].to_pylist() for split in ("train", "dev")] == [["0", "1"], ["0", "1"]]
    read = [schema.read(tmp_path / "out" / str(number)) for number in range(4)]
    assert read[0].splits["dev"].to_pylist() == [
        {"id": "0", "text_a": "He goes.", "text_b": None, "label": "1"},
        {"id": "1", "text_a": "Him goes.", "text_b": None, "label": "0"},
    ]
    assert read[0].splits["test"]["label"].to_pylist() == [None] and read[0].metrics == ["mcc"]
    assert set(read[1].splits) == {"train", "dev", "dev_mismatched", "test", "ax"}
    assert read[1].splits["ax"]["label"].to_pylist() == [None] and read[1].metrics_of("ax") == ["mcc"]
    assert read[1].splits["dev"].to_pylist() == [{"id": "0", "text_a": "a", "text_b": "b", "label": "contradiction"}]
    assert read[2].labels is None and read[2].splits["train"]["label"].to_pylist() == [2.5]
    assert read[3].splits["dev"]["answers"].to_pylist() == [[{"text": "fox", "answer_start": 4}] * 2]
    assert read[3].dropped == {REPAIRED: 2}  # one in train, one in dev
    drawn = schema.read(tmp_path / "out/10").splits
    assert set(drawn) == {"train", "dev"} and sum(table.num_rows for table in drawn.values()) == 20
    hidden_answers = schema.read(tmp_path / "out/9").splits
    assert hidden_answers["train"]["id"].to_pylist() == ["7"] and hidden_answers["dev"]["answers"].null_count == 0
    assert hidden_answers["test"]["answers"].to_pylist() == [None]


def test_tables_and_tagged_words(tmp_path: Path) -> None:
    news = Features({"title": Value("string"), "topic": ClassLabel(names=["World", "Sports"])})
    of_news = [{"title": "a war", "topic": 0}, {"title": "a goal", "topic": 1}]
    emotions = Features({"text": Value("string"), "labels": List(ClassLabel(names=["joy, mirth", "fear"]))})
    of_emotions = [{"text": "ha", "labels": [0, 1]}, {"text": "hm", "labels": []}]
    names = Features({"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=["O", "B-PER", "I-PER"]))})
    ada, other = (
        {"tokens": ["Ada", "Byron", "ran"], "ner_tags": [1, 2, 0]},
        {"tokens": ["I", "ran"], "ner_tags": [0, 0]},
    )
    broken = {"tokens": ["Ada"], "ner_tags": [1, 2]}
    hidden = {"title": "?", "topic": -1}
    repositories = {
        "o/news": repository("x", {"train": of_news, "test": of_news, "hidden": [hidden]}, news),
        "o/emotions": repository("x", {"train": of_emotions, "validation": of_emotions}, emotions),
        "o/names": repository("x", {"train": [ada, other], "validation": [ada], "test": [other]}, names),
        "o/broken": repository("x", {"train": [ada, other], "validation": [ada, other, broken]}, names),
        "o/numbers": repository("x", {"train": [ada, other], "validation": [ada]}),
    }
    copa = Features({name: Value("string") for name in ("premise", "question", "choice1", "choice2")}
                    | {"label": ClassLabel(names=["choice1", "choice2"])})  # fmt: skip
    of_copa = {"premise": "It broke.", "question": "cause", "choice1": "It fell.", "choice2": "It rose.", "label": 0}
    repositories["o/copa"] = repository(
        "x", {"train": [of_copa], "validation": [of_copa], "test": [of_copa | {"label": -1}]}, copa
    )
    columns = {"text_column": "title", "label_column": "topic", "dev_file": "test"}
    asked = [
        ["hf://o/news", "table", {**columns, "test_file": "hidden"}],
        ["hf://o/emotions", "table", {"kind": "multi_label", "label_column": "labels"}],
        ["hf://o/names", "conll"],
        ["hf://o/broken", "conll", {"on_error": "skip"}],
        [
            *("hf://o/copa", "choices"),
            {
                **{"context_column": "premise", "question_column": "question"},
                **{"choices_column": ["choice1", "choice2"], "label_is": "column"},
            },
        ],
        ["hf://o/news", "table", {"dev_file": "tset"}],
        ["hf://o/news", "table"],
        ["hf://o/news", "table", {**columns, "dev_file": "hidden"}],
        ["hf://o/names", "conll", {"tag_name": "pos_tags"}],
        ["hf://o/broken", "conll"],
        ["hf://o/numbers", "conll"],
        ["hf://o/names", "conll", {"unit": "document"}],
        ["hf://o/names", "table", {"text_colum": "tokens"}],
    ]
    errors = [message for _, message in run(asked, repositories, tmp_path)]
    expected = [
        "hf://o/news: no split 'tset' among train, test, hidden; name one with the option dev_file",
        "hf://o/news: train: no column 'text' among 'title', 'topic'; correct the option text_column",
        "hf://o/news: dev:1: found no label, expected one",
        "hf://o/names: train: no column 'pos_tags' among tokens, ner_tags; correct the option tag_name",
        "hf://o/broken: dev:3: found the tags ['B-PER', 'I-PER'], expected 1, one for each word",
        "hf://o/numbers: train:1: found the tag 1, expected a name, or a class that has one",
        "hf://o/names: found unit: document, expected sentence",
        "options of table: unknown key 'text_colum'; did you mean 'text_column'?",
    ]
    assert [message[: len(part)] for message, part in zip(errors, expected, strict=True)] == expected
    read = [schema.read(tmp_path / "out" / str(number)) for number in range(5)]
    (row,) = read[4].splits["dev"].to_pylist()
    assert (row["context"], row["question"], row["choices"]) == ("It broke.", "cause", ["It fell.", "It rose."])
    assert row["label"] == 0 and read[4].splits["test"]["label"].to_pylist() == [None]
    assert read[0].labels == ["Sports", "World"] and set(read[0].splits) == {"dev", "test", "train"}
    assert read[0].splits["dev"]["label"].to_pylist() == ["World", "Sports"]
    assert read[0].splits["test"].to_pylist() == [{"id": "0", "text_a": "?", "text_b": None, "label": None}]
    assert read[1].splits["dev"]["labels"].to_pylist() == [["fear", "joy, mirth"], []]
    assert read[2].labels == ["O", "B-PER", "I-PER"] and read[2].metrics == ["f1", "precision", "recall"]
    dev = [{"id": "0", "words": ["Ada", "Byron", "ran"], "tags": ["B-PER", "I-PER", "O"]}]
    assert read[2].splits["dev"].to_pylist() == dev and read[2].splits["test"]["tags"].to_pylist() == [["O", "O"]]
    assert read[3].dropped == {"wrong number of columns": 1} and read[3].splits["dev"].num_rows == 2


def test_a_sentence_without_words_is_counted() -> None:
    class Loaded(list[dict[str, Any]]):
        features: ClassVar = {"tokens": None, "ner_tags": None}

    rows = Loaded([{"tokens": ["Ada"], "ner_tags": ["B-PER"]}, {"tokens": [], "ner_tags": []}])
    options = ConllOptions(token_name="tokens", tag_name="ner_tags")
    found = read_tagged("o/n", {"train": rows, "validation": rows}, options)
    assert found.splits["train"].num_rows == 1 and found.dropped == {EMPTY_TEXT: 2}


def test_a_split_with_another_name_of_dev_is_dev_and_what_is_not_read_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Loaded(list[dict[str, Any]]):
        features: ClassVar = {"tokens": None, "ner_tags": None}

    train = Loaded([{"tokens": ["Ada"], "ner_tags": ["B-PER"]}] * 3)
    dev = Loaded([{"tokens": ["Bo"], "ner_tags": ["B-PER"]}])
    found = read_tagged("o/n", {"train": train, "dev": dev, "extra": dev}, ConllOptions())
    assert found.splits["dev"]["words"].to_pylist() == [["Bo"]]
    assert "o/n: not read, as no split is made of them: extra" in caplog.text


def test_answers_may_be_objects_as_in_squads_own_files() -> None:
    row = {"id": "q", "title": "t", "context": "The fox.", "question": "Who?"}
    columns, objects = {"text": ["fox"], "answer_start": [4]}, [{"text": "fox", "answer_start": 4}]
    for split in ("train", "test"):
        tables = [question_table([{**row, "answers": each}], "o/s", split, BadRows()) for each in (columns, objects)]
        assert tables[0].equals(tables[1]) and tables[0]["answers"].to_pylist() == [objects]
    assert question_table([{**row, "answers": []}], "o/s", "test", BadRows())["answers"].to_pylist() == [None]
    for broken in ({"text": ["fox", "The"], "answer_start": [4]}, "fox", ["fox"]):
        with pytest.raises(InputError, match=r"o/s: question q: found the answers .*; correct the set"):
            question_table([{**row, "answers": broken}], "o/s", "train", BadRows())


def test_a_question_without_answers_beside_others_is_named() -> None:
    row = {"id": "q8", "title": "t", "context": "The fox.", "question": "Who?"}
    rows = [{**row, "id": "q7", "answers": {"text": ["fox"], "answer_start": [4]}}, {**row, "answers": None}]
    with pytest.raises(InputError, match=r"o/squad: question q8: found no answers \(null\), expected some"):
        question_table(rows, "o/squad", "test", BadRows())
