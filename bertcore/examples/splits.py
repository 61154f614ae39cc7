"""The splits of a task, whatever its format: which file is train, dev and test; where none holds dev, it is drawn from
train."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pyarrow as pa

from bertcore import draws
from bertcore.compressed import plain_name
from bertcore.config import within
from bertcore.errors import InputError
from bertcore.examples.sharing import groups
from bertcore.files import visible_files

WORDS = {"train": "train(ing)?", "dev": "dev(el(opment)?)?|valid(ation)?|val|testa", "test": "test|testb"}
"""What marks a file as a split's, standing between other things than letters: `eng.testa`, `wnut17train.conll`."""

_NAMED = 8
"""Files that a line of the log names at most."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SplitOptions:
    """Where the splits are."""

    train_file: str | None = None
    """Name of the train file, `*` and `?` standing for any; null: the file with `train` in its name, or the only
    one. Of a data set on the hub: name of the split; null: `train`, and for the others `validation` and `test`."""
    dev_file: str | None = None
    """The same for dev (`dev`, `devel`, `development`, `valid`, `validation`, `val`, `testa`). Where there is none, dev
    is drawn from train."""
    test_file: str | None = None
    """The same for test (`test`, `testb`), which need not be there nor have labels."""
    dev_fraction: float = 0.1
    """Share of the train file that becomes dev where no file holds dev; rows that share a text go to the same
    side (where most would, those with the same first text; of choices, those with the same context)."""
    split_seed: int = 1
    """Seed of the draw of dev from train."""

    def __post_init__(self) -> None:
        within(self, "dev_fraction", "a share between 0 and 1, such as 0.1", above=0.0, below=1.0)


def find_splits(directory: Path, options: SplitOptions, endings: Sequence[str] | None = None) -> dict[str, Path]:
    """Split -> file, in the order train, dev, test; `InputError` where train is missing or a split has two files.

    Files of which no split is made are named in the log. Those with other `endings` (of their plain names) are not
    looked at, unless an option names them. A file that an option names for one split is not taken for another, whatever
    its name.
    """
    files = visible_files(directory)
    named = {"train": options.train_file, "dev": options.dev_file, "test": options.test_file}
    known = [path for path in files if endings is None or plain_name(path).lower().endswith(tuple(endings))]
    found: dict[str, Path] = {}
    for split in sorted(named, key=lambda split: named[split] is None):  # files that options name are taken first
        pattern = named[split]
        free = [path for path in known if path not in found.values()]
        if pattern is not None:
            matches = [path for path in files if _is_named(path, directory, pattern)]
        elif len(known) == 1:  # whatever its name, such as `test.csv` of a set whose train file is elsewhere
            matches = free if split == "train" else []
            if matches:
                _check_only(matches[0], files)
        else:
            matches = [path for path in free if _is_of(split, path)]
        if twice := [other for other, path in found.items() if matches == [path]]:
            raise InputError(
                f"{directory}: found {matches[0].name} for {twice[0]} and for {split}, expected a file of its own for "
                f"each; correct the option {split}_file"
            )
        if len(matches) == 1:
            found[split] = matches[0]
        elif matches or pattern is not None or split == "train":
            names = ", ".join(path.relative_to(directory).as_posix() for path in (matches or files)[:8]) or "nothing"
            if files and not known and pattern is None:
                known_endings = ", ".join(endings or ())
                raise InputError(
                    f"{directory}: found {names}, expected an ending of {known_endings}; save it as such a file"
                )
            raise InputError(
                f"{directory}: found {names}, expected one file for {split}{f' ({pattern})' if pattern else ''}; "
                f"name it with the option {split}_file"
            )
    log_unused(directory, files, found.values())
    return {split: found[split] for split in named if split in found}


def _is_named(path: Path, directory: Path, pattern: str) -> bool:
    """By its name or by its place in `directory`, with or without the ending of its compression."""
    names = (path.name, plain_name(path))
    folder = path.relative_to(directory).parent
    return any(fnmatch(name, pattern) or fnmatch(str(folder / name), pattern) for name in names)


def _check_only(path: Path, files: Sequence[Path]) -> None:
    """`InputError` where a train file of an unknown ending lies beside the only file that can be read."""
    if others := [each for each in files if each != path and _is_of("train", each) and not _is_of("train", path)]:
        raise InputError(
            f"{others[0]}: unknown ending, expected that of {path.name}; convert the file, or name another one with "
            "the option train_file"
        )


def log_unused(directory: Path, files: Iterable[Path], used: Iterable[Path]) -> None:
    """Name the `files` that no split is read from, in one line of the log."""
    read = set(used)
    warn_unused(str(directory), sorted(path.relative_to(directory).as_posix() for path in files if path not in read))


def warn_unused(where: str, unused: Sequence[str]) -> None:
    """A line of the log for what is there and no split is read from, if anything."""
    if unused:
        more = f" and {len(unused) - _NAMED} more" if len(unused) > _NAMED else ""
        logger.warning("%s: not read, as no split is made of them: %s%s", where, ", ".join(unused[:_NAMED]), more)


def _is_of(split: str, path: Path) -> bool:
    return re.search(rf"(?<![a-z])({WORDS[split]})(?![a-z])", plain_name(path).lower()) is not None


def with_dev(tables: Mapping[str, pa.Table], options: SplitOptions, where: str) -> dict[str, pa.Table]:
    """The splits, with `draw_dev` of train where none of them is dev; `where` train is from."""
    return {**tables, **({} if "dev" in tables else draw_dev(tables["train"], options, where))}


def draw_dev(table: pa.Table, options: SplitOptions, where: str) -> dict[str, pa.Table]:
    """`table` as train and dev. A row's side depends on the seed and on the name of its group alone (`sharing`), not on
    the rows of others; but of two groups and more, one at least is on either side."""
    names = groups(table)
    if table.num_rows > 1 and len(set(names)) == 1:
        raise InputError(
            f"{where}: found one text that all its {table.num_rows} examples share, so that none of them can be dev; "
            "give a dev file with other texts"
        )
    if table.num_rows < 2:
        raise InputError(f"{where}: found one example, of which none can be dev; give more, or a dev file")
    places = np.asarray([draws.fraction_of(options.split_seed, name) for name in names])
    border = min(max(options.dev_fraction, np.nextafter(places.min(), 1.0)), places.max())
    is_dev = places < border
    drawn = {"train": table.filter(pa.array(~is_dev)), "dev": table.filter(pa.array(is_dev))}
    train, dev = (_labels(each) for each in drawn.values())
    if unseen := sorted(dev - train):
        logger.warning(
            "%s: labels that only examples of dev have, which nobody can learn: %d (%s); give more examples of them, "
            "or a dev file",
            *(where, len(unseen), first_of(unseen, _NAMED)),
        )
    return drawn


def first_of(names: Sequence[str], most: int) -> str:
    """`names` in a row, and a sign where there are more than `most`, which are left out."""
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])


def _labels(table: pa.Table) -> set[str]:
    """All names of classes in it."""
    found: set[str] = set()
    for name in ("label", "labels", "tags"):
        column = table[name].combine_chunks() if name in table.column_names else pa.array([], pa.string())
        values = column.flatten() if pa.types.is_list(column.type) else column
        if pa.types.is_string(values.type):
            found |= {value for value in values.unique().to_pylist() if value is not None}
    return found
