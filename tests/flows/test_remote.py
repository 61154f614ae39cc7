"""The DVC remote on the toy pipeline: what one tree computed, a clone elsewhere has; and what cannot be a remote."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from flows.environment import REMOTE
from flows.graph import repro_command
from flows.remote import Remote, RemoteError, main, remote_url
from tasks.link_checks import remove_outdated_links
from tests.flows.conftest import Tree

STAGES = ["corpus", "pretrain", "finetune@topic", "finetune@qa", "report"]


def remote(tree: Tree, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "flows.remote", *arguments]
    return subprocess.run(command, capture_output=True, check=False, **tree.options())


def git(tree: Tree, *arguments: str) -> None:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    subprocess.run(command, cwd=tree.root, check=True, capture_output=True)


def clone(tree: Tree, place: Path) -> Tree:
    """A fresh clone, which has what git has: neither outs nor a cache."""
    subprocess.run(["git", "clone", "--quiet", str(tree.root), str(place)], check=True)
    other = Tree(place)
    other.environment = {**tree.environment, "HOME": str(place.parent / "home")}
    return other


@pytest.mark.slow
def test_a_clone_elsewhere_has_everything_and_runs_nothing(
    tree: Tree, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("elsewhere")
    tree.environment[REMOTE] = str(place / "store")
    for name in STAGES:
        done = remote(tree, "stage", name)
        assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(tree.runs()) == sorted(STAGES)
    (tree.root / ".gitignore").write_text("/data/\n/models/\n/reports/\n/home/\n__pycache__/\n")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "computed")
    settings = (tree.root / ".dvc" / "config").read_text()
    assert "store" not in settings and not (tree.root / ".dvc" / "config.local").exists()

    other = clone(tree, place / "clone")
    pulled = remote(other, "pull", *STAGES)
    assert pulled.returncode == 0, pulled.stdout + pulled.stderr
    assert (other.root / "reports" / "tables.json").is_file(), "an out without a cache comes with the run cache"
    repeated = subprocess.run(
        [sys.executable, "-m", "dvc", "repro"], capture_output=True, check=True, **other.options()
    )
    assert "up to date" in repeated.stdout and other.runs() == []

    # What another tree computed for parameters that stand in no dvc.lock here: from the run cache.
    for place in (tree, other):
        place.edit("params.yaml", "0.1", "0.2")
        for name in STAGES:
            done = remote(place, "stage", name)
            assert done.returncode == 0, done.stdout + done.stderr
    assert len(tree.runs()) == 4 and other.runs() == []


def test_what_others_have_put_into_the_run_cache_is_not_checked_out(tree: Tree, tmp_path: Path) -> None:
    """An entry whose outs are not those of the stage: a module, which the next stage would import."""
    tree.environment[REMOTE] = str(tmp_path / "store")
    done = remote(tree, "stage", "corpus")
    assert done.returncode == 0, done.stdout + done.stderr
    (tree.root / ".gitignore").write_text("/data/\n/models/\n/reports/\n/home/\n__pycache__/\n")
    git(tree, "rm", "--quiet", "--cached", "--ignore-unmatch", "dvc.lock")
    (tree.root / "dvc.lock").unlink()
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "nothing computed")
    (entry,) = [path for path in (tmp_path / "store" / "runs").rglob("*") if path.is_file()]
    yaml = YAML(typ="safe", pure=True)
    values = yaml.load(entry.read_text())
    values["outs"].append({**values["outs"][0], "path": "numpy.py"})
    text = io.StringIO()
    yaml.dump(values, text)
    entry.chmod(0o644)
    entry.write_text(text.getvalue())
    other = clone(tree, tmp_path / "clone")
    pulled = remote(other, "pull", "corpus")
    assert pulled.returncode == 0, pulled.stdout + pulled.stderr
    assert "corpus: the run cache names other outs, numpy.py: not taken" in pulled.stdout
    assert not (other.root / "numpy.py").exists()


@pytest.mark.slow
def test_what_a_broken_push_left_out_is_pushed_by_the_next(tree: Tree, tmp_path: Path) -> None:
    store, wrong = tmp_path / "store", tmp_path / "wrong"
    tree.environment[REMOTE] = str(store)
    subprocess.run([sys.executable, "-m", "dvc", "repro", "--quiet"], check=True, **tree.options())
    assert remote(tree, "push").returncode == 0
    wrong.write_text("a file where the directory should be")
    tree.environment[REMOTE] = str(wrong)
    failed = remote(tree, "push")
    assert failed.returncode == 1
    assert failed.stderr.startswith(f"error: {REMOTE}={wrong} cannot be pushed to (") and failed.stderr.count("\n") == 1
    tree.environment[REMOTE] = str(store)
    files = {file for file in store.rglob("*") if file.is_file()}
    lost = sorted(files)[::2]
    for file in lost:
        file.unlink()
    assert remote(tree, "push").returncode == 0
    assert {file for file in store.rglob("*") if file.is_file()} == files


def test_a_stage_is_computed_where_the_remote_is_away(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def away(self: Remote, names: list[str]) -> None:
        raise RemoteError(f"{names} cannot be pulled")

    monkeypatch.chdir(tree.root)
    monkeypatch.setenv(REMOTE, str(tmp_path / "store"))
    monkeypatch.setattr(Remote, "pull", away)
    assert main(["stage", "corpus"]) == 0
    assert "warning: not pulled: ['corpus'] cannot be pulled" in capfd.readouterr().out
    assert tree.runs() == ["corpus"] and (tmp_path / "store").is_dir()


@pytest.mark.slow
def test_a_clone_without_data_pushes_nothing_and_says_nothing(tree: Tree, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "dvc", "repro", "--quiet"], check=True, capture_output=True, **tree.options())
    with (tree.root / ".gitignore").open("a") as file:
        file.write("/home/\n/runs.log\n")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "computed")
    other = clone(tree, tmp_path / "clone")
    assert (other.root / "reports" / "tables.json").is_file() and not (other.root / "models").exists()
    other.environment[REMOTE] = str(tmp_path / "store")
    done = remote(other, "push")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert not [file for file in (tmp_path / "store").rglob("*") if file.is_file()]


def test_files_that_cannot_be_written_are_one_line_with_the_cause(tree: Tree, tmp_path: Path) -> None:
    tree.environment[REMOTE] = str(tmp_path / "store")
    assert remote(tree, "stage", "corpus").returncode == 0
    blocked = tmp_path / "blocked"
    (blocked / "files" / "md5").mkdir(parents=True)
    for first in range(256):
        (blocked / "files" / "md5" / f"{first:02x}").symlink_to("nowhere")
    tree.environment[REMOTE] = str(blocked)
    failed = remote(tree, "push")
    assert failed.returncode == 1
    (line,) = failed.stderr.splitlines()
    assert line.startswith(
        f"error: {REMOTE}={blocked} cannot be pushed to (1 of 1 files of stage corpus were not written: "
    )
    assert "[Errno " in line, line


def test_a_file_that_dvc_add_has_recorded_is_pushed_and_pulled_too(
    tree: Tree, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tree.environment[REMOTE] = str(tmp_path / "store")
    for name in ("texts.txt", "unpushed.txt"):
        (tree.root / name).write_text("one's own" if name == "texts.txt" else "kept here")
        subprocess.run([sys.executable, "-m", "dvc", "add", "--quiet", name], check=True, **tree.options())
    (tree.root / "unpushed.txt").unlink()
    done = remote(tree, "push")
    assert (done.returncode, done.stderr) == (0, "")
    assert [file.read_text() for file in (tmp_path / "store").rglob("*") if file.is_file()] == ["one's own"]
    git(tree, "add", "--all", ".")
    git(tree, "commit", "--quiet", "--message", "recorded")
    other = clone(tree, tmp_path_factory.mktemp("elsewhere") / "clone")
    done = remote(other, "pull", *STAGES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (other.root / "texts.txt").read_text() == "one's own"


def test_a_directory_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REMOTE, "../store")
    assert remote_url(tmp_path / "tree") == str(tmp_path / "store")
    monkeypatch.delenv(REMOTE)
    assert remote_url(tmp_path) is None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://ann:secret@bucket/x", "found a password in an address of s3://, expected none"),
        ("ftp://host/x", "found 'ftp://host/x', expected a directory, s3://BUCKET/PATH or ssh://[USER@]HOST/PATH"),
        (
            "me@host:/data/dvc",
            "found 'me@host:/data/dvc', expected a directory, s3://BUCKET/PATH or ssh://[USER@]HOST/PATH",
        ),
        ("s3://bucket/x", "s3:// needs dvc-s3; pip install -r requirements-remote.lock"),
    ],
)
def test_what_cannot_be_a_remote_is_told_without_the_password(
    url: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REMOTE, url)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(RemoteError) as caught:
        remote_url(tmp_path)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


INPUTS_YAML = """stages:
  inputs:
    cmd: python link.py
    deps: [link.py]
    outs: [{data/inputs: {cache: false}}]
  corpus:
    cmd: python stage.py corpus data/corpus.txt data/inputs/corpus/0/a.txt
    deps: [data/inputs/corpus, stage.py]
    outs: [data/corpus.txt]
"""
LINK = """
from pathlib import Path
with open("runs.log", "a") as log:
    log.write("inputs None\\n")
Path("data/inputs/corpus/0").mkdir(parents=True)
Path("data/inputs/corpus/0/a.txt").symlink_to("../../../../texts/a.txt")
"""


def write_text(tree: Tree) -> Path:
    """A text that stage `inputs` of the tree links."""
    (tree.root / "dvc.yaml").write_text(INPUTS_YAML)
    (tree.root / "params.yaml").write_text("corpus: {sources: [texts]}\n")
    (tree.root / "link.py").write_text(LINK)
    (tree.root / ".gitignore").write_text("/data/\n/texts/\n/home/\n/runs.log\n__pycache__/\n")
    text = tree.root / "texts" / "a.txt"
    text.parent.mkdir()
    text.write_text("one")
    return text


def test_texts_are_linked_though_dvc_commit_has_put_copies_of_them_into_the_cache(tree: Tree) -> None:
    text = write_text(tree)
    linked = tree.root / "data" / "inputs" / "corpus" / "0" / "a.txt"
    commit = [sys.executable, "-m", "dvc", "commit", "--force", "inputs"]
    subprocess.run(repro_command("inputs", tree.root), check=True, **tree.options())
    subprocess.run(commit, check=True, **tree.options())
    assert not linked.is_symlink(), "DVC leaves the links: nothing is to be mended"
    text.write_text("two, which is longer")
    assert remove_outdated_links(tree.root) == "texts"
    subprocess.run(repro_command("inputs", tree.root), check=True, **tree.options())
    assert linked.is_symlink() and linked.read_text() == "two, which is longer"
    text.unlink()  # the copies are all that there is
    assert "--force" not in repro_command("inputs", tree.root)


@pytest.mark.slow
def test_texts_of_a_machine_stay_links_and_go_before_those_of_another_one(
    tree: Tree, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("elsewhere")
    tree.environment[REMOTE] = str(place / "store")
    text = write_text(tree)

    def run(where: Tree) -> list[str]:
        for name in ("inputs", "corpus"):
            done = remote(where, "stage", name)
            assert done.returncode == 0, done.stdout + done.stderr
        return where.runs()

    assert run(tree) == ["inputs", "corpus"]
    linked = tree.root / "data" / "inputs" / "corpus" / "0" / "a.txt"
    assert linked.is_symlink(), "what was pushed is no copy now"
    text.write_text("two, which is longer")
    assert run(tree) == ["inputs", "corpus"]
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "computed")

    without = clone(tree, place / "without")
    assert remote(without, "pull", "inputs", "corpus").returncode == 0
    assert run(without) == [], "a clone that has no texts has those of dvc.lock"
    assert (without.root / "data" / "inputs" / "corpus" / "0" / "a.txt").read_text() == "two, which is longer"

    half = clone(tree, place / "half")  # one text is here, the other is not
    (half.root / "params.yaml").write_text("corpus: {sources: [texts, more.txt]}\n")
    (half.root / "texts").mkdir()
    (half.root / "texts" / "a.txt").write_text("of a third machine")
    assert remote(half, "pull", "inputs", "corpus").returncode == 0
    assert run(half) == []

    other = clone(tree, place / "other")
    (other.root / "texts").mkdir()
    (other.root / "texts" / "a.txt").write_text("of another machine")
    assert remote(other, "pull", "inputs", "corpus").returncode == 0
    assert run(other) == ["inputs", "corpus"]
    assert "of another machine" in (other.root / "data" / "corpus.txt").read_text()
