"""What `finetune-flow` and `make finetune` are asked for, before anything begins."""

from pathlib import Path

import pytest

from flows import finetune_parameters, launch_finetune, server


@pytest.mark.parametrize("text", ["finetune: {tasks: {}}", "corpus: {}"])
def test_a_tree_without_tasks_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetune_parameters, "ROOT", tmp_path)
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"params.yaml: finetune.tasks: found no tasks; name some"):
        finetune_parameters.chosen_tasks(None)
    (tmp_path / "params.yaml").write_bytes(b"# caf\xe9\nfinetune: {tasks: {a: {}}}")
    with pytest.raises(ValueError, match=r"params.yaml: not UTF-8 .*; save it as UTF-8$"):
        finetune_parameters.chosen_tasks(None)


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetune_parameters, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"params.yaml"):
        finetune_parameters.chosen_tasks(None)
    (tmp_path / "params.yaml").write_text("{")
    with pytest.raises(ValueError, match=r"params.yaml: not valid YAML: .*; correct the file$"):
        finetune_parameters.chosen_tasks(None)


def test_all_tasks_are_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetune_parameters, "ROOT", tmp_path)
    (tmp_path / "params.yaml").write_text("finetune: {tasks: {topic: {}, qa: {}}}")
    assert finetune_parameters.chosen_tasks(None) == ["topic", "qa"]
    assert finetune_parameters.chosen_tasks(["qa"]) == ["qa"]


def test_make_finetune_starts_no_server_for_a_model_or_a_task_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(finetune_parameters, "ROOT", tmp_path)
    monkeypatch.setattr(server, "STATE", tmp_path / ".prefect")
    monkeypatch.setattr(server, "end_as_by_ctrl_c", lambda: None)
    monkeypatch.setattr(launch_finetune, "run_deployment", lambda *_: pytest.fail("a run was asked for"))
    (tmp_path / "params.yaml").write_text("finetune: {tasks: {topic: {}, qa: {}}}")
    for model in ("bert-base", "~nobody-of-this-name/model", "a" * 300):
        assert launch_finetune.main([model, "topic"]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"error: parameter model: found {model!r}, expected a Hugging Face directory")
        assert said.count("\n") == 1
    (tmp_path / "bert-base").mkdir()
    (tmp_path / "bert-base" / "config.json").write_text("{}")
    assert launch_finetune.main(["bert-base", "topc"]) == 1
    expected = "error: parameter tasks: found 'topc', expected some of topic, qa, as in params.yaml\n"
    assert capsys.readouterr().err == expected
