import json
from pathlib import Path
from typing import Any

import pytest

from bertcore.compressed import read_json
from bertcore.errors import InputError
from bertcore.evaluation.squad import to_articles
from bertcore.examples import squad
from bertcore.examples.bad_rows import EMPTY_TEXT, BadRows
from bertcore.examples.squad import SquadOptions
from tests.packing import pack

CONTEXT = "The fox saw a fox, 😀 and a dog."


def question(key: str, *answers: tuple[str, int], **more: Any) -> dict[str, Any]:
    golds = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": key, "question": "What?", "answers": golds, **more}


def dataset(*questions: dict[str, Any]) -> bytes:
    return json.dumps(
        {"version": "v", "data": [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": questions}]}]}
    ).encode()


def test_read_both_versions(tmp_path: Path) -> None:
    content = dataset(
        question("a", ("dog", 27)), question("b", is_impossible=True, plausible_answers=[{"text": "fox"}])
    )
    pack(tmp_path / "train-v2.0.json.gz", content)
    pack(tmp_path / "dev-v2.0.json.zst", content)
    pack(tmp_path / "dev-v1.1.json", b"not read")
    examples = squad.read(tmp_path, SquadOptions())
    assert examples.splits["dev"].to_pylist() == [
        {
            "id": "a",
            "title": "t",
            "context": CONTEXT,
            "question": "What?",
            "answers": [{"text": "dog", "answer_start": 27}],
        },
        {"id": "b", "title": "t", "context": CONTEXT, "question": "What?", "answers": []},
    ]
    assert (examples.metrics, examples.labels, examples.dropped) == (["f1", "exact_match"], None, {})


@pytest.mark.parametrize(
    ("text", "start", "repaired"), [("fox", 0, 4), ("fox", 13, 14), ("fox", 999, 14), ("fox", -5, 4), ("fox", 9, 4)]
)
def test_a_wrong_start_moves_to_the_nearest_place(text: str, start: int, repaired: int, tmp_path: Path) -> None:
    pack(tmp_path / "train-v1.1.json", dataset(question("a", (text, start))))
    pack(tmp_path / "dev-v1.1.json", dataset(question("a", ("dog", 27))))
    examples = squad.read(tmp_path, SquadOptions())
    assert examples.splits["train"]["answers"].to_pylist() == [[{"text": text, "answer_start": repaired}]]
    assert examples.dropped == {squad.REPAIRED: 1}


def test_an_answer_that_stands_nowhere_is_dropped_in_train_and_kept_in_dev(tmp_path: Path) -> None:
    content = dataset(question("a", ("cat", 4), ("dog", 27)), question("b", ("cat", 4)))
    pack(tmp_path / "train-v1.1.json", content)
    pack(tmp_path / "dev-v1.1.json", content)
    examples = squad.read(tmp_path, SquadOptions())
    assert examples.splits["train"]["id"].to_pylist() == ["a"]
    assert examples.splits["train"]["answers"].to_pylist() == [[{"text": "dog", "answer_start": 27}]]
    assert examples.splits["dev"]["id"].to_pylist() == ["a", "b"]
    assert examples.splits["dev"]["answers"].to_pylist()[1] == [{"text": "cat", "answer_start": squad.NOWHERE}]
    # One of a in train and two in dev; b in train is counted once, as the question that it is.
    assert examples.dropped == {squad.ANSWER_DROPPED: 3, squad.QUESTION_DROPPED: 1}
    with pytest.raises(
        InputError, match="train-v1.1.json: question a: found 'fox' at answer_start 4, expected .*'cat'"
    ):
        squad.read(tmp_path, SquadOptions(on_error="strict"))


@pytest.mark.parametrize("start", [4, squad.NOWHERE])
def test_a_question_whose_answers_stand_nowhere_is_counted_once(start: int, tmp_path: Path) -> None:
    path = pack(
        tmp_path / "train-v1.1.json", dataset(question("a", ("cat", start), ("", 0)), question("b", ("dog", 27)))
    )
    bad = BadRows(on_error="skip")
    assert squad.read_file(path, True, bad)["id"].to_pylist() == ["b"]
    assert bad.counts == {squad.QUESTION_DROPPED: 1}
    with pytest.raises(InputError, match="question a: found .* expected the answer 'cat'"):
        squad.read_file(path, True, BadRows())


IMPOSSIBLE = question("b", is_impossible=True)
NO_KEY = {"id": "a", "question": "What?"}


@pytest.mark.parametrize(
    ("questions", "answers"),
    [
        ([NO_KEY, {**NO_KEY, "id": "b"}], [None, None]),
        ([question("a"), question("b", is_impossible=False)], [None, None]),
        ([question("a"), IMPOSSIBLE], [[], []]),
        ([question("a", ("dog", 27)), question("b")], [[{"text": "dog", "answer_start": 27}], []]),
        ([NO_KEY, IMPOSSIBLE], [None, []]),
    ],
)
def test_a_test_file_may_have_no_answers(questions: list[dict], answers: list, tmp_path: Path) -> None:
    for split in ("train", "dev"):
        pack(tmp_path / f"{split}-v2.0.json", dataset(question("a", ("dog", 27))))
    pack(tmp_path / "test-v2.0.json", dataset(*questions))
    assert squad.read(tmp_path, SquadOptions()).splits["test"]["answers"].to_pylist() == answers


@pytest.mark.parametrize("answers", [{}, {"answers": None}])
def test_train_and_dev_must_have_answers(answers: dict, tmp_path: Path) -> None:
    path = pack(tmp_path / "dev-v1.1.json", dataset({**NO_KEY, **answers}))
    with pytest.raises(InputError, match=r"not SQuAD's layout \(KeyError: 'answers'\)"):
        squad.read_file(path, is_train=False)


def test_ids_may_be_whole_numbers(tmp_path: Path) -> None:
    content = dataset({**question("", ("dog", 27)), "id": 7})
    assert squad.read_file(pack(tmp_path / "a.json", content), is_train=True)["id"].to_pylist() == ["7"]
    with pytest.raises(InputError, match="found the id '7' for 2 questions"):
        both = dataset(question("7", ("dog", 27)), {**question("", ("dog", 27)), "id": 7})
        squad.read_file(pack(tmp_path / "a.json", both), is_train=True)


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [("id", 1.5, "1.5 (float)"), ("id", None, "None (NoneType)"), ("question", 3, "3 (int)")],
)
def test_what_should_be_text_and_is_not(name: str, value: Any, found: str, tmp_path: Path) -> None:
    path = pack(tmp_path / "dev-v1.1.json", dataset({**question("q", ("dog", 27)), name: value}))
    with pytest.raises(InputError) as error:
        squad.read_file(path, is_train=False)
    key = value if name == "id" else "q"
    assert str(error.value).startswith(f"{path}: question {key}: found {found} as its {name}, expected a text")


@pytest.mark.parametrize("answer", [{"text": "dog", "answer_start": "4"}, {"text": 4, "answer_start": 27}])
def test_an_answer_that_is_none_is_named(answer: dict[str, Any], tmp_path: Path) -> None:
    path = pack(tmp_path / "train-v1.1.json", dataset({**question("q"), "answers": [answer]}))
    with pytest.raises(InputError, match=r"question q: found the answer \{.*\}, expected a text, and a whole number"):
        squad.read_file(path, is_train=True)


def test_a_file_without_any_answer_in_its_context_is_told_so(tmp_path: Path) -> None:
    path = pack(tmp_path / "train-v1.1.json", dataset(question("a", ("bear", 0)), question("b", ("bear", 0))))
    with pytest.raises(InputError, match=r"found no question to train on among 2 \(question without an answer in"):
        squad.read_file(path, is_train=True)


@pytest.mark.parametrize("empty", [" ", "\u200b\u00ad"])
def test_an_empty_question_is_dropped_in_train_alone(empty: str, tmp_path: Path) -> None:
    content = dataset(question("a", ("dog", 27)), {**question("b", ("dog", 27)), "question": empty})
    for split in ("train", "dev"):
        pack(tmp_path / f"{split}-v1.1.json", content)
    examples = squad.read(tmp_path, SquadOptions())
    assert {split: table["id"].to_pylist() for split, table in examples.splits.items()} == {
        "train": ["a"],
        "dev": ["a", "b"],
    }
    assert examples.dropped == {EMPTY_TEXT: 1}
    with pytest.raises(InputError, match="train-v1.1.json: question b: found an empty question or context"):
        squad.read(tmp_path, SquadOptions(on_error="strict"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"data": [{"paragraphs": [{"qas": []}]}]}', "found no question"),
        (b'{"data": [{"paragraphs": [{"qas": [{}]}]}]}', "not SQuAD's layout"),
        (b"[1]", "not SQuAD's layout"),
        (dataset(question("a"), question("a")), "found the id 'a' for 2 questions"),
        (dataset(question("a"), {"id": "b"}), "not SQuAD's layout after question a"),
    ],
)
def test_other_layouts_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        squad.read_file(pack(tmp_path / "dev-v1.1.json", content), is_train=False)


def test_the_files_must_be_of_one_version(tmp_path: Path) -> None:
    content = dataset(question("a", ("dog", 27)))
    for name in ("train-v1.1.json", "dev-v2.0.json"):
        pack(tmp_path / name, content)
    with pytest.raises(InputError, match="found dev-v2.0.json beside train-v1.1.json, expected one version"):
        squad.read(tmp_path, SquadOptions())
    named = squad.read(tmp_path, SquadOptions(dev_file="dev-v2.0.json"))
    assert set(named.splits) == {"train", "dev"}
    pack(tmp_path / "train-v2.0.json", content)
    with pytest.raises(InputError, match="found 2 train-v"):
        squad.read(tmp_path, SquadOptions())


@pytest.mark.parametrize("name", ["train-v1.1.json", "GermanQuAD_train.json", "mine.json.gz"])
def test_without_a_dev_file_dev_is_drawn_by_context(name: str, tmp_path: Path) -> None:
    """As annotation tools export a set, in one file of any name."""
    paragraphs = [
        {"context": f"The fox {number}.", "qas": [question(f"{number}{key}", ("fox", 4)) for key in "ab"]}
        for number in range(40)
    ]
    pack(tmp_path / name, json.dumps({"data": [{"paragraphs": paragraphs}]}).encode())
    examples = squad.read(tmp_path, SquadOptions(dev_fraction=0.5))
    contexts = [set(examples.splits[split]["context"].to_pylist()) for split in ("train", "dev")]
    assert not contexts[0] & contexts[1] and sum(table.num_rows for table in examples.splits.values()) == 80
    pack(tmp_path / "dev.json", dataset(question("a", ("dog", 27))))
    if name != "mine.json.gz":  # which is train by being alone
        assert squad.read(tmp_path, SquadOptions()).splits["dev"]["id"].to_pylist() == ["a"]


def test_to_articles_is_the_inverse(shared_data: Path) -> None:
    path = shared_data / "squad/dev-v2.0.json.zst"
    articles = to_articles(squad.read_file(path, is_train=False))
    original = read_json(path)["data"]
    assert [article["title"] for article in articles] == [article["title"] for article in original]
    for ours, theirs in zip(articles, original, strict=True):
        questions = [[q for p in article["paragraphs"] for q in p["qas"]] for article in (ours, theirs)]
        assert [(q["id"], q["answers"]) for q in questions[0]] == [(q["id"], q["answers"]) for q in questions[1]]


def test_official_counts(shared_data: Path) -> None:
    examples = squad.read(shared_data / "squad", SquadOptions())
    assert (examples.splits["train"].num_rows, examples.splits["dev"].num_rows) == (87599, 10570)
    assert examples.dropped == {}
    second = squad.read_file(shared_data / "squad/dev-v2.0.json.zst", is_train=False)
    assert second.num_rows == 11873 and sum(not answers for answers in second["answers"].to_pylist()) == 5945
