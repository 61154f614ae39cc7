"""A task format from outside the package: fastText's `__label__NAME text` lines. One reader, and a row in `FORMATS`."""

from pathlib import Path

import pyarrow as pa
import pytest

from bertcore.errors import ConfigError, InputError
from bertcore.evaluation.baselines import baselines
from bertcore.examples import formats, schema
from bertcore.examples.formats import Format, parse_options
from bertcore.examples.schema import CLASSIFICATION, ExampleSet
from bertcore.examples.splits import SplitOptions, find_splits
from bertcore.finetune.run import Finetuning

PREFIX = "__label__"


def read(directory: Path, options: SplitOptions) -> ExampleSet:
    """`train.txt` and `dev.txt`, an example a line."""
    splits = {split: _read_file(path) for split, path in find_splits(directory, options).items()}
    labels = sorted(set(splits["train"]["label"].to_pylist()))
    return ExampleSet(family="classification", labels=labels, metrics=["accuracy"], splits=splits)


def _read_file(path: Path) -> pa.Table:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        label, _, text = line.partition(" ")
        if not label.startswith(PREFIX) or not text:
            raise InputError(f"{path}:{number}: found {line[:40]!r}, expected {PREFIX}NAME and a text; correct it")
        rows.append({"id": str(number), "text_a": text, "label": label.removeprefix(PREFIX)})
    return pa.Table.from_pylist(rows, CLASSIFICATION)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(formats.FORMATS, "fasttext", Format(("classification",), SplitOptions, read))
    for split, count in (("train", 120), ("dev", 30)):
        lines = [
            f"{PREFIX}{'animal' if n % 2 else 'city'} the {('berlin', 'cat')[n % 2]} is red\n" for n in range(count)
        ]
        (tmp_path / f"{split}.txt").write_text("".join(lines))
    return tmp_path


def test_its_examples_are_kept_and_scored_and_learned(directory: Path, tokenizer, config, make_task) -> None:
    examples = formats.read("fasttext", directory, {})
    schema.write(examples, directory / "examples")  # as stage `examples` does
    assert schema.read(directory / "examples").splits["dev"].equals(examples.splits["dev"])
    assert baselines(examples, 1)[1]["majority"] == {"accuracy": 0.5}
    result = Finetuning(make_task(epochs=8, batch_size=16), examples, tokenizer).run(config)
    assert result.metrics["dev"]["accuracy"] == 1.0


def test_its_options_are_strict_and_a_bad_line_is_named(directory: Path) -> None:
    with pytest.raises(ConfigError, match="here: unknown key 'train_fil'; did you mean 'train_file'"):
        parse_options("fasttext", {"train_fil": "a.txt"}, "here")
    (directory / "dev.txt").write_text(f"{PREFIX}city berlin\nno label\n")
    with pytest.raises(InputError, match=r"dev\.txt:2: found 'no label', expected __label__NAME"):
        formats.read("fasttext", directory, {})
