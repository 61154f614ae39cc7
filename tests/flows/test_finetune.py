"""What `finetune-flow` is asked for, before anything begins."""

from pathlib import Path

import pytest

from flows import finetune


@pytest.mark.parametrize("text", ["finetune: {tasks: {}}", "corpus: {}"])
def test_a_tree_without_tasks_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetune, "ROOT", tmp_path)
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"params.yaml: finetune.tasks: found no tasks; name some"):
        finetune._tasks(None)
    (tmp_path / "params.yaml").write_bytes(b"# caf\xe9\nfinetune: {tasks: {a: {}}}")
    with pytest.raises(ValueError, match=r"params.yaml: not UTF-8 .*; save it as UTF-8$"):
        finetune._tasks(None)


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetune, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"params.yaml"):
        finetune._tasks(None)
    (tmp_path / "params.yaml").write_text("{")
    with pytest.raises(ValueError, match=r"params.yaml: not valid YAML: .*; correct the file$"):
        finetune._tasks(None)


def test_all_tasks_are_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetune, "ROOT", tmp_path)
    (tmp_path / "params.yaml").write_text("finetune: {tasks: {topic: {}, qa: {}}}")
    assert finetune._tasks(None) == ["topic", "qa"] and finetune._tasks(["qa"]) == ["qa"]
