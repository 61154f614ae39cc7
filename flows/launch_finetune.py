"""`make finetune`: tasks of params.yaml on any model directory, without pre-training, to the table of scores.

Runs the deployment of `finetune-flow` as `make pretrain` does that of the pipeline. Exit status: 0 completed,
1 failed or not started, 130 stopped with Ctrl-C.
"""

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from flows.deployment_run import launched, run_deployment
from flows.finetune_parameters import SCORES, chosen_tasks, model_directory
from flows.server import LaunchError
from tasks.paths import FINETUNED

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from rich.console import Console

    from flows.follow import Watched


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m flows.launch_finetune", description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a Hugging Face directory of an architecture that bertcore has")
    parser.add_argument("tasks", nargs="*", help="names in finetune.tasks of params.yaml (all of them)")
    given = parser.parse_args(arguments)
    return launched("make finetune", lambda: _launch(given.model, given.tasks))


def _launch(model: str, tasks: list[str]) -> int:
    try:
        model_directory(model)
        names = chosen_tasks(tasks or None)
    except ValueError as error:
        raise LaunchError(str(error)) from None
    return run_deployment("finetune-flow", {"model": model, "tasks": names}, partial(_show_scores, names))


def _show_scores(names: list[str], client: "SyncPrefectClient", watched: "Watched", console: "Console") -> int:
    """The table of scores that the run has left, and how to fetch the models."""
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterKey
    from rich.markdown import Markdown

    only = ArtifactFilter(
        flow_run_id=ArtifactFilterFlowRunId(any_=[watched.run.id]), key=ArtifactFilterKey(any_=[SCORES])
    )
    for artifact in client.read_artifacts(artifact_filter=only):
        console.print()
        console.print(Markdown(str(artifact.data)))
    _, found, branch = str(watched.state.message).partition("git branch ")
    for task in names if found else ():
        command = f"dvc get . {FINETUNED / task} --rev {branch} --out {task}"
        console.print(f"the model: {command}", markup=False, soft_wrap=True)
    console.print(watched.state.message, markup=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
