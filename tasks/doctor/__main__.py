"""`python -m tasks.doctor`: whether this machine and this tree can do what params.yaml asks for.

Changes nothing, but removes what killed stages have left half-written. Prints the findings as JSON, for `flows.doctor`,
which adds what it knows of DVC and Prefect.
"""

import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from bertcore.corpus.sources.pydoc.source import LOCK
from bertcore.errors import BertcoreError
from bertcore.recipes.recipe import departures
from tasks import params
from tasks.doctor import artifacts, loss, machine, places, vocabulary
from tasks.doctor.findings import Finding, dump, fail, ok, warn
from tasks.doctor.plan import Plan


def examine(stages: Collection[str] = ()) -> list[Finding]:
    """All findings, in the order in which a person would look; where `stages` are given, of a run of these alone."""
    findings = [
        _safely("versions", partial(machine.check_versions, LOCK)),
        _safely("devices", machine.check_devices),
        _safely("variables", machine.check_variables),
    ]
    sources: list[str] = []
    try:
        plan = Plan.read(params.read())
        findings.append(check_recipe(params.written()))
    except BertcoreError as error:
        # Where stage inputs is up to date, it has taken them, on the machine that has the files which they name.
        taken = bool(stages) and "inputs" not in stages
        finding = of_error("params", error)
        findings.append(replace(finding, level="warn") if taken else finding)
    else:
        sources = [*plan.configs["corpus"].uris, *(task.data for task in plan.tasks.values())]
        findings.append(check_params(plan))
        for name, check in PLANNED.items():
            if stages and "pretrain" not in stages and name in OF_PRETRAINING:
                continue
            findings.append(_safely(name, partial(check, plan)))
    findings.append(_safely("shards", artifacts.check_shards))
    findings.append(_safely("links", partial(artifacts.check_links, not stages or "inputs" in stages)))
    findings.append(artifacts.clear_leftovers())
    findings.append(places.check_places(sources))
    findings.append(places.check_tracking())
    return findings


PLANNED: dict[str, Callable[[Plan], Finding]] = {
    "memory": machine.check_memory,
    "disk": places.check_disk,
    "time": machine.check_time,
    "loss": loss.check_loss,
    "heldout": loss.check_heldout,
    "vocabulary": vocabulary.check_vocabularies,
    "entries": vocabulary.check_vocabulary_size,
}
"""Checks of the training that params.yaml asks for."""
OF_PRETRAINING = ("memory", "time", "loss", "heldout")
"""Those of them that are of stage `pretrain` alone."""


def of_error(name: str, error: BertcoreError) -> Finding:
    """An error made for the user, whose last part is the remedy."""
    text, _, remedy = str(error).rpartition("; ")
    return fail(name, text or remedy, remedy if text else "correct it")


def _safely(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except BertcoreError as error:
        return of_error(name, error)
    except torch.OutOfMemoryError:
        text, remedy = "cannot be measured: the GPU has no memory left", "ask again when its other work has ended"
        return warn(name, text, remedy)


def check_recipe(written: Mapping[str, Any]) -> Finding:
    """Which values are the recipe's, and which are the file's own: a recipe's rate is for its number of sequences."""
    if (name := written.get("recipe")) is None:
        return ok("recipe", "none: the plain defaults, where params.yaml gives no value")
    found = departures(written)
    if not found:
        return ok("recipe", f"{name}, with every value of its own")
    own = ", ".join(f"{key} {_said(given)} ({_said(recipes)})" for key, (given, recipes) in found.items())
    text = f"{name}, but for what params.yaml gives (and the recipe would): {own}"
    if "pretrain.batch_size" in found and "pretrain.learning_rate" not in found:
        text += "; its learning rate is for its own batch_size"
    return ok("recipe", text)


def _said(value: Any) -> str:
    return "null" if value is None else "another" if isinstance(value, Mapping) else str(value)


def check_params(plan: Plan) -> Finding:
    config = plan.configs["pretrain"]
    shape = f"{plan.encoder.num_hidden_layers} layers of {plan.encoder.hidden_size}"
    text = f"params.yaml is sound: {shape}, {config.max_steps:,} steps of {config.batch_size}, {len(plan.tasks)} tasks"
    return ok("params", text)


if __name__ == "__main__":
    os.environ.update(places.ONE_SHORT_TRY)
    print(dump(examine(sys.argv[1:])))
