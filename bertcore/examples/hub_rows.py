"""Tasks of the formats `table`, `choices` and `conll` from a set on the hub, in columns that the options name, and of
`squad` in its own."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from bertcore.errors import InputError
from bertcore.examples import choices, conll, squad, table
from bertcore.examples.bad_rows import EMPTY_TEXT, NOT_TEXT, WRONG_COLUMNS, BadRowError, BadRows
from bertcore.examples.choices import ChoicesOptions
from bertcore.examples.conll import BROKEN_TAG, ConllOptions, Sentence
from bertcore.examples.schema import QUESTION_ANSWERING, ExampleSet
from bertcore.examples.splits import WORDS, SplitOptions, warn_unused
from bertcore.examples.squad import SquadOptions
from bertcore.examples.table import TableOptions
from bertcore.examples.table_rows import NumberedRow, Rows

_SPLITS = {"train": "train", "dev": "validation", "test": "test"}


def read_table(uri: str, loaded: Mapping[str, Any], options: TableOptions) -> ExampleSet:
    """The rows of `loaded`, split -> `datasets.Dataset`; classes that the set numbers have their names."""
    chosen = _choose(uri, loaded, options)
    return table.from_rows({split: Rows(f"{uri}: {split}", _rows(rows)) for split, rows in chosen.items()}, options)


def read_choices(uri: str, loaded: Mapping[str, Any], options: ChoicesOptions) -> ExampleSet:
    """The contexts of `loaded` likewise, with their choices."""
    chosen = _choose(uri, loaded, options)
    return choices.from_rows({split: Rows(f"{uri}: {split}", _rows(rows)) for split, rows in chosen.items()}, options)


def read_tagged(uri: str, loaded: Mapping[str, Any], options: ConllOptions) -> ExampleSet:
    """The sentences of `loaded` likewise, from its columns `options.token_name` and `options.tag_name`."""
    bad = BadRows(on_error=options.on_error)
    chosen = _choose(uri, loaded, options)
    where = {split: f"{uri}: {split}" for split in chosen}
    sentences = {split: list(_sentences(rows, where[split], options, split, bad)) for split, rows in chosen.items()}
    return conll.from_sentences(sentences, where, options, bad)


def read_questions(uri: str, loaded: Mapping[str, Any], options: SquadOptions) -> ExampleSet:
    """The questions of `loaded` likewise, in the columns of SQuAD."""
    bad = BadRows(on_error=options.on_error)
    chosen = _choose(uri, loaded, options)
    try:
        tables = {split: question_table(rows, f"{uri}: {split}", split, bad) for split, rows in chosen.items()}
    except KeyError as error:
        raise InputError(f"{uri}: no column {error}, expected the columns of squad; correct uri or format") from None
    return squad.from_tables(tables, f"{uri}: train", options, bad)


def question_table(rows: Iterable[Mapping[str, Any]], where: str, split: str, bad: BadRows) -> pa.Table:
    """In the schema `QUESTION_ANSWERING`. A test split that has no answers at all, or only empty lists of them, has
    null `answers`."""
    hidden = split == "test" and not any(_answers(row.get("answers") or [], where) for row in rows)
    questions = (
        {
            **{name: row[name] for name in ("id", "context", "question")},
            "title": row.get("title") or "",
            "answers": None if hidden else _answers(row["answers"], f"{where}: question {row['id']}"),
        }
        for row in rows
    )
    kept = [checked for row in questions if (checked := squad.check(row, where, split == "train", bad)) is not None]
    squad.check_ids(kept, where)
    return pa.Table.from_pylist(kept, QUESTION_ANSWERING)


def _answers(found: Any, where: str) -> list[dict[str, Any]]:
    """Texts and places side by side, as the hub's SQuAD has them, or an object for each answer, as SQuAD's files."""
    if found is None:
        raise InputError(f"{where}: found no answers (null), expected some, as other questions of the split have")
    if isinstance(found, list) and all(isinstance(each, Mapping) for each in found):
        return [{"text": each["text"], "answer_start": each["answer_start"]} for each in found]
    if isinstance(found, Mapping) and len(found["text"]) == len(found["answer_start"]):
        pairs = zip(found["text"], found["answer_start"], strict=True)
        return [{"text": text, "answer_start": start} for text, start in pairs]
    raise InputError(
        f"{where}: found the answers {str(found)[:80]}, expected as many answer_start as text, or an object with both "
        "for each answer; correct the set"
    )


def _choose(uri: str, loaded: Mapping[str, Any], options: SplitOptions) -> dict[str, Any]:
    """Split -> rows, train first; a split that no option names may be missing."""
    named = {"train": options.train_file, "dev": options.dev_file, "test": options.test_file}
    remote = {split: name or _usual(split, loaded) for split, name in named.items()}
    taken = [name for name in named.values() if name]
    found: dict[str, Any] = {}
    for split, name in remote.items():
        if name in loaded and (named[split] or name not in taken):
            found[split] = loaded[name]
        elif split == "train" or named[split]:
            raise InputError(
                f"{uri}: no split {name!r} among {', '.join(loaded)}; name one with the option {split}_file"
            )
    warn_unused(uri, sorted(set(loaded) - {remote[split] for split in found}))
    return found


def _usual(split: str, loaded: Mapping[str, Any]) -> str:
    """The hub's name of a split; where there is no `validation`, the one split with another name of dev."""
    others = [name for name in loaded if re.fullmatch(WORDS["dev"], name.lower())] if split == "dev" else []
    return others[0] if len(others) == 1 else _SPLITS[split]


def _rows(rows: Any) -> Iterator[NumberedRow]:
    names = {column: found for column, feature in rows.features.items() if (found := _class_names(feature))}
    for number, row in enumerate(rows, start=1):
        yield number, {column: _named(value, names.get(column)) for column, value in row.items()}


def _class_names(feature: Any) -> list[str] | None:
    """The classes of a column's feature, `ClassLabel` or a list of such; None for any other."""
    inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", feature)
    return getattr(inner, "names", None)


def _named(value: Any, names: list[str] | None) -> Any:
    """A class by its name; -1, the hub's number for a hidden one, is None."""
    if names is None or value is None:
        return value
    if isinstance(value, list):
        return [_named(each, names) for each in value]
    return names[value] if value >= 0 else None


def _sentences(rows: Any, where: str, options: ConllOptions, split: str, bad: BadRows) -> Iterator[Sentence]:
    """The usable sentences; a test split may have no tags."""
    needed = {"token_name": options.token_name} | ({} if split == "test" else {"tag_name": options.tag_name})
    for option, name in needed.items():
        if name not in rows.features:
            known = ", ".join(rows.features)
            raise InputError(f"{where}: no column {name!r} among {known}; correct the option {option}")
    for number, row in _rows(rows):
        assert not isinstance(row, BadRowError), "a row of a data set is a mapping"
        try:
            words, tags = row[options.token_name], row.get(options.tag_name)
            hidden = split == "test" and (tags is None or all(tag is None for tag in tags))
            _check(words, None if hidden else tags)
            if words:
                yield Sentence(words, None if hidden else tags, [number] * len(words))
            else:
                empty = BadRowError(EMPTY_TEXT, "found no words, expected some")
                bad.add(f"{where}:{number}", empty, always_skipped=True)
        except BadRowError as error:
            bad.add(f"{where}:{number}", error)


def _check(words: Any, tags: Any) -> None:
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise BadRowError(NOT_TEXT, f"found {str(words)[:60]!r}, expected a list of words")
    if empty := [word for word in words if not word.strip(" \t")]:
        raise BadRowError(EMPTY_TEXT, f"found the empty word {empty[0]!r}, expected a word")
    if tags is None:
        return
    if not isinstance(tags, list) or len(tags) != len(words):
        message = f"found the tags {str(tags)[:60]}, expected {len(words)}, one for each word"
        raise BadRowError(WRONG_COLUMNS, message)
    for tag in tags:
        if not isinstance(tag, str) or not tag.strip():
            raise BadRowError(BROKEN_TAG, f"found the tag {tag!r}, expected a name, or a class that has one")
