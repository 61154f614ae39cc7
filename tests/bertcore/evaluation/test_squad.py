import json
import os
from pathlib import Path

import pytest

from bertcore.compressed import read_json
from bertcore.errors import InputError
from bertcore.evaluation.squad import evaluate, evaluate_v1, evaluate_v2, f1, f1_or_nothing, main, normalize_answer
from tests.packing import pack


def articles(*answers: list[str]) -> list[dict]:
    """One article whose question "qN" has the N-th list of answers."""
    questions = [
        {"id": f"q{index}", "question": "?", "answers": [{"text": text, "answer_start": 0} for text in texts]}
        for index, texts in enumerate(answers)
    ]
    return [{"title": "t", "paragraphs": [{"context": "c", "qas": questions}]}]


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Cat's a-hat", "cats ahat"),
        ("an A the", ""),
        ("theatre", "theatre"),
        ("x\u00a0Y\n", "x y"),
        ("“quoted”", "“quoted”"),
        ("$5.00", "500"),
    ],
)
def test_normalize_answer_drops_case_articles_and_ascii_punctuation(text: str, normal: str) -> None:
    assert normalize_answer(text) == normal


def test_v1_by_hand() -> None:
    dataset = articles(["the red fox", "fox"], ["Denver Broncos"], ["1,000"], ["x"])
    predictions = {"q0": "Fox!", "q1": "Broncos of Denver", "q2": "1000", "q3": ""}
    # F1 of q1: precision 2/3, recall 1
    assert evaluate_v1(dataset, predictions) == {"exact_match": 50.0, "f1": 100.0 * (1 + 0.8 + 1) / 4}


def test_v1_counts_every_question_of_a_repeated_id() -> None:
    dataset = articles(["x"], ["y"], ["x"])
    dataset[0]["paragraphs"][0]["qas"][2]["id"] = "q0"
    assert evaluate_v1(dataset, {"q0": "x", "q1": "no"}) == pytest.approx({"exact_match": 200 / 3, "f1": 200 / 3})


def test_v1_missing_prediction_scores_zero_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate_v1(articles(["x"], ["y"]), {"q0": "x"}) == {"exact_match": 50.0, "f1": 50.0}
    assert capsys.readouterr().err == "Unanswered question q1 will receive score 0.\n"


def test_empty_texts_agree_in_v2_only() -> None:
    assert f1("the", "a") == 0
    assert f1_or_nothing("the", "a") == 1
    assert f1_or_nothing("fox", "") == f1_or_nothing("", "fox") == 0
    # an answer of articles alone: exact match sees "" == "", the F1 of 1.1 has no common word
    assert evaluate_v1(articles(["the"]), {"q0": ""}) == {"exact_match": 100.0, "f1": 0.0}


def test_v1_refuses_questions_without_answers() -> None:
    with pytest.raises(InputError, match="question q0: no answers"):
        evaluate_v1(articles([]), {"q0": ""})


def test_v2_by_hand() -> None:
    dataset = articles(["red fox"], ["y"], [], [])
    predictions = {"q0": "fox", "q1": "", "q2": "", "q3": "z"}
    two_thirds = (2 * 1.0 * 0.5) / 1.5
    assert evaluate_v2(dataset, predictions) == {
        "exact": 25.0,
        "f1": 100.0 * (two_thirds + 1) / 4,
        "total": 4,
        "HasAns_exact": 0.0,
        "HasAns_f1": 100.0 * two_thirds / 2,
        "HasAns_total": 2,
        "NoAns_exact": 50.0,
        "NoAns_f1": 50.0,
        "NoAns_total": 2,
    }


def test_v2_thresholds() -> None:
    dataset = articles(["x"], ["y"], [], [])
    predictions = {"q0": "x", "q1": "wrong", "q2": "z", "q3": ""}
    na_probs = {"q0": 0.1, "q1": 0.9, "q2": 0.5, "q3": 0.8}
    scores = evaluate_v2(dataset, predictions, na_probs)
    # answering nothing scores 2 of 4, answering q0 as well 3; q2 then loses one and q1 gains none
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (75.0, 0.1)
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (75.0, 0.1)
    assert scores["exact"] == 50.0
    assert evaluate_v2(dataset, predictions, na_probs, na_prob_threshold=0.1)["exact"] == 75.0


def test_v2_best_threshold_agrees_with_trying_all() -> None:
    dataset = articles(["a b c"], ["x"], [], ["y z"], [])
    predictions = {"q0": "b", "q1": "x", "q2": "n", "q3": "z", "q4": "m"}
    na_probs = {"q0": -1.5, "q1": 0.25, "q2": 0.0, "q3": 3.0, "q4": 0.125}
    thresholds = [-9.0, *na_probs.values()]
    tried = [evaluate_v2(dataset, predictions, na_probs, threshold)["f1"] for threshold in thresholds]
    assert evaluate_v2(dataset, predictions, na_probs)["best_f1"] == pytest.approx(max(tried), abs=1e-12)


@pytest.mark.parametrize("missing", ["prediction", "no-answer probability"])
def test_v2_missing_entries_are_refused(missing: str) -> None:
    predictions, na_probs = {"q0": "x", "q1": "y"}, {"q0": 0.0, "q1": 0.0}
    del (predictions if missing == "prediction" else na_probs)["q1"]
    with pytest.raises(InputError, match=f"no {missing} for question q1 \\(1 of 2 missing\\)"):
        evaluate_v2(articles(["x"], ["y"]), predictions, na_probs)


def test_evaluate_chooses_the_version() -> None:
    assert set(evaluate(articles(["x"]), {"q0": "x"})) == {"exact_match", "f1"}
    assert evaluate(articles(["x"], []), {"q0": "x", "q1": "z"})["exact_match"] == 50.0


def test_command_prints_the_official_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset, predictions, na_probs = tmp_path / "d.json", tmp_path / "p.json", tmp_path / "n.json"
    dataset.write_text(json.dumps({"version": "1.1", "data": articles(["x"])}))
    predictions.write_text(json.dumps({"q0": "x"}))
    na_probs.write_text(json.dumps({"q0": 0.5}))
    assert main([str(dataset), str(predictions)]) == 0
    assert json.loads(capsys.readouterr().out) == {"exact_match": 100.0, "f1": 100.0}
    assert main([str(dataset), str(predictions), "--na-probs", str(na_probs)]) == 0
    assert "best_f1_thresh" in json.loads(capsys.readouterr().out)
    dataset.write_text(json.dumps({"version": "v2.0", "data": articles(["x"], [])}))
    assert main([str(dataset), str(predictions)]) == 2
    assert capsys.readouterr().err.startswith("error: no prediction for question q1")


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_command_finds_the_predictions_of_whole_numbers_as_ids(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset, predictions = tmp_path / "d.json", tmp_path / "p.json"
    questions = [{"id": 7, "question": "who?", "answers": [{"text": "x", "answer_start": 0}]}]
    dataset.write_text(json.dumps({"data": [{"title": "t", "paragraphs": [{"context": "x", "qas": questions}]}]}))
    predictions.write_text(json.dumps({"7": "x"}))
    assert main([str(dataset), str(predictions), "--version", version]) == 0
    assert json.loads(capsys.readouterr().out)["f1"] == 100.0


@pytest.mark.parametrize(
    ("data", "predictions", "message"),
    [
        ("[]", "{}", "d.json: no list under the key 'data'"),
        ('{"data": [}', "{}", "d.json:1: not JSON"),
        ('{"data": [{"title": "t"}]}', "{}", "d.json: not SQuAD's layout"),
        (
            '{"data": [{"paragraphs": [{"qas": [{"id": "q", "answers": [{"text": 5}]}]}]}]}',
            '{"q": "5"}',
            "d.json: question q: found the answer 5, expected a text",
        ),
        ('{"data": []}', "{}", "the data set holds no question"),
        ('{"data": []}', '{"q": 1}', "p.json: question q: found 1, expected a text"),
        ('{"data": []}', None, "p.json: no such file"),
    ],
)
def test_command_says_what_is_wrong_in_one_line(
    data: str, predictions: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d.json").write_text(data)
    if predictions is not None:
        (tmp_path / "p.json").write_text(predictions)
    assert main([str(tmp_path / "d.json"), str(tmp_path / "p.json")]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err and captured.err.count("\n") == 1


def test_a_file_that_may_not_be_read_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "d.json").write_text('{"data": []}')
    (tmp_path / "d.json").chmod(0)
    if os.access(tmp_path / "d.json", os.R_OK):
        pytest.skip("this user reads every file")
    assert main([str(tmp_path / "d.json"), str(tmp_path / "p.json")]) == 2
    assert capsys.readouterr().err == f"error: [Errno 13] Permission denied: '{tmp_path / 'd.json'}'\n"


@pytest.mark.parametrize("name", ["d.json.gz", "d.json.zst"])
def test_packed_dataset(name: str, tmp_path: Path) -> None:
    path = pack(tmp_path / name, json.dumps({"version": "1.1", "data": articles(["x"])}).encode())
    assert evaluate_v1(read_json(path)["data"], {"q0": "x"})["f1"] == 100.0


def test_gold_answers_score_full_marks_on_the_real_dev_sets(shared_data: Path) -> None:
    first = read_json(shared_data / "squad/dev-v1.1.json.zst")["data"]
    gold = {q["id"]: q["answers"][-1]["text"] for a in first for p in a["paragraphs"] for q in p["qas"]}
    # one gold answer is a full stop alone, of which F1 keeps no word
    assert evaluate_v1(first, gold) == {"exact_match": 100.0, "f1": 100.0 * 10569 / 10570}
    second = read_json(shared_data / "squad/dev-v2.0.json.zst")["data"]
    scores = evaluate_v2(second, {q["id"]: "" for a in second for p in a["paragraphs"] for q in p["qas"]})
    assert scores["exact"] == scores["f1"] == 100.0 * 5945 / 11873
    assert (scores["total"], scores["HasAns_total"], scores["NoAns_exact"]) == (11873, 5928, 100.0)
