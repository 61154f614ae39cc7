"""The scores that a run of the pipeline has left, as a table for an encoder's card."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertcore.compressed import read_json
from bertcore.errors import InputError
from bertcore.export.card import table

Row = tuple[str, str, str, str, str]


def score_table(metrics: Path) -> str:
    """Markdown: a row for the masked LM, one for the minimal pairs and one for each task, as far as `metrics` has
    them; `InputError` where it has none."""
    rows = [*_pretraining(metrics), *_minimal_pairs(metrics), *_tasks(metrics)]
    if not rows:
        raise InputError(
            f"{metrics}: found no pretrain.json, minimal_pairs.json or finetune/TASK.json, expected the metrics of a "
            "run of the pipeline; give that directory"
        )
    return table([("what", "metric", "this encoder", "over seeds", "beside"), *rows]) + "\n\nOn dev, or held-out text."


def _pretraining(metrics: Path) -> Iterator[Row]:
    if (path := metrics / "pretrain.json").is_file():
        found = read_json(path)
        for name in (name for name, value in found.items() if isinstance(value, float)):
            yield "pre-training", name, _number(found[name]), "", ""


def _minimal_pairs(metrics: Path) -> Iterator[Row]:
    path = metrics / "minimal_pairs.json"
    if path.is_file() and "accuracy" in (found := read_json(path)):
        others = {name: each["accuracy"] for name, each in found["systems"].items() if name != "model"}
        yield "minimal pairs", "accuracy", _number(found["accuracy"]), "", _beside(others)


def _tasks(metrics: Path) -> Iterator[Row]:
    for path in sorted((metrics / "finetune").glob("*.json")):
        found = read_json(path)
        headline = found["metrics"][0]
        others = {name: each[headline] for name, each in found.items() if _is_score(each, headline)}
        spread = found["spread"]["pretrained"]["dev"][headline]
        over = "" if spread["min"] == spread["max"] else f"{_number(spread['min'])} to {_number(spread['max'])}"
        yield path.stem, headline, _number(others.pop("pretrained")), over, _beside(others)


def _is_score(value: Any, metric: str) -> bool:
    return isinstance(value, dict) and isinstance(value.get(metric), float | int)


def _beside(others: dict[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_number(value)}" for name, value in others.items())


def _number(value: float) -> str:
    return f"{value:.4f}"
