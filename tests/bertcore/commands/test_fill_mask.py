"""The likeliest words against the logits of `transformers`."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer

from bertcore.apply.fill_mask import MaskedLanguageModel
from bertcore.commands.main import main
from bertcore.errors import BAD_INPUT
from bertcore.model.config import ARCHITECTURES, build_pretraining
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import save_pretrained
from bertcore.tokens.wordpiece import save_tokenizer
from tests.bertcore.finetune.conftest import configs

__all__ = ["configs"]


@pytest.fixture(params=ARCHITECTURES)
def saved(
    request: pytest.FixtureRequest, tokenizer: Tokenizer, configs: dict[str, EncoderConfig], tmp_path: Path
) -> Path:
    (tmp_path / "tokenizer").mkdir()
    save_tokenizer(tokenizer, tmp_path / "tokenizer", lowercase=True)
    torch.manual_seed(1)
    model = build_pretraining(configs[request.param])
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    save_pretrained(model, tmp_path / "model", tmp_path / "tokenizer")
    return tmp_path / "model"


def test_words_and_probabilities_are_those_of_transformers(
    saved: Path, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["the [MASK] is on the table", "a [MASK] [MASK]"]
    assert main(["fill-mask", "--model", str(saved), *texts, "--top", "3"]) == 0
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(saved).eval()
    mask = tokenizer.token_to_id("[MASK]")
    for text, line in zip(texts, capsys.readouterr().out.splitlines(), strict=True):
        ids = torch.tensor([tokenizer.encode(text).ids])
        with torch.no_grad():
            probabilities = theirs(ids).logits[0, ids[0] == mask].softmax(-1)
        row = json.loads(line)
        assert row["text"] == text and len(row["masks"]) == text.count("[MASK]")
        for words, expected in zip(row["masks"], probabilities, strict=True):
            values, indices = expected.topk(3)
            assert [each["word"] for each in words] == [tokenizer.id_to_token(int(index)) for index in indices]
            assert [each["probability"] for each in words] == pytest.approx(values.tolist(), rel=1e-4)
    second = row["masks"][1][0]
    joined = second["word"].startswith("##")
    assert second["text"] == (f"a [MASK]{second['word'][2:]}" if joined else f"a [MASK] {second['word']}")


def test_a_blank_line_has_no_masks(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (saved.parent / "in.txt").write_text("\na [MASK]\n")
    assert main(["fill-mask", "--model", str(saved), "--file", str(saved.parent / "in.txt")]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"number": 1, "text": "", "masks": []} and len(second["masks"]) == 1


def test_a_piece_that_continues_a_word_stands_at_its_end(saved: Path, tokenizer: Tokenizer) -> None:
    model, ids = MaskedLanguageModel.load(saved), tokenizer.get_vocab()
    piece = next(entry for entry in sorted(ids) if entry.startswith("##"))
    assert model.put("the cat ", ids[piece], " .") == f"the cat{piece[2:]} ."
    assert model.put("the ", ids["cat"], " .") == "the cat ."


def test_the_default_may_stand_within_the_pretrained_model(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a generator stands beside its discriminator."""
    place = saved.parent / "tree" / "models" / "pretrained"
    place.mkdir(parents=True)
    saved.rename(place / "generator")
    monkeypatch.chdir(saved.parent / "tree")
    assert main(["fill-mask", "a [MASK]"]) == 0
    assert capsys.readouterr().err == "model: models/pretrained/generator\n"


def test_a_table_has_a_row_for_each_word(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fill-mask", "--model", str(saved), "[MASK] cat", "--top", "2", "--format", "table"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0].split() == ["number", "mask", "word", "probability", "text"] and len(lines) == 3 and "cat" in lines[1]
    )


def test_what_has_no_mask_or_does_not_fit_is_one_line(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, said in (
        ("a cat", "'a cat': found no [MASK], expected one"),
        ("[MASK] " * 80, "found 82 tokens, expected"),
    ):
        assert main(["fill-mask", "--model", str(saved), text]) == BAD_INPUT
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
    assert main(["fill-mask", "--model", str(saved), "the [MASK]", "the cat"]) == BAD_INPUT
    assert capsys.readouterr().err.startswith("error: text 2: 'the cat': found no [MASK]")
