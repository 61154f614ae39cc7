"""The command as it is called: its help, its mistakes, its pipes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from bertcore.commands import main as commands
from bertcore.commands.main import COMMANDS, main
from bertcore.errors import BAD_INPUT
from bertcore.model.bert import BertConfig, BertForPreTraining
from bertcore.model.huggingface import save_pretrained
from bertcore.tokens.wordpiece import save_tokenizer
from tests import samples
from tests.import_closure import ROOT, imported_modules


def command(*arguments: str, given: bytes | None = None, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """In a process of its own, as it is typed."""
    return subprocess.run(
        [sys.executable, "-m", "bertcore", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        check=False,
    )


def test_help_teaches_every_command_and_waits_for_no_torch() -> None:
    done = command("--help", PYTHONPROFILEIMPORTTIME="1")
    said = done.stdout.decode()
    assert done.returncode == 0 and all(f"  {name}" in said and f"bertcore {name} " in said for name in COMMANDS)
    assert b" torch\n" not in done.stderr and b" pyarrow\n" not in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_of_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0 and f"\n  bertcore {name} " in said.split("examples:")[1]


def test_results_are_utf8_whatever_the_locale_and_want_an_output(tmp_path: Path) -> None:
    (tmp_path / "tokenizer").mkdir()
    tokens = samples.tokenizer()
    save_tokenizer(tokens, tmp_path / "tokenizer", lowercase=True)
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertForPreTraining(BertConfig(vocab_size=tokens.get_vocab_size(), **small))
    save_pretrained(model, tmp_path / "model", tmp_path / "tokenizer")
    (tmp_path / "in.txt").write_text("naïve 猫\n", encoding="utf-8")
    given = ["embed", "--model", str(tmp_path / "model"), "--file", str(tmp_path / "in.txt"), "--format", "jsonl"]
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = command(*given, **ascii_only)
    assert done.returncode == 0 and json.loads(done.stdout.decode())["text"] == "naïve 猫"
    closed = subprocess.run(
        ["bash", "-c", 'exec "$@" >&-', "-", sys.executable, "-m", "bertcore", *given],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        check=False,
    )
    assert closed.returncode == BAD_INPUT and closed.stderr.decode().startswith("error: found no standard output")


def test_what_is_no_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fillmask"]) == BAD_INPUT
    assert capsys.readouterr().err.startswith("error: fillmask: no command; did you mean 'fill-mask'?")


def test_an_option_that_is_none_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for given, said in (
        (["classify", "--modle", "x"], "error: --modle: no option; did you mean '--model'? Expected one of: --"),
        (["embed", "--precision", "float16", "a"], "error: argument --precision: invalid choice: 'float16'"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(given)
        shown = capsys.readouterr().err
        assert ended.value.code == BAD_INPUT and shown.startswith(said) and shown.count("\n") == 1
        assert shown.endswith("--help says more\n")


def test_options_stand_between_texts_and_files(capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["convert", "none", "--int8", "out.onnx"], ["similar", "a", "--model", "none", "b", "c"]):
        assert main(given) == BAD_INPUT
        assert capsys.readouterr().err.startswith("error: none"), given  # the directory is looked for, and is not there


def test_no_command_imports_another_one() -> None:
    modules = {f"bertcore.commands.{command.module}" for command in COMMANDS.values()}
    for module in modules:
        assert not modules & imported_modules(Path(*module.split(".")).with_suffix(".py")), module


def test_another_python_than_that_of_the_project_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(COMMANDS, "tag", commands.Command("of_nothing", "", ""))
    assert main(["tag"]) == BAD_INPUT
    assert capsys.readouterr().err.endswith("is not installed; activate the environment: . .venv/bin/activate\n")


def test_a_pipe_goes_in_and_json_lines_come_out(tokenizer: Tokenizer, config: BertConfig, tmp_path: Path) -> None:
    """In a real process; and another one reads the beginning of its output only."""
    (tmp_path / "tokenizer").mkdir()
    save_tokenizer(tokenizer, tmp_path / "tokenizer", lowercase=True)
    save_pretrained(BertForPreTraining(config), tmp_path / "model", tmp_path / "tokenizer")
    done = command("embed", "--model", str(tmp_path / "model"), given=b"red cat\r\nblue dog\n")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["text"] for row in rows] == ["red cat", "blue dog"] and len(rows[0]["vector"]) == 32, done.stderr
    table = b"id,body\n1,red cat\n"
    done = command(
        "embed", "--model", str(tmp_path / "model"), "--input-format", "csv", "--column", "body", given=table
    )
    assert json.loads(done.stdout) == rows[0]
    done = command(
        *("embed", "--model", str(tmp_path / "model"), "--file", "-", "--input-format", "csv", "--column", "body"),
        given=table,
    )
    assert json.loads(done.stdout) == rows[0]


def test_what_the_file_system_refuses_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(options: object) -> None:
        (tmp_path / "no" / "place").write_text("")

    monkeypatch.setattr("bertcore.commands.search.run", refused)
    assert main(["search", "token", "--in", str(tmp_path)]) == BAD_INPUT
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}/no/place: No such file or directory; correct the")


def test_without_any_text_it_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["embed", "--model", "nowhere"]) == BAD_INPUT
    assert capsys.readouterr().err.startswith("error: found no text, expected one as an argument, in --file FILE or")


def test_without_a_standard_error_nothing_is_said_among_the_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["nothing"]) == BAD_INPUT
    sys.stderr.close()
    assert capsys.readouterr().out == ""
