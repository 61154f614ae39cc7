"""Pooled vectors against the hidden states and attentions of `transformers`."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import transformers
from tokenizers import Tokenizer

from bertcore.apply.compact import compact
from bertcore.apply.embed import Embedder
from bertcore.apply.pooling import POOLINGS
from bertcore.commands.main import main
from bertcore.errors import BAD_INPUT, ConfigError
from bertcore.model.bert import BertConfig, BertForPreTraining
from bertcore.model.huggingface import save_pretrained
from bertcore.tokens.wordpiece import save_tokenizer

LINES = Path("lines.txt")
TEXTS = ["the red cat", "a", "", "where is the dog, on the table? berlin", "blue " * 100]


@pytest.fixture(scope="module")
def saved(tokenizer: Tokenizer, config: BertConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("encoder")
    (directory / "tokenizer").mkdir()
    save_tokenizer(tokenizer, directory / "tokenizer", lowercase=True)
    torch.manual_seed(1)
    model = BertForPreTraining(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    save_pretrained(model, directory / "model", directory / "tokenizer")
    return directory / "model"


@pytest.mark.parametrize("layer", [-1, 1, 0, -2])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_vectors_are_those_of_transformers(pooling: str, layer: int, saved: Path) -> None:
    if layer == 0 and pooling == "attention":
        with pytest.raises(ConfigError, match="layer: found 0, the embeddings, with pooling attention"):
            Embedder.load(saved, pooling, layer)
        return
    vectors, cut = Embedder.load(saved, pooling, layer).embed(TEXTS)
    assert cut == 1
    theirs = transformers.AutoModel.from_pretrained(saved, attn_implementation="eager").eval()
    encode = transformers.AutoTokenizer.from_pretrained(saved)
    for text, vector in zip(TEXTS, vectors, strict=True):
        inputs = encode(text, return_tensors="pt", truncation=True, max_length=64)
        with torch.no_grad():
            outputs = theirs(**inputs, output_hidden_states=True, output_attentions=True)
        states = outputs.hidden_states[layer][0]
        if pooling == "attention":
            attention = outputs.attentions[{-1: -1, 1: 0, -2: -2}[layer]][0]  # (A, L, L)
            expected = attention.mean(0)[0] @ states
        else:
            expected = {"cls": states[0], "mean": states.mean(0), "max": states.amax(0)}[pooling]
        np.testing.assert_allclose(vector, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ending", [".npy", ".parquet"])
def test_command_reads_each_kind_of_file(
    ending: str, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected, _ = Embedder.load(saved, "max").embed(["red cat", "dog"])
    files = {
        "in.txt": "\ufeffred cat\ndog\n",
        "in.jsonl": '{"text": "red cat"}\n\n{"text": "dog"}\n',
        "in.tsv": "id\ttext\n1\tred cat\n2\tdog\n\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        out = tmp_path / f"out{ending}"
        arguments = ["embed", "--model", str(saved), "--file", str(tmp_path / name), "--out", str(out)]
        assert main([*arguments, "--pooling", "max"]) == 0
        assert f"{out}: 2 vectors of 32 numbers" in capsys.readouterr().err
        if ending == ".npy":
            found = np.load(out)
        else:
            table = pq.read_table(out)
            assert table["text"].to_pylist() == ["red cat", "dog"]
            found = np.asarray(table["vector"].to_pylist(), dtype=np.float32)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_blank_line_has_zeros_and_is_near_to_nothing(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("red cat\n\ndog\n")
    file, out = ["--model", str(saved), "--file", str(tmp_path / "in.txt")], tmp_path / "out.npy"
    assert main(["embed", *file, "--out", str(out)]) == 0
    expected = Embedder.load(saved).embed(["red cat", "dog"])[0]
    np.testing.assert_array_equal(np.load(out), np.stack([expected[0], np.zeros(32), expected[1]]))
    capsys.readouterr()
    assert main(["similar", *file, "dog"]) == 0
    out_lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["number"] for line in out_lines] == [3, 1]


def test_command_writes_fewer_bits(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.txt").write_text("red cat\ndog\n")
    expected = Embedder.load(saved).unit(["red cat", "dog"])
    for precision, said in (("int8", "32 numbers"), ("binary", "4 bytes")):
        out = tmp_path / f"{precision}.parquet"
        arguments = ["embed", "--model", str(saved), "--file", str(tmp_path / "in.txt"), "--precision", precision]
        assert main([*arguments, "--out", str(out)]) == 0
        assert f"{out}: 2 vectors of {said}" in capsys.readouterr().err
        found = np.stack(pq.read_table(out)["vector"].to_numpy())
        np.testing.assert_array_equal(found, compact(expected, precision))


def test_command_reads_an_encoder_that_has_a_vocabulary_alone(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("Red CAT\n")
    older = tmp_path / "older"
    older.mkdir()
    for name in ("config.json", "model.safetensors", "vocab.txt"):
        shutil.copyfile(saved / name, older / name)
    arguments = ["embed", "--model", str(older), "--file", str(tmp_path / "in.txt"), "--out", str(tmp_path / "out.npy")]
    assert main(arguments) == 0
    expected, _ = Embedder.load(saved).embed(["Red CAT"])
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    (older / "vocab.txt").unlink()
    assert main(arguments) == BAD_INPUT
    assert "older: found neither tokenizer.json nor vocab.txt" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "arguments", "said"),
    [
        ("in.jsonl", '{"text": "a"}\n{"txt": "b"}\n', [], "in.jsonl:2: found no column 'text'; name it with"),
        ("in.tsv", "id\tbody\n1\ta\n", [], "in.tsv:2: found no column 'text'; "),
        ("in.csv", "id;text\n1;a\n", [], "no column 'text'; columns seem to be parted by ';': give that as the delim"),
        ("in.csv", "id\ttext\n1\ta\n", ["--delimiter", "tab"], "error: --delimiter: found 'tab', expected one"),
        ("in.tsv", '"id"\t"text"\n1\ta\n', [], "the names stand in quotes, which are part of them in a .tsv"),
        ("in.csv", "id, text\n1,a\n", [], "that name begins or ends with a blank there"),
        ("in.csv", "id, note,txt\n1,a,b\n", [], "no column 'text'; name it with --column: id,  note, txt"),
        ("in.csv", "text\na\n", ["--input-format", "csv"], "--input-format: found csv beside --file, whose ending"),
        ("in.txt", "a\n", ["--column", "x"], "--column: found x, but "),
        ("in.jsonl", '{"text": "a"}\n', ["--delimiter", ";"], "--delimiter: found ';' for .jsonl, expected .csv, .tsv"),
        ("in.tsv", "id\ttext\n1\n", [], "in.tsv:2: found 1 columns, expected 2"),
        ("in.doc", "a\n", [], "in.doc: found the ending '.doc', expected .csv, .tsv, .txt"),
        *(
            ("in.txt", "a b c\n", ["--max-length", length], f"max_length: found {length}, expected at least 3")
            for length in ("2", "1", "0", "-1")
        ),
        ("in.txt", "a\n", ["--layer", "3"], "layer: found 3, expected 0 (embeddings) to 2, or -1 to -3"),
    ],
)
def test_what_cannot_be_is_one_line(
    name: str,
    content: str,
    arguments: list[str],
    said: str,
    saved: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / name).write_text(content)
    out = str(tmp_path / "out.npy")
    assert main(["embed", "--model", str(saved), "--file", str(tmp_path / name), "--out", out, *arguments]) == BAD_INPUT
    error = capsys.readouterr().err
    assert error.startswith("error: ") and said in error and error.count("\n") == 1
    assert not (tmp_path / "out.npy").exists()


def test_columns_are_parted_by_what_is_said(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id;text\n1;red, cat\n")
    arguments = ["--file", str(tmp_path / "in.csv"), "--delimiter", ";", "--out", str(tmp_path / "out.jsonl")]
    assert main(["embed", "--model", str(saved), *arguments]) == 0
    assert json.loads((tmp_path / "out.jsonl").read_text())["text"] == "red, cat"


def test_the_tokenizer_of_an_embedder_cuts(saved: Path) -> None:
    embedder = Embedder.load(saved, max_length=4)
    assert embedder.tokenizer.truncation["max_length"] == 4
    assert embedder.embed(["red cat dog", "red"])[1] == 1


@pytest.mark.parametrize("file", [[], ["--file", str(LINES)]])
def test_all_texts_are_compared_or_the_nearest_ones_of_a_file(
    file: list[str], saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [f"red cat {'dog ' * number}" for number in range(13)]
    LINES.write_text("\n".join(texts))
    arguments = ["similar", "--model", str(saved), "red", *(file or texts)]
    assert main(arguments) == 0
    assert len(capsys.readouterr().out.splitlines()) == (10 if file else 13)
    assert main([*arguments, "--top", "2"]) == (0 if file else BAD_INPUT)
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2 if file else "--top: found 2 without --file" in said.err


def test_shortest_length_leaves_one_token_of_a_text(saved: Path) -> None:
    vectors, cut = Embedder.load(saved, max_length=3).embed(["red cat dog", "red"])
    assert cut == 1
    np.testing.assert_allclose(vectors[0], vectors[1], rtol=1e-5, atol=1e-6)


def test_output_of_another_kind_is_refused(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["embed", "--model", str(saved), "--file", "in.txt", "--out", str(tmp_path / "out.bin")]) == BAD_INPUT
    assert "--out: found 'out.bin', expected the ending .csv, .jsonl, .npy, .parquet, .tsv" in capsys.readouterr().err
