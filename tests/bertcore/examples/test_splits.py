from pathlib import Path

import pyarrow as pa
import pytest

from bertcore.errors import InputError
from bertcore.examples.splits import SplitOptions, draw_dev, find_splits


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["train.csv", "dev.csv", "test.csv"], ["train.csv", "dev.csv", "test.csv"]),
        (["train.jsonl.zst", "validation.jsonl.gz"], ["train.jsonl.zst", "validation.jsonl.gz", None]),
        (["eng.train", "eng.testa", "eng.testb"], ["eng.train", "eng.testa", "eng.testb"]),
        (["en_ewt-ud-train.conllu", "en_ewt-ud-dev.conllu"], ["en_ewt-ud-train.conllu", "en_ewt-ud-dev.conllu", None]),
        (["wnut17train.conll", "emerging.dev.conll"], ["wnut17train.conll", "emerging.dev.conll", None]),
        (["train.tsv", "devel.tsv", "test.tsv"], ["train.tsv", "devel.tsv", "test.tsv"]),
        (["train.txt", "x.development.txt"], ["train.txt", "x.development.txt", None]),
        (["wnut17train.conll", "emerging.test.annotated"], ["wnut17train.conll", None, "emerging.test.annotated"]),
        (["train.csv", "test.csv", "README.md", ".x"], ["train.csv", None, "test.csv"]),
        (["latest-developments.csv"], ["latest-developments.csv", None, None]),
        (["test.csv"], ["test.csv", None, None]),
        (["a/train.csv", "b/dev.csv"], ["a/train.csv", "b/dev.csv", None]),
        (["train_dev.csv", "dev.csv"], ["train_dev.csv", "dev.csv", None]),
    ],
)
def test_files_are_told_by_their_names(names: list[str], found: list[str | None], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    expected = {split: tmp_path / name for split, name in zip(("train", "dev", "test"), found, strict=True) if name}
    assert find_splits(tmp_path, SplitOptions()) == expected


def test_files_that_are_not_read_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("train.csv", "dev.csv"):
        (tmp_path / name).touch()
    find_splits(tmp_path, SplitOptions())
    assert not caplog.records
    (tmp_path / "more").mkdir()
    for name in ("README.md", "more/evaluation.csv", *(f"more/{letter}.csv" for letter in "abcdefgh")):
        (tmp_path / name).touch()
    find_splits(tmp_path, SplitOptions())
    said = "not read, as no split is made of them: README.md, more/a.csv, more/b.csv, more/c.csv, more/d.csv"
    assert caplog.messages == [f"{tmp_path}: {said}, more/e.csv, more/evaluation.csv, more/f.csv and 2 more"]


def test_files_are_named_by_options(tmp_path: Path) -> None:
    for name in ("a.data.gz", "b.data", "c.data"):
        (tmp_path / name).touch()
    found = find_splits(tmp_path, SplitOptions(train_file="a.data", dev_file="b.*"))
    assert found == {"train": tmp_path / "a.data.gz", "dev": tmp_path / "b.data"}
    for options, message in (
        (SplitOptions(), r"found a.data.gz, b.data, c.data, expected one file for train; .* option train_file"),
        (SplitOptions(train_file="a.data", test_file="d*"), r"expected one file for test \(d\*\)"),
        (SplitOptions(train_file="*.data"), r"expected one file for train \(\*.data\)"),
        (SplitOptions(train_file="a.data", dev_file="a.data"), r"a.data.gz for train and for dev.* option dev_file"),
    ):
        with pytest.raises(InputError, match=message):
            find_splits(tmp_path, options)


@pytest.mark.parametrize(
    ("names", "options", "found"),
    [
        (["train.csv", "test.csv"], {"dev_file": "test.csv"}, {"train": "train.csv", "dev": "test.csv"}),
        (["train_dev.csv", "dev.csv"], {"train_file": "train_*"}, {"train": "train_dev.csv", "dev": "dev.csv"}),
        (
            ["train.csv", "train_test.csv"],
            {"test_file": "*_test.csv"},
            {"train": "train.csv", "test": "train_test.csv"},
        ),
    ],
)
def test_a_file_that_an_option_names_is_of_no_other_split(
    names: list[str], options: dict[str, str], found: dict[str, str], tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).touch()
    splits = find_splits(tmp_path, SplitOptions(**options))  # type: ignore[arg-type]
    assert list(splits.items()) == [(split, tmp_path / name) for split, name in found.items()]


def test_the_only_file_cannot_be_dev_and_train(tmp_path: Path) -> None:
    (tmp_path / "test.csv").touch()
    with pytest.raises(InputError, match="found test.csv, expected one file for train; .* option train_file"):
        find_splits(tmp_path, SplitOptions(dev_file="test.csv"))


def test_only_files_of_some_endings_are_looked_at(tmp_path: Path) -> None:
    for name in ("train.csv.zst", "train.md", "dev.md"):
        (tmp_path / name).touch()
    assert find_splits(tmp_path, SplitOptions(), (".csv",)) == {"train": tmp_path / "train.csv.zst"}
    assert set(find_splits(tmp_path, SplitOptions(dev_file="dev.md"), (".csv",))) == {"train", "dev"}


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for name in ("de/train.csv.gz", "en/train.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"found de/train.csv.gz, en/train.csv, expected one file for train"):
        find_splits(tmp_path, SplitOptions())
    assert find_splits(tmp_path, SplitOptions(train_file="de/train.csv"))["train"] == tmp_path / "de/train.csv.gz"


@pytest.mark.parametrize("kind", ["label", "labels", "tags"])
def test_labels_that_nobody_can_learn_are_said(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    texts = [f"text {index}" for index in range(200)]
    names = [f"one of {index}" if index % 10 == 0 else "many" for index in range(200)]
    cells = names if kind == "label" else [[name] for name in names]
    pairs = pa.nulls(len(texts), pa.string())
    splits = draw_dev(pa.table({"text_a": texts, "text_b": pairs, kind: cells}), SplitOptions(), "file")
    found = splits["dev"][kind].to_pylist()
    unseen = {cell if kind == "label" else cell[0] for cell in found} - {"many"}
    said = f"file: labels that only examples of dev have, which nobody can learn: {len(unseen)} ("
    assert unseen and said in caplog.text


def drawn(texts: list[str], **options: float) -> dict[str, list[str]]:
    table = pa.table({"text_a": texts, "text_b": pa.nulls(len(texts), pa.string())})
    splits = draw_dev(table, SplitOptions(**options), "file")  # type: ignore[arg-type]
    return {split: table["text_a"].to_pylist() for split, table in splits.items()}


def test_a_draw_depends_on_the_text_and_the_seed_alone() -> None:
    texts = [f"text {index}" for index in range(2000)]
    first = drawn(texts)
    assert sorted(first["train"] + first["dev"]) == sorted(texts) and 150 < len(first["dev"]) < 250
    reordered = drawn([*reversed(texts), *texts[:500]])
    assert set(reordered["dev"]) == set(first["dev"]) and not set(reordered["dev"]) & set(reordered["train"])
    assert set(drawn(texts, split_seed=2)["dev"]) != set(first["dev"])
    assert set(first["dev"]) < set(drawn(texts, dev_fraction=0.3)["dev"])


def test_of_two_texts_and_more_one_at_least_is_on_either_side() -> None:
    for fraction, sizes in ((1e-6, (2, 1)), (1 - 1e-6, (1, 2))):
        found = drawn(["a", "b", "c"], dev_fraction=fraction)
        assert (len(found["train"]), len(found["dev"])) == sizes
    with pytest.raises(InputError, match="file: found one example, of which none can be dev; give more, or a dev file"):
        drawn(["a"], dev_fraction=0.5)


def test_examples_of_one_text_cannot_be_divided() -> None:
    table = pa.Table.from_pylist([{"id": str(n), "context": "the manual", "question": f"{n}?"} for n in range(9)])
    with pytest.raises(InputError, match="file: found one text that all its 9 examples share, .* give a dev file"):
        draw_dev(table, SplitOptions(dev_fraction=0.5), "file")


def test_endings_in_capitals_and_hidden_folders(tmp_path: Path) -> None:
    for name in ("Train.CSV", "dev.csv", ".ipynb_checkpoints/test-checkpoint.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = find_splits(tmp_path, SplitOptions(), [".csv"])
    assert found == {"train": tmp_path / "Train.CSV", "dev": tmp_path / "dev.csv"}


@pytest.mark.parametrize("name", ["train.xlsx", "train.csv.bz2"])
def test_no_other_file_takes_the_place_of_a_train_file_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    for each in (name, "dev.csv"):
        (tmp_path / each).touch()
    with pytest.raises(InputError, match=f"{name}: unknown ending, expected that of dev.csv; convert the file"):
        find_splits(tmp_path, SplitOptions(), [".csv"])
    assert find_splits(tmp_path, SplitOptions(train_file="dev.csv"), [".csv"]) == {"train": tmp_path / "dev.csv"}


def test_a_table_of_an_ending_that_is_not_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "tickets.xlsx").touch()
    with pytest.raises(InputError, match=r"found tickets.xlsx, expected an ending of \.csv, \.tsv; save it as such a"):
        find_splits(tmp_path, SplitOptions(), (".csv", ".tsv"))
