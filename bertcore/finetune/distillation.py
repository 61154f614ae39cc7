"""A fine-tuned model as the teacher of a smaller one: its logits as targets beside the labels (Hinton et al. 2015).

The loss is `(1 - alpha) * labels + alpha * teacher`. What the second term is, the head family says: with classes the
divergence from the teacher's probabilities at a temperature, times its square; with numbers the squared difference, in
standard deviations of the labels.
"""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer

from bertcore.errors import ArtifactError
from bertcore.finetune.encoder_tokenizer import tokenizer_directory
from bertcore.finetune.family import Family
from bertcore.model.config import architecture_of
from bertcore.model.encoder import EncoderModule
from bertcore.model.huggingface import CRF, load_config, load_pretrained
from bertcore.tokens.tokenizer import by_id, check_entries, load_tokenizer


def load_teacher(directory: Path, name: str, family: Family, tokenizer: Tokenizer) -> EncoderModule:
    """The fine-tuned model in `directory`, which the user calls `name`, for evaluation; `ArtifactError` unless it is of
    the same head family and labels, and every id means to it what it means to the student's `tokenizer`."""
    check_teacher(directory, name, family)
    check_teachers_entries(directory, name, tokenizer)
    config = load_config(directory)
    teacher = family.build(config.with_dropout(0.0, 0.0))
    optional = tuple(f"{architecture_of(config).prefix}.{part}" for part in architecture_of(config).optional)
    if missing := [each for each in load_pretrained(teacher, directory).missing if not each.startswith(optional)]:
        raise ArtifactError(f"{name}: found no tensor for {missing[0]!r}, expected a whole fine-tuned model")
    return teacher.eval().requires_grad_(False)


def check_teacher(directory: Path, name: str, family: Family) -> None:
    """`ArtifactError` unless the model in `directory` was fine-tuned for the same head and labels."""
    raw = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    with torch.device("meta"):
        teacher = family.build(load_config(directory))
    found, expected = raw.get("architectures"), teacher.architecture
    if found != [expected]:
        raise ArtifactError(
            f"{name}/config.json: architectures: found {found}, expected {expected!r} as this task has; give a model "
            "that was fine-tuned for it"
        )
    theirs, mine = raw.get("label2id"), family.exported(teacher).config.get("label2id")
    if family.is_regression and isinstance(theirs, dict) and len(theirs) == 1:
        theirs = mine  # the name of a number, LABEL_0 as transformers saves it, says nothing
    if mine is not None and theirs != mine:
        raise ArtifactError(
            f"{name}/config.json: label2id: found {_short(theirs)}, expected {_short(mine)} as the examples have; give "
            "a model that was fine-tuned for this task"
        )
    if CRF in raw:
        raise ArtifactError(
            f"{name}/config.json: {CRF}: found a model whose tags a chain chooses, which the student does not learn, "
            "expected one without; fine-tune the teacher with crf: false"
        )


def check_teachers_entries(directory: Path, name: str, tokenizer: Tokenizer) -> None:
    """`ArtifactError` unless every id means to the teacher what it means to the student's `tokenizer`."""
    vocab_size = load_config(directory).vocab_size
    remedy = "give a teacher with the student's tokenizer"
    with tokenizer_directory(directory) as files:
        theirs = by_id(load_tokenizer(files).get_vocab(with_added_tokens=True))
    mine = by_id(tokenizer.get_vocab(with_added_tokens=True))
    if vocab_size < len(mine) or len(theirs) < len(mine):
        raise ArtifactError(
            f"{name}: found {len(theirs):,} entries in its tokenizer and a vocab_size of {vocab_size:,}, expected the "
            f"{len(mine):,} entries of the student's tokenizer; {remedy}"
        )
    check_entries(theirs, mine, name, "the student's tokenizer", remedy)


def _short(labels: object) -> str:
    said = str(labels)
    return said if len(said) <= 80 else f"{said[:77]}..."
