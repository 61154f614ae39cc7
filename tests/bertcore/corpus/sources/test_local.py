import errno
import io
import itertools
import json
import logging
import resource
import shutil
import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcore.corpus.documents import Document
from bertcore.corpus.sources import formats, local, source_of
from bertcore.corpus.sources.formats import blocks, txt
from bertcore.corpus.sources.formats.blocks import BEYOND_JSON, NO_TEXT, NOT_JSON, NOT_UTF8
from bertcore.corpus.sources.source import Block, Drops, gathered
from bertcore.errors import ConfigError, InputError
from tests.packing import pack

PACKED = ["", ".gz", ".zst"]


def read(*paths: Path, uri: str = "u") -> tuple[list[Document], Counter[str]]:
    statistics: Counter[str] = Counter()
    return list(local.read(uri, list(paths), statistics)), statistics


def pairs(documents: list[Document]) -> list[tuple[str, str]]:
    return [(document.id, document.text) for document in documents]


def parquet(**columns: list) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


@pytest.mark.parametrize("packed", PACKED)
def test_text(packed: str, tmp_path: Path) -> None:
    content = "\ufeffFirst paragraph.\nSecond é\u2028one.\n\n \t\n\nAnother\r\ndocument.\r\n\r\nLast".encode()
    documents, dropped = read(pack(tmp_path / f"a.txt{packed}", content), uri="some/a.txt")
    assert pairs(documents) == [
        ("a.txt:0", "First paragraph.\nSecond é\u2028one."),
        ("a.txt:1", "Another\ndocument."),
        ("a.txt:2", "Last"),
    ]
    assert not dropped and {document.source for document in documents} == {"some/a.txt"}


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000\u3000", " \u2003\r"])
def test_lines_of_other_blanks_end_a_document(blank: str, tmp_path: Path) -> None:
    documents, _ = read(pack(tmp_path / "a.txt", f"one\n{blank}\ntwo\n".encode()))
    assert [document.text for document in documents] == ["one", "two"]


LINES = st.sampled_from(["one", "two two", "é\u2028é", "", " ", "\t\r", "\u00a0", "\u3000\u2003", "\r", "x" * 40])


@given(st.lists(LINES, max_size=30), st.booleans(), st.integers(1, 90))
def test_documents_do_not_depend_on_where_a_file_is_cut(lines: list[str], ends: bool, size: int) -> None:
    """They are the runs of lines that are not blank."""
    runs = [list(run) for blank, run in itertools.groupby(lines, lambda line: not line.strip()) if not blank]
    expected = [(f"a.txt:{index}", "\n".join(run)) for index, run in enumerate(runs)]
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", size)
        path = pack(Path(directory, "a.txt"), ("\n".join(lines) + "\n" * ends).encode())
        assert pairs(read(path)[0]) == expected
        records = [json.dumps({"text": line}) if line.strip() else line * line.isascii() for line in lines]
        path = pack(Path(directory, "a.jsonl"), "\n".join(records).encode())
        numbers = itertools.count()
        assert pairs(read(path)[0]) == [(f"a.jsonl:{next(numbers)}", line) for line in lines if line.strip()]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_what_is_left_out_is_named_by_its_line_wherever_a_file_is_cut(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", size)
    text = pack(tmp_path / "a.txt", b"one\n\n\ntwo\n\n\n\nthree\nb\xff\n\nb\xfe\n")
    lines = pack(tmp_path / "a.jsonl", b'{"text": "one"}\n\n\n[1]\n\n[2]\n{"text": "two", "id": 4}\n')
    with caplog.at_level(logging.WARNING):
        documents, dropped = read(text, lines)
    assert [document.id for document in documents] == ["a.txt:0", "a.txt:1", "a.jsonl:0", "a.jsonl:4"]
    assert dropped == {NOT_UTF8: 2, NOT_JSON: 2}
    said = [record.getMessage().partition(";")[0] for record in caplog.records]
    assert said == [f"{text}:9: not UTF-8", f"{lines}:4: line is not a JSON object"]


@pytest.mark.parametrize("packed", PACKED)
def test_json_lines(packed: str, tmp_path: Path) -> None:
    content = b'{"text": "one"}\n\n{"text": "two\\nlines", "id": 17, "other": []}\n{"text": ""}'
    documents, dropped = read(pack(tmp_path / f"a.jsonl{packed}", content))
    assert pairs(documents) == [("a.jsonl:0", "one"), ("a.jsonl:17", "two\nlines"), ("a.jsonl:2", "")]
    assert not dropped


@pytest.mark.parametrize("packed", PACKED)
def test_parquet(packed: str, tmp_path: Path) -> None:
    path = pack(tmp_path / f"a.parquet{packed}", parquet(other=[1, 2, 3], text=["one", None, "three"]))
    documents, dropped = read(path)
    assert pairs(documents) == [("a.parquet:0", "one"), ("a.parquet:2", "three")]
    assert dropped == {NO_TEXT: 1}
    documents, _ = read(pack(tmp_path / f"b.parquet{packed}", parquet(id=["x", "y"], text=["one", "two"])))
    assert [document.id for document in documents] == ["b.parquet:x", "b.parquet:y"]


def test_packing_changes_no_id(tmp_path: Path) -> None:
    assert len({read(pack(tmp_path / f"a.txt{packed}", b"x"))[0][0].id for packed in PACKED}) == 1


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    paths = [pack(tmp_path / folder / "a.txt", b"x") for folder in ("0", "1")]
    assert [document.id for document in read(*paths)[0]] == ["0/a.txt:0", "1/a.txt:0"]
    paths = [pack(tmp_path / "0" / name, b"x") for name in ("a.txt", "a.txt.gz", "b.txt")]
    assert [document.id for document in read(*paths)[0]] == ["a.txt:0", "a.txt.gz:0", "b.txt:0"]


@pytest.mark.parametrize("uri", ["~nobody-of-this-name/a.txt", "a" * 300])
def test_a_path_that_cannot_be_is_one_line(uri: str) -> None:
    with pytest.raises(ConfigError, match=r"^[~a].*; correct the path$"):
        local.find_files(uri)


def test_undecodable_documents_are_counted_and_the_first_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = pack(tmp_path / "a.txt", b"one\n\ntwo\nb\xffd\n\nthree\n\nb\xfe\n")
    with caplog.at_level(logging.WARNING):
        documents, dropped = read(path)
    assert pairs(documents) == [("a.txt:0", "one"), ("a.txt:2", "three")]
    assert dropped == {NOT_UTF8: 2}
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [f"{path}:4: not UTF-8"]


def test_bad_json_lines_are_counted(tmp_path: Path) -> None:
    lines = [
        b'{"text": "one"}',
        b"{",
        b"[1]",
        b'{"text": 5}',
        b'{"text": null}',
        b'{"body": "x"}',
        b'{"text": "b\xff"}',
        b'{"text": "two"}',
    ]
    documents, dropped = read(pack(tmp_path / "a.jsonl", b"\n".join(lines)))
    assert pairs(documents) == [("a.jsonl:0", "one"), ("a.jsonl:7", "two")]
    assert dropped == {NOT_JSON: 2, NO_TEXT: 3, NOT_UTF8: 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"body": "x"}', "no text in the field 'text'"),
        (b'{"text": 5}', "no text in the field 'text'"),
        (b"plain", "not a JSON object"),
        (b"\xff", "not UTF-8"),
        (b"9" * 5000, "too long a number or too deep a nesting"),
    ],
)
def test_a_bad_first_record_is_an_error(line: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"a.jsonl:2: .*{message}, in the file's first record"):
        read(pack(tmp_path / "a.jsonl", b"\n" + line + b'\n{"text": "one"}'))


def test_a_first_record_without_its_text_is_counted(tmp_path: Path) -> None:
    documents, dropped = read(pack(tmp_path / "a.jsonl", b'{"text": null}\n{"text": "one"}'))
    assert pairs(documents) == [("a.jsonl:1", "one")] and dropped == {NO_TEXT: 1}


def test_a_zero_byte_in_the_first_text_is_no_other_encoding(tmp_path: Path) -> None:
    documents, dropped = read(pack(tmp_path / "a.txt", b"a b c\0d\n\nx\n"))
    assert [text for _, text in pairs(documents)] == ["a b c\0d", "x"] and not dropped


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le"])
def test_a_text_in_another_encoding_is_an_error(encoding: str, tmp_path: Path) -> None:
    text = "Schon.\n\nUnd noch schon.\n" if encoding == "utf-16-le" else "Sch\u00f6n.\n\nUnd noch sch\u00f6ner.\n"
    path = pack(tmp_path / "a.txt", text.encode(encoding))
    with pytest.raises(InputError, match=r"a.txt:1: not UTF-8, in the file's first record; convert the file to UTF-8"):
        read(path)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text", ["Жили-были старик со старухой.", "كان يا ما كان في قديم الزمان", "Μια φορά κι έναν καιρό"]
)
def test_utf_16_without_a_mark_is_another_encoding_in_every_alphabet(text: str, encoding: str, tmp_path: Path) -> None:
    path = pack(tmp_path / "a.txt", text.encode(encoding))
    with pytest.raises(InputError, match="a.txt:1: not UTF-8"):
        read(path)


def test_json_that_python_does_not_read_is_counted(tmp_path: Path) -> None:
    deep = b'{"text": "a", "n": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    lines = [b'{"text": "one"}', b'{"text": "a", "n": ' + b"9" * 5000 + b"}", deep, b'{"text": "two"}']
    documents, dropped = read(pack(tmp_path / "a.jsonl", b"\n".join(lines)))
    assert pairs(documents) == [("a.jsonl:0", "one"), ("a.jsonl:3", "two")] and dropped == {BEYOND_JSON: 2}


def test_ids_are_valid_unicode_and_null_is_none(tmp_path: Path) -> None:
    lines = [
        b'{"text": "one", "id": null}',
        b'{"text": "two", "id": "a\\ud83d"}',
        b'{"text": "three", "id": "\\ud83d\\ude00"}',
    ]
    documents, _ = read(pack(tmp_path / "a.jsonl", b"\n".join(lines)))
    assert [document.id for document in documents] == ["a.jsonl:0", "a.jsonl:a?", "a.jsonl:\U0001f600"]


def test_parquet_that_is_not_utf8_is_counted(tmp_path: Path) -> None:
    values = [b"one", b"b\xff", None, b"caf\xc3\xa9"]
    for type_ in (pa.string(), pa.large_string()):
        binary = pa.array(values, pa.binary() if type_ == pa.string() else pa.large_binary())
        texts = pa.Array.from_buffers(type_, 4, binary.buffers())
        documents, dropped = read(pack(tmp_path / "a.parquet", parquet(text=texts)))
        assert pairs(documents) == [("a.parquet:0", "one"), ("a.parquet:3", "caf\u00e9")]
        assert dropped == {NOT_UTF8: 1, NO_TEXT: 1}
    ids = pa.Array.from_buffers(pa.string(), 4, pa.array(values, pa.binary()).buffers())
    documents, _ = read(pack(tmp_path / "b.parquet", parquet(id=ids, text=list("abcd"))))
    assert [document.id.partition(":")[2] for document in documents] == ["one", "b\ufffd", "2", "caf\u00e9"]


def test_a_text_without_blank_lines_is_an_error_before_memory_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(txt, "LONGEST_DOCUMENT", 2 << 20)
    line = b"x" * (1 << 20)
    assert len(read(pack(tmp_path / "a.txt", b"\n\n".join([line + b"\n" + line] * 2)))[0]) == 2
    lines = [b"first", b"", *[line] * 4]
    with pytest.raises(InputError, match=r"a.txt:5: no blank line since line 3, .* more than 2 MiB; put a blank line"):
        read(pack(tmp_path / "a.txt", b"\n".join(lines)))


def test_parquet_without_the_column_and_damaged_parquet(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a.parquet: no text column 'text' among body"):
        read(pack(tmp_path / "a.parquet", parquet(body=["x"])))
    with pytest.raises(InputError, match="no text column 'text' among text"):
        read(pack(tmp_path / "a.parquet", parquet(text=[1])))
    with pytest.raises(InputError, match="b.parquet: cut off or damaged"):
        read(pack(tmp_path / "b.parquet", parquet(text=["x"])[:-9]))


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst", "a.jsonl.zst", "a.parquet.gz"])
def test_cut_off_archives_are_errors(name: str, tmp_path: Path) -> None:
    texts = [f"{number**3}" for number in range(50_000)]
    contents = {
        "txt": "\n\n".join(texts).encode(),
        "jsonl": "\n".join(json.dumps({"text": text}) for text in texts).encode(),
        "parquet": parquet(text=texts),
    }
    path = pack(tmp_path / name, contents[name.split(".")[1]])
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(InputError, match=f"{name}: cut off or damaged"):
        read(path)


def test_the_texts_may_stand_in_another_column(tmp_path: Path) -> None:
    pack(tmp_path / "a.jsonl.gz", b'{"content": "one", "id": "x", "text": "other"}\n{"content": null}')
    pack(tmp_path / "b.parquet", parquet(content=["two"], text=[1]))
    pack(tmp_path / "c.txt", b"three")
    source, dropped = source_of(str(tmp_path), column="content"), Counter[str]()
    source.look()
    found = [(each.id, each.text) for each in source.documents([], dropped, lambda _: None)]
    assert found == [("a.jsonl:x", "one"), ("b.parquet:0", "two"), ("c.txt:0", "three")] and dropped == {"no_text": 1}
    (line,) = [found for block in source.blocks([], dropped, lambda _: None) for found in said_of(block)]
    assert "a.jsonl.gz:2: no text in the field 'content'; left out" in line
    with pytest.raises(InputError, match=r"no text in the field 'body'.*name the field that has it: {uri: .*, column"):
        source_of(str(tmp_path), column="body").look()
    with pytest.raises(InputError, match="b.parquet: no text column 'body' among content .*; name the column of"):
        source_of(str(tmp_path / "b.parquet"), column="body").look()


def said_of(block: Block) -> list[str]:
    """The lines for the log of what is left out of a block."""
    drops = Drops()
    list(block.documents(drops))
    return list(drops.said.values())


@pytest.mark.parametrize("uri", ["TEXTS/c.txt", "https://example.org/c.txt.gz", "pydoc"])
def test_a_column_of_what_has_none_is_refused(uri: str, tmp_path: Path) -> None:
    pack(tmp_path / "c.txt", b"three")
    with pytest.raises(ConfigError, match="found column 'content', expected none"):
        source_of(uri.replace("TEXTS", str(tmp_path)), column="content").look()


def test_an_empty_file_has_no_documents(tmp_path: Path) -> None:
    assert read(pack(tmp_path / "a.txt", b""), pack(tmp_path / "a.jsonl.gz", b"\n\n")) == ([], Counter())


def test_memory_stays_bounded(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.txt.zst", b"\n\n".join(b"%d " % number * 200 for number in range(20_000)))  # 24 MB
    tracemalloc.start()
    count = sum(1 for _ in local.read("u", [path], Counter()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 20_000 and peak < 8 << 20


@pytest.mark.parametrize("group_rows", [500, 20_000])
def test_memory_of_parquet_stays_bounded(group_rows: int, tmp_path: Path) -> None:
    table = pa.table({"text": [f"{number} " * 200 for number in range(20_000)]})  # 22 MB
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=group_rows, compression="none", use_dictionary=False)
    del table
    before, peak = pa.total_allocated_bytes(), 0
    for _ in local.read("u", [tmp_path / "a.parquet"], Counter()):
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert peak < 8 << 20


def test_a_look_tells_what_reading_would(tmp_path: Path) -> None:
    pack(tmp_path / "a.jsonl", b'{"text": "one"}')
    local.LocalSource(str(tmp_path)).look()
    pack(tmp_path / "z.jsonl.gz", b'{"content": "one"}')
    with pytest.raises(InputError, match=r"z.jsonl.gz:1: no text in the field 'text', .*; name the field that has it"):
        local.LocalSource(str(tmp_path)).look()


@pytest.mark.parametrize("name", ["A.TXT", "a.txt.GZ", "a.Txt.zst"])
def test_endings_in_capitals(name: str, tmp_path: Path) -> None:
    pack(tmp_path / name.lower(), b"one").rename(tmp_path / name)
    assert [document.text for document in read(*local.find_files(str(tmp_path)))[0]] == ["one"]


def test_find_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.txt", "a.jsonl.gz", "deep/c.parquet", "README.md"):
        pack(tmp_path / name, b"")
    assert [path.name for path in local.find_files(str(tmp_path))] == ["a.jsonl.gz", "b.txt", "c.parquet"]
    assert local.find_files(str(tmp_path / "*.txt")) == [tmp_path / "b.txt"]
    for pattern in ("**/*.p*", "**/**/*.p*"):
        assert [path.name for path in local.find_files(f"{tmp_path}/{pattern}")] == ["c.parquet"]
    monkeypatch.chdir(tmp_path)
    assert local.find_files("b.txt") == [Path("b.txt")]


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("nowhere.txt", "nowhere.txt: no such file, glob or directory"),
        ("*.csv", "no such file, glob or directory"),
        ("README.md", "README.md: unknown ending, expected .txt, .jsonl, .parquet"),
        ("docs", "docs: no file in this directory ends in .txt"),
    ],
)
def test_files_that_cannot_be_read_are_named(
    uri: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(tmp_path / "README.md", b"")
    pack(tmp_path / "docs/x.rst", b"")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message.replace("*", r"\*")):
        local.find_files(uri)


def test_the_shared_wikipedia_sample(shared_data: Path) -> None:
    path = shared_data / "corpus/wikipedia.train.txt.zst"
    documents = local.read("wikipedia", [path], Counter())
    first = [next(documents) for _ in range(100)]
    assert first[99].id == "wikipedia.train.txt:99" and all(document.text for document in first)


def test_a_directory_whose_name_is_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "texts[2020]").mkdir()
    (tmp_path / "texts[2020]" / "a.txt").touch()
    assert local.find_files(str(tmp_path / "texts[2020]")) == [tmp_path / "texts[2020]" / "a.txt"]


@pytest.mark.parametrize(
    "type_",
    [pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_columns_of_text_in_all_their_forms(type_: pa.DataType, tmp_path: Path) -> None:
    column = pa.array(["one", None, "one", "zwölf"]).cast(type_)
    found, dropped = read(pack(tmp_path / "a.parquet", parquet(id=column, text=column)))
    assert pairs(found) == [("a.parquet:one", "one"), ("a.parquet:one", "one"), ("a.parquet:zwölf", "zwölf")]
    assert dropped == {NO_TEXT: 1}


@pytest.mark.parametrize("name", ["text", "id"])
def test_two_columns_of_one_name_are_refused(name: str, tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([each]) for each in "abc"], names=["text", name, name])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InputError, match=f"a.parquet: found several columns '{name}', expected one; rename the others"):
        read(tmp_path / "a.parquet")


def test_a_column_of_no_text_is_named_with_its_type(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no text column 'text' among text \(int64\); .* or write it as strings"):
        read(pack(tmp_path / "a.parquet", parquet(text=[1])))


def test_lines_that_end_in_cr_alone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a.txt: lines end in CR alone, expected LF or CR LF; convert them"):
        read(pack(tmp_path / "a.txt", b"one\r\rtwo\r"))
    assert len(read(pack(tmp_path / "b.txt", b"one\r\n\r\ntwo\r"))[0]) == 2


def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    pack(tmp_path / "a.txt", b"one\n")
    (tmp_path / "b.txt").symlink_to("/not/mounted/b.txt")
    for uri in (tmp_path, tmp_path / "*.txt", tmp_path / "b.txt"):
        with pytest.raises(InputError, match=r"b.txt: found a link to /not/mounted/b.txt, where nothing is; fetch"):
            local.find_files(str(uri))


def test_an_unpacked_file_has_no_name_that_a_killed_process_would_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pack(tmp_path / "a.parquet.gz", parquet(text=["one", "two"]))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    blocks = formats.cut("u", path, "a", wrapped=False, column="text")
    assert len(next(blocks).data) == 2 and not list((tmp_path / "tmp").iterdir())


def test_a_full_disk_is_no_fault_of_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(InputError, match=r"a.parquet.gz: no space left below .* to unpack it; free some"):
        read(pack(tmp_path / "a.parquet.gz", parquet(text=["one"])))


def test_the_first_that_is_left_out_is_named_though_no_more_documents_are_wanted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = pack(tmp_path / "a.jsonl", b'{"text": "one"}\n[1]\n{"text": "two"}\n{"text": "three"}\n')
    with caplog.at_level(logging.WARNING):
        list(itertools.islice(local.read("u", [path], Counter()), 2))
    assert "a.jsonl:2: line is not a JSON object" in caplog.text


def test_small_files_are_gathered_and_blocks_of_large_ones_are_not(tmp_path: Path) -> None:
    for number in range(50):
        pack(tmp_path / f"{number:02}.txt", b"small\n\none\n")
    large = pack(tmp_path / "large.txt", b"\n\n".join([b"x" * 1000] * 3000))
    groups = list(gathered(local.blocks("u", [*sorted(tmp_path.glob("?[0-9].txt")), large])))
    assert [len(group) for group in groups][:3] == [101, 1, 1]
    assert all(sum(block.size for block in group) < 1_100_000 for group in groups)


def test_a_run_of_blanks_takes_no_memory_of_its_own(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.txt", b"one\n" + b" " * 6_000_000 + b"x\n" + b"\n" * 2_000_000 + b"two\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert [len(document.text) for document in read(path)[0]] == [6_000_005, 3]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB
