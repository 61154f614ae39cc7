"""Passages are found by exact cosines, and an index is that of its texts and its model, whatever happened between."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from bertcore.apply import search
from bertcore.apply.compact import PRECISIONS, Precision, compact, restored
from bertcore.apply.embed import Embedder, nearest
from bertcore.apply.search import Index, read_passages
from bertcore.commands.main import main
from bertcore.embedding.vectors import normalized
from bertcore.errors import BAD_INPUT
from bertcore.model.bert import BertConfig, BertForPreTraining
from bertcore.model.huggingface import save_pretrained
from bertcore.tokens.wordpiece import save_tokenizer


@pytest.fixture
def saved(tokenizer: Tokenizer, config: BertConfig, tmp_path: Path) -> Path:
    (tmp_path / "tokenizer").mkdir()
    save_tokenizer(tokenizer, tmp_path / "tokenizer", lowercase=True)
    _save(config, tmp_path, seed=1)
    return tmp_path / "model"


def _save(config: BertConfig, place: Path, seed: int) -> None:
    torch.manual_seed(seed)
    model = BertForPreTraining(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    save_pretrained(model, place / "model", place / "tokenizer")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    place = tmp_path / "texts"
    (place / "more").mkdir(parents=True)
    (place / "a.txt").write_text("\nthe red cat\nis on the table\n\n\n  \nblue dog\n")
    (place / "more" / "b.md").write_text("where is berlin\n")
    (place / "c.bin").write_bytes(b"\xff")
    (place / ".hidden.txt").write_text("not read")
    return place


def test_passages_are_paragraphs_with_their_places(texts: Path) -> None:
    found = [(each.text, each.source, each.line) for each in read_passages(texts, 4)]
    assert found == [
        ("the red cat is", "a.txt", 2),
        ("on the table", "a.txt", 3),
        ("blue dog", "a.txt", 7),
        ("where is berlin", "more/b.md", 1),
    ]


def test_a_file_whose_name_is_no_utf8_is_found(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / os.fsdecode(b"caf\xe9.txt")).write_text("the red cat\n")
    assert main(["search", "red cat", "--in", str(tmp_path / "named"), "--model", str(saved)]) == 0
    assert "caf\ufffd.txt" in capsys.readouterr().out


def test_nearest_is_exact_and_of_equals_the_first() -> None:
    generator = np.random.default_rng(1)
    vectors = normalized(generator.normal(size=(50, 8)).astype(np.float32))
    vectors[7] = vectors[3]
    rows, cosines = nearest(vectors[:9], vectors, 5)
    products = vectors[:9] @ vectors.T
    for values, all_of in zip(cosines, products, strict=True):
        np.testing.assert_allclose(values, np.sort(all_of)[::-1][:5], rtol=1e-6)
    assert rows[3, :2].tolist() == rows[7, :2].tolist() == [3, 7] and rows[0, 0] == 0
    assert nearest(vectors[:2], vectors[:3], 9)[0].shape == (2, 3)


@pytest.mark.parametrize(("precision", "size", "error"), [("int8", 17, 0.004), ("binary", 3, 0.45)])
def test_vectors_in_fewer_bits_point_nearly_where_they_did(precision: Precision, size: int, error: float) -> None:
    vectors = normalized(np.random.default_rng(1).normal(size=(400, 17)).astype(np.float32))
    kept = compact(vectors, precision)
    assert kept.nbytes == 400 * size
    back = restored(kept, precision, 17)
    np.testing.assert_allclose(np.linalg.norm(back, axis=1), 1, rtol=1e-5)
    assert float((1 - np.sum(vectors * back, axis=1)).max()) < error
    if precision == "binary":
        assert np.array_equal(back > 0, vectors > 0)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_nearest_compares_blocks_as_one(precision: Precision, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = normalized(np.random.default_rng(1).normal(size=(50, 16)).astype(np.float32))
    kept = compact(vectors, precision)
    rows, cosines = nearest(vectors[:9], kept, 5, precision)
    monkeypatch.setattr("bertcore.apply.embed._NUMBERS_AT_ONCE", 9 * 7)
    found = nearest(vectors[:9], kept, 5, precision)
    np.testing.assert_array_equal(found[0], rows)
    np.testing.assert_allclose(found[1], cosines, rtol=1e-6)
    assert rows[:, 0].tolist() == list(range(9))


@pytest.mark.parametrize("precision", ["int8", "binary"])
def test_an_index_in_fewer_bits_finds_and_is_smaller(
    precision: str, saved: Path, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "index"
    for expected in (f"{place}: 3 passages, 3 of them new", ""):
        arguments = ["search", "blue dog", "--in", str(texts), "--model", str(saved), "--index", str(place)]
        assert main([*arguments, "--precision", precision, "--top", "1"]) == 0
        out, said = capsys.readouterr()
        assert "blue dog" in out and expected in said
    assert np.load(place / "vectors.npy").dtype == {"int8": np.int8, "binary": np.uint8}[precision]
    assert main([*arguments, "--top", "1"]) == 0 and "3 of them new" in capsys.readouterr().err


def test_the_passage_itself_is_nearest(saved: Path, texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["search", "blue dog", "where is berlin", "--in", str(texts), "--model", str(saved), "--top", "1"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["where"], row["text"]) for row in rows] == [
        ("a.txt:7", "blue dog"),
        ("more/b.md:1", "where is berlin"),
    ]
    assert all(row["score"] == pytest.approx(1, abs=1e-5) for row in rows)
    assert "3 passages, 3 of them new" in err and (texts / ".bertcore-index" / "index.json").is_file()
    assert main(arguments) == 0
    again = capsys.readouterr()
    assert "new" not in again.err and [json.loads(line)["where"] for line in again.out.splitlines()] == [
        row["where"] for row in rows
    ]


def test_an_index_follows_its_texts_and_its_model(saved: Path, texts: Path, config: BertConfig, tmp_path: Path) -> None:
    place = tmp_path / "index"

    def opened(**settings: int) -> Index:
        embedder = Embedder.load(saved, layer=settings.get("layer", -1))
        index = Index.open(texts, place, embedder, settings.get("words", 120))
        expected = embedder.unit([each.text for each in index.passages])
        np.testing.assert_allclose(index.vectors, expected, rtol=1e-4, atol=1e-6)
        return index

    assert opened().embedded == 3 and opened().embedded == 0
    (texts / "a.txt").write_text("blue dog\n\ngreen bird\n")
    index = opened()
    assert index.embedded == 1 and [each.text for each in index.passages] == [
        "blue dog",
        "green bird",
        "where is berlin",
    ]
    assert opened(layer=0).embedded == 3 and opened().embedded == 3 and opened(words=1).embedded == 7
    _save(config, tmp_path, seed=2)
    assert opened().embedded == 3
    for damage in (lambda path: path.write_bytes(b"damaged"), Path.unlink):
        damage(place / "vectors.npy")
        assert opened().embedded == 3 and opened().embedded == 0
    (place / "vectors.npy").write_bytes(b"damaged")
    (texts / "a.txt").write_text("green bird\n")
    assert opened().embedded == 2


def test_a_failure_leaves_the_index_that_was(
    saved: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, embedder = tmp_path / "index", Embedder.load(saved)
    Index.open(texts, place, embedder)
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    (texts / "a.txt").write_text("green bird\n")

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(search.np, "save", fail)
        Index.open(texts, place, embedder)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "model", "texts", "tokenizer"]


def test_what_cannot_be_searched_is_one_line(
    saved: Path, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n')
    site = tmp_path / "site"
    site.mkdir()
    for name in ("index.json", "thesis.tex"):
        (site / name).write_text("{}")
    for place, index, said in (
        (tmp_path / "none", None, "none: no such file or directory"),
        (tmp_path / "tokenizer" / "tokenizer_config.json", None, None),
        (tmp_path / "empty", None, "empty: found no text, expected a file"),
        (tmp_path / "rows.jsonl", None, "rows.jsonl: found a table, expected text, such as .txt, .md, .rst; write its"),
        (texts, site, "site: found something that is no index, expected one or nothing"),
        (
            texts,
            Path("/dev/null/index"),
            "/dev/null: found a place where nothing can be written, expected one for the in",
        ),
        (texts, texts / "more", "more: found something that is no index, expected one or nothing"),
    ):
        assert main(["search", "a", "--in", str(place), "--words", "0"]) == BAD_INPUT
        assert capsys.readouterr().err.startswith("error: --words: found 0, expected at least 1; ")
        arguments = ["search", "a", "--in", str(place), "--model", str(saved)]
        status = main([*arguments, *([] if index is None else ["--index", str(index)])])
        error = capsys.readouterr().err
        assert status == (BAD_INPUT if said else 0) and (said or "1 passages, 1 of them new") in error
        assert said is None or error.count("\n") == 1
    assert main(["search", "a", " ", "--in", str(texts), "--model", str(saved)]) == BAD_INPUT
    assert capsys.readouterr().err == "error: the command line: found the text ' ', expected words; give some\n"


def test_a_piece_of_a_paragraph_has_the_line_of_its_first_word() -> None:
    assert list(search._paragraphs("a b\nc d e\n\n\nf", 2)) == [("a b", 1), ("c d", 2), ("e", 2), ("f", 5)]


def test_passages_longer_than_what_the_model_reads_are_said(
    saved: Path, texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["search", "dog", "--in", str(texts), "--model", str(saved), "--max-length", "5"]
    assert main(command) == 0
    assert "1 of the new passages were cut to what the model reads" in capsys.readouterr().err
    assert main(command) == 0 and "cut" not in capsys.readouterr().err
    assert main([*command, "--words", "3"]) == 0 and "cut" not in capsys.readouterr().err
