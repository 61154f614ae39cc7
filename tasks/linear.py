"""Is a fine-tuned encoder better than a linear model with features made by hand, learned from the same examples?

    python -m tasks.linear [TASK ...] [--json FILE]

In a tree with what the stages `examples` and `finetune` left of these tasks; without names, of all that there are.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertcore.errors import ArtifactError, InputError
from bertcore.evaluation.bootstrap import Difference, compare, scores
from bertcore.evaluation.per_example import RECORDS_FILE, Records, Units
from bertcore.evaluation.scoring import units
from bertcore.evaluation.systems import MAJORITY, PRETRAINED_WEIGHTS, RANDOM_WEIGHTS, SYSTEMS
from bertcore.examples import schema
from bertcore.examples.schema import ExampleSet
from bertcore.files import write_json
from bertcore.finetune.config import RunConfig
from bertcore.finetune.family import CHOICE
from bertcore.finetune.training_rows import training_rows
from bertcore.linear.run import predict, refusal
from tasks.paths import EXAMPLES, METRICS, PREDICTIONS
from tasks.reporting.comparison import FEWEST_EXAMPLES, readable
from tasks.reporting.document import NOTHING, Table, percent, signed
from tasks.reporting.rendering import markdown_table
from tasks.status import exit_status


@dataclass(frozen=True, kw_only=True)
class Beside:
    """The scores of one task on its dev examples by its headline metric: of each system the mean over its seeds."""

    metric: str
    baseline_name: str
    """The best of the simple baselines."""
    baseline: float
    linear: float
    random_initialisation: float | None
    """None where the task was not trained from random weights."""
    pretrained: float
    lead: Difference
    """Of the pre-trained encoder over the linear model."""
    train_examples: int
    dev_examples: int

    @property
    def verdict(self) -> str:
        if self.dev_examples < FEWEST_EXAMPLES:
            return "too few examples"
        return "better" if self.lead.low > 0 else "linear better" if self.lead.high < 0 else "as good"


def beside(name: str, examples: ExampleSet) -> Beside:
    """A linear model, learned from `examples` as the encoder saw them, beside what the stage `finetune` has recorded;
    `ArtifactError` where both are not of the same examples."""
    path, metric, dev = PREDICTIONS / name / RECORDS_FILE, examples.metrics_of("dev")[0], examples.splits["dev"]
    records = Records.read(path)
    if records.ids != dev["id"].to_pylist():
        raise ArtifactError(
            f"{path}: found other examples than in {EXAMPLES / name}, expected its dev; run `dvc repro finetune@{name}`"
        )
    kind, linear = units(examples, dev, predict(examples), metric)
    found = {system: _mean(kind, runs) for system, runs in records.runs.items()}
    simple = {system: value for system, value in found.items() if system not in SYSTEMS}
    best = max(simple or {MAJORITY: 0.0}, key=found.__getitem__)
    return Beside(
        metric=metric,
        baseline_name=best,
        baseline=found[best],
        linear=_mean(kind, [linear]),
        random_initialisation=found.get(RANDOM_WEIGHTS),
        pretrained=found[PRETRAINED_WEIGHTS],
        lead=compare(kind, records.runs[PRETRAINED_WEIGHTS], [linear]),
        train_examples=examples.splits["train"].num_rows,
        dev_examples=dev.num_rows,
    )


def _mean(metric: str, runs: Sequence[Units]) -> float:
    return float(np.mean([scores(metric, each, np.ones((1, len(each)))) for each in runs]))


def read(name: str) -> ExampleSet:
    """The examples of a task, of train those alone that the encoder was trained on."""
    examples, path = schema.read(EXAMPLES / name), METRICS / "finetune" / f"{name}.json"
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
        limits = {key: metrics["protocol"][key] for key in ("max_train_examples", "choice_fraction")}
        task = RunConfig(format=metrics["format"], data=str(EXAMPLES / name), **limits)
        keeps_back, count = CHOICE in metrics["counts"], metrics["train_examples"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(
            f"{path}: not readable ({error}), expected what stage finetune says of its training; run `dvc repro "
            f"finetune@{name}`"
        ) from None
    train = training_rows(examples.splits["train"], task, keeps_back=keeps_back)["train"]
    if train.num_rows != count:
        raise ArtifactError(
            f"{path}: found {count} training examples, expected the {train.num_rows} of {EXAMPLES / name}; run `dvc "
            f"repro finetune@{name}`"
        )
    return replace(examples, splits=examples.splits | {"train": train})


def read_all(names: Sequence[str]) -> dict[str, ExampleSet]:
    """The examples of the tasks `names`, or without names of all that have predictions and a linear model; of the
    others the standard error says why not. `InputError` where there are none, or a named one has no linear model."""
    chosen = names or sorted(path.parent.name for path in PREDICTIONS.glob(f"*/{RECORDS_FILE}"))
    found = {}
    for name in chosen:
        examples = read(name)
        if (reason := refusal(examples)) is None:
            found[name] = examples
        elif names:
            raise InputError(f"task {name}: {reason}")
        else:
            print(f"without {name}: {reason}", file=sys.stderr)
    if not found:
        raise InputError(
            f"{PREDICTIONS}: found no task with {RECORDS_FILE} and a linear model, expected one; run `dvc repro "
            "finetune` in the project's root"
        )
    return found


def table(found: dict[str, Beside]) -> Table:
    """A row for each task."""
    rows = [
        [
            *(name, readable(each.metric), f"{percent(each.baseline)} {readable(each.baseline_name)}"),
            *(percent(each.linear), NOTHING if (random := each.random_initialisation) is None else percent(random)),
            *(percent(each.pretrained), _interval(each.lead), each.verdict),
        ]
        for name, each in found.items()
    ]
    header = ["Task", "Metric", "Simple baseline", "Linear", "Random", "Pre-trained", "Pre-trained − linear", "Verdict"]
    return Table(header=header, rows=rows, left=("Metric", "Verdict"))


def _interval(lead: Difference) -> str:
    middle, low, high = (signed(100 * value, 1) for value in (lead.difference, lead.low, lead.high))
    return f"{middle} ({low} to {high})"


def run(names: Sequence[str], file: Path | None) -> None:
    """Print the table, and write `file`."""
    if file is not None and not file.parent.is_dir():
        raise InputError(f"--json {file}: found no directory {file.parent}, expected one; make it")
    found = {name: beside(name, examples) for name, examples in read_all(names).items()}
    print("\n".join(markdown_table(table(found))))
    if file is not None:
        write_json(file, {name: _as_json(each) for name, each in found.items()})


def _as_json(each: Beside) -> dict[str, Any]:
    return {**asdict(each), "verdict": each.verdict}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tasks.linear", description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="of the tree's params.yaml (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the same as JSON, in shares")
    options = parser.parse_args(arguments)
    return exit_status(lambda: run(options.tasks, options.json))


if __name__ == "__main__":
    sys.exit(main())
