"""The archive that GLUE's server takes, from predictions for the tasks' test sets.

    python -m bertcore.apply.submission PREDICTIONS OUT.zip [--task CoLA=FOLDER …] [--partial]

PREDICTIONS holds a folder for each task, as stage finetune leaves it, with `test.tsv` in it: a header
`index<TAB>prediction`, the test file's row numbers from 0, and labels by name. MNLI's folder has `test_mismatched.tsv`
and `ax.tsv` as well. A folder's name is the task's (`sst2`, `SST-2`) unless --task says otherwise.
"""

import argparse
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertcore.compressed import COMPRESSIONS
from bertcore.config import suggest
from bertcore.errors import ConfigError, InputError
from bertcore.evaluation.command import print_result
from bertcore.evaluation.glue import canonical, read_predictions
from bertcore.examples.glue import TASKS
from bertcore.files import replace_file


@dataclass(frozen=True)
class Member:
    """One file of the archive."""

    task: str
    """Key of `examples.glue.TASKS`."""
    split: str
    """The predictions are `SPLIT.tsv`."""
    rows: int
    """Of the official test set; the server takes no other number."""


MEMBERS: dict[str, Member] = {
    "CoLA.tsv": Member("cola", "test", 1063),
    "SST-2.tsv": Member("sst2", "test", 1821),
    "MRPC.tsv": Member("mrpc", "test", 1725),
    "STS-B.tsv": Member("stsb", "test", 1379),
    "QQP.tsv": Member("qqp", "test", 390965),
    "MNLI-m.tsv": Member("mnli", "test", 9796),
    "MNLI-mm.tsv": Member("mnli", "test_mismatched", 9847),
    "QNLI.tsv": Member("qnli", "test", 5463),
    "RTE.tsv": Member("rte", "test", 3000),
    "WNLI.tsv": Member("wnli", "test", 146),
    "AX.tsv": Member("mnli", "ax", 1104),
}

_LOWEST_SCORE, _HIGHEST_SCORE = 0.0, 5.0
"""Of STS-B; the server refuses others, which a regression may well give."""

_DATE = (1980, 1, 1, 0, 0, 0)
"""Of every file in the archive, so that equal predictions make equal bytes."""


def write_submission(
    root: Path, archive: Path, folders: Mapping[str, str] | None = None, *, partial: bool = False
) -> dict[str, list[str]]:
    """Write `archive` from the folders of `root`; return the names of the files `written` and `missing`.

    `folders` maps names of tasks to those of folders. `InputError` names missing tasks (unless `partial`), a number of
    rows other than the official test set's, and predictions that are no label of the task.
    """
    directories = _directories(root, folders or {})
    paths = {name: path for name, member in MEMBERS.items() if (path := _find(directories, member)) is not None}
    missing = [name for name in MEMBERS if name not in paths]
    if not paths or (missing and not partial):
        wanted = ", ".join(f"{name} ({MEMBERS[name].task}/{MEMBERS[name].split}.tsv)" for name in missing)
        raise InputError(
            f"{root}: no predictions for {wanted}, expected all {len(MEMBERS)} files of a submission; predict these "
            f"test sets or name their folders with --task{', or take --partial' if paths else ''}"
        )
    contents = {name: _content(MEMBERS[name], path) for name, path in paths.items()}
    with replace_file(archive) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in contents.items():
            opened.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
    return {"written": list(paths), "missing": missing}


def _directories(root: Path, folders: Mapping[str, str]) -> dict[str, Path]:
    """Task -> directory of its predictions."""
    if not root.is_dir():
        raise InputError(f"{root}: no such directory, expected a folder of predictions for each task; correct the path")
    found: dict[str, Path] = {}
    for path in sorted(path for path in root.iterdir() if path.is_dir()):
        task = path.name.lower().replace("-", "").replace("_", "")
        if task in TASKS and task in found:
            raise InputError(f"{root}: found {found[task].name} and {path.name}, expected one folder for {task}")
        found[task] = path
    for task, folder in folders.items():
        if canonical(task) not in TASKS:
            raise ConfigError(f"--task {task}={folder}: no folder of its own; {suggest(canonical(task), TASKS)}")
        if not folder or not (root / folder).is_dir():
            known = [path.name for path in root.iterdir() if path.is_dir()]
            raise ConfigError(f"--task {task}={folder}: no such folder in {root}; {suggest(folder, known)}")
        found[canonical(task)] = root / folder
    return found


def _find(directories: Mapping[str, Path], member: Member) -> Path | None:
    directory = directories.get(member.task)
    names = (f"{member.split}.tsv{ending}" for ending in ("", *COMPRESSIONS))
    return None if directory is None else next((path for name in names if (path := directory / name).is_file()), None)


def _content(member: Member, path: Path) -> str:
    predicted = read_predictions(TASKS[member.task], path)
    wanted = [str(index) for index in range(member.rows)]
    if wrong := predicted.keys() ^ set(wanted):
        raise InputError(
            f"{path}: found {len(predicted)} predictions and the index {min(wrong)!r} out of place, expected those of "
            f"the {member.rows} rows of the official test set, 0 to {member.rows - 1}; predict that set"
        )
    return "index\tprediction\n" + "".join(f"{index}\t{_value(predicted[index])}\n" for index in wanted)


def _value(prediction: str | float) -> str:
    if isinstance(prediction, str):
        return prediction
    return f"{min(max(prediction, _LOWEST_SCORE), _HIGHEST_SCORE):.6f}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bertcore.apply.submission", description=__doc__.splitlines()[0])
    parser.add_argument("predictions", type=Path, help="a folder for each task, with test.tsv in it")
    parser.add_argument("archive", type=Path, help="the .zip to write")
    parser.add_argument("--task", action="append", default=[], metavar="TASK=FOLDER", help="where a task's folder is")
    parser.add_argument("--partial", action="store_true", help="write what there is and name what is missing")
    options = parser.parse_args(arguments)
    folders = dict(each.partition("=")[::2] for each in options.task)
    return print_result(
        lambda: write_submission(options.predictions, options.archive, folders, partial=options.partial)
    )


if __name__ == "__main__":
    sys.exit(main())
