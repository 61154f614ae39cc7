"""Parameters that are sound each for itself and cannot work together: found before anything is computed."""

import dataclasses
from pathlib import Path
from typing import Any

from bertcore.compressed import read_json
from bertcore.config import parse
from bertcore.corpus.cleaning import MARKS_ARE_LETTERS
from bertcore.corpus.config import ENGLISH
from bertcore.embedding.config import EmbedConfig
from bertcore.errors import ConfigError
from bertcore.examples.formats import FORMATS
from bertcore.examples.schema import ExampleSet
from bertcore.finetune.config import TaskConfig
from bertcore.finetune.families import FAMILIES
from bertcore.instances.config import LABELS, MaskConfig
from bertcore.minimal_pairs.scoring import check_variant
from bertcore.model.config import architecture_of
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import load_config
from bertcore.objectives.pretraining import OBJECTIVES, check_packing, models_of
from bertcore.tokens.tokenizer import (
    KINDS,
    TokenizerConfig,
    check_vocabulary_file,
    entries_of,
)
from bertcore.training.config import PretrainConfig
from tasks.published_models import check_published, check_same_entries, published_config

Configs = dict[str, Any]
"""Sections of params.yaml by name, as their dataclasses."""


def check_pretraining(configs: Configs) -> None:
    """`ConfigError` for the first two parameters of the pre-training that exclude each other."""
    mask, pretrain, tokenizer = configs["mask"], configs["pretrain"], configs["tokenizer"]
    _check_phases(mask, pretrain)
    check_packing(pretrain.objective, mask.packing, pretrain.model.architecture)
    check_published(pretrain, tokenizer)
    check_vocabulary_file(tokenizer)
    _check_marks(tokenizer, configs["corpus"].language)
    model = encoder(configs, tokenizer.most_entries)
    _check_kind(tokenizer, model)
    _check_length("mask", mask.phases[-1].sequence_length, model, own=True)
    if OBJECTIVES[pretrain.objective].needs_discriminator:
        check_variant(configs["minimal_pairs"].variant, "params.yaml: minimal_pairs.variant")
    _check_objective(configs)
    _check_embedding(configs["embed"], model)
    if mask.packing in LABELS and model.segments == 1:
        raise ConfigError(
            f"params.yaml: mask.packing: found {mask.packing!r} with pretrain.model.type_vocab_size "
            f"{model.segments}, expected 2 segments to tell the parts of a pair apart; set it to 2, or "
            "mask.packing to 'full_sentences' and pretrain.objective to 'mlm'"
        )


def cautions(configs: Configs) -> list[str]:
    """What works, and is probably not meant: a line each."""
    corpus, tokenizer = configs["corpus"], configs["tokenizer"]
    if corpus.language == ENGLISH:
        return []
    found = []
    if _loses_marks(tokenizer) and tokenizer.lowercase is None:
        found.append(
            f"tokenizer.lowercase: found null with corpus.language {corpus.language!r}: capitals become small letters, "
            "and accents are taken off (é, ż and ö are e, z and o), which may make one word of two; set it to false to "
            "keep both, or to true where that is meant"
        )
    if "boilerplate" in corpus.quality.english:
        found.append(
            f"corpus.quality.drop_boilerplate_lines: found true with corpus.language {corpus.language!r}: the phrases "
            "are English ones; give those of your language as corpus.quality.boilerplate"
        )
    return [f"params.yaml: {each}" for each in found]


def check_task(name: str, task: TaskConfig, configs: Configs) -> None:
    """`ConfigError` where the task cannot be done with its encoder."""
    where = f"finetune.tasks.{name}"
    model = encoder_of(name, task, configs)
    _check_length(where, task.sequence_length, model, own=task.init_from is None)
    if task.distillation is not None:
        teacher = published_config(task.distillation.teacher, f"{where}.distillation.teacher")
        _check_length(where, task.sequence_length, teacher, own=False)
        _check_teacher(where, task, Path(task.distillation.teacher))
    families = [FAMILIES[each] for each in FORMATS[task.format].families]
    others = {field for each in FAMILIES.values() for field in each.own_fields}
    others -= {field for each in families for field in each.own_fields}
    for field in dataclasses.fields(task):
        if field.name in others and getattr(task, field.name) != field.default:
            raise ConfigError(
                f"params.yaml: {where}.{field.name}: found {getattr(task, field.name)!r} with the format "
                f"{task.format!r}, which does not read it; remove it"
            )
    if FORMATS[task.format].pairs:
        _check_segments(name, task, configs)
    if all("max_query_length" in each.reading for each in families):
        kinds = architecture_of(model).tokenizers or tuple(KINDS)
        kinds = kinds if task.init_from else (configs["tokenizer"].kind,)
        least = task.max_query_length + 2 + min(KINDS[kind].separators for kind in kinds) + 1
        if task.sequence_length < least:
            raise ConfigError(
                f"params.yaml: {where}.sequence_length: found {task.sequence_length} tokens with max_query_length "
                f"{task.max_query_length}, expected at least {least}, so that some context fits beside the question; "
                "raise it or lower max_query_length"
            )


def check_pairs(name: str, task: TaskConfig, examples: ExampleSet, configs: Configs) -> None:
    """`ConfigError` where the examples are pairs of texts and the encoder knows one segment only."""
    pairs = FAMILIES[examples.family].always_pairs or any(
        "text_b" in table.column_names and table["text_b"].null_count < len(table) for table in examples.splits.values()
    )
    if pairs:
        _check_segments(name, task, configs)


def _check_segments(name: str, task: TaskConfig, configs: Configs) -> None:
    if (found := encoder_of(name, task, configs).segments) == 1:
        key = f"finetune.tasks.{name}.init_from" if task.init_from else "pretrain.model.type_vocab_size"
        raise ConfigError(
            f"params.yaml: {key}: found an encoder with type_vocab_size {found}, expected 2 for {task.format!r}, whose "
            "examples are pairs of texts; take another encoder or remove the task"
        )


def _check_teacher(where: str, task: TaskConfig, directory: Path) -> None:
    """Whether it was fine-tuned for a task of this kind."""
    row = architecture_of(load_config(directory))
    heads = [row.head(FAMILIES[family].head).architecture for family in FORMATS[task.format].families]
    found = read_json(directory / "config.json").get("architectures")
    if found is None or not set(found) & set(heads):
        raise ConfigError(
            f"params.yaml: {where}.distillation.teacher: found {directory} with the architectures {found}, expected "
            f"{heads[0]!r}; give a model that was fine-tuned for this task"
        )


def encoder(configs: Configs, vocab_size: int) -> EncoderConfig:
    """The model that is pre-trained: of the shape that params.yaml gives, or of that of the published weights."""
    pretrain = configs["pretrain"]
    if pretrain.init_from is None:
        return pretrain.model.build(vocab_size)
    try:
        return pretrain.model.adapt(published_config(pretrain.init_from, "pretrain.init_from"))
    except ValueError as error:
        raise ConfigError(f"params.yaml: pretrain.model.{error}") from None


def encoder_of(name: str, task: TaskConfig, configs: Configs) -> EncoderConfig:
    """The model that a task starts from."""
    if task.init_from:
        return published_config(task.init_from, f"finetune.tasks.{name}.init_from")
    return encoder(configs, configs["tokenizer"].most_entries)


def _check_phases(mask: MaskConfig, pretrain: PretrainConfig) -> None:
    there, missing = ("mask", "pretrain") if mask.second_phase else ("pretrain", "mask")
    if bool(mask.second_phase) != bool(pretrain.second_phase):
        raise ConfigError(
            f"params.yaml: {missing}.second_phase: found nothing (null), but {there}.second_phase is given; expected "
            f"both (mask: the longer sequences, pretrain: the share of the steps) or neither; add or remove one"
        )
    if pretrain.second_phase and not 0 < pretrain.first_phase_steps < pretrain.max_steps:
        raise ConfigError(
            f"params.yaml: pretrain.second_phase.share: found {pretrain.second_phase.share} of {pretrain.max_steps} "
            "steps, expected at least one step in each phase; change it or raise pretrain.max_steps"
        )


def _check_marks(tokenizer: TokenizerConfig, language: str) -> None:
    """Whether lower-casing, which takes off all combining marks, would make other words of the language's own."""
    if _loses_marks(tokenizer) and language in MARKS_ARE_LETTERS.split():
        raise ConfigError(
            f"params.yaml: tokenizer.lowercase: found {'null' if tokenizer.lowercase is None else 'true'} with "
            f"corpus.language {language!r}, expected false: lower-casing takes off combining marks, which are letters "
            "there (vowels, voicing); set it to false"
        )


def _loses_marks(tokenizer: TokenizerConfig) -> bool:
    """Whether it is trained to lower-case."""
    return tokenizer.kind == "wordpiece" and tokenizer.vocab_file is None and tokenizer.lowercase is not False


def _check_kind(tokenizer: TokenizerConfig, model: EncoderConfig) -> None:
    """Whether the architecture's class at Hugging Face can read what the tokenizer gives."""
    fitting = architecture_of(model).tokenizers
    if fitting and tokenizer.kind not in fitting:
        raise ConfigError(
            f"params.yaml: tokenizer.kind: found {tokenizer.kind!r} with the architecture {model.model_type!r}, "
            f"expected {' or '.join(map(repr, fitting))}; set it to that, or change pretrain.model.architecture"
        )


def _check_objective(configs: Configs) -> None:
    """What the options of the objective ask of the model, and the models that they name of its vocabulary."""
    pretrain, tokenizer = configs["pretrain"], configs["tokenizer"]
    vocab_file = tokenizer.vocab_file
    row, where = OBJECTIVES[pretrain.objective], "params.yaml: pretrain.objective_options"
    options: Any = parse(row.options, pretrain.objective_options, where)
    entries, vocabulary_name = tokenizer.most_entries, KINDS[tokenizer.kind].entries_file
    for option, name in models_of(pretrain.objective, pretrain.objective_options).items():
        published_config(name, f"pretrain.objective_options.{option}")
        if vocab_file is None:
            raise ConfigError(
                f"params.yaml: tokenizer.vocab_file: found nothing (null) beside pretrain.objective_options.{option}, "
                f"expected the vocabulary of {name}; set it to {name}/{vocabulary_name}"
            )
        if tokenizer.new_entries:
            raise ConfigError(
                f"params.yaml: tokenizer.new_entries: found {tokenizer.new_entries} beside "
                f"pretrain.objective_options.{option}, expected 0, because {name} does not know them; set it to 0"
            )
        if given := entries_of(Path(vocab_file)):
            check_same_entries(name, tokenizer, f"pretrain.objective_options.{option}")
            entries = len(given)
    try:
        row.check(encoder(configs, entries), options, configs["mask"].phases[-1].sequence_length)
    except ValueError as error:
        raise ConfigError(f"{where}.{error}") from None
    if pretrain.init_from is not None and getattr(options, "layers", []) != []:
        raise ConfigError(
            f"{where}.layers: found {options.layers!r} beside pretrain.init_from, which gives the model all of its "
            "weights, expected []; set it to [], or init_from to null"
        )


def _check_embedding(embed: EmbedConfig, model: EncoderConfig) -> None:
    """What the sentence vectors ask of the encoder, where there are any."""
    if embed.pairs is None:
        return
    _check_length("embed", embed.sequence_length, model, own=True)
    try:
        embed.check_width(model.hidden_size)
    except ValueError as error:
        raise ConfigError(f"params.yaml: embed.{error}") from None


def _check_length(where: str, length: int, model: EncoderConfig, own: bool) -> None:
    if length > model.max_sequence_length:
        remedy = "lower it or raise pretrain.model.max_position_embeddings" if own else "lower it"
        raise ConfigError(
            f"params.yaml: {where}.sequence_length: found {length} tokens, expected at most the "
            f"{model.max_sequence_length} positions of the model; {remedy}"
        )
