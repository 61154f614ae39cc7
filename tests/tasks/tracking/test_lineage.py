"""What counts as an edit of a dependency while a stage runs."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bertcore.errors import ArtifactError
from tasks.paths import SOURCE
from tasks.tracking import lineage
from tests.import_closure import ROOT


def touch(path: Path) -> None:
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 10**9))


def switch_branch_and_back(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    touch(path)


def edit_unseen(path: Path) -> None:
    state = path.stat()
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.fixture
def deps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    Path("code/__pycache__").mkdir(parents=True)
    Path("code/module.py").write_text("a = 1\n")
    Path("data").write_bytes(bytes(2**20 + 1))
    return ["code", "data"]


@pytest.mark.parametrize("harmless", [touch, switch_branch_and_back])
def test_code_with_the_same_content_is_unchanged(deps: list[str], harmless: Callable[[Path], None]) -> None:
    before = lineage.fingerprint(deps)
    harmless(Path("code/module.py"))
    Path("code/__pycache__/module.pyc").write_text("compiled")
    lineage.check_unchanged(before, deps)


@pytest.mark.parametrize(
    ("path", "edit"),
    [
        ("code/module.py", edit_unseen),
        ("code/module.py", Path.unlink),
        ("code/new.py", Path.touch),
        ("data", touch),
        ("data", Path.unlink),
    ],
)
def test_an_edit_is_seen(deps: list[str], path: str, edit: Callable[[Path], None]) -> None:
    before = lineage.fingerprint(deps)
    edit(Path(path))
    with pytest.raises(ArtifactError, match=f"^{path}: changed while the stage was running"):
        lineage.check_unchanged(before, deps)


def test_a_lock_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    whole = "stages:\n  corpus:\n    outs:\n    - path: data\n      md5: '1'\n"
    lineage.LOCK.write_text(whole[:18])
    written = iter([whole[:31], "", whole])
    monkeypatch.setattr("time.sleep", lambda seconds: seconds and lineage.LOCK.write_text(next(written)))
    assert lineage.recorded_hashes() == {"data": "1"}
    lineage.LOCK.write_text("")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(ArtifactError, match="dvc.lock: not readable.*or remove it"):
        lineage.recorded_hashes()


def test_what_a_run_leaves_out_has_the_hash_of_its_note_not_that_of_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outs = "".join(f"    - {{path: data/{name}, md5: {name}.dir}}\n" for name in ("corpus", "shards"))
    lineage.LOCK.write_text(f"stages:\n  all:\n    outs:\n{outs}")
    for name, text in (("corpus", '{"uri": null}'), ("shards", '{"uri": "hf://a/b"}')):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / SOURCE).write_text(text)
    found = lineage.data_hashes(["data/corpus", "data/shards", "data/none", "bertcore/draws.py"])
    assert found == {"data/corpus": lineage.dvc_hash(Path("data/corpus")), "data/shards": "shards.dir"}


def test_the_hash_of_code_changes_with_every_file_that_computes(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    names = ["room", "m.py"]
    for path in ("room/n.py", "m.py", "other.py"):
        (tmp_path / path).write_text("a = 1\n")
    hashes = {lineage.code_hash(tmp_path, names)}
    for path in ("room/n.py", "m.py"):
        (tmp_path / path).write_text("a = 2\n")
        hashes.add(lineage.code_hash(tmp_path, names))
    assert len(hashes) == 3
    (tmp_path / "other.py").write_text("a = 2\n")
    assert lineage.code_hash(tmp_path, names) in hashes


def test_what_checks_and_describes_a_training_is_no_part_of_it() -> None:
    deps, _ = lineage.stage_paths("pretrain", None)
    assert "bertcore/export/gate.py" in deps
    assert lineage.code_of("pretrain") == lineage.code_hash(
        ROOT, [dep for dep in deps if dep.startswith("bertcore/") and "export" not in dep]
    )
