"""The pipeline on real text and on the tasks that everyone knows: its own encoder beside random weights and baselines.

    python -m benchmarks.tasks [benchmarks/german.yaml --published MODEL] --data DATA --keep

Works in a clone of this repository with FILE as its params.yaml, by `dvc repro`: killed and run again it goes on, task
by task. DATA holds what that file names below `real/`, laid out as the tests' BERTCORE_DATA; MODEL is a directory that
others have published, for tasks that start from it (`init_from: published`). A task may start from what another one of
the same file has learned (`init_from: begun/nli`): that one is trained first.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from benchmarks import results
from benchmarks.clones import make_clone, place_of, repro
from benchmarks.data import prepare
from benchmarks.machine import describe
from benchmarks.options import make_parser
from bertcore.files import replace_directory
from tasks.params import PARAMS, task_entries, values_of
from tasks.paths import FINETUNED, METRICS
from tasks.reporting import results as report
from tasks.reporting.comparison import read_comparison
from tasks.reporting.measurements import Measurements
from tasks.reporting.summary import summarize
from tasks.reporting.task_tables import SECONDS, protocol

HERE = Path(__file__).parent
_ASKED = "asked.yaml"
"""In the clone: FILE, as it was. `params.yaml` has fewer tasks until those have been trained that others begin from."""
_BEGUN = Path("begun")
_OF_PROTOCOL = ("Train", "Dev", "Epochs", SECONDS)


def main() -> None:
    parser = make_parser(__doc__, "--directory")
    parser.add_argument("file", nargs="?", type=Path, default=HERE / "tasks.yaml", help="(benchmarks/tasks.yaml)")
    parser.add_argument("--data", type=Path, required=True, help="the real data sets")
    parser.add_argument("--published", type=Path, help="a model directory of others")
    arguments = parser.parse_args()
    params = arguments.file.read_text(encoding="utf-8")
    clone = place_of(arguments.file, arguments.directory)
    asked = clone / _ASKED
    if make_clone(clone):
        prepare(arguments.data.resolve(), clone, params)
        if arguments.published:
            (clone / "published").symlink_to(arguments.published.resolve())
        asked.write_text(params, encoding="utf-8")
    if not asked.exists() or asked.read_text(encoding="utf-8") != params:
        sys.exit(
            f"{clone}: found the clone of another file than {arguments.file}; remove it, or name another directory"
        )
    _begin(clone, values_of(params, arguments.file))
    (clone / PARAMS).write_text(params, encoding="utf-8")
    repro(clone)
    show(clone, arguments.file.stem, arguments.keep)


def _begin(clone: Path, values: dict[str, Any]) -> None:
    """Train the tasks from whose models others begin, once; the graph of DVC knows no order among tasks."""
    tasks = task_entries(values)
    models = {name: Path(task.get("init_from") or "") for name, task in tasks.items()}
    later = {name: model for name, model in models.items() if model.parent == _BEGUN}
    missing = {model for model in later.values() if not (clone / model).exists()}
    if not missing:
        return
    others = {name: task for name, task in tasks.items() if name not in later}
    values["finetune"]["tasks"] = others
    YAML(typ="safe", pure=True).dump(values, clone / PARAMS)
    repro(clone, *(f"finetune@{model.name}" for model in missing))
    for model in missing:
        with replace_directory(clone / model) as begun:
            shutil.copytree(clone / FINETUNED / model.name, begun, dirs_exist_ok=True)


def show(clone: Path, name: str, keep: bool) -> None:
    """The report's table of results with the protocol of each task, and what it all cost."""
    params = values_of((clone / PARAMS).read_text(encoding="utf-8"), clone / PARAMS)
    measured = Measurements.read(clone / METRICS, list(task_entries(params)))
    trained, timing = measured.numbers("pretrain"), measured.numbers("timing/pretrain")
    pretraining = trained["tokens"] / timing["tokens_per_second"]
    seconds = sum(sum(measured.numbers(f"timing/finetune/{task}", "seconds").values()) for task in measured.tasks)
    facts = {
        **describe(clone),
        "encoder": f"{params['pretrain']['model']['preset']}, {trained['parameters']:,.0f} parameters, "
        f"{trained['steps']:,.0f} steps of {params['pretrain']['batch_size']} sequences, "
        f"{trained['tokens'] / 1e6:,.1f} million tokens of {', '.join(map(str, params['corpus']['sources']))}",
        "params": f"benchmarks/{name}.yaml",
        "cost": f"{pretraining / 60:,.0f} minutes of pre-training on {timing['threads']:.0f} threads, "
        f"{seconds / 60:,.0f} of fine-tuning and evaluation, random initialisation included",
        "scores": "of the dev_file in percent, median and range over the seeds; every task once from the encoder and "
        "once from random weights with the same budget",
    }
    results.show(name, facts, _rows(measured), keep)


def _rows(measured: Measurements) -> list[dict[str, str]]:
    """The report's results; beside those of the tasks, which are the last ones, how each was trained."""
    comparisons = [read_comparison(measured, task) for task in measured.tasks]
    scores = report.results(measured, summarize(measured, comparisons), comparisons)
    protocols = protocol(measured)
    trained = [dict(zip(protocols.header, row, strict=True)) for row in protocols.rows]
    others = [dict.fromkeys(_OF_PROTOCOL, "")] * (len(scores.rows) - len(trained))
    return [
        dict(zip(scores.header, row, strict=True)) | {column: how[column] for column in _OF_PROTOCOL}
        for row, how in zip(scores.rows, [*others, *trained], strict=True)
    ]


if __name__ == "__main__":
    main()
