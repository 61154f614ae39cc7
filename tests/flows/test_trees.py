"""The worktree of a run with its own parameters: begun from the tree as it stands, which stays as it is."""

import subprocess
from pathlib import Path
from threading import Thread

import pytest

from flows import trees
from flows.locks import HeldError
from flows.trees import DoneError, TreeError, run_tree, snapshot

SHARE = trees._share
"""Three processes of DVC, which only the tests of the cache wait for."""
CHANGES = {"pretrain.learning_rate": 0.2}
VARIED = 'pretrain: {learning_rate: 0.2}\ncorpus: {sources: [texts/*.txt, ../above.txt, /absolute.txt, "hf://a/b"]}\n'


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A committed tree with an edited tracked file, a lock that git does not know yet and texts that it ignores; in a
    place whose name is not of ASCII's letters alone."""
    root = tmp_path / "größe"
    (root / "texts").mkdir(parents=True)
    (root / ".dvc").mkdir()
    (tmp_path / "above.txt").write_text("above")
    for name, text in {
        "params.yaml": "pretrain: {learning_rate: 0.1}\n",
        "code.py": "1\n",
        ".gitignore": "/texts/\n/.worktrees/\n/.dvc/config.local\n/.dvc/tmp/\n",
        ".dvc/config": "",
        "texts/a.txt": "a text",
    }.items():
        (root / name).write_text(text)
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "first")
    (root / "code.py").write_text("2\n")
    (root / "dvc.lock").write_text("schema: '2.0'\n")
    (root / "untracked.bin").write_text("large")
    monkeypatch.setattr(trees, "ROOT", root)
    monkeypatch.setattr(trees, "TREES", root / ".worktrees")
    monkeypatch.setattr(trees, "_varied", lambda text, changes: VARIED)
    monkeypatch.setattr(trees, "_share", lambda root: None)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    return root


def test_it_begins_as_the_tree_stands_and_its_results_become_a_branch(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "_share", SHARE)
    before = git(root, "status", "--porcelain")
    with run_tree(CHANGES, "me") as tree:
        assert (tree.root / "code.py").read_text() == "2\n" and (tree.root / "dvc.lock").is_file()
        assert not (tree.root / "untracked.bin").exists()
        assert (tree.root / "params.yaml").read_text() == VARIED
        assert (tree.root / "texts" / "a.txt").read_text() == "a text"
        assert (tree.root / "../above.txt").resolve().read_text() == "above"
        local = (tree.root / ".dvc" / "config.local").read_text()
        assert str(root / ".dvc" / "cache") in local
        (tree.root / "metrics").mkdir()
        (tree.root / "metrics" / "summary.json").write_text("{}")
        branches = [tree.keep("brisk otter"), tree.keep("brisk otter")]
    assert branches == ["runs/brisk-otter", "runs/brisk-otter-2"]
    assert git(root, "show", "runs/brisk-otter:metrics/summary.json") == "{}"
    assert git(root, "show", "runs/brisk-otter:params.yaml") + "\n" == VARIED
    assert git(root, "log", "--format=%s", "-1", "runs/brisk-otter") == "brisk otter: pretrain.learning_rate=0.2"
    assert git(root, "status", "--porcelain") == before and git(root, "rev-list", "--count", "HEAD") == "1"
    assert list((root / ".worktrees").iterdir()) == []
    assert git(root, "worktree", "list").count("\n") == 0


def test_results_that_are_not_the_runs_own_are_not_in_its_branch(root: Path) -> None:
    for name in ("metrics/summary.json", "metrics/curves/a.csv", "reports/report.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("of the run before")
    with run_tree(CHANGES, "me") as tree:
        assert (tree.root / "metrics" / "summary.json").read_text() == "of the run before"
        branch = tree.keep("pretrain alone", ("dvc.lock", "metrics/curves"))
    found = git(root, "ls-tree", "-r", "--name-only", branch).splitlines()
    assert "metrics/curves/a.csv" in found and "dvc.lock" in found
    assert not [name for name in found if name.startswith(("metrics/summary", "reports"))]


def test_a_run_that_broke_off_is_continued_by_the_same_one_and_by_no_other(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError), run_tree(CHANGES, "me") as tree:
        (tree.root / ".checkpoint").write_text("half")
        raise ValueError
    with run_tree(CHANGES, "me") as tree:
        assert (tree.root / ".checkpoint").read_text() == "half"
        with pytest.raises(HeldError, match="me"), run_tree(CHANGES, "you"):
            pass
        monkeypatch.setattr(trees, "_varied", lambda text, changes: VARIED.replace("0.2", "0.3"))
        with run_tree({"pretrain.learning_rate": 0.3}, "you") as other:
            assert not (other.root / ".checkpoint").exists()


@pytest.mark.parametrize("commit", [None, "begun"])
def test_a_run_that_is_begun_again_goes_on_in_its_tree_whatever_became_of_the_users(
    commit: str | None, root: Path
) -> None:
    git(root, "branch", "begun", snapshot(root))
    with pytest.raises(ValueError), run_tree(CHANGES, "me", commit, run="one") as tree:
        (tree.root / ".checkpoint").write_text("half")
        raise ValueError
    (root / "code.py").write_text("3\n")
    git(root, "branch", "--force", "begun", snapshot(root))
    with run_tree(CHANGES, "me", commit, run="other") as tree:
        assert (tree.root / "code.py").read_text() == "3\n" and not (tree.root / ".checkpoint").exists()
    with run_tree(CHANGES, "me", commit, run="one", again=True) as tree:
        assert (tree.root / "code.py").read_text() == "2\n" and (tree.root / ".checkpoint").read_text() == "half"
    assert not list((root / ".worktrees").glob("*/*"))


def test_what_a_run_that_was_refused_began_as_is_not_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str, changes: object) -> str:
        raise TreeError("bad")

    with monkeypatch.context() as patch, pytest.raises(TreeError, match="bad"):
        patch.setattr(trees, "_varied", refuse)
        with run_tree(CHANGES, "me", run="one"):
            pass
    (root / "code.py").write_text("3\n")
    with run_tree(CHANGES, "me", run="one", again=True) as tree:
        assert (tree.root / "code.py").read_text() == "3\n"


def test_a_run_that_is_begun_again_waits_for_its_first_process_and_is_done_with_it(root: Path) -> None:
    order = []

    def again() -> None:
        try:
            with run_tree(CHANGES, "me", run="one", again=True):
                order.append("again")
        except DoneError:
            order.append("done")

    with run_tree(CHANGES, "me", run="one"):
        second = Thread(target=again)
        second.start()
        second.join(1.0)
        order.append("first")
    second.join(60)
    assert order == ["first", "done"]


def test_files_that_were_added_and_not_committed_are_there(root: Path) -> None:
    (root / "added.py").write_text("4\n")
    git(root, "add", "added.py")
    (root / "added.py").write_text("5\n")
    (root / "never.py").write_text("6\n")
    staged = git(root, "ls-files", "--stage")
    assert git(root, "show", f"{snapshot(root)}:added.py") == "5"
    assert "never.py" not in git(root, "ls-tree", "--name-only", snapshot(root))
    assert git(root, "ls-files", "--stage") == staged, "the user's own index is as it was"


def test_it_begins_as_the_commit_that_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = snapshot(root)
    git(root, "branch", "begun", commit)
    (root / "code.py").write_text("3\n")
    (root / "params.yaml").write_text("pretrain: {learning_rate: 0.5}\n")
    read: list[str] = []
    monkeypatch.setattr(trees, "_varied", lambda text, changes: read.append(text) or VARIED)
    for name in (commit, "begun"):
        with run_tree(CHANGES, "me", name, run="one") as tree:
            assert (tree.root / "code.py").read_text() == "2\n"
    assert read == ["pretrain: {learning_rate: 0.1}"] * 2
    for name in ("ended", "--all", "begun:code.py"):
        with pytest.raises(TreeError, match=f"parameter commit: found '{name}', expected a commit, branch or tag"):
            trees.resolve_commit(name)


def test_texts_that_git_knows_in_part_or_by_a_part_of_their_name_are_all_found(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "part/known.txt",
        "part/new.txt",
        "part/deep/new.txt",
        "law-1.txt",
        "law-2.txt",
        "law[3].txt",
        "other.txt",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    git(root, "add", "part/known.txt")
    git(root, "commit", "--quiet", "--message", "a part of it")
    monkeypatch.setattr(trees, "_varied", lambda text, changes: "corpus: {sources: [part, law-*.txt, 'law[3].txt']}\n")
    with run_tree(CHANGES, "me") as tree:
        for name in ("part/known.txt", "part/new.txt", "part/deep/new.txt", "law-1.txt", "law-2.txt", "law[3].txt"):
            assert (tree.root / name).read_text() == name
        assert not (tree.root / "part" / "known.txt").is_symlink() and not (tree.root / "other.txt").exists()


def test_what_only_reads_like_a_path_is_none(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("data", "predictions", "tickets"):
        (root / name).mkdir()
        (root / name / "a.csv").touch()
    task = (
        "{format: table, data: tickets, options: {text_column: data, label_column: predictions, label_separator: '*'}}"
    )
    params = f"corpus: {{sources: [texts]}}\nfinetune: {{tasks: {{tickets: {task}}}}}\n"
    monkeypatch.setattr(trees, "_varied", lambda text, changes: params)
    with run_tree(CHANGES, "me") as tree:
        assert sorted(path.name for path in tree.root.iterdir() if path.is_symlink()) == ["texts", "tickets"]


def test_a_run_is_at_work_while_its_tree_is_held(root: Path) -> None:
    with pytest.raises(KeyboardInterrupt), run_tree(CHANGES, "me", run="one"):
        assert trees.is_at_work("one") and not trees.is_at_work("other")
        raise KeyboardInterrupt
    assert list(trees.TREES.glob("*/begun-one")) and not trees.is_at_work("one")


def test_a_tree_that_was_stopped_while_it_was_made_is_made_anew(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(root: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(trees, "_share", interrupted)
        with run_tree(CHANGES, "me"):
            pass
    monkeypatch.setattr(trees, "_share", SHARE)
    with run_tree(CHANGES, "me") as tree:
        assert str(root / ".dvc" / "cache") in (tree.root / ".dvc" / "config.local").read_text()


def test_a_tree_that_the_user_removed_is_made_anew(root: Path) -> None:
    with pytest.raises(KeyboardInterrupt), run_tree(CHANGES, "me") as tree:
        raise KeyboardInterrupt
    git(root, "worktree", "remove", "--force", str(tree.root))
    with run_tree(CHANGES, "me") as tree:
        assert (tree.root / "code.py").read_text() == "2\n"


def test_results_are_kept_where_commits_are_signed_by_a_key_that_nobody_unlocks(root: Path) -> None:
    git(root, "config", "commit.gpgsign", "true")
    git(root, "config", "gpg.program", "false")
    with run_tree(CHANGES, "me") as tree:
        assert tree.keep("signed") == "runs/signed"


def test_results_are_kept_where_git_knows_an_address_and_no_name(root: Path) -> None:
    git(root, "config", "user.email", "somebody@example.org")
    git(root, "config", "user.useConfigOnly", "true")  # else git takes the name that the machine has for the user
    with run_tree(CHANGES, "me") as tree:
        assert tree.keep("nameless") == "runs/nameless"


def test_hooks_that_want_the_cache_do_not_run_in_a_tree_that_has_none_yet(root: Path) -> None:
    hook = root / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 255\n")  # as of `dvc install`, without the files that it checks out
    hook.chmod(0o755)
    with run_tree(CHANGES, "me") as tree:
        assert (tree.root / "code.py").is_file()


def test_a_tree_that_is_committed_needs_no_commit_of_its_own(root: Path) -> None:
    assert git(root, "rev-parse", snapshot(root) + "^") == git(root, "rev-parse", "HEAD")
    git(root, "add", "code.py", "dvc.lock")
    git(root, "commit", "--quiet", "--message", "second")
    assert snapshot(root) == git(root, "rev-parse", "HEAD")


def test_a_path_from_far_above_is_refused(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path.parent.parent / "far.txt").write_text("far")
    monkeypatch.setattr(trees, "_varied", lambda text, changes: "corpus: {sources: [../../../far.txt]}\n")
    with pytest.raises(TreeError, match="write an absolute path"), run_tree(CHANGES, "me"):
        pass


def test_without_a_commit_the_remedy_is_told(root: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    git(bare, "init", "--quiet")
    with pytest.raises(TreeError, match=r"git read-tree: .*; a run with its own parameters needs a git repository"):
        snapshot(bare)
