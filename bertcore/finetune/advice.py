"""The usual mistakes of fine-tuning, each said in one line before the work begins. None of them is refused.

One of the most usual, a missing attention mask, cannot happen: sequences lie end to end, and there is no padding that
anything could attend to.
"""

import json
import math
from collections.abc import Iterator

from tokenizers import Tokenizer

from bertcore.finetune.config import RunConfig
from bertcore.model.encoder_config import EncoderConfig
from bertcore.tokens.tokenizer import tokenizer_kind

HIGHEST_RATE, WIDE = 1e-4, 768
"""Above that rate, an encoder of that `hidden_size` (base) or more commonly forgets what it has learned."""
GROWTH = 1.2
"""A step of Adam moves every weight by about the rate, and a state is a sum over `hidden_size` of them: the narrower
the encoder, the higher the rate that it bears, at least by 1 / `hidden_size`. This power of it gives 1.6e-4 at 512,
4e-4 at 256 and 9e-4 at 128, where BERT forgot everything at 1e-3 on STS-B (benchmarks/results/compare-tasks.md)."""
PRE_NORM = 4.0
"""Times that rate where layers normalise what they read. A tiny of recipe `modern` answers the default's questions
in three epochs better with 3e-3 than with 1e-3; of 3e-4 and 1e-3 the better one for mini depends on the task
(results/tasks.md)."""
MANY_EPOCHS, FEW_STEPS = 20, 100
"""Mosbach et al. 2021 find 20 epochs helpful on sets of a few thousand examples; nobody more. In fewer steps than a
hundred a new head hardly learns anything."""
UPPER_CASE_SHARE = 0.02
"""Of the entries of a vocabulary; cased ones have about a third with an upper-case letter, uncased ones none."""


def advice(
    task: RunConfig, encoder: EncoderConfig, tokenizer: Tokenizer, train_examples: int, groups: int
) -> list[str]:
    """What is unusual about a run on so many examples, which are so many groups of sequences as `batch_size` counts
    them; each line says what was found, what is usual, and why."""
    return [
        *_rate(task, encoder),
        *_epochs(task, train_examples),
        *_steps(task, groups),
        *_windows(task),
        *_case(tokenizer),
    ]


def _rate(task: RunConfig, encoder: EncoderConfig) -> Iterator[str]:
    highest = HIGHEST_RATE * max(WIDE / encoder.hidden_size, 1.0) ** GROWTH * (PRE_NORM if encoder.pre_norm else 1.0)
    if task.learning_rate > highest and task.layer_decay == 1.0:
        yield (
            f"learning_rate {task.learning_rate:g} for an encoder of hidden_size {encoder.hidden_size} without "
            f"layer_decay: usual are at most {highest:.2g} there, 2e-5 to 5e-5 for base and large; a higher rate may "
            "destroy what pre-training has learned"
        )
    if task.warmup_ratio == 0.0:
        yield "warmup_ratio 0: usual is 0.1; without a warm-up some seeds do not learn at all"


def _epochs(task: RunConfig, train_examples: int) -> Iterator[str]:
    if task.epochs > MANY_EPOCHS and not task.early_choice:
        yield (
            f"{task.epochs} epochs over {train_examples:,} training examples: usual are 2 to 4, and at most "
            f"{MANY_EPOCHS} where they are few; set early_choice to keep the epoch that is best on part of train"
        )


def _steps(task: RunConfig, groups: int) -> Iterator[str]:
    if (steps := math.ceil(groups / task.batch_size) * task.epochs) < FEW_STEPS:
        yield (
            f"{steps} optimizer steps in all: in fewer than {FEW_STEPS} a new head hardly learns; raise epochs, or "
            "lower batch_size"
        )


def _windows(task: RunConfig) -> Iterator[str]:
    found = (task.sequence_length, task.doc_stride)
    if task.format == "squad" and found == (RunConfig.sequence_length, RunConfig.doc_stride):
        yield (
            f"sequence_length {found[0]} and doc_stride {found[1]} for the format squad: usual are 384 and 128; "
            "shorter windows see less of a context, and the scores are not comparable with published ones"
        )


def letters_unlike_entries(tokenizer: Tokenizer) -> Iterator[tuple[str, str]]:
    """What the tokenizer does to capital letters where its own entries contradict that, and whether it should
    lower-case: `true` or `false`."""
    normalizer = json.loads(tokenizer.to_str()).get("normalizer") or {}
    continues = tokenizer_kind(tokenizer).continues
    words = [entry for entry in tokenizer.get_vocab(with_added_tokens=True) if entry.isalpha() and not continues(entry)]
    if not words or "lowercase" not in normalizer:
        return
    share = sum(entry != entry.lower() for entry in words) / len(words)
    if normalizer["lowercase"] and share > UPPER_CASE_SHARE:
        yield (
            f"the tokenizer lower-cases texts, but {share:.0%} of the words in its vocabulary have upper-case letters: "
            "it belongs to a cased model",
            "false",
        )
    if not normalizer["lowercase"] and not share:
        yield (
            "the tokenizer keeps upper case, but no word in its vocabulary has any: it belongs to an uncased model, "
            "and every capitalised word is unknown or in pieces",
            "true",
        )


def _case(tokenizer: Tokenizer) -> Iterator[str]:
    for said, lowercase in letters_unlike_entries(tokenizer):
        yield f"{said}; use the encoder's own tokenizer (do_lower_case {lowercase})"
