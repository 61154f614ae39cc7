"""Tasks of params.yaml on any model directory, without pre-training: a Prefect flow in a git worktree of its own."""

import json
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.runtime import flow_run
from prefect.states import State

from bertcore.evaluation.systems import MAJORITY, PRETRAINED_WEIGHTS, RANDOM_WEIGHTS
from bertcore.files import replace_directory
from flows.environment import ROOT
from flows.finetune_parameters import SCORES, chosen_tasks, model_directory
from flows.pipeline import THREADS, bring_up_to_date, concluded, holder
from flows.trees import run_tree
from tasks.links import write_note
from tasks.params import read, task_entries
from tasks.paths import CORPUS, DERIVED, FINETUNED, PRETRAINED
from tasks.reporting.document import Table, percent
from tasks.reporting.rendering import markdown_table

_COLUMNS = {RANDOM_WEIGHTS: "Random", PRETRAINED_WEIGHTS: "Fine-tuned"}
"""Key in metrics/finetune/TASK.json -> the table's column."""


@flow(name="finetune-flow", task_runner=THREADS, persist_result=False)
def finetune_flow(
    model: str = str(PRETRAINED), tasks: list[str] | None = None, params: dict[str, Any] | None = None
) -> State[None]:
    """Fine-tune and evaluate `model` on `tasks` of params.yaml; models, predictions and scores as by stage `finetune`.

    `model`: a Hugging Face directory of an architecture that bertcore has, relative to the tree or absolute. `tasks`:
    names in finetune.tasks; None: all. `params`: dotted keys of params.yaml with other values. The results become the
    branch `runs/NAME`, the scores a table among the artifacts.
    """
    return concluded(lambda: _finetune(model, tasks, params or {}))


def _finetune(model: str, tasks: list[str] | None, params: dict[str, Any]) -> State[None]:
    directory = model_directory(model)
    names = chosen_tasks(tasks)
    # The tree of the run has fine-tuned models of its own, which its stages write. Params take no `~`.
    written_there = directory.is_relative_to((ROOT / FINETUNED).resolve())
    start = str(directory) if written_there or model.startswith("~") else model
    changes = {f"finetune.tasks.{name}.init_from": start for name in names} | params
    name = str(flow_run.name)
    with run_tree(changes, holder(), run=str(flow_run.id), again=flow_run.run_count > 1) as tree:
        without = ["pretrain"]
        if directory != (ROOT / PRETRAINED).resolve():
            _leave_out(tree.root / PRETRAINED)
        if not _read_the_corpus(tree.root, names):
            without.append("corpus")
            _leave_out(tree.root / CORPUS)
        done = bring_up_to_date(tree.root, [f"finetune@{task}" for task in names], without=without)
        table = "\n\n".join(markdown_table(scores(tree.root / "metrics" / "finetune", names)))
        create_markdown_artifact(table, key=SCORES, description=f"{model}, fine-tuned by {name}")
        branch = tree.keep(name, ("dvc.lock",), said=table)  # summary and reports are those of another run
    get_run_logger().info(f"its params.yaml, dvc.lock and scores: git log -1 {branch}")
    return done.completed(branch)


def _leave_out(place: Path) -> None:
    """Have a note stand in a run's tree for what stages depend on and none of the run reads: always the same one, so
    that what was computed with it before is found again, whatever lies in the user's tree."""
    with replace_directory(place) as beside:
        write_note(beside, None)


def _read_the_corpus(root: Path, names: list[str]) -> bool:
    """Whether the examples of a task are made from the corpus of the tree `root`."""
    entries = task_entries(read(root))
    return any(entry.get("data") == DERIVED for name, entry in entries.items() if name in names)


def scores(directory: Path, names: list[str]) -> Table:
    """The tasks' headline metrics, in per cent, beside the majority's and those of random weights."""
    rows = []
    for name in names:
        found = json.loads((directory / f"{name}.json").read_text(encoding="utf-8"))
        metric = found["metrics"][0]
        shown = [found.get(system, {}).get(metric) for system in (MAJORITY, *_COLUMNS)]
        rows.append([name, metric, *("–" if score is None else percent(score) for score in shown)])
    return Table(header=("Task", "Metric", "Majority", *_COLUMNS.values()), rows=rows, left=("Metric",))
