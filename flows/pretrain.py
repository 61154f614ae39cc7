"""The pipeline of dvc.yaml as a Prefect flow: the same graph, one task per stage, in this tree or beside it."""

from typing import Any

from prefect import flow, get_run_logger
from prefect.runtime import flow_run
from prefect.states import Completed, State

from flows.environment import ROOT
from flows.pipeline import REPORT, THREADS, bring_up_to_date, concluded, holder
from flows.remote import RemoteError
from flows.trees import run_tree
from tasks.experiment import SWEEP


@flow(name="pretrain-flow", task_runner=THREADS, persist_result=False)
def pretrain_flow(
    stages: list[str] | None = None,
    params: dict[str, Any] | None = None,
    commit: str | None = None,
    sweep: str | None = None,
) -> State[None]:
    """Bring the stages of dvc.yaml up to date, each as one task run, independent ones at the same time.

    `stages`: names as `dvc repro` takes them, `finetune` for every `finetune@…` and what they need. None: all.
    `params`: dotted keys of params.yaml with other values, such as {"pretrain.learning_rate": 1e-3}. They are checked
    before anything starts; the run works in a git worktree of its own and its results become the branch `runs/NAME`.
    None: the working tree and its params.yaml as they are.
    `commit`: what the worktree begins as, any name that git knows. None: the tracked files as they stand.
    `sweep`: the name of the sweep to which the run belongs, which `sweep-flow` gives.
    """
    return concluded(lambda: _vary(params or {}, commit, stages, sweep) if params or commit else _here(stages))


def _here(stages: list[str] | None) -> State[None]:
    if unpushed := bring_up_to_date(ROOT, stages).unpushed:
        raise RemoteError(unpushed)
    return Completed()


def _vary(params: dict[str, Any], commit: str | None, stages: list[str] | None, sweep: str | None) -> State[None]:
    """The run with `params` in a worktree, which stays where the run does not come to its end."""
    name, log = str(flow_run.name), get_run_logger()
    with run_tree(params, holder(), commit, run=str(flow_run.id), again=flow_run.run_count > 1) as tree:
        log.info(f"works in {tree.root}; stopped, the same run goes on there")
        done = bring_up_to_date(tree.root, stages, {SWEEP: sweep} if sweep else None)
        # What stages leave that were not among them is of another run, with other parameters.
        curves = ("metrics/curves",) if "pretrain" in done.stages else ()
        branch = tree.keep(name) if REPORT in done.stages else tree.keep(name, ("dvc.lock", *curves))
    log.info(f"its params.yaml, dvc.lock and results: git branch {branch}")
    return done.completed(branch)
