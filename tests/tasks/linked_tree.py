"""A tree whose params.yaml names files of every kind, as stage `inputs` leaves it."""

from pathlib import Path

from tasks import params
from tasks.links import link, named

PARAMS = """
corpus:
  sources: [pydoc, texts, {uri: "law-*.txt"}, "https://host/a.txt"]
  contamination: {texts: [dev]}
  exclude: excluded.txt
tokenizer: {vocab_file: model/vocab.json, merges_file: model/merges.txt}
pretrain:
  {init_from: model, objective: distillation, objective_options: {teacher: model}, eval_pairs: {pairs: pairs}}
minimal_pairs: {pairs: [pairs]}
embed: {pairs: anchors}
finetune:
  tasks:
    own: {data: own, format: table, init_from: model, distillation: {teacher: model}}
    derived: {data: corpus, format: pydoc/topic}
"""
FILES = (
    "requirements.lock",
    "model/config.json",
    "model/vocab.json",
    "model/merges.txt",
    "texts/a.txt",
    "texts/deep/b.txt",
    "law-1.txt",
    "dev/a.tsv",
    "excluded.txt",
    "pairs/a.jsonl",
    "anchors/a.jsonl",
    "own/train.tsv",
)


def link_tree() -> None:
    """Make it of the working directory."""
    Path("params.yaml").write_text(PARAMS)
    for name in FILES:
        write(name)
    for each in named(params.read()):
        link(each, each.place)


def write(name: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(name)
