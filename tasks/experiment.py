"""The experiment of MLflow that the runs of this tree belong to, and how its pages are linked."""

import os

EXPERIMENT = "bert-pretraining"
VIEW = "workflowType=machine_learning"
"""Behind a link to MLflow's pages: a browser that is there for the first time shows those of language models'
applications else, whatever the experiment's kind."""


def experiment_name() -> str:
    """Of all runs of this tree."""
    return os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
