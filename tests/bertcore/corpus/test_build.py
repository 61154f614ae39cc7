"""The corpus: what is kept, what is dropped and why, and on which side of the split."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcore.config import parse
from bertcore.corpus import candidates, cleaning, overlap, sources
from bertcore.corpus.build import build_corpus
from bertcore.corpus.config import CorpusConfig, SourceEntry
from bertcore.corpus.contamination import ContaminationConfig
from bertcore.corpus.documents import Document, corpus_shards, read_sentences, row_groups
from bertcore.corpus.near_duplicates import NearDuplicatesConfig
from bertcore.corpus.quality import QualityConfig
from bertcore.corpus.sources.formats import blocks
from bertcore.corpus.sources.source import Keep, Source
from bertcore.corpus.statistics import CorpusStatistics
from bertcore.corpus.writing import ShardPlans
from bertcore.errors import ConfigError, InputError
from bertcore.files import checksum
from tests.import_closure import ROOT
from tests.samples import write_corpus


def build(tmp_path: Path, texts: list[str], weight: float = 1.0, **options: Any) -> tuple[dict[str, Any], Path]:
    inputs, output = tmp_path / "inputs", tmp_path / "out"
    (inputs / "0").mkdir(parents=True, exist_ok=True)
    output.mkdir(exist_ok=True)
    (inputs / "0" / "t.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    entry = SourceEntry(uri=str(inputs / "0" / "t.jsonl"), weight=weight)
    config = CorpusConfig(sources=[entry], min_words=3, heldout_fraction=0.3, **options)
    return build_corpus(config, inputs, output).as_metrics(), output


TEXTS = [f"Document number {index} has a first sentence. It has a second one, too." for index in range(40)]


def test_documents_are_split_into_sentences_and_every_drop_is_counted(tmp_path: Path) -> None:
    metrics, output = build(tmp_path, [*TEXTS, TEXTS[0], "too short", "12 34 56 78 90 --- === 12"])
    assert metrics["dropped"] == {
        "exact_duplicate": 1,
        "too_few_words": 1,
        "too_few_letters": 1,
    }
    assert metrics["train"]["documents"] + metrics["heldout"]["documents"] == 40
    assert metrics["train"]["sentences"] == 2 * metrics["train"]["documents"]
    rows = [
        row
        for split in ("train", "heldout")
        for path in corpus_shards(output, split)
        for row in pq.read_table(path).to_pylist()
    ]
    assert sorted(row["id"] for row in rows) == sorted(f"t.jsonl:{index}" for index in range(40))
    assert rows[0]["sentences"][1] == "It has a second one, too."


def test_the_split_depends_on_the_seed_and_the_id_alone(tmp_path: Path) -> None:
    config = CorpusConfig(sources=[SourceEntry(uri="x")], heldout_fraction=0.2, seed=3)
    sides = [config.split_of(f"doc:{index}") for index in range(5000)]
    assert sides == [config.split_of(f"doc:{index}") for index in range(5000)]
    assert 0.17 < sides.count("heldout") / 5000 < 0.23
    assert sides != [
        CorpusConfig(sources=[SourceEntry(uri="x")], heldout_fraction=0.2, seed=4).split_of(f"doc:{i}")
        for i in range(5000)
    ]


def test_of_few_large_documents_one_is_held_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The one that a slightly larger share would hold out first."""
    (tmp_path / "t.txt").write_text("\n\n".join(TEXTS[:5]))
    config = CorpusConfig(sources=[SourceEntry(uri=str(tmp_path / "t.txt"))], heldout_fraction=1e-6)
    (tmp_path / "out").mkdir()
    metrics = build_corpus(config, tmp_path / "none", tmp_path / "out").as_metrics()
    assert (metrics["train"]["documents"], metrics["heldout"]["documents"]) == (4, 1)
    (row,) = pq.read_table(*corpus_shards(tmp_path / "out", "heldout")).to_pylist()
    assert row["id"] == min((f"t.txt:{index}" for index in range(5)), key=config.draw_of)
    assert metrics["documents_read"] == {str(tmp_path / "t.txt"): 5}
    assert "holds out none of 5 documents" in caplog.text


def test_held_out_sentences_that_stand_in_the_training_text_are_counted(tmp_path: Path) -> None:
    metrics, output = build(tmp_path, TEXTS)  # the second sentence of all documents is the same
    assert metrics["heldout"]["sentences"] == 2 * metrics["heldout"]["documents"] > 0
    assert metrics["heldout_sentences_in_train_share"] == 0.5


def test_a_document_limit_is_per_source(tmp_path: Path) -> None:
    metrics, _ = build(tmp_path, TEXTS, max_documents=20)
    assert list(metrics["documents_read"].values()) == [20]


def test_an_empty_corpus_is_refused_with_what_was_dropped(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no document for the split 'train' \(2 read, dropped: \{'too_few_words': 2\}\)"
    ):
        build(tmp_path, ["one", "two"])


def test_the_size_of_a_block_is_that_of_its_text(tmp_path: Path) -> None:
    form = "The pressure of the second pump was read in the morning and found to be within its limits. " * 20
    build(tmp_path, [f"Report {index}. {form}" for index in range(200)])
    (group,) = row_groups(corpus_shards(tmp_path / "out", "train"))
    size = sum(len(sentence) for document in group.read().to_pylist() for sentence in document)
    assert size < group.size < 1.2 * size


def test_a_text_of_one_document_is_told_what_ends_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no document for the split .* in a .txt a blank line ends one"):
        build(tmp_path, ["\n".join(TEXTS)])


def test_shards_and_row_groups_bound_the_memory(tmp_path: Path) -> None:
    sizes = {"shard_characters": 2000, "group_characters": 500}
    texts = [[f"{number:099d}"] for number in range(100)]
    write_corpus(tmp_path, "train", texts, **sizes)
    shards = corpus_shards(tmp_path, "train")
    assert len(shards) == 5
    batches = list(read_sentences(shards))
    assert [document for batch in batches for document in batch] == texts and max(map(len, batches)) <= 6
    whole = list(map(checksum, shards))
    for at_once in (1, 6, 7, 41):
        write_corpus(tmp_path, "train", texts, at_once, **sizes)
        assert list(map(checksum, corpus_shards(tmp_path, "train"))) == whole


def test_halves_of_surrogate_pairs_leave_the_text(tmp_path: Path) -> None:
    metrics, output = build(tmp_path, [*TEXTS, "An emoji that was cut \ud83d in two, and more."])
    assert metrics["dropped"] == {}
    sentences = [row["sentences"] for split in ("train", "heldout") for row in rows(output, split)]
    assert ["An emoji that was cut in two, and more."] in sentences


@pytest.mark.parametrize(("language", "nearest"), [("english", ""), ("en-GB", "did you mean 'en'"), ("EN", "")])
def test_a_language_is_a_code(language: str, nearest: str) -> None:
    with pytest.raises(
        ConfigError, match=f"c.language: found '{language}', expected a code .*; {nearest}.*Expected one of: am, ar"
    ):
        parse(CorpusConfig, {"sources": ["x"], "language": language}, "c")


def test_a_language_without_rules_of_its_own_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    build(tmp_path, TEXTS, language="sv")
    assert "corpus.language: sentences of 'sv' are split by English rules" in caplog.text


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Das war am 3. Mai."),
        ("ru", "\u043d\u0430 \u0443\u043b. \u041b\u0435\u043d\u0438\u043d\u0430."),
        ("pl", "Np. tak."),
    ],
)
def test_a_language_has_rules_of_its_own(language: str, text: str) -> None:
    assert language in cleaning.LANGUAGES.split()
    assert cleaning.split_sentences(text, language) == [text] != cleaning.split_sentences(text, "xx")


def test_normalisation_removes_what_cannot_be_seen() -> None:
    assert cleaning.normalise("e\u0301tude\u200b  a\x00b\r\n\r\n \tend\ufeff ") == "étude ab\nend"
    assert cleaning.normalise("a\u2066b\u2069c \u061cd\u200e") == "abc d"
    assert cleaning.normalise("a b\tc\xa0d \t e\u3000 f") == "a b c d e f"


@given(st.text("ab  \t\n\x0b\x85\xa0\u2003\u2028", max_size=12))
def test_one_blank_parts_two_words_whatever_blanks_there_were(text: str) -> None:
    lines = (" ".join(line.split()) for line in text.split("\n"))
    assert cleaning.normalise(text) == "\n".join(line for line in lines if line)


def test_sentences_of_abbreviations_quotations_and_decimals() -> None:
    text = 'Dr. Smith paid $3.50, e.g. for tea. "Is it hot?" he asked.\nA new paragraph'
    assert cleaning.split_sentences(text, "en") == [
        "Dr. Smith paid $3.50, e.g. for tea.",
        '"Is it hot?" he asked.',
        "A new paragraph",
    ]


def rows(output: Path, split: str) -> list[dict[str, Any]]:
    return [row for path in corpus_shards(output, split) for row in pq.read_table(path).to_pylist()]


def test_weights_repeat_documents_of_the_training_split_behind_all_others(tmp_path: Path) -> None:
    metrics, output = build(tmp_path, TEXTS, weight=2.5)
    ids = [row["id"] for row in rows(output, "train")]
    once = [name for name in ids if "#" not in name]
    assert ids[: len(once)] == once and len(ids) == len(set(ids)) == metrics["train"]["documents"]
    assert [name for name in ids if name.endswith("#2")] == [f"{name}#2" for name in once]
    thrice = [name for name in ids if name.endswith("#3")]
    assert 0 < len(thrice) < len(once) and ids[-len(thrice) :] == thrice
    assert not any("#" in row["id"] for row in rows(output, "heldout"))
    assert metrics["documents_read"] == {str(tmp_path / "inputs" / "0" / "t.jsonl"): 40} and metrics["dropped"] == {}


def test_a_weight_below_one_leaves_documents_out_and_counts_them(tmp_path: Path) -> None:
    metrics, output = build(tmp_path, TEXTS, weight=0.5)
    kept = len(rows(output, "train")) + len(rows(output, "heldout"))
    assert 10 < kept < 30 and metrics["dropped"] == {"not_drawn": 40 - kept}


def test_near_duplicates_are_dropped_on_request(tmp_path: Path) -> None:
    words = " ".join(f"word{index}" for index in range(200))
    texts = [*TEXTS[:20], words, words.replace("word7 ", "other "), words.replace("word9", "WORD9,")]
    assert build(tmp_path, texts)[0]["dropped"] == {}
    assert build(tmp_path, texts, near_duplicates=NearDuplicatesConfig())[0]["dropped"]["near_duplicate"] == 2


def test_documents_of_an_evaluation_text_are_dropped_on_request(tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("1\t6 has a first sentence it HAS A second\n")
    config = ContaminationConfig(texts=[str(tmp_path / "dev.tsv")], ngram=9)
    metrics, output = build(tmp_path, TEXTS, contamination=config)
    gone = {f"t.jsonl:{index}" for index in (6, 16, 26, 36)}
    assert metrics["dropped"] == {"in_evaluation_text": 1}
    ids = {row["id"] for split in ("train", "heldout") for row in rows(output, split)}
    assert {f"t.jsonl:{index}" for index in range(40)} - ids == {"t.jsonl:6"} < gone


def test_what_holds_an_evaluation_text_stands_in_no_other_ones_way(tmp_path: Path) -> None:
    clean = " ".join(f"word{index}" for index in range(200))
    evaluation = " ".join(f"dev{index}" for index in range(14))
    (tmp_path / "dev.txt").write_text(evaluation)
    contamination = ContaminationConfig(texts=[str(tmp_path / "dev.txt")])
    texts = [*TEXTS, f"{clean} {evaluation}", clean]
    metrics, output = build(tmp_path, texts, contamination=contamination, near_duplicates=NearDuplicatesConfig())
    assert metrics["dropped"] == {"in_evaluation_text": 1}
    assert "t.jsonl:41" in {row["id"] for split in ("train", "heldout") for row in rows(output, split)}


def test_a_file_of_evaluation_texts_that_finds_nothing_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "dev.tsv").write_text("1\t6 has a first sentence it HAS A second\n")
    (tmp_path / "words.tsv").write_text("The\tDET\nend\tNOUN\n")
    files = [str(tmp_path / name) for name in ("dev.tsv", "words.tsv")]
    build(tmp_path, TEXTS, contamination=ContaminationConfig(texts=files, ngram=9))
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == "words.tsv: 0 of 4 evaluation texts have 9 words, and are looked for"


def test_ids_that_documents_share_are_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They decide what is held out: of five ids, none, one, or two."""
    lines = [json.dumps({"text": f"{number} {text}", "id": number % 5}) for number, text in enumerate(TEXTS * 20)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    said = []
    for seed in range(6):
        (tmp_path / str(seed)).mkdir()
        config = CorpusConfig(
            sources=[SourceEntry(uri=str(tmp_path / "t.jsonl"))], min_words=3, heldout_fraction=0.1, seed=seed
        )
        caplog.clear()
        build_corpus(config, tmp_path / "none", tmp_path / str(seed))
        said.append("documents are held out, 80 were expected: many share an id" in caplog.text)
    assert all(said)
    caplog.clear()
    build(tmp_path, TEXTS * 20)
    assert "share an id" not in caplog.text


def test_evaluation_texts_are_read_again_where_they_have_changed(tmp_path: Path) -> None:
    """As by the workers of a cluster, which outlive a run."""
    evaluation = tmp_path / "dev.tsv"
    for number in (6, 7):
        evaluation.write_text(f"1\t{number} has a first sentence it has a second\n")
        key = ((str(evaluation), checksum(evaluation)),)
        assert candidates.ngrams_of(key, 9).meet([TEXTS[6], TEXTS[7]]).tolist() == [number == 6, number == 7]


def test_lines_are_filtered_before_documents(tmp_path: Path) -> None:
    texts = [*TEXTS, "Two words\nAll rights reserved by the author."]
    metrics, _ = build(tmp_path, texts, quality=QualityConfig(drop_boilerplate_lines=True))
    assert metrics["dropped"] == {"boilerplate_line": 1, "too_few_words": 1}


def mixed(tmp_path: Path, output: Path, count: int | None = None) -> CorpusStatistics:
    """A corpus of two sources that overlap, with every reason to drop a document, in many small batches and shards."""
    words = [" ".join(f"word{(index * step) % 97}" for index in range(80)) for step in range(1, 25)]
    (tmp_path / "a.txt").write_text("\n\n".join([*TEXTS, *words, TEXTS[3], "It goes on. " * 60]))
    (tmp_path / "b.txt").write_text(
        "\n\n".join([*words[20:], *(each.replace("word7 ", "") for each in words[:9]), *TEXTS])
    )
    (tmp_path / "ids.txt").write_text("b.txt:15\na.txt:9")
    (tmp_path / "dev.txt").write_text("number 6 has a first sentence it HAS A second one")
    config = CorpusConfig(
        sources=[
            SourceEntry(uri=str(tmp_path / "a.txt"), weight=0.9),
            SourceEntry(uri=str(tmp_path / "b.txt"), weight=2.5),
        ],
        min_words=3,
        heldout_fraction=0.2,
        near_duplicates=NearDuplicatesConfig(),
        contamination=ContaminationConfig(texts=[str(tmp_path / "dev.txt")], ngram=9),
        quality=QualityConfig(max_line_characters=600),
        exclude=str(tmp_path / "ids.txt"),
    )
    output.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", 300)
        patch.setattr(
            "bertcore.corpus.build.ShardPlans", partial(ShardPlans, shard_characters=4000, group_characters=1000)
        )
        return build_corpus(config, tmp_path / "none", output, count)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_the_bytes_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    alone, two = (mixed(tmp_path, tmp_path / str(count), count) for count in (1, 2))
    assert alone == two and contents(tmp_path / "1") == contents(tmp_path / "2")
    reasons = {"exact_duplicate", "in_evaluation_text", "near_duplicate", "not_drawn", "too_few_words", "too_long_line"}
    assert set(alone.dropped) == {*reasons, "excluded"} and alone.unmatched == 0
    files = Counter(path.rpartition("-")[0] for path in contents(tmp_path / "1"))
    assert list(files) == ["heldout", "train", "train-x002", "train-x003"] and files["train"] > 1


def test_documents_are_left_out_by_their_ids(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "ids.txt").write_text("t.jsonl:3\r\n\nt.jsonl:39\nt.jsonl:40\nelsewhere.txt:1")
    metrics, output = build(tmp_path, TEXTS, exclude=str(tmp_path / "ids.txt"))
    assert metrics["dropped"] == {"excluded": 2} and metrics["excluded_ids_not_found"] == 2
    assert "corpus.exclude: 2 of its ids are of no document that was read, such as 'elsewhere.txt:1'" in caplog.text
    assert build(tmp_path, TEXTS)[0]["excluded_ids_not_found"] == 0
    left = {f"t.jsonl:{index}" for index in range(40)} - {"t.jsonl:3", "t.jsonl:39"}
    assert ids_of(build(tmp_path, TEXTS, exclude=str(tmp_path / "ids.txt"))[1]) == left
    linked = tmp_path / "inputs" / "exclude" / "ids.txt"  # as stage `inputs` leaves it
    linked.parent.mkdir()
    linked.write_text("t.jsonl:5")
    assert "t.jsonl:5" not in ids_of(build(tmp_path, TEXTS, exclude="not/here.txt")[1])


def ids_of(corpus: Path) -> set[str]:
    return {name for path in corpus.glob("*.parquet") for name in pq.read_table(path)["id"].to_pylist()}


def test_a_copy_of_an_excluded_document_stays(tmp_path: Path) -> None:
    """The id is what is left out, not the text: who wants a text out names every document that has it."""
    (tmp_path / "ids.txt").write_text("t.jsonl:0")
    metrics, output = build(tmp_path, [*TEXTS, TEXTS[0]], exclude=str(tmp_path / "ids.txt"))
    assert metrics["dropped"] == {"excluded": 1} and "t.jsonl:40" in ids_of(output)


def test_records_of_an_excluded_document_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class WithRecords(Source):
        RECORDS = ("records.parquet", pa.schema([("document_id", pa.string()), ("split", pa.string())]))

        def documents(self, files: Any, dropped: Counter[str], keep: Keep) -> Iterator[Document]:
            for index, text in enumerate(TEXTS):
                keep({"document_id": f"own:{index}"})
                yield Document(f"own:{index}", text, self.uri)

    monkeypatch.setitem(sources.SOURCES, "own", WithRecords)
    (tmp_path / "ids.txt").write_text("own:7")
    (tmp_path / "out").mkdir()
    config = CorpusConfig(sources=[SourceEntry(uri="own")], heldout_fraction=0.3, exclude=str(tmp_path / "ids.txt"))
    build_corpus(config, tmp_path / "none", tmp_path / "out", 1)
    kept = pq.read_table(tmp_path / "out" / "records.parquet")["document_id"].to_pylist()
    assert kept == [f"own:{index}" for index in range(40) if index != 7]


@pytest.mark.parametrize(
    ("asked", "index"), [("t.jsonl:3", 3), ("number 5 has a first sentence. It has", 5), ("not there", None)]
)
def test_the_documents_program_tells_whether_a_text_was_read(asked: str, index: int | None, tmp_path: Path) -> None:
    build(tmp_path, TEXTS)
    (tmp_path / "data").mkdir()
    (tmp_path / "out").rename(tmp_path / "data" / "corpus")
    page = (ROOT / "docs" / "corpus.md").read_text(encoding="utf-8")
    program = page.partition("```python\n")[2].partition("```")[0]
    done = subprocess.run([sys.executable, "-c", program, asked], cwd=tmp_path, capture_output=True, check=True)
    found = [line.split()[-1] for line in done.stdout.decode().splitlines()]
    assert found == ([] if index is None else [f"t.jsonl:{index}"])


def test_every_document_of_every_source_is_accounted_for(tmp_path: Path) -> None:
    statistics = mixed(tmp_path, tmp_path / "out")
    metrics, dropped = statistics.as_metrics(), statistics.dropped_by_source()
    rows = [row for path in (tmp_path / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    sources = statistics.text_by_source()
    for source in sources:
        uri = source["uri"]
        ids = [row["id"] for row in rows if row["source"] == uri]
        first = [name for name in ids if "#" not in name]
        assert source["documents"] == len(first) > 0
        assert source["train"]["documents"] + source["heldout"]["documents"] == len(ids)
        sentences = [each for row in rows if row["source"] == uri for each in row["sentences"]]
        assert sum(source[split]["sentences"] for split in ("train", "heldout")) == len(sentences)
        lines = dropped[uri].get("too_long_line", 0)
        assert metrics["documents_read"][uri] == source["documents"] + sum(dropped[uri].values()) - lines
    assert {key: sum(each["train"][key] for each in sources) for key in metrics["train"]} == metrics["train"]
    assert sum((Counter(each) for each in dropped.values()), Counter()) == metrics["dropped"]
    first, second = (dropped[each["uri"]] for each in sources)
    assert second["exact_duplicate"] > first.get("exact_duplicate", 0)
    shares = [each["train"]["bytes"] / metrics["train"]["bytes"] for each in sources]
    assert [each["train_share"] for each in sources] == shares and sum(shares) == pytest.approx(1)


def test_of_copies_the_first_is_kept_wherever_the_batches_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for characters in (1, 100, 10_000):
        monkeypatch.setattr(blocks, "BLOCK", characters)
        metrics, output = build(tmp_path, [*TEXTS[:30], *TEXTS])
        assert metrics["dropped"] == {"exact_duplicate": 30}
        found.append(contents(output))
    assert found[0] == found[1] == found[2]


def test_only_the_first_held_out_sentences_are_looked_for_in_the_training_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlap, "MOST_SENTENCES", 3)
    metrics, _ = build(tmp_path, TEXTS)  # of which every second one is the same
    assert metrics["heldout"]["sentences"] > 3 and metrics["heldout_sentences_in_train_share"] == 1 / 3


def test_held_out_sentences_are_bounded_by_their_bytes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "MOST_BYTES", 1)  # after the first block
    metrics, output = build(tmp_path, TEXTS)
    blocks = [*row_groups(corpus_shards(output.resolve(), "heldout"))]
    assert len(overlap._first_sentences((blocks[0], blocks[0]))) == metrics["heldout"]["sentences"]


def test_a_wrapped_file_is_one_document_which_the_remedy_says(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("One line\nand another.\n\nA second paragraph.\n")
    config = {"sources": [{"uri": str(tmp_path / "letter.txt"), "wrapped": True}], "min_words": 1}
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match=r"give more documents: a .txt with wrapped lines is one"):
        build_corpus(parse(CorpusConfig, config, "corpus"), tmp_path / "none", tmp_path / "out")


linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells a process's memory on Linux only")

MEASURE = """
import json, re, sys
from pathlib import Path
import pyarrow
from bertcore.corpus.build import build_corpus
from bertcore.corpus.config import CorpusConfig, SourceEntry
pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # as stage corpus does
directory, name = Path(sys.argv[1]), sys.argv[2]
(directory / "out").mkdir()
config = CorpusConfig(sources=[SourceEntry(uri=str(directory / name))], heldout_fraction=float(sys.argv[3]))
statistics = build_corpus(config, directory / "none", directory / "out", count=2).as_metrics()
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024
print(json.dumps([peak, statistics]))
"""


def measured(directory: Path, name: str, heldout_fraction: float) -> tuple[float, dict[str, Any]]:
    """MiB resident at most in a process that builds the corpus, and its statistics.

    The kernel's VmHWM says it: `ru_maxrss` would count what the tests' own process had before it became the other one.
    """
    command = [sys.executable, "-c", MEASURE, str(directory), name, str(heldout_fraction)]
    peak, statistics = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return peak, statistics


@pytest.mark.slow
@linux
def test_memory_does_not_grow_with_the_documents(tmp_path: Path) -> None:
    peaks = []
    for count in (28_000, 84_000):  # the smaller one fills all that two workers are given at a time
        directory = tmp_path / str(count)
        directory.mkdir()
        words = "It has some more words, and they fill it. " * 20
        (directory / "t.txt").write_text("\n\n".join(f"Text number {index}. {words}" for index in range(count)))
        peaks.append(measured(directory, "t.txt", 0.01)[0])
    assert (peaks[1] - peaks[0]) * 1024 / 56_000 < 1  # KiB for each further document
    assert peaks[1] < 500


@linux
def test_a_document_of_fifty_megabytes_on_one_line(tmp_path: Path) -> None:
    long = "It (or 'that, which the reader could not see from there, was all of the first line. " * 9 + "What? "
    (tmp_path / "t.txt").write_text("\n\n".join([long * (50_000_000 // len(long)), "x" * 10_000_000, *TEXTS]))
    peak, statistics = measured(tmp_path, "t.txt", 0.5)  # work that grows with the square of a line never ends
    assert peak < 1024  # MiB
    assert statistics["train"]["documents"] + statistics["heldout"]["documents"] == 41
    assert statistics["dropped"] == {"too_few_words": 1}


def test_long_paragraphs_are_cut_at_blanks_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "LONGEST_PARAGRAPH", 50)
    text = "one two three four " * 20 + "x" * 120 + " end"
    sentences = cleaning.split_sentences(text, "en")
    assert max(map(len, sentences)) <= 50
    assert "".join(sentences).replace(" ", "") == text.replace(" ", "")
    assert not any(sentence.startswith("ne ") for sentence in sentences)


def test_a_sentence_is_not_parted_where_a_long_paragraph_is(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ["He saw a dog.", "It ran away over the old bridge!", "Why?", "Nobody knows."] * 9
    monkeypatch.setattr(cleaning, "LONGEST_PARAGRAPH", 50)
    assert cleaning.split_sentences(" ".join(whole), "en") == whole


def test_accents_are_composed_across_what_cannot_be_seen() -> None:
    assert cleaning.normalise("cafe\u200d\u0301 re\u00ad\u0301sume\u0301") == "caf\u00e9 r\u00e9sum\u00e9"


def test_pages_and_lines_of_other_programs_part_words() -> None:
    assert cleaning.normalise("of a slide\x0bsecond\x0cthird\x85fourth\x07!") == "of a slide second third fourth!"


@pytest.mark.parametrize(("content", "found"), [("too few words\n\nhere\n", "t.txt"), ("", "t.txt"), (None, "no file")])
def test_evaluation_texts_that_cannot_be_found_are_refused(content: str | None, found: str, tmp_path: Path) -> None:
    files = []
    if content is not None:
        (tmp_path / "t.txt").write_text(content)
        files = [str(tmp_path / "t.txt")]
    with pytest.raises(InputError, match=f"contamination: found no text of 13 words in {found}, expected some"):
        build(tmp_path, TEXTS, contamination=ContaminationConfig(texts=files))


def test_a_source_without_documents_is_counted_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, text in (("a.txt", "\n\n".join(TEXTS)), ("empty.txt", "")):
        (tmp_path / name).write_text(text)
    names = [str(tmp_path / name) for name in ("a.txt", "empty.txt")]
    (tmp_path / "out").mkdir()
    config = CorpusConfig(sources=[SourceEntry(uri=name) for name in names], heldout_fraction=0.3)
    metrics = build_corpus(config, tmp_path / "none", tmp_path / "out").as_metrics()
    assert metrics["documents_read"] == {names[0]: 40, names[1]: 0}
    assert f"{names[1]}: no document in it" in caplog.messages


def test_documents_that_share_an_id_cannot_be_split(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"id": "en", "text": text}) + "\n" for text in TEXTS))
    (tmp_path / "out").mkdir()
    config = CorpusConfig(sources=[SourceEntry(uri=str(tmp_path / "a.jsonl"))])
    with pytest.raises(InputError, match="all fell to the held-out text by their ids.*give every document an id"):
        build_corpus(config, tmp_path / "none", tmp_path / "out")
