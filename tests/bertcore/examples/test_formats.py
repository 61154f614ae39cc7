import ast
import dataclasses
import inspect
import textwrap
from pathlib import Path

import pytest

from bertcore.errors import ConfigError, InputError
from bertcore.evaluation import classification, multi_label
from bertcore.evaluation.baselines import BASELINES
from bertcore.examples import docstrings, glue, hub, table
from bertcore.examples.bad_rows import WRONG_COLUMNS
from bertcore.examples.formats import FORMATS, parse_options, read
from bertcore.finetune.families import FAMILIES


def test_every_reader_has_a_name() -> None:
    names = {*(f"pydoc/{name}" for name in docstrings.READERS), *(f"glue/{name}" for name in glue.TASKS)}
    assert set(FORMATS) == names | {"squad", "conll", "table", "choices"} and set(hub.READABLE) < set(FORMATS)
    assert {family for each in FORMATS.values() for family in each.families} == set(FAMILIES) == set(BASELINES)


@pytest.mark.parametrize("name", [name for name in FORMATS if not name.startswith("pydoc/")])
def test_a_directory_without_the_files_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path}: "):
        read(name, tmp_path, {})


def test_through_its_name_with_its_options(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("sentence\tlabel\ngood\t1\nbad\t0\nugly\n")
    examples = read("glue/sst2", tmp_path, {"on_error": "skip"})
    assert examples.family in FORMATS["glue/sst2"].families and examples.splits["dev"].num_rows == 2
    other = read("table", tmp_path, {"text_column": "sentence", "on_error": "skip"})
    assert other.family in FORMATS["table"].families and other.labels == ["0", "1"]
    assert other.dropped == examples.dropped == {WRONG_COLUMNS: 2}


def test_a_column_may_be_a_number() -> None:
    options = parse_options("table", {"header": False, "text_column": 0, "label_column": 12}, "here")
    assert (options.text_column, options.label_column) == ("0", "12")
    choices = parse_options("choices", {"header": False, "context_column": 0, "choices_column": [1, 2]}, "here")
    assert (choices.context_column, choices.choices_column) == ("0", ["1", "2"])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pydoc/qa", {"header": True}, "here: found 'header', but the format 'pydoc/qa' has none; remove it"),
        ("squad", [], r"here: found \[\] \(list\), expected a mapping with the keys "),
        ("pydoc/qa", None, r"here: found nothing \(null\), expected no such key; remove it"),
        ("squad", {"on_eror": "skip"}, "here: unknown key 'on_eror'; did you mean 'on_error'"),
        ("glue/rte", {"on_error": "ignore"}, "here.on_error: found 'ignore'.*skip, strict"),
        ("conll", {"tag_column": "3"}, r"here.tag_column: found '3' \(str\), expected integer; take the quotes off"),
        ("conll", {"dev_fraction": 1.0}, "here.dev_fraction: found 1.0, expected a share"),
        ("table", {"header": 0}, r"here.header: found 0 \(int\), expected true or false"),
        ("table", {"delimiter": "||"}, r"here.delimiter: found '\|\|', expected one character"),
        ("table", {"kind": "regression", "labels": ["a"]}, r"here.labels: found \['a'\] with kind regres"),
        (
            "table",
            {"kind": "multi_label", "metrics": ["f1"]},
            "here.metrics: found 'f1' for multi_label; Expected one of: exact",
        ),
        ("table", {"metrics": []}, r"here.metrics: found \[\], expected one or more, each of them once, or null"),
        (
            "table",
            {"metrics": ["accuracy", "accuracy"]},
            r"here.metrics: found \['accuracy', 'accuracy'\], expected one",
        ),
        *(
            ("table", {"labels": labels}, r"here.labels: found \[.*\], expected 2 or more names, each of them once")
            for labels in ([], ["a"], ["a", "a"], ["a", "b", ""])
        ),
        ("table", {"text_column": "label"}, "here.label_column: found 'label' as in text_column, expected a column of"),
        ("table", {"text_pair_column": "text"}, "here.text_pair_column: found 'text' as in text_column"),
        ("choices", {"question_column": "context"}, "here.question_column: found 'context' as in context_column"),
        ("choices", {"choices_column": ["a", "label"]}, "here.label_column: found 'label' as in choices_column"),
        ("table", {"label_separator": ""}, "here.label_separator: found nothing"),
        ("choices", {"choices_column": ["a"]}, r"here.choices_column: found \['a'\], expected two or more columns"),
        ("choices", {"label_is": "column"}, "here.label_is: found 'column', expected choices_column to be a list"),
        ("choices", {"label_is": "place"}, "here.label_is: found 'place'.*index, letter, number, text"),
    ],
)
def test_options_are_strict(name: str, options: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_options(name, options, "here")


def test_the_metrics_of_a_table_are_those_that_evaluation_has() -> None:
    assert set(table.METRICS["classification"]) | set(table.METRICS["regression"]) == set(classification.METRICS)
    assert table.METRICS["multi_label"] == multi_label.METRICS


@pytest.mark.parametrize("name", FORMATS)
def test_every_option_has_a_docstring_of_its_own(name: str) -> None:
    """The reference of options is made from them."""
    cls = FORMATS[name].options
    documented: set[str] = set()
    for each in cls.__mro__[:-1]:
        body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0].body  # type: ignore[attr-defined]
        for field, after in zip(body, body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(field.target, ast.Name):
                documented.add(field.target.id)
    assert {field.name for field in dataclasses.fields(cls)} <= documented
