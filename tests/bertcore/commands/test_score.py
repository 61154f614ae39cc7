"""The command on a directory that transformers wrote; BLiMP itself where its files are."""

import json
import math
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer

from bertcore.apply.fill_mask import MaskedLanguageModel
from bertcore.commands import parts
from bertcore.commands import score as score_command
from bertcore.commands.main import main
from bertcore.errors import BAD_INPUT
from bertcore.minimal_pairs.pairs import by_paradigm, read_pairs, score
from bertcore.minimal_pairs.results import outcomes
from bertcore.minimal_pairs.scoring import load_masked_language_model, pseudo_log_likelihoods, sentence_scorer
from bertcore.model.bert import BertConfig
from bertcore.tokens.wordpiece import VOCABULARY_FILE

PAIRS = [
    {"good": "the cat is on the table .", "bad": "the cat on is the table .", "kind": "order"},
    {"good": "what colour is the bird ?", "bad": "colour what is the bird ?", "kind": "order"},
    {"sentence_good": "a dog", "sentence_bad": "a dogs", "UID": "number", "linguistics_term": "agreement"},
]


@pytest.fixture
def saved(tokenizer: Tokenizer, config: BertConfig, tmp_path: Path) -> Path:
    """As old checkpoints are: the vocabulary alone beside the model."""
    sizes = {name: getattr(config, name) for name in ("vocab_size", "hidden_size", "num_hidden_layers")}
    torch.manual_seed(1)
    published = transformers.BertConfig(**sizes, num_attention_heads=2, intermediate_size=64)
    transformers.BertForMaskedLM(published).save_pretrained(tmp_path / "model")
    entries = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    (tmp_path / "model" / VOCABULARY_FILE).write_text("\n".join(entries) + "\n")
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, PAIRS)))
    return tmp_path / "model"


def test_the_command_prints_a_table_and_json(
    saved: Path, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved.parent / "pairs.jsonl"
    assert main(["score", "--model", str(saved), "--pairs", str(file), "--variant", "within_word_l2r"]) == 0
    out, err = capsys.readouterr()
    metrics = json.loads(out)
    assert (metrics["variant"], metrics["share"], metrics["pairs"]) == ("within_word_l2r", 1.0, 3)
    scorer = sentence_scorer(load_masked_language_model(saved), tokenizer, "within_word_l2r")
    expected = float(outcomes(score(read_pairs(file), scorer)).mean())
    assert metrics["systems"]["model"]["accuracy"] == pytest.approx(expected)
    assert list(metrics["phenomena"]) == ["order", "agreement"] and list(metrics["paradigms"]) == ["order", "number"]
    assert err.splitlines()[-2].split()[:4] == ["all", "pairs", "3", f"{100 * expected:.1f}"]


def test_several_files_and_a_share(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(saved.parent / "pairs.jsonl")
    assert main(["score", "--model", str(saved), "--pairs", file, file, "--share", "0.5"]) == 0
    assert json.loads(capsys.readouterr().out)["pairs"] == 3  # 2 of 4 and 1 of 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.jsonl"], "none.jsonl: no such file"),
        (["--share", "2"], "--share: found 2.0"),
        (["--out", "scores.csv"], "--out: found 'scores.csv', expected a .json file with --pairs"),
        (["--file", "texts.txt"], "--pairs: found texts beside it"),
        (["--format", "csv"], "--format: found csv with --pairs"),
        (["--column", "sentence"], "--column: found sentence with --pairs"),
        (["--out", "/dev/null/scores.json"], "--out: found /dev/null, where nothing can be written"),
    ],
)
def test_a_mistake_is_one_line(
    saved: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", "--model", str(saved), "--pairs", str(saved.parent / "pairs.jsonl"), *arguments]) == BAD_INPUT
    said = capsys.readouterr().err
    assert said.startswith(f"error: {message}") and said.count("\n") == 1


def test_a_share_of_no_pairs_is_refused(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "--model", str(saved), "red cat", "--share", "0.1"]) == BAD_INPUT
    assert capsys.readouterr().err.startswith("error: --share: found 0.1 without --pairs")


def test_no_text_is_scored_before_all_can_be(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parts, "AT_ONCE", 2)
    monkeypatch.setattr(score_command, "score_texts", None)
    file = saved.parent / "in.txt"
    file.write_text("red cat\n\nred cat\nred cat\n\u0301\n")  # an accent alone, which lower-casing takes away
    assert main(["score", "--model", str(saved), "--file", str(file)]) == BAD_INPUT
    assert "error: text 5: '\u0301': found no token" in capsys.readouterr().err


def test_which_of_several_texts_cannot_be_scored(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "--model", str(saved), "red cat", "\u0301"]) == BAD_INPUT
    assert "error: text 2: " in capsys.readouterr().err


def test_a_text_that_is_too_long_keeps_its_place_without_a_score(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", "--model", str(saved), "red cat", "red " * 511, "red " * 510]) == 0
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["tokens"], row["pseudo_perplexity"] is None) for row in rows] == [
        (2, False),
        (511, True),
        (510, False),
    ]
    assert err.endswith("texts beyond the 512 tokens that the model reads, not scored: 1\n")


def test_a_text_is_as_likely_alone_as_in_a_pair(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BERTCORE_PRECISION", "bf16")
    pairs = read_pairs(saved.parent / "pairs.jsonl")
    assert main(["score", "--model", str(saved), *(pair.good for pair in pairs)]) == 0
    found = [json.loads(line)["pseudo_log_likelihood"] for line in capsys.readouterr().out.splitlines()]
    model = MaskedLanguageModel.load(saved)
    expected = score(pairs, sentence_scorer(model.model, model.tokenizer))[:, 0]
    assert found == pytest.approx(expected.tolist(), rel=1e-3)
    exact = pseudo_log_likelihoods(model.model, model.tokenizer, [pair.good for pair in pairs])
    assert found != pytest.approx(exact.tolist(), rel=1e-6), "in another precision"


def test_pseudo_perplexity_is_of_the_tokens_masked_one_at_a_time(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By transformers, a token at a time."""
    monkeypatch.setenv("BERTCORE_PRECISION", "no")
    text = "the red cat is on the table"
    assert main(["score", "--model", str(saved), text, "dog"]) == 0
    found, other = map(json.loads, capsys.readouterr().out.splitlines())
    own = MaskedLanguageModel.load(saved)
    ids = torch.tensor([own.tokenizer.encode(text).ids])
    theirs = transformers.BertForMaskedLM.from_pretrained(saved).eval()
    sums = 0.0
    for place in range(1, ids.shape[1] - 1):
        masked = ids.clone()
        masked[0, place] = own.vocabulary.mask
        with torch.no_grad():
            sums += float(theirs(masked).logits[0, place].log_softmax(-1)[ids[0, place]])
    assert found["tokens"] == 7 and other["tokens"] == 1
    assert found["pseudo_log_likelihood"] == pytest.approx(sums, rel=1e-4)
    assert found["pseudo_perplexity"] == pytest.approx(math.exp(-sums / 7), rel=1e-3)
    assert main(["score", "--model", str(saved), "dog", ""]) == BAD_INPUT
    assert capsys.readouterr().err.endswith("error: the command line: found the text '', expected words; give some\n")


def test_rows_of_a_file_are_its_lines_blank_ones_too(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = saved.parent / "in.txt"
    file.write_text("red cat\n\ndog\n \n")
    assert main(["score", "--model", str(saved), "--file", str(file)]) == 0
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["tokens"] for row in rows] == [2, 0, 1, 0] and rows[1]["pseudo_perplexity"] is None
    assert err.startswith(f"{file}: texts without a word: 2 (the first is number 2)\n")
    assert main(["score", "--model", str(saved), "red cat", "dog"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == rows[::2]


def test_blimp_is_read_as_it_is(shared_data: Path) -> None:
    pairs = read_pairs(shared_data / "minimal_pairs" / "blimp.jsonl.zst")
    sizes = {paradigm: len(places) for paradigm, places in by_paradigm(pairs).items()}
    assert len(sizes) == 67 and set(sizes.values()) == {1000}
    assert {pair.phenomenon for pair in pairs} >= {"anaphor_agreement", "island_effects", "npi_licensing"}
    assert sum(pair.good == pair.bad for pair in pairs) == 7
    filtered = read_pairs(shared_data / "minimal_pairs" / "blimp_filtered.jsonl.zst")
    assert len(filtered) == 59_875 and set(by_paradigm(filtered)) == set(sizes)
