"""Published models that params.yaml names: whether they are there, and fit the model and the vocabulary beside them."""

from pathlib import Path
from typing import NoReturn

from bertcore.errors import ArtifactError, ConfigError
from bertcore.finetune.encoder_tokenizer import readable_tokenizer
from bertcore.model.config import architecture_of
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import load_config
from bertcore.objectives.pretraining import OBJECTIVES
from bertcore.objectives.replaced_tokens import GENERATOR, check_generator
from bertcore.tokens.tokenizer import TokenizerConfig, check_entries, entries_in, entries_of
from bertcore.training.config import PretrainConfig
from bertcore.training.initial import check_lowercase, vocabulary_remedy
from tasks.params import naming


def published_config(name: str, key: str) -> EncoderConfig:
    """That of the model that `key` of params.yaml names; `ArtifactError` with the key where there is none."""
    try:
        return load_config(Path(name))
    except ArtifactError as error:
        remedy = ""
        if not Path(name).exists() and Path(name).parts[2:] == () and name[0] not in "/.":  # as names on the hub are
            remedy = f", or download it: hf download {name} --local-dir {name}"
        raise ArtifactError(f"params.yaml: {key}: {error}{remedy}") from None


def check_published(pretrain: PretrainConfig, tokenizer: TokenizerConfig) -> None:
    """`BertcoreError` where params.yaml asks for another shape or vocabulary than `pretrain.init_from` has, or where
    the generator beside it does not fit."""
    if pretrain.init_from is None:
        return
    published = published_config(pretrain.init_from, "pretrain.init_from")
    _check_shape(pretrain, published)
    if tokenizer.vocab_file is None:
        _ask_for_vocabulary(pretrain.init_from, tokenizer.kind, published)
    check_same_entries(pretrain.init_from, tokenizer, "pretrain.init_from")
    generator = Path(pretrain.init_from) / GENERATOR
    if OBJECTIVES[pretrain.objective].needs_discriminator and generator.is_dir():
        _check_generator(generator, pretrain, tokenizer, published)


def _check_shape(pretrain: PretrainConfig, published: EncoderConfig) -> None:
    """`ConfigError` for an architecture or a size other than the published one; more positions may be asked for."""
    shape = {name: value for name, value in pretrain.model.fields.items() if name not in published.free}
    for name, given in {"architecture": pretrain.model.architecture, **shape}.items():
        theirs = published.model_type if name == "architecture" else getattr(published, name, None)
        more_positions = name == "max_position_embeddings" and given > theirs
        if given != theirs and not more_positions:
            raise ConfigError(
                f"params.yaml: pretrain.model.{name}: found {given!r} beside init_from, expected {theirs!r} as "
                f"{pretrain.init_from} has it; {'set it to that' if name == 'architecture' else 'remove it'}"
            )


def _ask_for_vocabulary(model: str, kind: str, published: EncoderConfig) -> NoReturn:
    """`ConfigError`, as params.yaml gives no vocabulary beside the published weights; `InputError` where `model` itself
    has none that could be given."""
    with naming("pretrain.init_from"):
        readable_tokenizer(Path(model))
    fitting = architecture_of(published).tokenizers
    theirs = kind if not fitting or kind in fitting else fitting[0]
    other = "" if theirs == kind else f", with tokenizer.kind: {theirs}"
    raise ConfigError(
        f"params.yaml: tokenizer.vocab_file: found nothing (null) beside pretrain.init_from, expected the "
        f"vocabulary of {model}; {vocabulary_remedy(theirs, model)}{other}"
    )


def _check_generator(
    generator: Path, pretrain: PretrainConfig, tokenizer: TokenizerConfig, published: EncoderConfig
) -> None:
    """`BertcoreError` where the generator beside published weights does not fit the model that is trained."""
    added = pretrain.model.fields.get("max_position_embeddings", 0) > published.max_position_embeddings
    if added or tokenizer.new_entries:
        key = "pretrain.model.max_position_embeddings" if added else "tokenizer.new_entries"
        raise ConfigError(
            f"params.yaml: {key}: found more than {pretrain.init_from} has, expected as many, because its "
            f"{GENERATOR}/ is not enlarged with it; give a copy without that folder, which begins with a new generator"
        )
    with naming("pretrain.init_from"):
        check_generator(published, generator)


def check_same_entries(model: str, tokenizer: TokenizerConfig, where: str) -> None:
    """`BertcoreError` where an id does not mean the same to `model`, which `where` in params.yaml names, and to the
    vocabulary that is given, or where the two read other letters. Of what is not there other checks tell."""
    file, size = str(tokenizer.vocab_file), published_config(model, where).vocab_size
    theirs, given = entries_in(Path(model)), entries_of(Path(file))
    name, remedy = f"params.yaml: {where}: {model}", vocabulary_remedy(tokenizer.kind, model)
    if len(given) > size:
        raise ConfigError(
            f"{name}: found vocab_size {size:,}, expected at least the {len(given):,} of {file}; {remedy}"
        )
    if theirs and given:
        check_entries(theirs, given, name, file, remedy)
        if len(theirs) != len(given):
            raise ConfigError(f"{name}: found {len(theirs):,} entries, expected the {len(given):,} of {file}; {remedy}")
    check_lowercase(Path(model), tokenizer, model, where)
