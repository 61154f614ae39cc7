"""A model through the hub's own client to a hub on this machine."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from bertcore.commands.main import main
from bertcore.errors import BAD_INPUT, UNAVAILABLE
from bertcore.model.bert import BertConfig, BertForPreTraining
from bertcore.model.huggingface import save_pretrained
from bertcore.tokens.wordpiece import save_tokenizer
from tests.hub_uploads import COMMIT, UploadServer
from tests.import_closure import ROOT


@pytest.fixture
def hub() -> Iterator[UploadServer]:
    with UploadServer(token="right") as server:
        yield server


@pytest.fixture
def saved(tokenizer: Tokenizer, config: BertConfig, tmp_path: Path) -> Path:
    (tmp_path / "tokenizer").mkdir()
    save_tokenizer(tokenizer, tmp_path / "tokenizer", lowercase=True)
    torch.manual_seed(1)
    save_pretrained(BertForPreTraining(config), tmp_path / "model", tmp_path / "tokenizer")
    return tmp_path / "model"


def push(
    hub: UploadServer, home: Path, *arguments: str, token: str | None = "right"
) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the client reads its environment when it is imported."""
    return subprocess.run(
        [sys.executable, "-m", "bertcore", "push", *arguments],
        cwd=ROOT,
        env=hub.environment(home, token),
        capture_output=True,
        text=True,
        check=False,
    )


def test_all_files_arrive_in_one_commit(hub: UploadServer, saved: Path, tmp_path: Path) -> None:
    (saved / "model.onnx").write_text("not to be sent")
    for folder in ("1_Pooling", "generator"):  # of which modules.json names the first
        (saved / folder).mkdir()
        (saved / folder / "config.json").write_text("{}")
    (saved / "modules.json").write_text(
        '[{"path": "", "type": "Transformer"}, {"path": "1_Pooling", "type": "Pooling"}]'
    )
    done = push(hub, tmp_path / "home", str(saved), "hub://team/encoder", "--license", "mit", "--message", "First")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{hub.endpoint}/team/encoder/commit/{COMMIT}\n" and hub.messages == ["First"]
    sent = hub.repositories["team/encoder"]
    files = {path.name for path in saved.iterdir() if path.is_file() and path.suffix != ".onnx"}
    assert sent.keys() == files | {"README.md", "1_Pooling/config.json"}
    assert all(content == (saved / name).read_bytes() for name, content in sent.items() if name != "README.md")
    assert sent["README.md"].decode().startswith('---\nlicense: "mit"\n') and hub.private == {"team/encoder": True}
    assert not (saved / "README.md").exists()


def test_a_hub_that_refuses_or_does_not_answer_is_one_line(hub: UploadServer, saved: Path, tmp_path: Path) -> None:
    done = push(hub, tmp_path / "home", str(saved), "hub://team/encoder", token="wrong")
    assert done.returncode == BAD_INPUT and "hub://team/encoder: the hub answered 401" in done.stderr
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1 and hub.repositories == {}


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("team/encoder", "expected hub://ORG/NAME"),
        ("hub://encoder", "expected hub://ORG/NAME"),
        ("hub://team/my--encoder", "hub://team/my--encoder: the hub takes no such name"),
        ("hub://team/encoder.git", "name the model otherwise"),
    ],
)
def test_another_address_is_refused(uri: str, said: str, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["push", str(saved), uri]) == BAD_INPUT
    assert said in capsys.readouterr().err


def test_what_a_link_leads_to_elsewhere_is_not_sent(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret.txt").write_text("not for the hub")
    (saved / "notes.txt").symlink_to(tmp_path / "secret.txt")
    assert main(["push", str(saved), "hub://team/encoder", "--license", "mit"]) == BAD_INPUT
    assert f"notes.txt: found a link to {tmp_path}/secret.txt, expected a file of the model" in capsys.readouterr().err


def test_half_a_model_is_not_sent(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (saved / "tokenizer.json").unlink()
    assert main(["push", str(saved), "hub://team/encoder"]) == BAD_INPUT
    assert "tokenizer.json: not found" in capsys.readouterr().err


def test_a_hub_that_is_not_there_may_be_there_later(hub: UploadServer, saved: Path, tmp_path: Path) -> None:
    environment = hub.environment(tmp_path / "home", "right") | {"HF_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-m", "bertcore", "push", str(saved), "hub://team/encoder"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == UNAVAILABLE and "http://127.0.0.1:9 does not answer" in done.stderr
