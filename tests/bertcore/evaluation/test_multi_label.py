import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support
from sklearn.preprocessing import MultiLabelBinarizer

from bertcore.errors import InputError
from bertcore.evaluation.multi_label import METRICS, by_label, cell_of, evaluate, main, read_label_sets

LABELS = [f"label {index}" for index in range(12)]
SETS = st.sets(st.sampled_from(LABELS), max_size=4)


@given(st.lists(st.tuples(SETS, SETS), min_size=1, max_size=20))
def test_scores_equal_scikit_learn_to_the_last_digit(pairs: list[tuple[set[str], set[str]]]) -> None:
    gold, predicted = zip(*pairs, strict=True)
    y_true, y_pred = (MultiLabelBinarizer(classes=LABELS).fit_transform(sets) for sets in (gold, predicted))
    expected = {
        "micro_f1": f1_score(y_true, y_pred, average="micro", zero_division=0),
        "macro_f1": f1_score(y_true, y_pred, average="macro", zero_division=0),
        "exact_match": accuracy_score(y_true, y_pred),
    }
    assert evaluate(gold, predicted, LABELS) == expected and tuple(expected) == METRICS
    by_column = precision_recall_fscore_support(y_true, y_pred, average=None, zero_division=0)
    found = by_label(gold, predicted, LABELS)
    assert list(found) == LABELS, "those that nobody has, too"
    for name, column in zip(("precision", "recall", "f1", "gold"), by_column, strict=True):
        assert [each[name] for each in found.values()] == column.tolist()
    assert [each["predicted"] for each in found.values()] == y_pred.sum(axis=0).tolist()


@given(st.lists(st.lists(st.text(alphabet='ab,;[]" \t\n\r\u2028\\', min_size=1), max_size=3), min_size=1, max_size=4))
def test_labels_of_any_characters_come_back_from_their_file(
    tmp_path_factory: pytest.TempPathFactory, sets: list[list[str]]
) -> None:
    path = tmp_path_factory.mktemp("sets") / "predictions.tsv"
    rows = "".join(f"{index}\t{cell_of(labels)}\n" for index, labels in enumerate(sets))
    path.write_bytes(f"index\tprediction\n{rows}".encode())
    assert read_label_sets(path, ",") == {str(index): labels for index, labels in enumerate(sets)}


def test_what_a_cell_looks_like() -> None:
    cells = [cell_of(labels) for labels in ([], ["a b", "c"], ["a, b", "c"], ["é\t"])]
    assert cells == ["", "a b,c", '["a, b", "c"]', '["é\\t"]']
    assert cell_of(["a, b", "c"], ";") == "a, b;c"


def test_by_hand() -> None:
    scores = evaluate([["a", "b"], [], ["a"]], [["a"], [], ["c"]])
    assert scores == {"micro_f1": 2 * 1 / 5, "macro_f1": pytest.approx((2 / 3 + 0 + 0) / 3), "exact_match": 1 / 3}
    assert evaluate([[]], [[]]) == {"micro_f1": 0.0, "macro_f1": 0.0, "exact_match": 1.0}


def test_other_numbers_and_labels_are_refused() -> None:
    with pytest.raises(InputError, match="found 1 for 2 gold label sets"):
        evaluate([["a"], []], [["a"]])
    with pytest.raises(InputError, match="found the label 'c', expected one of: a, b"):
        evaluate([["a"]], [["c"]], ["a", "b"])


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold, predicted = tmp_path / "gold.tsv", tmp_path / "predicted.tsv"
    gold.write_text("index\tlabels\n0\ta;b\n1\t\n")
    predicted.write_text("index\tprediction\n1\t\n0\tb; a\n\n")
    assert main([str(gold), str(predicted), "--label-separator", ";"]) == 0
    assert json.loads(capsys.readouterr().out) == dict.fromkeys(METRICS, 1.0)
    gold.write_text("0\tc\n1\t\n")  # without a header, the first example counts
    assert main([str(gold), str(predicted), "--label-separator", ";"]) == 0
    assert json.loads(capsys.readouterr().out)["exact_match"] == 0.5
    predicted.write_text("index\tprediction\n0\ta\n2\ta\n")
    assert main([str(gold), str(predicted)]) == 2
    assert "predicted.tsv: the index '1' stands in one file only (2 such)" in capsys.readouterr().err
    assert main([str(gold), str(predicted), "--label-separator", ""]) == 2
    assert "--label-separator: found nothing" in capsys.readouterr().err
    for content, message in (("0\ta\n0\tb", "3: the index '0' stands twice"), ("0", "2: found 1 columns")):
        predicted.write_text(f"index\tprediction\n{content}\n")
        assert main([str(gold), str(predicted)]) == 2
        assert f"predicted.tsv:{message}" in capsys.readouterr().err
