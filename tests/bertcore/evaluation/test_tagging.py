import json
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcore.errors import InputError
from bertcore.evaluation.tagging import accuracy, compute, evaluate, main, read_columns
from bertcore.examples.tag_schemes import Entity, entities

BIOES = ["O", *(f"{prefix}-{type_}" for prefix, type_ in product("BIES", ("A", "B-2")))]


def entities_by_boundaries(tags: list[str]) -> set[Entity]:
    """An independent reading, as conlleval documents it: an entity is a run of words without a boundary inside."""

    def boundary(position: int) -> bool:
        """Whether an entity ends or begins between the words `position - 1` and `position`."""
        if position in (0, len(tags)):
            return True
        (left, _, left_type), (right, _, right_type) = tags[position - 1].partition("-"), tags[position].partition("-")
        return left_type != right_type or left in "OES" or right in "OBS"

    cuts = [position for position in range(len(tags) + 1) if boundary(position)]
    pieces = zip(cuts, cuts[1:], strict=False)
    return {(tags[begin].partition("-")[2], begin, end) for begin, end in pieces if tags[begin] != "O"}


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("I-A I-A O I-A", [("A", 0, 2), ("A", 3, 4)]),  # IOB1
        ("I-A B-A I-A I-B", [("A", 0, 1), ("A", 1, 3), ("B", 3, 4)]),  # IOB1, B where two touch
        ("B-A I-A B-A O B-B I-B", [("A", 0, 2), ("A", 2, 3), ("B", 4, 6)]),  # IOB2
        ("B-A I-A E-A S-A S-B B-B E-B", [("A", 0, 3), ("A", 3, 4), ("B", 4, 5), ("B", 5, 7)]),  # BIOES
        ("E-A E-A I-A", [("A", 0, 1), ("A", 1, 2), ("A", 2, 3)]),  # ends that nothing began
        ("B-per-x I-per-x", [("per-x", 0, 2)]),  # a type with a hyphen
        ("O O", []),
    ],
)
def test_entities_by_hand(tags: str, expected: list[Entity]) -> None:
    assert entities(tags.split()) == expected


@given(st.lists(st.sampled_from(BIOES), max_size=8))
def test_entities_equal_an_independent_reading(tags: list[str]) -> None:
    found = entities(tags)
    assert set(found) == entities_by_boundaries(tags) and found == sorted(found, key=lambda entity: entity[1])


def test_evaluate_by_hand() -> None:
    gold = [["B-A", "I-A", "O", "B-B"], ["B-A", "O"]]
    predicted = [["B-A", "O", "O", "B-B"], ["B-A", "B-C"]]
    assert evaluate(gold, predicted) == {
        "precision": 0.5,
        "recall": 2 / 3,
        "f1": (2 * 0.5 * (2 / 3)) / (0.5 + 2 / 3),
        "accuracy": 4 / 6,
        "types": {
            "A": {"precision": 0.5, "recall": 0.5, "f1": 0.5, "gold": 2, "predicted": 2},
            "B": {"precision": 1.0, "recall": 1.0, "f1": 1.0, "gold": 1, "predicted": 1},
            "C": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "gold": 0, "predicted": 1},
        },
    }


def test_entities_do_not_reach_over_sentences() -> None:
    assert evaluate([["B-A"], ["I-A"]], [["B-A"], ["I-A"]])["types"]["A"]["gold"] == 2


def test_nothing_to_find_scores_zero() -> None:
    assert evaluate([["O"]], [["O"]]) == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "accuracy": 1.0, "types": {}}


def test_other_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="other numbers of sentences or words"):
        accuracy([["O"]], [["O", "O"]])
    with pytest.raises(InputError, match="at least one word"):
        evaluate([], [])


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tagged.txt"
    path.write_text("-DOCSTART- -X- O O\n\nEU NNP B-ORG B-ORG\nrejects VBZ O O\n \nGerman JJ B-MISC O\n\n")
    assert main([str(path)]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert (scores["precision"], scores["recall"], scores["accuracy"]) == (1.0, 0.5, 0.75)
    path.write_text(
        "-DOCSTART-\n-DOCSTART- -X- O\nEU B-ORG B-ORG\n-DOCSTART- -X- O O\n-DOCSTART-\nof I-ORG O\n"
    )  # those count for nothing
    assert main([str(path)]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert (scores["precision"], scores["recall"]) == (1.0, 0.5) and scores["accuracy"] == 2 / 3
    path.write_text("a NN NN\nb VB NN\n")
    assert main([str(path)]) == 2
    assert "tagged.txt:1: found the tag 'NN'" in capsys.readouterr().err
    assert main([str(path), "--accuracy-only"]) == 0
    assert json.loads(capsys.readouterr().out) == {"accuracy": 0.5}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a O O\nO\n", "tagged.txt:2: found 1 column, expected 3 or more: the word first"),
        ("word O\nother B-X\n", "tagged.txt:1: found 2 columns, expected 3 or more"),  # an unlabelled split's
        ("EU NNP B-ORG B-ORG\n\nO VBZ O\n", "tagged.txt:3: found 3 columns, expected 4 as in the lines before"),
        ("-DOCSTART- -X- O O\na O O\nb NN O O\n", "tagged.txt:3: found 4 columns, expected 3 as in the lines before"),
    ],
)
def test_row_that_lost_a_column_is_not_scored(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tagged.txt"
    path.write_text(text)
    assert main([str(path)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("separator", [" ", "\t"])
def test_words_are_cut_where_the_reader_of_tasks_cuts_them(separator: str, tmp_path: Path) -> None:
    word = "New York" if separator == "\t" else "New\u00a0York"
    rows = [("-DOCSTART-", "O", "O"), (word, "B-X", "B-X"), ("is", "O", "B-X")]
    (tmp_path / "f").write_text("".join(separator.join(row) + "\n" for row in rows), encoding="utf-8")
    assert read_columns(tmp_path / "f") == ([["O", "B-X", "O"]], [["O", "B-X", "B-X"]])


@pytest.mark.parametrize("end", ["", " ", "\t", " \r"])
def test_blanks_at_the_end_of_a_line_belong_to_no_tag(end: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"w\tB-X\tB-X{end}\n" for _ in range(3)), encoding="utf-8", newline="")
    assert read_columns(tmp_path / "f") == ([["B-X"] * 3], [["B-X"] * 3])


@pytest.mark.parametrize("metrics", [["f1", "precision", "accuracy"], ["accuracy"]])
def test_what_is_asked_for_is_computed_and_no_more(metrics: list[str]) -> None:
    gold, predicted = [["B-X Y", "I-X Y"], ["O"]], [["B-X Y", "O"], ["O"]]
    expected = {"f1": 0.0, "precision": 0.0, "accuracy": 2 / 3}
    assert compute(metrics, gold, predicted) == {name: expected[name] for name in metrics}
