"""The stages that the flow sees are the ones that DVC sees."""

import subprocess
import sys
from pathlib import Path

import pytest

from flows.graph import GraphError, Stage, read_graph, select, unchanged
from tests.flows.conftest import Tree

ROOT = Path(__file__).resolve().parents[2]


def test_matrix_stages_are_expanded_and_sorted_with_their_meta(tree: Tree) -> None:
    assert read_graph(tree.root) == [
        Stage(name="corpus"),
        Stage(name="pretrain", upstream=("corpus",), meta={"retries": 1, "retry_delay_seconds": 0}),
        Stage(name="finetune@topic", upstream=("pretrain",)),
        Stage(name="finetune@qa", upstream=("pretrain",)),
        Stage(name="report", upstream=("finetune@qa", "finetune@topic")),
    ]


def test_the_projects_own_graph_has_every_parent_before_its_child() -> None:
    seen: set[str] = set()
    for stage in read_graph(ROOT):
        assert seen.issuperset(stage.upstream), stage
        seen.add(stage.name)
    assert {"corpus", "pretrain", "report"} <= seen


def test_selected_stages_bring_what_they_need(tree: Tree) -> None:
    stages = read_graph(tree.root)
    assert [stage.name for stage in select(stages, ["finetune@qa"])] == ["corpus", "pretrain", "finetune@qa"]
    assert len(select(stages, ["finetune"])) == 4
    assert select(stages, None) == stages
    with pytest.raises(GraphError, match="'finetune@qo' is not a stage.*did you mean 'finetune@qa'"):
        select(stages, ["finetune@qo"])


def test_unchanged_are_the_stages_that_dvc_would_skip(tree: Tree) -> None:
    stages = read_graph(tree.root)
    assert unchanged(tree.root, stages) == set()
    command = [sys.executable, "-m", "dvc", "repro"]
    subprocess.run(command, cwd=tree.root, env=tree.environment, check=True, capture_output=True)
    assert unchanged(tree.root, stages) == {stage.name for stage in stages}
    tree.edit("params.yaml", "learning_rate: 0.1", "learning_rate: 0.2")
    assert unchanged(tree.root, stages) == {"corpus"}
    (tree.root / "data" / "corpus.txt").unlink()
    assert unchanged(tree.root, stages) == set()


def test_a_broken_pipeline_file_is_one_line(tree: Tree) -> None:
    tree.edit("dvc.yaml", "params: [corpus]", "params: [corpus")
    with pytest.raises(GraphError, match="^dvc.yaml: .+$") as error:
        read_graph(tree.root)
    assert "\n" not in str(error.value)


def test_tasks_that_are_no_mapping_are_one_line(tree: Tree) -> None:
    text = (tree.root / "params.yaml").read_text()
    (tree.root / "params.yaml").write_text(text[: text.index("finetune:")] + "finetune: {tasks: null}\n")
    with pytest.raises(
        GraphError, match=r"^params\.yaml: finetune\.tasks: found nothing \(null\), .* `finetune: \{tasks: \{\}\}`"
    ):
        read_graph(tree.root)


@pytest.mark.parametrize("size", [0, 7, 10, 60, 66])
def test_a_lock_that_was_cut_off_is_named_with_its_remedy(tree: Tree, size: int) -> None:
    whole = "schema: '2.0'\nstages:\n  corpus:\n    cmd: 'true'\n    outs:\n    - path: data\n      md5: 1\n"
    (tree.root / "dvc.lock").write_text(whole[:size])
    with pytest.raises(GraphError, match="^dvc.lock: not readable.*`git checkout dvc.lock`, or remove it"):
        unchanged(tree.root, read_graph(tree.root))
