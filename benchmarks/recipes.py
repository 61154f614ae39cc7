"""Recipes side by side: one text, one change at a time, all judged on the same held-out text at fixed 15 % masks.

    python -m benchmarks.recipes benchmarks/recipes-default.yaml --keep

A file of trials has `base`, values of params.yaml by dotted name that every trial has, `trials`, those of each trial
by its name, `seeds`, of the pre-training, and perhaps `tasks`, entries of `finetune.tasks`. A trial is a run of the
graph as far as the zero-shot scores and those tasks, in a clone of this repository: what was run before is taken from
DVC's cache, so that the command, killed, goes on where it was. A file that names `real/` or `prepared/` asks for
--data, as `benchmarks.tasks` does.
"""

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import data, results
from benchmarks.clones import make_clone, place_of, repro, restore_params, vary_params
from benchmarks.machine import describe
from benchmarks.options import make_parser
from tasks.params import values_of
from tasks.paths import METRICS
from tasks.reporting.comparison import Comparison, read_comparison
from tasks.reporting.measurements import Measurements


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a trial came to with one seed."""

    tokens: float
    minutes: float
    """Of training alone: without evaluation, checkpoints and start-up."""
    loss: float
    accuracy: float
    pairs: float
    """Minimal pairs, percent."""
    tasks: Mapping[str, Comparison]
    """By the task and its metric, which head its column."""


def main() -> None:
    parser = make_parser(__doc__, "--directory")
    parser.add_argument("trials", type=Path, help="a file of trials")
    parser.add_argument("--data", type=Path, help="the real data sets")
    arguments = parser.parse_args()
    text = arguments.trials.read_text(encoding="utf-8")
    wanted = values_of(text, arguments.trials)
    if data.is_named_in(text) and not arguments.data:
        sys.exit(f"{arguments.trials}: names real/ or prepared/, found no --data; give the directory of the real data")
    clone = place_of(arguments.trials, arguments.directory)
    if make_clone(clone) and arguments.data:
        data.prepare(arguments.data.resolve(), clone, text)
    rows, references = list[dict[str, str]](), list[dict[str, str]]()
    tasks = wanted.get("tasks", {})
    for name, change in wanted["trials"].items():
        values = {**wanted.get("base", {}), **({"finetune.tasks": tasks} if tasks else {}), **(change or {})}
        seeds = wanted.get("seeds", [1])
        found = [run(clone, {**values, "pretrain.seed": seed}, list(tasks)) for seed in seeds]
        rows.append(_row(name, change or {}, found))
        print(" | ".join(rows[-1].values()), flush=True)
        if tasks and (beside := _references(found[0])) != references:
            references = beside  # those of another architecture or text stand below its own trial
            rows += references
    restore_params(clone)  # the commit that is noted is a clean one
    base = ", ".join(f"{key} {value}" for key, value in wanted.get("base", {}).items())
    command = f"python -m benchmarks.recipes {arguments.trials}" + (" --data DATA" if arguments.data else "")
    facts = {**describe(clone), "every trial": base, "repeated by": f"`{command}`"}
    results.show(arguments.trials.stem, facts, rows, arguments.keep)


def run(clone: Path, values: Mapping[str, Any], tasks: Sequence[str] = ()) -> Outcome:
    """Pre-train, score and fine-tune with `values` over the committed params."""
    vary_params(clone, values)
    repro(clone, "minimal_pairs", *(f"finetune@{task}" for task in tasks), quiet=True)
    measured = Measurements.read(clone / METRICS, tasks)
    trained = measured.numbers("pretrain")
    comparisons = [read_comparison(measured, task) for task in tasks]
    return Outcome(
        tokens=trained["tokens"],
        minutes=trained["tokens"] / measured.number("timing/pretrain", "", "tokens_per_second") / 60,
        loss=trained["mlm_loss"],
        accuracy=100 * trained["mlm_accuracy"],
        pairs=100 * measured.number("minimal_pairs", "", "accuracy"),
        tasks={f"{each.task}, {each.metric}": each for each in comparisons},
    )


def _row(name: str, change: Mapping[str, Any], found: list[Outcome]) -> dict[str, str]:
    def spread(values: list[float], digits: int) -> str:
        middle = f"{statistics.median(values):.{digits}f}"
        low, high = min(values), max(values)
        return middle if len(values) == 1 else f"{middle} ({low:.{digits}f} to {high:.{digits}f})"

    return {
        "trial": name,
        "change": ", ".join(f"{key} {value}" for key, value in change.items()) or "none",
        "tokens": f"{statistics.median(one.tokens for one in found) / 1e6:.1f} M",
        "minutes": spread([one.minutes for one in found], 1),
        "held-out MLM loss": spread([one.loss for one in found], 3),
        "accuracy": spread([one.accuracy for one in found], 1),
        "minimal pairs": spread([one.pairs for one in found], 1),
        **{task: spread([100 * one.tasks[task].pretrained for one in found], 1) for task in found[0].tasks},
    }


def _references(found: Outcome) -> list[dict[str, str]]:
    """What the tasks come to without an encoder: a row of random weights, and one of the best simple baselines."""
    scores: dict[str, dict[str, float | None]] = {
        "random weights": {task: each.random_initialisation for task, each in found.tasks.items()},
        "simple baseline": {task: each.simple for task, each in found.tasks.items()},
    }
    return [
        {"trial": system} | {task: f"{100 * score:.1f}" for task, score in by_task.items() if score is not None}
        for system, by_task in scores.items()
    ]


if __name__ == "__main__":
    main()
