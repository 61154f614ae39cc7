"""Layouts are read as they are, what is none is one line, and a share is the same pairs every time."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bertcore.config import parse
from bertcore.errors import ConfigError, InputError
from bertcore.minimal_pairs.pairs import MinimalPairsConfig, Pair, read_pairs, score, subset

BLIMP = {
    "sentence_good": "Who left?",
    "sentence_bad": "Who leave?",
    "field": "morphology",
    "linguistics_term": "subject_verb_agreement",
    "UID": "regular_plural_1",
    "simple_LM_method": True,
    "pairID": "0",
}


def test_both_layouts_plain_and_packed(tmp_path: Path) -> None:
    rows = [BLIMP, {"good": "a b", "bad": "b a", "kind": "order"}]
    rows += [{"good": "a c", "bad": "c a", "kind": "order", "phenomenon": "syntax"}]
    text = "\n\n".join(map(json.dumps, rows)).encode()
    (tmp_path / "pairs.jsonl").write_bytes(text)
    with pa.CompressedOutputStream(str(tmp_path / "pairs.jsonl.zst"), "zstd") as file:
        file.write(text)
    expected = [
        Pair("Who left?", "Who leave?", "regular_plural_1", "subject_verb_agreement"),
        Pair("a b", "b a", "order", "order"),
        Pair("a c", "c a", "order", "syntax"),
    ]
    assert read_pairs(tmp_path / "pairs.jsonl") == read_pairs(tmp_path / "pairs.jsonl.zst") == expected
    (tmp_path / "readme.txt").write_text("no pairs")
    assert read_pairs(tmp_path) == expected * 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "pairs.jsonl:2: not JSON"),
        ("[1]", "pairs.jsonl:2: found list, expected an object with good, bad, kind or sentence_good"),
        ('{"good": "a", "bad": "b"}', "pairs.jsonl:2: found bad, good, expected an object"),
        ('{"good": "a", "bad": " ", "kind": "x"}', "pairs.jsonl:2: bad: found ' ', expected a text"),
        ('{"good": 1, "bad": "b", "kind": "x"}', "pairs.jsonl:2: good: found 1, expected a text"),
    ],
)
def test_what_is_no_pair_is_one_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps(BLIMP) + "\n" + line + "\n")
    with pytest.raises(InputError) as error:
        read_pairs(path)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_file_without_pairs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text("\n")
    with pytest.raises(InputError, match="found no pairs"):
        read_pairs(tmp_path / "pairs.jsonl")


def test_the_only_file_of_a_directory_is_read_whatever_its_name_says(tmp_path: Path) -> None:
    """So lies one of any ending, which was read by its own name before, where it was linked."""
    (tmp_path / "pairs.ndjson").write_text(json.dumps(BLIMP))
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints" / "pairs.jsonl").write_text("{")
    assert read_pairs(tmp_path) == read_pairs(tmp_path / "pairs.ndjson")


def test_a_share_is_of_every_paradigm_in_order_and_the_same_again() -> None:
    pairs = [Pair(f"good {n}", f"bad {n}", "few" if n % 10 == 0 else "many", "all") for n in range(100)]
    chosen = subset(pairs, 0.25)
    assert Counter(pair.paradigm for pair in chosen) == {"few": 3, "many": 23}
    assert chosen == sorted(chosen, key=pairs.index) == subset(pairs, 0.25)
    assert subset(pairs, 1.0) == pairs and len(subset(pairs, 1e-6)) == 2
    assert len(subset([replace(pair, paradigm="one") for pair in pairs], 0.07)) == 7
    # A paradigm's choice does not depend on the others.
    few = [pair for pair in pairs if pair.paradigm == "few"]
    assert subset(few, 0.25) == [pair for pair in chosen if pair.paradigm == "few"]


def test_every_sentence_is_scored_once() -> None:
    asked: list[str] = []

    def scorer(sentences: object) -> np.ndarray:
        asked.extend(sentences)  # type: ignore[arg-type]
        return np.array([float(len(text)) for text in asked])

    pairs = [Pair("aa", "b", "k", "k"), Pair("aa", "cccc", "k", "k"), Pair("b", "b", "k", "k")]
    assert score(pairs, scorer).tolist() == [[2, 1], [2, 4], [1, 1]]
    assert asked == ["aa", "b", "cccc"]
    assert score([], lambda sentences: np.zeros(0)).shape == (0, 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"share": 0.0}, "params.share: found 0.0, expected more than 0"),
        ({"share": 1.5}, "params.share: found 1.5"),
        ({"pairs": []}, "params.pairs: found an empty list"),
        ({"variant": "l2r"}, "params.variant: found 'l2r'; Expected one of"),
        ({"file": "x"}, "params: unknown key 'file'"),
    ],
)
def test_the_section_is_strict(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(MinimalPairsConfig, values, "params")
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("pairs", "files"), [("corpus", []), (None, []), ("a.jsonl", ["a.jsonl"]), (["a", "b"], ["a", "b"])]
)
def test_the_files_of_the_section(pairs: object, files: list[str]) -> None:
    assert parse(MinimalPairsConfig, {"pairs": pairs}, "params").files == files
