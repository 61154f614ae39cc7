"""The scores that a run of the pipeline has left, as a table for an encoder's card."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bertcore.compressed import read_json
from bertcore.errors import InputError
from bertcore.export.card import table

Row = tuple[str, str, str, str, str]


def score_table(metrics: Path, encoder: Path) -> str:
    """Markdown: a row for the masked LM, one for the minimal pairs and one for each task, as far as `metrics` has
    them; `InputError` where it has none. Tasks that did not start from `encoder` say nothing of it."""
    of_task = partial(_task, str(encoder))
    rows = [
        *_rows_of(metrics / "pretrain.json", _pretraining),
        *_rows_of(metrics / "minimal_pairs.json", _minimal_pairs),
        *(row for path in sorted((metrics / "finetune").glob("*.json")) for row in _rows_of(path, of_task)),
    ]
    if not rows:
        raise InputError(
            f"{metrics}: found no pretrain.json, no minimal_pairs.json and no finetune/TASK.json of a task that "
            f"started from {encoder}, expected the metrics of a run of the pipeline; give that directory"
        )
    return table([("what", "metric", "this encoder", "over seeds", "beside"), *rows]) + "\n\nOn dev, or held-out text."


def _rows_of(path: Path, rows: Callable[[str, Any], Iterator[Row]]) -> list[Row]:
    """Those of one file, none where it is not there; `InputError` where it has another layout."""
    if not path.is_file():
        return []
    try:
        return list(rows(path.stem, read_json(path)))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise InputError(
            f"{path}: not the metrics of a stage ({type(error).__name__}: {error}); give the directory that a run of "
            "the pipeline has left"
        ) from None


def _pretraining(_: str, found: Any) -> Iterator[Row]:
    for name in (name for name, value in found.items() if isinstance(value, float)):
        yield "pre-training", name, _number(found[name]), "", ""


def _minimal_pairs(_: str, found: Any) -> Iterator[Row]:
    if "accuracy" in found:
        others = {name: each["accuracy"] for name, each in found["systems"].items() if name != "model"}
        yield "minimal pairs", "accuracy", _number(found["accuracy"]), "", _beside(others)


def _task(encoder: str, name: str, found: Any) -> Iterator[Row]:
    if found.get("protocol", {}).get("started_from", encoder) != encoder:
        return
    headline = found["metrics"][0]
    others = {name: each[headline] for name, each in found.items() if _is_score(each, headline)}
    spread = found["spread"]["pretrained"]["dev"][headline]
    over = "" if spread["min"] == spread["max"] else f"{_number(spread['min'])} to {_number(spread['max'])}"
    yield name, headline, _number(others.pop("pretrained")), over, _beside(others)


def _is_score(value: Any, metric: str) -> bool:
    return isinstance(value, dict) and isinstance(value.get(metric), float | int)


def _beside(others: dict[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_number(value)}" for name, value in others.items())


def _number(value: float) -> str:
    return f"{value:.4f}"
