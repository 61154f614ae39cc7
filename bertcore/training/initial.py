"""The model that a pre-training starts from: random weights of a given shape, or a published encoder."""

from pathlib import Path

from tokenizers import Tokenizer

from bertcore.data.shards import Vocabulary
from bertcore.data.wordpiece import TOKENIZER_FILE
from bertcore.errors import ArtifactError
from bertcore.model.bert import BertForPreTraining
from bertcore.model.huggingface import load_config, load_pretrained
from bertcore.training.config import PretrainConfig

VOCABULARY = "vocab.txt"


def initial_model(
    config: PretrainConfig, vocabulary: Vocabulary, tokenizer: Path, published: Path
) -> BertForPreTraining:
    """A model for `vocabulary`; the weights come from the directory `published` where `config.init_from` is given.

    `tokenizer` is the directory of the pipeline's tokenizer. `ArtifactError` where the published model has another
    vocabulary or other sizes than `config.model` asks for.
    """
    if config.init_from is None:
        return BertForPreTraining(config.model.build(vocabulary.size, vocabulary.pad))
    check_vocabulary(published, tokenizer, config.init_from)
    model = BertForPreTraining(config.model.adapt(load_config(published)))
    load_pretrained(model, published)
    return model


def check_vocabulary(published: Path, tokenizer: Path, name: str) -> None:
    """`ArtifactError` unless every id means the same to the model in `published` (called `name`) and the pipeline."""
    remedy = f"set tokenizer.vocab_file to {name}/{VOCABULARY} and tokenizer.lowercase as it was trained"
    entries, size = _entries(tokenizer), load_config(published).vocab_size
    if len(entries) > size:
        raise ArtifactError(
            f"pretrain.init_from: {name}: found a model with vocab_size {size}, expected at least the {len(entries)} "
            f"entries of {tokenizer}; {remedy}"
        )
    theirs = _entries(published)
    for index, (mine, other) in enumerate(zip(entries, theirs, strict=False)):
        if mine != other:
            raise ArtifactError(
                f"pretrain.init_from: {name}: found {other!r} as entry {index}, expected {mine!r} as in "
                f"{tokenizer} ({len(theirs)} and {len(entries)} entries); {remedy}"
            )
    if len(theirs) != len(entries):
        raise ArtifactError(
            f"pretrain.init_from: {name}: found {len(theirs)} entries, expected the {len(entries)} of "
            f"{tokenizer}; {remedy}"
        )


def _entries(directory: Path) -> list[str]:
    """By id, from vocab.txt or tokenizer.json."""
    if (path := directory / VOCABULARY).is_file():
        return path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    if (path := directory / TOKENIZER_FILE).is_file():
        ids = Tokenizer.from_file(str(path)).get_vocab()
        return sorted(ids, key=ids.__getitem__)
    raise ArtifactError(
        f"{directory}: found neither {VOCABULARY} nor {TOKENIZER_FILE}, expected one, to see that every id means the "
        "same there and here; copy it there from where the model is from"
    )
