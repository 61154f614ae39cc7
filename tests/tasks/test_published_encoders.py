"""A published encoder that stage `inputs` accepts can be saved when it was trained; what could not be is refused before
any work."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import transformers
from tokenizers import AddedToken, Tokenizer, pre_tokenizers, processors

from bertcore.errors import InputError
from bertcore.examples.schema import ExampleSet, schema_of
from bertcore.export.probe import Expected
from bertcore.export.verify import verify
from bertcore.finetune.config import RunConfig, TaskConfig
from bertcore.finetune.encoder_tokenizer import tokenizer_directory
from bertcore.finetune.run import Finetuning
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.huggingface import save_pretrained
from bertcore.tokens.tokenizer import TokenizerConfig, Vocabulary, load_tokenizer, tokenizer_kind
from bertcore.tokens.wordpiece import SPECIAL_TOKENS, load_vocabulary, make_tokenizer
from bertcore.training.config import PretrainConfig
from bertcore.training.initial import initial_model
from tasks import inputs
from tests.samples import byte_tokenizer, tokenizer

SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 66}
Change = Callable[[Path], None]


def published(directory: Path, own: Tokenizer, *changes: Change, pad: int | None = None) -> Path:
    """An encoder with its tokenizer, of which its publisher has changed something; rows for a few entries more."""
    vocabulary, kind = Vocabulary.of(own), tokenizer_kind(own)
    (directory / "tokenizer").mkdir(parents=True)
    kind.save(own, directory / "tokenizer", None)
    architecture = "roberta" if kind.name == "byte_bpe" else "bert"
    shape = ModelConfig(architecture=architecture, fields=SIZES)
    model = build_pretraining(shape.build(vocabulary.size + 8, vocabulary.pad if pad is None else pad))
    save_pretrained(model, directory / "encoder", directory / "tokenizer")
    for change in changes:
        change(directory / "encoder")
    return directory / "encoder"


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def changed(change: Callable[[Tokenizer], object]) -> Change:
    """Of tokenizer.json alone, as transformers 4 leaves vocab.txt and vocab.json where they were."""

    def apply(encoder: Path) -> None:
        whole = Tokenizer.from_file(str(encoder / "tokenizer.json"))
        change(whole)
        whole.save(str(encoder / "tokenizer.json"))

    return apply


def with_settings(**settings: Any) -> Change:
    return lambda encoder: rewrite(encoder / "tokenizer_config.json", lambda values: values.update(settings))


def without(*names: str) -> Change:
    def apply(encoder: Path) -> None:
        for name in names:
            (encoder / name).unlink()

    return apply


with_added_tokens = changed(lambda whole: whole.add_tokens([AddedToken("<e1>"), AddedToken("@USER")]))
with_added_special_token = changed(lambda whole: whole.add_special_tokens([AddedToken("<e1>")]))


def with_a_gap(encoder: Path) -> None:
    """The mask has the last row of the table, behind some that no entry has."""

    def move(values: dict[str, Any]) -> None:
        values["<mask>"] = 405

    rewrite(encoder / "vocab.json", move)
    rewrite(encoder / "tokenizer.json", lambda values: move(values["model"]["vocab"]))
    rewrite(encoder / "tokenizer.json", lambda values: values["added_tokens"][-1].update(id=405))


def with_one_segment(encoder: Path) -> None:
    ids = Vocabulary.of(load_tokenizer(encoder))
    template = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", ids.cls), ("[SEP]", ids.sep)],
    )
    changed(lambda whole: setattr(whole, "post_processor", template))(encoder)


def with_another_vocabulary_beside(encoder: Path) -> None:
    first, second, *rest = (encoder / "vocab.txt").read_text().splitlines()
    (encoder / "vocab.txt").write_text("\n".join([second, first, *rest]))


def pairs_of_texts() -> ExampleSet:
    rows = [{"id": str(n), "text_a": "the <e1> reads", "text_b": "a file", "label": "ny"[n % 2]} for n in range(4)]
    table = pa.Table.from_pylist(rows, schema_of("classification", ["n", "y"]))
    splits = {"train": table, "dev": table}
    return ExampleSet(family="classification", labels=["n", "y"], metrics=["accuracy"], splits=splits)


def check_task(encoder: Path) -> None:
    """What stage `inputs` says of a task that begins with `encoder`."""
    inputs._check_models("own", TaskConfig(format="table", data="own", init_from=str(encoder)), TokenizerConfig())


@pytest.mark.parametrize(
    ("own", "changes", "pad"),
    [
        (tokenizer, (with_added_tokens,), None),
        (byte_tokenizer, (with_added_special_token,), None),
        (byte_tokenizer, (with_a_gap,), None),
        (tokenizer, (), 3),
    ],
    ids=["added tokens", "an added special token", "a gap in the ids", "another padding"],
)
def test_what_is_accepted_for_a_task_can_be_saved(
    own: Callable[[], Tokenizer], changes: tuple[Change, ...], pad: int | None, no_accelerator: None, tmp_path: Path
) -> None:
    encoder, texts = published(tmp_path, own(), *changes, pad=pad), ["the <e1> reads @USER", "a file"]
    check_task(encoder)
    task = RunConfig(format="toy", data="toy", sequence_length=48, epochs=1, batch_size=2)
    expected = load_tokenizer(encoder).encode(*texts).ids
    result = Finetuning(task, pairs_of_texts(), load_tokenizer(encoder)).run(encoder)
    result.save_model(tmp_path / "tuned", encoder)
    verify(tmp_path / "tuned", Expected.of(result.model), encoder)
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "tuned")(*texts)["input_ids"] == expected


@pytest.mark.parametrize(
    ("own", "changes", "pad", "message"),
    [
        (tokenizer, (with_one_segment,), None, r"encoder/tokenizer.json: found the tokens .* of types \[0, "),
        (tokenizer, (with_another_vocabulary_beside,), None, "encoder/vocab.txt: 2 entries are not those of .*json"),
        (byte_tokenizer, (), 0, "encoder: pad_token_id: found 0, expected 1, the id of the tokenizer's padding"),
    ],
)
def test_what_could_not_be_saved_is_refused(
    own: Callable[[], Tokenizer], changes: tuple[Change, ...], pad: int | None, message: str, tmp_path: Path
) -> None:
    encoder = published(tmp_path, own(), *changes, pad=pad)
    with pytest.raises(InputError, match=f"^params.yaml: finetune.tasks.own.init_from: .*{message}") as error:
        check_task(encoder)
    assert "\n" not in str(error.value)


def check_pretraining(encoder: Path, **settings: Any) -> PretrainConfig:
    """What stage `inputs` says of a pre-training that begins with `encoder` and its vocabulary."""
    kind = "byte_bpe" if (encoder / "vocab.json").exists() else "wordpiece"
    files = {"vocab_file": str(encoder / ("vocab.txt" if kind == "wordpiece" else "vocab.json"))}
    files |= {} if kind == "wordpiece" else {"merges_file": str(encoder / "merges.txt")}
    config = PretrainConfig(init_from=str(encoder), objective="mlm")
    inputs._check_pretraining(config, TokenizerConfig(kind=kind, **{**files, **settings}))
    return config


def test_a_pretraining_has_the_padding_of_its_tokenizer(tmp_path: Path) -> None:
    encoder = published(tmp_path, tokenizer(), pad=3)
    config = check_pretraining(encoder)
    model, _ = initial_model(config, Vocabulary.of(tokenizer()), tmp_path / "tokenizer", encoder)
    save_pretrained(model, tmp_path / "pretrained", tmp_path / "tokenizer")
    verify(tmp_path / "pretrained", Expected.of(model), tmp_path / "tokenizer")
    roberta = published(tmp_path / "other", byte_tokenizer(), pad=0)
    with pytest.raises(InputError, match="^params.yaml: pretrain.init_from: .*: pad_token_id: found 0, expected 1"):
        check_pretraining(roberta)


def whole_words(whole: Tokenizer) -> None:
    whole.pre_tokenizer = pre_tokenizers.WhitespaceSplit()


def blank_first(whole: Tokenizer) -> None:
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)


@pytest.mark.parametrize(
    ("own", "changes", "message"),
    [
        (tokenizer, (changed(whole_words),), r'reads ".*" as .*, expected .*vocab.txt; no tokenizer of the pipeline'),
        (byte_tokenizer, (changed(blank_first),), r'reads ".*" as Ġ \S.*, expected .*vocab.json; no tokenizer of the'),
        (
            tokenizer,
            (without("tokenizer.json"), with_settings(tokenizer_class="BertJapaneseTokenizer")),
            "tokenizer_config.json: tokenizer_class: found 'BertJapaneseTokenizer'",
        ),
        (
            byte_tokenizer,
            (without("tokenizer.json"), with_settings(add_prefix_space=True)),
            "tokenizer_config.json: add_prefix_space: found True",
        ),
    ],
)
def test_an_encoder_that_has_read_texts_otherwise_is_refused(
    own: Callable[[], Tokenizer], changes: tuple[Change, ...], message: str, tmp_path: Path
) -> None:
    encoder = published(tmp_path, own())
    check_pretraining(encoder)
    for change in changes:
        change(encoder)
    with pytest.raises(InputError, match=f"^params.yaml: pretrain.init_from: .*{message}") as error:
        check_pretraining(encoder)
    assert "\n" not in str(error.value)


def test_the_remedy_for_letters_is_the_one_that_helps(tmp_path: Path) -> None:
    """Where nothing says them in words that are known here."""

    def wrap(values: dict[str, Any]) -> None:
        values["normalizer"] = {"type": "Sequence", "normalizers": [values["normalizer"]]}

    entries = [*SPECIAL_TOKENS, "Don", "don", "cut", "well", "-", "known", "words"]
    own = make_tokenizer({entry: index for index, entry in enumerate(entries)}, lowercase=True)
    encoder = published(tmp_path, own, without("tokenizer_config.json"))
    rewrite(encoder / "tokenizer.json", wrap)
    check_pretraining(encoder)
    with pytest.raises(InputError, match=r"reads .*; set tokenizer.lowercase: true and run `dvc repro tokenizer`"):
        check_pretraining(encoder, lowercase=False)


@pytest.mark.parametrize("lowercase", [None, False])
def test_a_vocabulary_of_other_letters_is_warned_of(
    lowercase: bool | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "The", "Patient", "the", "patient"]))
    inputs._check_vocabulary(TokenizerConfig(vocab_file=str(tmp_path / "vocab.txt"), lowercase=lowercase))
    said = "params.yaml: tokenizer.lowercase: the tokenizer lower-cases texts, but 50% of the words in its vocabulary"
    assert [message.startswith(said) for message in caplog.messages] == ([True] if lowercase is None else [])
    assert all(message.endswith("; set it to false") for message in caplog.messages)


def test_tokens_in_a_file_of_their_own_are_refused_until_transformers_has_written_them(tmp_path: Path) -> None:
    encoder = published(tmp_path, tokenizer(), without("tokenizer.json"))
    size = len(load_vocabulary(encoder / "vocab.txt"))
    (encoder / "added_tokens.json").write_text(json.dumps({"[MASK]": 4, "<e1>": size, "@USER": size + 1}))
    with pytest.raises(InputError, match=r"added_tokens.json: found 2 tokens \('<e1>', …\) beside a vocab.*: AutoTok"):
        check_task(encoder)
    theirs = transformers.AutoTokenizer.from_pretrained(encoder)
    theirs.save_pretrained(encoder)
    check_task(encoder)
    with tokenizer_directory(encoder) as directory:
        assert load_tokenizer(directory).encode("the <e1> file").ids == theirs("the <e1> file")["input_ids"]
