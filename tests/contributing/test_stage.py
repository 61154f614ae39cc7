"""A stage from outside the project: the lengths of the corpus' sentences. A module in `tasks/`, an entry in dvc.yaml, a
section in params.yaml with its row in `SECTIONS`."""

import json

import pytest
from ruamel.yaml import YAML

from flows.graph import read_graph
from tests.test_end_to_end import PARAMS, Tree, dvc, make_project, write_params

MODULE = '''
"""Stage `lengths`: corpus -> how many sentences have how many words."""

import sys
from collections import Counter
from dataclasses import dataclass

from bertcore.corpus.documents import corpus_shards, read_sentences
from bertcore.files import write_json
from tasks import params
from tasks.paths import CORPUS, METRICS
from tasks.stage import main
from tasks.tracking.runs import StageRun


@dataclass(frozen=True, kw_only=True)
class LengthsConfig:
    """Section `lengths` of params.yaml."""

    longest: int = 20
    """Words from which on sentences are counted together."""


def run(stage_run: StageRun) -> None:
    longest = params.section("lengths", LengthsConfig).longest
    counts: Counter[int] = Counter()
    for documents in read_sentences(corpus_shards(CORPUS, "train")):
        counts.update(min(len(sentence.split()), longest) for sentences in documents for sentence in sentences)
    write_json(METRICS / "lengths.json", {str(words): count for words, count in sorted(counts.items())})
    stage_run.log_metrics({"sentences": counts.total()})


if __name__ == "__main__":
    sys.exit(main("lengths", run, configs={"lengths": LengthsConfig}))
'''

STAGE = {
    "cmd": "python -m tasks.lengths",
    "deps": ["bertcore/corpus/documents.py", "data/corpus", "tasks/lengths.py"],
    "params": ["lengths"],
    "outs": ["metrics/lengths.json"],
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    tree = make_project(tmp_path_factory.mktemp("stage"))
    (tree.root / "tasks/lengths.py").write_text(MODULE.lstrip())
    sections = tree.root / "tasks/sections.py"
    code = sections.read_text().replace("SECTIONS = {", 'SECTIONS = {\n    "lengths": LengthsConfig,')
    sections.write_text(code.replace("from tasks.paths", "from tasks.lengths import LengthsConfig\nfrom tasks.paths"))
    yaml = YAML()
    graph = yaml.load((tree.root / "dvc.yaml").read_text())
    graph["stages"]["inputs"]["params"].append("lengths")
    graph["stages"]["lengths"] = STAGE
    with (tree.root / "dvc.yaml").open("w") as file:
        yaml.dump(graph, file)
    write_params(tree.root, {**PARAMS, "lengths": {"longest": 6}})
    return tree


def test_it_runs_in_its_place_and_is_tracked(tree: Tree) -> None:
    done = dvc(tree, "repro", "lengths")
    assert done.returncode == 0, done.stdout + done.stderr
    lengths = json.loads((tree.root / "metrics/lengths.json").read_text())
    sentences = json.loads((tree.root / "metrics/corpus.json").read_text())["train"]["sentences"]
    assert sum(lengths.values()) == sentences and max(map(int, lengths)) == 6
    assert "Stage 'lengths' didn't change" in dvc(tree, "repro", "lengths").stdout


def test_the_flow_finds_it_below_its_parent(tree: Tree) -> None:
    assert {stage.name: stage.upstream for stage in read_graph(tree.root)}["lengths"] == ("corpus",)


def test_its_section_is_strict(tree: Tree) -> None:
    write_params(tree.root, {**PARAMS, "lengths": {"longst": 6}})
    done = dvc(tree, "repro", "inputs")
    assert "params.yaml: lengths: unknown key 'longst'; did you mean 'longest'" in done.stdout + done.stderr
