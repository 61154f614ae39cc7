from pathlib import Path

import pytest

from bertcore.errors import InputError
from bertcore.evaluation.baselines import FAMILIES as BASELINES
from bertcore.examples import docstrings, glue
from bertcore.examples.formats import FORMATS
from bertcore.examples.schema import FAMILIES


def test_every_reader_has_a_name() -> None:
    names = {*(f"pydoc/{name}" for name in docstrings.READERS), *(f"glue/{name}" for name in glue.TASKS), "squad"}
    assert set(FORMATS) == names
    assert {each.family for each in FORMATS.values()} == set(FAMILIES) == set(BASELINES)


@pytest.mark.parametrize("name", [name for name in FORMATS if not name.startswith("pydoc/")])
def test_a_directory_without_the_files_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path}: "):
        FORMATS[name].reader(tmp_path)


def test_glue_through_its_name(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("sentence\tlabel\ngood\t1\n")
    examples = FORMATS["glue/sst2"].reader(tmp_path)
    assert examples.family == FORMATS["glue/sst2"].family and examples.splits["dev"].num_rows == 1
