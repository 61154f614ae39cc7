import json
from pathlib import Path

import pytest

from bertcore import compressed
from bertcore.compressed import open_binary, parse_json, plain_name, read_bytes, read_json, read_lines, read_text
from bertcore.errors import InputError
from tests.packing import pack

NAMES = ["a.txt", "a.txt.gz", "a.txt.zst"]


@pytest.mark.parametrize("name", NAMES)
def test_all_forms_read_alike(name: str, tmp_path: Path) -> None:
    content = "one\r\ntwo \u2028 still two\n\nlast".encode()
    path = pack(tmp_path / name, content)
    assert read_bytes(path) == content
    assert list(read_lines(path)) == [b"one", "two \u2028 still two".encode(), b"", b"last"]
    assert plain_name(path) == "a.txt"


@pytest.mark.parametrize("name", NAMES[1:])
def test_several_archives_in_one_file(name: str, tmp_path: Path) -> None:
    path = pack(tmp_path / name, b"one\n")
    path.write_bytes(path.read_bytes() * 2)
    assert list(read_lines(path)) == [b"one", b"one"]


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_cut_off_archive_is_named_with_its_last_line(name: str, tmp_path: Path) -> None:
    lines = "".join(f"{number * number} is a square\n" for number in range(200_000)).encode()
    path = pack(tmp_path / name, lines)
    path.write_bytes(path.read_bytes()[:-1000])
    read: list[bytes] = []
    with pytest.raises(InputError, match=r"a\.txt\.(gz|zst): cut off or damaged after line \d+"):
        read.extend(read_lines(path))
    with pytest.raises(InputError, match="cut off or damaged"):
        read_bytes(path)


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(b"plain text")
    with pytest.raises(InputError, match="a.zst: cut off or damaged after line 0"):
        list(read_lines(path))


def test_text_and_json(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.json.zst", b"\xef\xbb\xbf" + json.dumps({"a": "é"}).encode())
    assert read_json(path) == {"a": "é"}
    with pytest.raises(InputError, match="byte 1 is not UTF-8"):
        read_text(pack(tmp_path / "c.txt", b"a\xff"))
    with pytest.raises(InputError, match="d.json:2: not JSON"):
        read_json(pack(tmp_path / "d.json", b"[1,\n x]"))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere.txt: no such file"):
        open_binary(tmp_path / "nowhere.txt")


@pytest.mark.parametrize("name", NAMES[1:])
def test_an_archive_without_a_byte_is_damaged(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(InputError, match=rf"{name}: cut off or damaged \(no byte in it\)"):
        read_bytes(tmp_path / name)


def test_a_line_without_end_is_refused_before_memory_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "LONGEST_LINE", 1 << 20)
    (tmp_path / "a.txt").write_bytes(b"x" * ((1 << 20) - 1) + b"\n" + b"y" * (3 << 20))
    lines = read_lines(tmp_path / "a.txt")
    assert next(lines).startswith(b"x")
    with pytest.raises(InputError, match="a.txt:2: a line of more than 1 MiB; put every record on a line of its own"):
        next(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "too deep a nesting"),
        ("9" * 5000, "Exceeds the limit"),
        ('["x \\uD800"]', "half of a surrogate pair"),
        ("[1,", "Expecting value"),
    ],
)
def test_json_that_cannot_be_kept(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(text)
    with pytest.raises(InputError, match=rf"a.json.*: not JSON \({message}"):
        read_json(pack(tmp_path / "a.json", text.encode()))


def test_json_of_whole_surrogate_pairs_and_of_their_names() -> None:
    assert parse_json(r'["\ud83d\ude00", "\\ud800"]') == ["\U0001f600", "\\ud800"]
