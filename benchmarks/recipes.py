"""Recipes side by side: one text, one change at a time, all judged on the same held-out text at fixed 15 % masks.

    python -m benchmarks.recipes benchmarks/recipes-default.yaml --keep

A file of trials has `base`, values of params.yaml by dotted name that every trial has, `trials`, those of each trial
by its name, `seeds`, of the pre-training, and perhaps `tasks`, entries of `finetune.tasks`. A trial is a run of the
graph as far as the zero-shot scores and those tasks, in a clone of this repository: what was run before is taken from
DVC's cache, so that the command, killed, goes on where it was. A file that names `real/` or `prepared/` asks for
--data, as `benchmarks.tasks` does.
"""

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.clones import make_clone, repro, restore_params, vary_params
from benchmarks.machine import describe
from benchmarks.options import make_parser
from benchmarks.tasks import prepare
from tasks.params import values_of


@dataclass(frozen=True)
class Outcome:
    """What a trial came to with one seed."""

    tokens: int
    minutes: float
    """Of training alone: without evaluation, checkpoints and start-up."""
    loss: float
    accuracy: float
    pairs: float
    """Minimal pairs, percent."""
    tasks: Mapping[str, Mapping[str, float]]
    """Task and metric -> percent by what was trained: the encoder, random weights, the simple baseline."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("trials", type=Path, help="a file of trials")
    parser.add_argument("--data", type=Path, help="the real data sets")
    parser.add_argument("--directory", type=Path, help="the clone (.benchmarks/NAME_OF_FILE)")
    arguments = parser.parse_args()
    text = arguments.trials.read_text(encoding="utf-8")
    wanted, names_data = values_of(text, arguments.trials), "real/" in text or "prepared/" in text
    if names_data and not arguments.data:
        sys.exit(f"{arguments.trials}: names real/ or prepared/, found no --data; give the directory of the real data")
    clone = (arguments.directory or Path(".benchmarks") / arguments.trials.stem).resolve()
    if make_clone(clone) and names_data:
        prepare(arguments.data.resolve(), clone, text)
    rows, references = list[dict[str, str]](), list[dict[str, str]]()
    tasks = wanted.get("tasks", {})
    for name, change in wanted["trials"].items():
        values = {**wanted.get("base", {}), **({"finetune.tasks": tasks} if tasks else {}), **(change or {})}
        seeds = wanted.get("seeds", [1])
        found = [run(clone, {**values, "pretrain.seed": seed}, list(tasks)) for seed in seeds]
        rows.append(_row(name, change or {}, found))
        print(" | ".join(rows[-1].values()), flush=True)
        if tasks and (beside := [_reference_row(system, found[0]) for system in (RANDOM, BASELINE)]) != references:
            references = beside  # those of another architecture or text stand below its own trial
            rows += references
    restore_params(clone)  # the commit that is noted is a clean one
    base = ", ".join(f"{key} {value}" for key, value in wanted.get("base", {}).items())
    command = f"python -m benchmarks.recipes {arguments.trials}" + (" --data DATA" if arguments.data else "")
    facts = {**describe(clone), "every trial": base, "repeated by": command}
    results.show(arguments.trials.stem, facts, rows, arguments.keep)


def run(clone: Path, values: Mapping[str, Any], tasks: Sequence[str] = ()) -> Outcome:
    """Pre-train, score and fine-tune with `values` over the committed params."""
    vary_params(clone, values)
    repro(clone, "minimal_pairs", *(f"finetune@{task}" for task in tasks), quiet=True)

    def read(name: str) -> dict[str, Any]:
        return json.loads((clone / "metrics" / name).read_text(encoding="utf-8"))

    trained, timing = read("pretrain.json"), read("timing/pretrain.json")
    minutes = trained["tokens"] / timing["tokens_per_second"] / 60
    pairs = 100 * read("minimal_pairs.json")["accuracy"]
    scores = dict(_of_task(task, read(f"finetune/{task}.json")) for task in tasks)
    return Outcome(trained["tokens"], minutes, trained["mlm_loss"], 100 * trained["mlm_accuracy"], pairs, scores)


ENCODER, RANDOM, BASELINE = "pre-trained", "random weights", "simple baseline"


def _of_task(task: str, found: Mapping[str, Any]) -> tuple[str, dict[str, float]]:
    """The column of a task, and its headline metric in percent by what was trained."""
    metric = found["metrics"][0]
    systems = {
        ENCODER: "pretrained",
        RANDOM: "random_initialisation",
        BASELINE: found["comparison"]["baseline"]["name"],
    }
    return f"{task}, {metric}", {system: 100 * found[key][metric] for system, key in systems.items()}


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
        **{task: spread([one.tasks[task][ENCODER] for one in found], 1) for task in found[0].tasks},
    }


def _reference_row(system: str, found: Outcome) -> dict[str, str]:
    """What the tasks come to without an encoder."""
    return {"trial": system} | {task: f"{scores[system]:.1f}" for task, scores in found.tasks.items()}


if __name__ == "__main__":
    main()
