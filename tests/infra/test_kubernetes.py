"""infra/kubernetes against the schemas of Kubernetes, its template as a work pool fills it in."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from tests.import_closure import ROOT
from tests.infra.kubernetes import documents, work_pool
from tests.infra.parts import needs_module

needs_module("kubernetes_validate")
import kubernetes_validate  # noqa: E402

VERSION = "1.32"
GIVEN = {"name": "brisk-otter", "command": ["prefect", "flow-run", "execute"], "labels": {"app": "bertcore"}}
"""What Prefect itself says of a flow run."""


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """`{{ name }}` replaced; a text that is nothing else becomes the value itself, and one without a value goes."""
    if isinstance(template, str):
        if whole := re.fullmatch(r"\{\{ (\w+) \}\}", template):
            return values.get(whole[1])
        return re.sub(r"\{\{ (\w+) \}\}", lambda match: str(values[match[1]]), template)
    if isinstance(template, Mapping):
        found = {key: filled(each, values) for key, each in template.items()}
        return {key: each for key, each in found.items() if each is not None}
    return [filled(each, values) for each in template] if isinstance(template, list) else template


@pytest.mark.parametrize("name", ["storage.yaml", "worker.yaml", "jobs.yaml"])
def test_manifests_are_strictly_valid(name: str) -> None:
    for document in documents(name):
        kubernetes_validate.validate(document, VERSION, strict=True)


def test_the_jobs_of_the_work_pool_are_strictly_valid_and_have_the_gpus_and_the_tree() -> None:
    template = work_pool()
    variables = template["variables"]
    Draft202012Validator.check_schema(variables)
    used = set(re.findall(r"\{\{ (\w+) \}\}", json.dumps(template["job_configuration"])))
    assert used == set(variables["properties"])
    defaults = {key: each["default"] for key, each in variables["properties"].items() if "default" in each}
    manifest = filled(template["job_configuration"]["job_manifest"], defaults | GIVEN)
    kubernetes_validate.validate(manifest, VERSION, strict=True)
    assert manifest["spec"]["parallelism"] == manifest["spec"]["completions"] == 1  # which prefect-kubernetes asks for
    pod = manifest["spec"]["template"]["spec"]
    assert pod["containers"][0]["name"] == "prefect-job"  # and that, too
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "bertcore-tree"}
    [claim] = documents("storage.yaml")
    assert claim["metadata"]["name"] == "bertcore-tree"


def test_pods_keep_to_the_restricted_standard() -> None:
    makers = [work_pool()["job_configuration"]["job_manifest"]]
    for name in ("worker.yaml", "jobs.yaml"):
        makers += [each for each in documents(name) if each["kind"] == "Deployment"]
    assert len(makers) == 3
    for maker in makers:
        pod = maker["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        [container] = pod["containers"]
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_every_flow_can_be_sent_to_the_pool_and_finds_the_tree_where_the_jobs_have_it() -> None:
    [container] = work_pool()["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]["containers"]
    ours = YAML(typ="safe").load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))
    [theirs] = documents("prefect.yaml")
    [step] = theirs["pull"]
    assert step == {"prefect.deployments.steps.set_working_directory": {"directory": container["workingDir"]}}
    assert [each["entrypoint"] for each in theirs["deployments"]] == [
        each["entrypoint"] for each in ours["deployments"]
    ]
    assert {each["work_pool"]["name"] for each in theirs["deployments"]} == {"gpus"}
