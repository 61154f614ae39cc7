"""The experiment of MLflow that the runs of this tree belong to, how its pages are linked, and the variables that tell
a stage its pipeline run and its sweep."""

import os

EXPERIMENT = "bert-pretraining"
VIEW = "workflowType=machine_learning"
"""Behind a link to MLflow's pages: a browser that is there for the first time shows those of language models'
applications else, whatever the experiment's kind."""

PIPELINE_RUN, PIPELINE_NAME = "BERTCORE_PIPELINE_RUN", "BERTCORE_PIPELINE_NAME"
"""Environment variables by which a flow tells its stages the id and the name of their pipeline run."""
SWEEP = "BERTCORE_SWEEP"
"""Environment variable by which the stages of a sweep know its key, which is the id of its flow run, a blank and its
name."""


def experiment_name() -> str:
    """Of all runs of this tree."""
    return os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
