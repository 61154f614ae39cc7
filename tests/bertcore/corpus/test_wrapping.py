"""Texts whose lines end where their page did."""

import gzip
import json
import logging
import textwrap
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcore.config import parse
from bertcore.corpus.build import build_corpus
from bertcore.corpus.cleaning import normalise, seems_wrapped, unwrap
from bertcore.corpus.config import CorpusConfig
from bertcore.corpus.documents import corpus_shards
from bertcore.corpus.sources import source_of
from bertcore.corpus.sources.formats import txt
from bertcore.corpus.sources.source import Drops
from bertcore.errors import ConfigError, InputError

WORDS = st.text("abcdeABCé", min_size=1, max_size=12)
LETTER = """Sehr geehrter Herr Nr. {number},

wir haben Ihren Schaden geprüft und zahlen nach Abzug der Selbst-
beteiligung einen Betrag von {number} Euro. Bitte heben Sie die Belege
auf, bis wir Ihnen weiteres mitteilen.

Mit freundlichen Grüßen
"""


@given(st.lists(st.lists(WORDS, min_size=1, max_size=40), min_size=1, max_size=5), st.integers(1, 60), st.booleans())
def test_wrapping_is_undone(paragraphs: list[list[str]], width: int, carriage: bool) -> None:
    plain = [" ".join(words) for words in paragraphs]
    wrapped = "\n\n \n".join(textwrap.fill(text, width, break_long_words=False) for text in plain)
    assert unwrap(wrapped.replace("\n", "\r\n") if carriage else wrapped) == "\n".join(plain)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("der Selbst-\nbeteiligung", "der Selbstbeteiligung"),
        ("der Selbst\u00ad\nbeteiligung", "der Selbstbeteiligung"),
        ("der Selbst\u2010  \n beteiligung", "der Selbstbeteiligung"),
        ("am Rhein-\nMain-Kanal", "am Rhein-Main-Kanal"),
        ("COVID-\n19 and 1990-\n1995", "COVID-19 and 1990-1995"),
        ("state-of-the-art and state-of-\nthe-art", "state-of-the-art and state-of-the-art"),
        ("这是一个很长的句\n子没有结束。\n下一句", "这是一个很长的句子没有结束。下一句"),
        ("vor-\nund nachher", "vor- und nachher"),
        ("pre-\ny posoperatorio", "pre- y posoperatorio"),
        (
            "Vitamin-\nC, SARS-CoV-\n2, pages 3-\n5, Hepatitis-\nB-Virus",
            "Vitamin-C, SARS-CoV-2, pages 3-5, Hepatitis-B-Virus",
        ),
        ("foo\u00ad\na", "fooa"),
        ("пред-\nи послеоперационный", "пред- и послеоперационный"),
        ("re\u0301pe\u0301-\ntition", "r\u00e9p\u00e9tition"),
        ("a well-known and well-\nknown one", "a well-known and well-known one"),
        ("twice di-\nvi-\nded", "twice divided"),
        ("a dash -\nnot a hyphen", "a dash - not a hyphen"),
        ("the end-\n\nof a paragraph", "the end-\nof a paragraph"),
    ],
)
def test_divided_words_are_put_together(text: str, expected: str) -> None:
    assert unwrap(text) == expected


@pytest.mark.parametrize("text", ["x" * 200_000, "_" * 200_000, "a" + " " * 200_000 + "b", "x-" * 100_000])
def test_long_runs_take_no_time(text: str) -> None:
    """Of a square of their length these would be hours."""
    assert unwrap(text) == text


def corpus_of(tmp_path: Path, entry: Any, **options: Any) -> tuple[dict[str, str], dict[str, Any]]:
    config = parse(CorpusConfig, {"sources": [entry], "heldout_fraction": 0.2, "min_words": 4, **options}, "corpus")
    output = tmp_path / "out"
    output.mkdir()
    metrics = build_corpus(config, tmp_path / "none", output).as_metrics()
    shards = [path for split in ("train", "heldout") for path in corpus_shards(output, split)]
    rows = [row for shard in shards for row in pq.read_table(shard).to_pylist()]
    return {row["id"]: " | ".join(row["sentences"]) for row in rows}, metrics


@pytest.mark.parametrize("suffix", ["txt", "txt.gz", "jsonl"])
def test_a_wrapped_letter_is_one_document_of_whole_sentences(tmp_path: Path, suffix: str) -> None:
    letters = tmp_path / "letters"
    letters.mkdir()
    for number in range(10, 40):
        text = LETTER.format(number=number)
        content = (json.dumps({"text": text}) if suffix == "jsonl" else text).encode()
        (letters / f"{number}.{suffix}").write_bytes(gzip.compress(content) if suffix == "txt.gz" else content)
    found, metrics = corpus_of(tmp_path, {"uri": str(letters), "wrapped": True}, language="de")
    assert metrics["documents_read"] == {str(letters): 30} and len(found) == 30
    assert found[f"12.{suffix.removesuffix('.gz')}:0"] == (
        "Sehr geehrter Herr Nr. 12, | wir haben Ihren Schaden geprüft und zahlen nach Abzug der Selbstbeteiligung "
        "einen Betrag von 12 Euro. | Bitte heben Sie die Belege auf, bis wir Ihnen weiteres mitteilen. | "
        "Mit freundlichen Grüßen"
    )


def test_one_source_may_be_wrapped_and_the_next_one_not(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join(f"line of text number {n}" for n in range(20)))
    (tmp_path / "b.txt").write_text("\n\n".join(f"page of text number {n}" for n in range(20)))
    config = parse(
        CorpusConfig,
        {"sources": [str(tmp_path / "a.txt"), {"uri": str(tmp_path / "b.txt"), "wrapped": True}], "min_words": 1},
        "corpus",
    )
    (tmp_path / "out").mkdir()
    read = build_corpus(config, tmp_path / "none", tmp_path / "out").as_metrics()["documents_read"]
    assert list(read.values()) == [20, 1]


def test_wrapped_lines_that_nobody_told_of_are_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "letters.txt"
    path.write_text("\n".join(LETTER.format(number=number) for number in range(60)))
    with caplog.at_level(logging.WARNING):
        corpus_of(tmp_path, str(path), language="de")
    assert f"{path}: many lines end within a sentence" in caplog.text
    assert source_of(str(path), wrapped=True).warnings(()) == []


def test_wrapped_lines_of_one_file_among_others_are_noticed(tmp_path: Path) -> None:
    for name in ("a", "c"):
        (tmp_path / f"{name}.txt").write_text("\n\n".join(f"Page of text number {n}." for n in range(200)))
    (tmp_path / "b.txt").write_text("\n".join(LETTER.format(number=number) for number in range(60)))
    (line,) = source_of(str(tmp_path)).warnings(())
    assert "end within a sentence, in b.txt, and" in line and "say so, in a folder of their own: {uri: " in line


@pytest.mark.parametrize("line", ["A paragraph that ends.", "a line of lower case.", "Ein Titel ohne Punkt"])
def test_paragraphs_a_line_seem_not_wrapped(line: str) -> None:
    assert not seems_wrapped(["\n".join([line] * 100)])


def test_a_blank_file_has_no_document_and_a_huge_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text(" \n\n")
    blocks = source_of(str(tmp_path / "a.txt"), wrapped=True).blocks((), {}, print)  # type: ignore[arg-type]
    assert [document for block in blocks for document in block.documents(Drops())] == []
    monkeypatch.setattr(txt, "LONGEST_DOCUMENT", 1 << 20)
    (tmp_path / "b.txt").write_text("many words\n\n" * 200_000)
    with pytest.raises(InputError, match=r"b.txt: more than 1 MiB, and as its lines are wrapped it is one document"):
        source_of(str(tmp_path / "b.txt"), wrapped=True).look()


def test_what_has_no_wrapped_lines_says_so() -> None:
    with pytest.raises(ConfigError, match="pydoc: found wrapped true, expected false"):
        source_of("pydoc", wrapped=True)


def test_unwrapped_text_is_cleaned_as_any_other() -> None:
    assert normalise(unwrap("of  a\nslide\u200b\n\n\nnext")) == "of a slide\nnext"
