"""The held-out loss of a variant on sequences that are the same for all: whatever its own are made of, and how long.

    python -m tasks.comparing.held_out

In the tree of a variant that is pre-trained. Prints JSON: `mlm_loss`, in nats per masked token.
"""

import json
from pathlib import Path

from bertcore.instances.config import MaskConfig
from bertcore.instances.sources import DrawnInstances
from bertcore.model.config import build_pretraining
from bertcore.model.huggingface import load_config, load_pretrained
from bertcore.objectives.pretraining import build_objective
from bertcore.shards.store import Manifest, TokenShard
from bertcore.tokens.tokenizer import Vocabulary, load_tokenizer
from bertcore.training.control import Control
from bertcore.training.held_out import HeldOut
from bertcore.training.machine import make_accelerator
from bertcore.training.step import WithObjective
from tasks.paths import PRETRAINED, SHARDS, TOKENIZER

LENGTH, TOKENS = 128, 2**18


def measure(directory: Path, shards: Path, tokenizer: Path, length: int = LENGTH) -> dict[str, float]:
    """Of the model in `directory`, which predicts masked tokens, on full sentences of the held-out shards, `length`
    tokens at once or as many as the model reads."""
    model = build_pretraining(load_config(directory))
    load_pretrained(model, directory)
    length = min(length, model.config.max_sequence_length)
    config = MaskConfig(packing="full_sentences", sequence_length=length, duplicates=0, seed=1).held_out
    vocabulary = Vocabulary.of(load_tokenizer(tokenizer))
    names = [entry.name for entry in Manifest.read(shards).of_split("heldout")]
    sources = [DrawnInstances.of(TokenShard.open(shards / name), name, 0, config, vocabulary) for name in names]
    accelerator = make_accelerator()
    module = WithObjective(model, build_objective("mlm", model)).to(accelerator.device)
    held_out = HeldOut(sources, TOKENS // length, accelerator, Control(1), "pretrain.model.preset")
    return {"mlm_loss": held_out.evaluate(module, {"mlm": 1.0}, 0, lambda: None)["eval/mlm_loss"]}


if __name__ == "__main__":
    print(json.dumps(measure(PRETRAINED, SHARDS, TOKENIZER)))
