"""Where each stage leaves what the next one reads. dvc.yaml declares the same paths as deps and outs."""

from pathlib import Path

LOCK = Path("dvc.lock")
DAMAGED_LOCK = (
    f"{LOCK}: not readable, as a process leaves it that is killed while it writes; `git checkout {LOCK}`, or "
    "remove it, and run again: what the cache has is not computed anew"
)

INPUTS = Path("data/inputs")
ENCODERS = INPUTS / "encoders"
TEACHERS = INPUTS / "teachers"
OBJECTIVE = INPUTS / "objective"
"""The models that the options of the objective name, by option."""
VOCABULARY = INPUTS / "vocabulary"
MERGES = VOCABULARY / "merges"
MINIMAL_PAIRS = INPUTS / "minimal_pairs"
EVAL_PAIRS = INPUTS / "eval_pairs"
TEXT = INPUTS / "text.json"
"""`sources` and `language` of section corpus, for the encoder's card and the minimal pairs of its text; without the
section's other keys, whose effect shows in `CORPUS` already."""
CORPUS = Path("data/corpus")
TOKENIZER = Path("models/tokenizer")
SHARDS = Path("data/shards")
INSTANCES = Path("data/instances")
PRETRAINED = Path("models/pretrained")
KEPT = Path("models/checkpoints")
"""The encoders of every `pretrain.keep_every` steps, each in a folder for its step; empty without."""
EXAMPLES = Path("data/examples")
EMBEDDING = Path("models/embedding")
FINETUNED = Path("models/finetuned")
PREDICTIONS = Path("predictions")
METRICS = Path("metrics")
TEXT_OF_SOURCES = METRICS / "sources.json"
"""How much text of each source stands in `CORPUS`, for the cards, too: apart from the counts of what was dropped, which
may change where the text does not."""
REPORTS = Path("reports")
OUTPUTS = (
    *(INPUTS, CORPUS, TOKENIZER, SHARDS, INSTANCES, PRETRAINED, KEPT, EXAMPLES, EMBEDDING, FINETUNED, PREDICTIONS),
    *(METRICS, REPORTS),
)
"""All of them."""

SOURCE = ".source.json"
"""In place of an input that is no local file: its URI, null for one that the parameters do not name, or no stage of a
run reads."""

CHECKPOINTS = Path(".checkpoints")
"""Of shards and trainings that have not finished, or whose end DVC has not recorded; not an output of any stage."""

DERIVED = "corpus"
"""In place of a path, the `data` of a task whose examples are made from the docstrings in `CORPUS`."""
