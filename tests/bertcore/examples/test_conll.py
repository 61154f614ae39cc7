import re
from collections import Counter
from pathlib import Path

import pytest

from bertcore.errors import InputError
from bertcore.evaluation import tagging
from bertcore.examples import conll
from bertcore.examples.bad_rows import EMPTY_TEXT, NOT_UTF8, UNSEEN_LABEL, WRONG_COLUMNS
from bertcore.examples.conll import ConllOptions
from tests.packing import pack

CONLL_2003 = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
call NN I-NP O

-DOCSTART- -X- O O
Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
"""


def files(directory: Path, **contents: str | bytes) -> Path:
    for name, content in contents.items():
        pack(directory / f"{name}.txt", content.encode() if isinstance(content, str) else content)
    return directory


def test_conll_2003_in_iob1_with_document_lines(tmp_path: Path) -> None:
    pack(tmp_path / "eng.train", CONLL_2003.encode())
    pack(tmp_path / "eng.testa.gz", CONLL_2003.encode())
    pack(tmp_path / "eng.testb.zst", CONLL_2003.encode())
    examples = conll.read(tmp_path, ConllOptions())
    assert examples.splits["train"].to_pylist() == [
        {"id": "0", "words": ["EU", "rejects", "German", "call"], "tags": ["B-ORG", "O", "B-MISC", "O"]},
        {"id": "1", "words": ["Peter", "Blackburn"], "tags": ["B-PER", "I-PER"]},
    ]
    assert examples.labels == ["O", "B-MISC", "I-MISC", "B-ORG", "I-ORG", "B-PER", "I-PER"]
    assert set(examples.splits) == {"train", "dev", "test"} and examples.metrics == ["f1", "precision", "recall"]
    chunks = conll.read(tmp_path, ConllOptions(tag_column=2))
    assert chunks.splits["dev"]["tags"].to_pylist()[1] == ["B-NP", "I-NP"]
    parts_of_speech = conll.read(tmp_path, ConllOptions(tag_column=-3))
    assert parts_of_speech.labels == ["JJ", "NN", "NNP", "VBZ"] and parts_of_speech.metrics == ["accuracy"]


def test_conllu(tmp_path: Path) -> None:
    row = "{}\t{}\t_\t{}\t_\t_\t_\t_\t_\t_\n"
    words = [("1-2", "don't", "_"), ("1", "do", "AUX"), ("2", "n't", "PART"), ("2.1", "x", "_"), ("3", "#", "SYM")]
    text = "\ufeff# text = don't #\n" + "".join(row.format(*each) for each in words)
    files(tmp_path, train=text, dev=text)
    examples = conll.read(tmp_path, ConllOptions(token_column=1, tag_column=3, comment="#"))
    assert examples.splits["dev"].to_pylist() == [
        {"id": "0", "words": ["do", "n't", "#"], "tags": ["AUX", "PART", "SYM"]}
    ]


def test_documents_are_read_as_one(tmp_path: Path) -> None:
    more = "\nlate NN I-NP O\n"  # a second sentence of the second document
    files(
        tmp_path,
        train=CONLL_2003 + more,
        dev="up IN I-PP O\n\n" + CONLL_2003,
        test=re.sub("(?m) .*$", "", CONLL_2003),
    )
    splits = conll.read(tmp_path, ConllOptions(unit="document", labels=["MISC", "ORG", "PER"])).splits
    first, second = splits["train"].to_pylist()
    assert first == {"id": "0", "words": ["EU", "rejects", "German", "call"], "tags": ["B-ORG", "O", "B-MISC", "O"]}
    assert second == {"id": "1", "words": ["Peter", "Blackburn", "late"], "tags": ["B-PER", "I-PER", "O"]}
    before, *_ = splits["dev"]["words"].to_pylist()
    assert before == ["up"] and splits["dev"].num_rows == 3, "what stands before the first mark is a document, too"
    assert splits["test"]["words"].to_pylist()[1] == ["Peter", "Blackburn"]


def test_entities_of_two_sentences_stay_two(tmp_path: Path) -> None:
    text = "-DOCSTART- O\n\nin O\nYork I-LOC\n\nYork I-LOC\nis O\n"
    splits = conll.read(files(tmp_path, train=text, dev=text), ConllOptions(unit="document", scheme="iob1")).splits
    assert splits["train"]["tags"].to_pylist() == [["O", "B-LOC", "B-LOC", "O"]]


def test_a_bad_sentence_leaves_the_rest_of_its_document(tmp_path: Path) -> None:
    text = "-DOCSTART- O\n\na B-A\n\nb\n\nc O\n"
    examples = conll.read(files(tmp_path, train=text, dev=text), ConllOptions(unit="document", on_error="skip"))
    assert examples.splits["train"]["words"].to_pylist() == [["a", "c"]]
    assert examples.dropped == {WRONG_COLUMNS: 2}


def test_documents_of_conllu(tmp_path: Path) -> None:
    text = "# newdoc id = 1\n# text = a\n1\ta\tX\n\n1\tb\tY\n\n# newdoc\n1\tc\tX\n\n"
    options = ConllOptions(token_column=1, comment="#", scheme="none", unit="document")
    splits = conll.read(files(tmp_path, train=text, dev=text), options).splits
    assert splits["dev"]["words"].to_pylist() == [["a", "b"], ["c"]]


def test_documents_without_a_mark_are_refused(tmp_path: Path) -> None:
    files(tmp_path, train=CONLL_2003, dev="a NN I-NP O\n")
    with pytest.raises(InputError, match=r"dev\.txt: found no sentence behind a line -DOCSTART-.*unit: sentence"):
        conll.read(tmp_path, ConllOptions(unit="document"))
    files(tmp_path, dev="-DOCSTART- -X- O O\n")
    with pytest.raises(InputError, match=r"dev\.txt: found no usable sentence"):
        conll.read(tmp_path, ConllOptions(unit="document"))


def test_white_space_in_words_is_kept_and_blank_lines_may_hold_tabs(tmp_path: Path) -> None:
    text = "New York\tB-A\n\t\n#tag\tO\r\na\u00a0b\tO\n"
    examples = conll.read(
        files(tmp_path, train=text, dev=text.replace("\t", " ").replace("New York", "York")), ConllOptions()
    )
    assert examples.splits["train"]["words"].to_pylist() == [["New York"], ["#tag", "a\u00a0b"]]
    assert examples.splits["dev"]["words"].to_pylist() == [["York"], ["#tag", "a\u00a0b"]]


def test_a_test_file_of_words_alone_has_no_tags(tmp_path: Path) -> None:
    files(tmp_path, train="a B-A\n", dev="a B-A\n", test="x\ny\n\nz\n")
    test = conll.read(tmp_path, ConllOptions()).splits["test"]
    assert test["words"].to_pylist() == [["x", "y"], ["z"]] and test["tags"].null_count == 2


BAD_ROWS = [
    ("O\nb B-A", 5, WRONG_COLUMNS, "found 1 columns, expected the 2 of the first line"),
    ("b\xff O\nc B-A", 5, NOT_UTF8, "byte 1 of the row is not UTF-8"),
    ("b B_A\nc O", 5, conll.BROKEN_TAG, "found the tag 'B_A', expected O or one of B, I with a type"),
    ("b O\nc B-NEW", 6, UNSEEN_LABEL, "found the tag 'B-NEW', expected O or an entity of a type among: A"),
]


@pytest.mark.parametrize(("sentence", "line", "reason", "message"), BAD_ROWS)
def test_bad_rows_are_named_or_their_sentence_is_left_out(
    sentence: str, line: int, reason: str, message: str, tmp_path: Path
) -> None:
    good = "a B-A\nb I-A\nc O\n\n"
    files(tmp_path, train=good, dev=f"{good}{sentence}\n\n{good}".encode("latin-1"))
    with pytest.raises(InputError) as error:
        conll.read(tmp_path, ConllOptions())
    assert f"dev.txt:{line}: {message}" in str(error.value) and "\n" not in str(error.value)
    examples = conll.read(tmp_path, ConllOptions(on_error="skip"))
    assert examples.dropped == {reason: 1} and examples.splits["dev"].num_rows == 2


def test_a_sentence_of_several_bad_tags_is_counted_once(tmp_path: Path) -> None:
    train = "a B-A\nb O\n\n"
    files(tmp_path, train=train, dev=f"{train}a I-A\nb B_A\nc B_A\n\na I-A\nb O\nc I-A\n")
    examples = conll.read(tmp_path, ConllOptions(on_error="skip"))
    assert examples.dropped == {conll.BROKEN_TAG: 1, conll.REPAIRED: 1}
    assert examples.splits["dev"]["tags"].to_pylist() == [["B-A", "O"], ["B-A", "O", "B-A"]]


def test_lines_that_end_as_on_an_old_mac(tmp_path: Path) -> None:
    files(tmp_path, train="a B-A\rb O\r\r", dev="a B-A\n")
    with pytest.raises(InputError, match="train.txt:1: found a carriage return inside a line, expected line ends"):
        conll.read(tmp_path, ConllOptions())


def test_a_first_line_that_may_be_a_comment_is_said(tmp_path: Path) -> None:
    files(tmp_path, train="# id 1\na B-A\n\n", dev="a B-A\n")
    with pytest.raises(InputError, match="train.txt:2: .* 3 of the first line; where that is a comment, .* comment"):
        conll.read(tmp_path, ConllOptions())
    assert conll.read(tmp_path, ConllOptions(comment="#")).splits["train"].num_rows == 1


def test_empty_cells_between_tabs(tmp_path: Path) -> None:
    files(tmp_path, train="a\tO\n\tO\n\nb\t\n\nc\tB-A\n", dev="c\tB-A\n")
    with pytest.raises(InputError, match="train.txt:2: found the empty word ''"):
        conll.read(tmp_path, ConllOptions())
    examples = conll.read(tmp_path, ConllOptions(on_error="skip"))
    assert examples.splits["train"]["words"].to_pylist() == [["c"]]
    assert examples.dropped == {EMPTY_TEXT: 1, conll.BROKEN_TAG: 1}


def test_words_of_control_characters_are_words(tmp_path: Path) -> None:
    # The official scorers count every word of the file: a sentence without one of them would be another test set.
    files(tmp_path, train="a B-A\n\nb O\n\u200d\ufe0f B-A\n\nc O\n\u200b\u00ad O\n", dev="a B-A\n")
    examples = conll.read(tmp_path, ConllOptions())
    assert examples.splits["train"]["words"].to_pylist() == [["a"], ["b", "\u200d\ufe0f"], ["c", "\u200b\u00ad"]]
    assert examples.dropped == {}


def test_tags_that_break_the_scheme_are_named_or_mended(tmp_path: Path) -> None:
    train, dev = "a B-A\nb I-A\n\nc B-A\n", "a O\nb I-A\nc I-A\n"
    files(tmp_path, train=train, dev=dev)
    with pytest.raises(InputError, match="dev.txt:2: found the tag 'I-A', expected B-A, as an entity begins .*iob2"):
        conll.read(tmp_path, ConllOptions())
    examples = conll.read(tmp_path, ConllOptions(on_error="skip"))
    assert examples.splits["dev"]["tags"].to_pylist() == [["O", "B-A", "I-A"]]
    assert examples.dropped == {conll.REPAIRED: 1}
    with pytest.raises(InputError, match="train.txt:1: found the tag 'B-A', expected I-A, as no entity .*iob1"):
        conll.read(tmp_path, ConllOptions(scheme="iob1"))
    plain = conll.read(tmp_path, ConllOptions(scheme="none", labels=["O", "B-A", "I-A"]))
    assert plain.splits["dev"]["tags"].to_pylist() == [["O", "I-A", "I-A"]] and plain.metrics == ["accuracy"]


def test_bilou_is_bioes_with_other_letters(tmp_path: Path) -> None:
    files(tmp_path, train="a B-X\nb L-X\nc O\n\nd U-Y\n", dev="a U-X\nb B-Y\nc I-Y\nd L-Y\n")
    examples = conll.read(tmp_path, ConllOptions())
    assert examples.labels == ["O", "B-X", "I-X", "B-Y", "I-Y"] and not examples.dropped
    assert examples.splits["train"]["tags"].to_pylist() == [["B-X", "I-X", "O"], ["B-Y"]]
    assert examples.splits["dev"]["tags"].to_pylist() == [["B-X", "B-Y", "I-Y", "I-Y"]]


@pytest.mark.parametrize("tag", ["B_PER", "b-PER", "u-PER", "l_per"])
def test_entity_tags_in_another_spelling_are_no_parts_of_speech(tag: str, tmp_path: Path) -> None:
    files(tmp_path, train=f"a O\nb {tag}\n", dev="a O\n")
    with pytest.raises(InputError, match=f"train.txt: found the tag '{tag}', expected B-, .* convert .*scheme: none"):
        conll.read(tmp_path, ConllOptions())
    assert conll.read(tmp_path, ConllOptions(scheme="none")).labels == sorted(["O", tag])


def test_types_alone_are_not_scored_as_if_they_were_parts_of_speech(tmp_path: Path) -> None:
    files(tmp_path, train="a person\nb O\nc O\nd place\n", dev="a O\n")
    with pytest.raises(InputError, match=r"train.txt: found O as the most frequent tag, .* put I- .*scheme: none"):
        conll.read(tmp_path, ConllOptions())
    assert conll.read(tmp_path, ConllOptions(scheme="none")).metrics == ["accuracy"]


def test_a_single_tag_is_nothing_to_learn(tmp_path: Path) -> None:
    files(tmp_path, train="a O\nb O\n", dev="a O\n")
    with pytest.raises(InputError, match=r"train.txt: found 'O' as the only tag of train, expected more"):
        conll.read(tmp_path, ConllOptions())


def test_tags_that_look_the_same_are_one(tmp_path: Path) -> None:
    """An é of one character, and of two."""
    content = "a B-caf\u00e9\nb I-cafe\u0301\nc O\n"
    files(tmp_path, train=content, dev=content)
    for options in (ConllOptions(), ConllOptions(labels=["cafe\u0301"])):
        examples = conll.read(tmp_path, options)
        assert examples.labels == ["O", "B-caf\u00e9", "I-caf\u00e9"]
        assert examples.splits["dev"]["tags"].to_pylist() == [["B-caf\u00e9", "I-caf\u00e9", "O"]]


def test_labels_may_be_given(tmp_path: Path) -> None:
    files(tmp_path, train="a B-A\n", dev="a B-NEW\n")
    examples = conll.read(tmp_path, ConllOptions(labels=["NEW", "A"]))
    assert examples.labels == ["O", "B-NEW", "I-NEW", "B-A", "I-A"]
    assert examples.splits["dev"]["tags"].to_pylist() == [["B-NEW"]]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (ConllOptions(token_column=5), "found 2 columns"),
        (ConllOptions(tag_column=0), "found 2 columns"),
        (ConllOptions(separator="tab"), r"found 1 columns \(separator: tab\)"),
    ],
)
def test_columns_that_are_not_there(options: ConllOptions, found: str, tmp_path: Path) -> None:
    files(tmp_path, train="\na B-A\n", dev="a B-A\n")
    with pytest.raises(InputError, match=f"train.txt:2: {found}.*correct the options token_column, tag_column"):
        conll.read(tmp_path, options)


def test_a_file_without_a_sentence_is_named(tmp_path: Path) -> None:
    files(tmp_path, train="a B-A\n", dev="-DOCSTART- O\n\n")
    with pytest.raises(InputError, match="dev.txt: found no usable sentence"):
        conll.read(tmp_path, ConllOptions())


def test_dev_is_drawn_where_there_is_none(tmp_path: Path) -> None:
    files(tmp_path, all="".join(f"w{index} B-A\n\n" for index in range(100)))
    splits = conll.read(tmp_path, ConllOptions(dev_fraction=0.3)).splits
    assert splits["train"].num_rows + splits["dev"].num_rows == 100 and 15 < splits["dev"].num_rows < 45


def test_wnut_17(shared_data: Path) -> None:
    examples = conll.read(shared_data / "ner/wnut17", ConllOptions())
    assert {split: table.num_rows for split, table in examples.splits.items()} == {
        "train": 3394,
        "dev": 1009,
        "test": 1287,
    }
    assert examples.dropped == {} and examples.labels is not None and len(examples.labels) == 13
    gold = examples.splits["test"]["tags"].to_pylist()
    types = Counter(type_ for tags in gold for type_, _, _ in tagging.entities(tags))
    assert types == {
        "person": 429,
        "group": 165,
        "location": 150,
        "creative-work": 142,
        "product": 127,
        "corporation": 66,
    }
