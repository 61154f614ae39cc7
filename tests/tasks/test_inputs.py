"""Bad input: one line that says what, where, found, expected and the remedy, before anything else runs."""

import gzip
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ruamel.yaml import YAML
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models

from bertcore.errors import ArtifactError, BertcoreError, ConfigError, InputError
from bertcore.finetune.config import TaskConfig
from bertcore.model.config import ModelConfig, build_discriminator, build_head, build_pretraining
from bertcore.model.huggingface import label_names, save_pretrained
from bertcore.model.roberta import RobertaConfig
from bertcore.objectives.replaced_tokens import GENERATOR
from bertcore.recipes.recipe import NAMES
from bertcore.tokens.byte_bpe import save_tokenizer as save_byte_tokenizer
from bertcore.tokens.tokenizer import TokenizerConfig
from bertcore.tokens.wordpiece import save_tokenizer
from tasks import inputs, params, published_models
from tasks.sections import check
from tests.import_closure import ROOT
from tests.samples import byte_tokenizer, tokenizer


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The committed params, which the test may change."""
    monkeypatch.chdir(ROOT)
    return params.read()


@pytest.fixture
def roberta(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The committed params with one key changed, without the recipe's values."""
    monkeypatch.chdir(ROOT)
    written = YAML(typ="safe", pure=True).load(params.PARAMS.read_text())
    return {**written, "recipe": "roberta"}


def set_path(values: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for name in parents:
        values = values.setdefault(name, {})
    values[last] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("pretrian", {}, "params.yaml: unknown section 'pretrian'; did you mean 'pretrain'?"),
        (
            "pretrain.learning_rat",
            1.0,
            "params.yaml: pretrain: unknown key 'learning_rat'; did you mean 'learning_rate'?",
        ),
        ("pretrain.learning_rate", "fast", "params.yaml: pretrain.learning_rate: found 'fast' (str), expected number"),
        (
            "pretrain.model",
            "tiny",
            "params.yaml: pretrain.model: found 'tiny' (str), expected a mapping with the keys architecture, preset",
        ),
        ("pretrain.batch_size", 0, "params.yaml: pretrain.batch_size: found 0, expected at least 1"),
        ("pretrain.optimizer", "adamm", "params.yaml: pretrain.optimizer: found 'adamm'; did you mean 'adamw'?"),
        ("pretrain.model.preset", "tinny", "params.yaml: pretrain.model.preset: found 'tinny'; did you mean 'tiny'?"),
        (
            "pretrain.model.num_attention_heads",
            3,
            "params.yaml: pretrain.model.num_attention_heads: found 3, expected a divisor",
        ),
        (
            "pretrain.warmup_steps",
            10**7,
            "params.yaml: pretrain.warmup_steps: found 10000000, expected between 0 and max_steps",
        ),
        (
            "mask.sequence_length",
            1024,
            "params.yaml: mask.sequence_length: found 1024 tokens, expected at most the 512 positions",
        ),
        (
            "finetune.tasks.topic.sequence_length",
            600,
            "params.yaml: finetune.tasks.topic.sequence_length: found 600 tokens",
        ),
        (
            "finetune.tasks.topic.format",
            "glue/colla",
            "params.yaml: finetune.tasks.topic.format: found 'glue/colla'; did you mean 'glue/cola'?",
        ),
        (
            "finetune.tasks.topic.data",
            "elsewhere",
            "params.yaml: finetune.tasks.topic.data: found 'elsewhere' with format 'pydoc/topic'",
        ),
        (
            "finetune.tasks.topic.options",
            {"on_error": "skip"},
            "params.yaml: finetune.tasks.topic.options: found 'on_error', but the format 'pydoc/topic' has none",
        ),
        *(
            ("finetune.tasks.new", value, f"params.yaml: finetune.tasks.new: found {found}, expected a mapping")
            for value, found in ((None, "nothing (null)"), (3, "3 (int)"), ([], "[] (list)"))
        ),
        (
            "finetune.tasks.new",
            {"format": "conll", "data": "x", "on_error": "skip"},
            "params.yaml: finetune.tasks.new.on_error: found an option of the format conll, expected it below options",
        ),
        (
            "finetune.tasks.new",
            {"format": "conll", "data": "x", "options": {"tag_colum": 3}},
            "params.yaml: finetune.tasks.new.options: unknown key 'tag_colum'; did you mean 'tag_column'?",
        ),
        (
            "finetune.tasks.new",
            {"format": "table", "data": "x", "options": {"metrics": ["pearson"]}},
            "params.yaml: finetune.tasks.new.options.metrics: found 'pearson' for classification",
        ),
        (
            "finetune.tasks.new",
            {"format": "table", "data": "hf://o"},
            "params.yaml: finetune.tasks.new.data: hf://o: not the name of a data set on the hub, expected hf://ORG/NAME",
        ),
        *(
            (
                "finetune.tasks.new",
                {"format": "table", "data": data},
                f"params.yaml: finetune.tasks.new.data: found {data!r}, expected a local path or hf://ORG/NAME; ",
            )
            for data in ("https://x/y.jsonl", "s3://x/y")
        ),
        (
            "finetune.tasks.options",
            {"format": "squad", "data": "x"},
            "params.yaml: finetune.tasks.options: found the task name 'options', which is reserved",
        ),
        ("finetune.task", {}, "params.yaml: finetune: unknown key 'task'; did you mean 'tasks'?"),
        ("finetune", 5, "params.yaml: finetune: found 5 (int), expected a section with the key tasks"),
        ("finetune", None, "params.yaml: finetune: found nothing (null), expected a section with the key tasks"),
        *(
            ("finetune.tasks", value, f"params.yaml: finetune.tasks: found {found}, expected a mapping of tasks")
            for value, found in ((None, "nothing (null)"), ([], "[] (list)"), (False, "False (bool)"), (0, "0 (int)"))
        ),
        ("finetune", {}, "params.yaml: finetune.tasks: found nothing (null), expected a mapping of tasks"),
        ("corpus.sources", [], "params.yaml: corpus.sources: found an empty list, expected at least one source"),
        ("corpus.sources", "pydoc", "params.yaml: corpus.sources: found 'pydoc' (str), expected list of mappings"),
        (
            "corpus.sources",
            ["/none.txt"],
            "params.yaml: finetune.tasks: found topic, pair, tagging, qa, made from the source pydoc, but "
            "corpus.sources is ['/none.txt']; write `finetune: {tasks: {}}` in their place, or add pydoc",
        ),
    ],
)
def test_every_mistake_is_one_line(values: dict[str, Any], path: str, value: Any, message: str) -> None:
    set_path(values, path, value)
    with pytest.raises(BertcoreError) as error:
        check(values)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any]) -> Path:
    """A working directory with params.yaml; `write` puts changed params there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.lock").write_text("a==1\n")
    values["finetune"]["tasks"] = {}
    write(tmp_path, values)
    return tmp_path


def write(directory: Path, values: dict[str, Any]) -> None:
    with (directory / "params.yaml").open("w") as file:
        YAML().dump(values, file)


def run() -> None:
    inputs.run(None)  # type: ignore[arg-type]  # the stage logs nothing


def test_params_without_a_recipe_are_refused_before_dvc_misses_it(values: dict[str, Any]) -> None:
    del values["recipe"]
    with pytest.raises(ConfigError, match=r"^params\.yaml: recipe: found nothing, .*; add `recipe: null` at the top$"):
        check(values)


def test_local_files_are_linked_and_their_content_is_what_dvc_sees(project: Path, values: dict[str, Any]) -> None:
    task = project / "elsewhere" / "CoLA"
    task.mkdir(parents=True)
    for name in ("train.tsv", "dev.tsv"):
        (task / name).write_text(f"{name}\t1\t\tThe cat sat.\n")
    (project / "text.txt").write_text("Some text.\n")
    values["corpus"]["sources"] = ["pydoc", "text.txt", "https://example.org/a.txt"]
    values["finetune"]["tasks"] = {"cola": {"format": "glue/cola", "data": str(task)}}
    write(project, values)
    run()
    found = {
        path.relative_to("data/inputs").as_posix(): path.read_text()
        for path in sorted(Path("data/inputs").rglob("*.*"))
    }
    assert found == {
        "cola/dev.tsv": "dev.tsv\t1\t\tThe cat sat.\n",
        "cola/train.tsv": "train.tsv\t1\t\tThe cat sat.\n",
        "corpus/0/requirements.lock": "a==1\n",
        "corpus/1/text.txt": "Some text.\n",
        "corpus/2/.source.json": '{"uri": "https://example.org/a.txt"}\n',
        "embed/.source.json": '{"uri": null}\n',
        "encoders/cola/.source.json": '{"uri": null}\n',
        "eval_pairs/.source.json": '{"uri": null}\n',
        "init_from/.source.json": '{"uri": null}\n',
        "minimal_pairs/.source.json": '{"uri": null}\n',
        "objective/.source.json": '{"uri": null}\n',
        "teachers/cola/.source.json": '{"uri": null}\n',
        "options/cola.json": "{}\n",
        "text.json": json.dumps({"language": "en", "sources": values["corpus"]["sources"]}, indent=2) + "\n",
        "vocabulary/.source.json": '{"uri": null}\n',
    }
    assert Path("data/inputs/cola/dev.tsv").is_symlink()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"corpus.language": "pl"}, ["tokenizer.lowercase: found null with corpus.language 'pl': capitals become"]),
        ({"corpus.language": "pl", "tokenizer.lowercase": False}, []),
        ({"corpus.language": "pl", "tokenizer.lowercase": True}, []),
        ({"corpus.language": "pl", "tokenizer.kind": "byte_bpe"}, []),
        (
            {"corpus.language": "pl", "tokenizer.lowercase": True, "corpus.quality.drop_boilerplate_lines": True},
            ["corpus.quality.drop_boilerplate_lines: found true with corpus.language 'pl': the phrases are English"],
        ),
    ],
)
def test_what_is_probably_not_meant_of_another_language_is_said(
    changes: dict[str, Any], said: list[str], project: Path, values: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    (project / "text.txt").write_text("Some text.\n")
    values["corpus"]["sources"] = ["text.txt"]
    values["recipe"] = None
    for path, value in changes.items():
        set_path(values, path, value)
    write(project, values)
    run()
    warned = [record.message for record in caplog.records if record.name == "tasks.inputs"]
    assert len(warned) == len(said)
    assert all(line.startswith(f"params.yaml: {start}") for line, start in zip(warned, said, strict=True))


def test_files_of_a_source_that_are_not_read_are_said(
    project: Path, values: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    (project / "texts").mkdir()
    for name in ("a.txt", "notes.pdf", "page.html"):
        (project / "texts" / name).write_text("Some text.\n")
    values["corpus"]["sources"] = ["texts"]
    write(project, values)
    run()
    assert [path.name for path in Path("data/inputs/corpus/0").iterdir()] == ["a.txt"]
    (said,) = caplog.messages
    assert said.startswith("params.yaml: corpus.sources[0]: texts: files left out, as they end in none of .txt, ")
    assert said.endswith(": 2 (texts/notes.pdf, texts/page.html)")


def test_every_file_of_a_source_is_looked_at(project: Path, values: dict[str, Any]) -> None:
    (project / "texts").mkdir()
    (project / "texts" / "a.jsonl").write_text('{"text": "one"}\n')
    (project / "texts" / "z.jsonl").write_text('{"content": "two"}\n')
    values["corpus"]["sources"] = ["texts"]
    write(project, values)
    with pytest.raises(
        InputError, match=r"corpus.sources\[0\]: texts/z.jsonl:1: no text in the field 'text', .*; name"
    ):
        run()
    assert not Path("data/inputs").exists()


def test_encoder_of_a_task_is_linked_beside_its_data(project: Path, values: dict[str, Any]) -> None:
    whole_model(project / "bert")
    for name in ("cola/train.tsv", "cola/dev.tsv"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(f"{name}\t1\t\tThe cat sat.\n")
    entry = {"format": "glue/cola", "data": "cola", "init_from": "bert", "sequence_length": 512, "seed": [1, 2]}
    values["finetune"]["tasks"] = {"cola": entry}
    write(project, values)
    run()
    encoder = Path("data/inputs/encoders/cola")
    assert {path.name for path in encoder.iterdir()} == {path.name for path in (project / "bert").iterdir()}
    assert (encoder / "model.safetensors").resolve() == (project / "bert" / "model.safetensors").resolve()
    values["finetune"]["tasks"] = {"cola": {**entry, "sequence_length": 513}}
    with pytest.raises(ConfigError, match=r"cola.sequence_length: found 513 tokens, .* 512 positions .*; lower it$"):
        check(values)


def test_a_model_that_a_stage_writes_starts_a_task_in_a_tree_of_its_own_alone(
    project: Path, values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    (project / "cola").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        (project / "cola" / name).write_text("source\t1\t\tThe cat sat.\n")
    elsewhere = tmp_path_factory.mktemp("tree") / "nli"
    for directory in (elsewhere, Path("models/finetuned/nli")):
        whole_model(directory)
    entry = {"format": "glue/cola", "data": "cola", "init_from": "models/finetuned/nli"}
    values["finetune"]["tasks"] = {"cola": entry}
    write(project, values)
    refused = (
        r"^params\.yaml: finetune\.tasks\.cola\.init_from: found 'models/finetuned/nli', which .*`make finetune MODEL="
    )
    with pytest.raises(ConfigError, match=refused):
        run()
    assert Path("models/finetuned/nli/config.json").is_file()
    shutil.rmtree("models/finetuned/nli")
    Path("models/finetuned/nli").symlink_to(elsewhere)  # as finetune-flow has it in its tree
    run()
    assert Path("models/finetuned/nli/config.json").is_file()
    assert Path("data/inputs/encoders/cola/config.json").is_file()


@pytest.mark.parametrize(
    ("where", "path", "expected"),
    [
        ("corpus.sources", ["data/corpus"], "which the pipeline writes"),
        ("corpus.sources", ["data/corpus/*.txt"], "which the pipeline writes"),
        ("corpus.sources", [{"uri": "data/"}], "in which the pipeline writes data/inputs"),
        ("corpus.sources", ["**/*.txt"], "which the pipeline writes"),
        ("corpus.sources", ["data/*/*.txt"], "which the pipeline writes"),
        ("corpus.sources", ["data/[c]orpus/mine.txt"], "which the pipeline writes"),
        ("corpus.contamination", {"texts": ["predictions/mine.txt"]}, "which the pipeline writes"),
        ("corpus.exclude", "data/corpus/mine.txt", "which the pipeline writes"),
        ("tokenizer.vocab_file", "models/tokenizer/vocab.txt", "which the pipeline writes"),
        ("embed", {"pairs": "data/shards/pairs.jsonl"}, "which the pipeline writes"),
        ("finetune.tasks", {"cola": {"format": "glue/cola", "data": "data/examples"}}, "which the pipeline writes"),
    ],
)
def test_what_lies_where_the_pipeline_writes_is_refused_and_stays(
    where: str, path: Any, expected: str, project: Path, values: dict[str, Any]
) -> None:
    """DVC would remove it before the stage that it is read by."""
    mine = [Path("data/corpus/mine.txt"), Path("data/examples/train.tsv"), Path("data/mine.txt")]
    for file in mine:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("The only copy.")
    set_path(values, where, path)
    write(project, values)
    with pytest.raises(ConfigError, match=rf"^params\.yaml: {where}.*: found .*, {expected}.*, expected"):
        run()
    assert all(file.is_file() for file in mine)


@pytest.mark.parametrize("source", ["*.txt", "data/mine.txt", "data/*.txt", "data-of-mine/"])
def test_what_lies_beside_that_is_read(source: str, project: Path, values: dict[str, Any]) -> None:
    for file in (Path("a.txt"), Path("data/mine.txt"), Path("data-of-mine/a.txt")):
        file.parent.mkdir(exist_ok=True)
        file.write_text("Some text.")
    values["corpus"]["sources"] = [source]
    values["finetune"]["tasks"] = {}
    write(project, values)
    run()
    assert [path.name for path in Path("data/inputs/corpus/0").iterdir()]


def whole_model(directory: Path, **fields: Any) -> Path:
    """A small encoder with its tokenizer."""
    with tempfile.TemporaryDirectory() as folder:
        save_tokenizer(tokenizer(120), Path(folder), lowercase=True)
        model = build_pretraining(ModelConfig(preset="tiny", fields=fields).build(tokenizer(120).get_vocab_size()))
        save_pretrained(model, directory, Path(folder))
    return directory


def cut(directory: Path) -> None:
    (weights := directory / "model.safetensors").write_bytes(weights.read_bytes()[:-1000])


def without_a_tensor(directory: Path) -> None:
    tensors = load_file(weights := directory / "model.safetensors")
    del tensors["bert.encoder.layer.1.output.dense.weight"]
    save_file(tensors, weights)


def without_a_tokenizer(directory: Path) -> None:
    for name in ("tokenizer.json", "vocab.txt"):
        (directory / name).unlink()


def with_a_larger_vocabulary(directory: Path) -> None:
    save_tokenizer(tokenizer(140), directory, lowercase=True)


def with_a_tokenizer_of_sentencepiece(directory: Path) -> None:
    pieces = [("<unk>", 0.0), ("[CLS]", 0.0), ("[SEP]", 0.0), ("<pad>", 0.0), ("[MASK]", 0.0), ("▁the", -2.0)]
    Tokenizer(models.Unigram(pieces, unk_id=0)).save(str(directory / "tokenizer.json"))


NO_TENSOR = "found no tensor for 'encoder.layer.1.output.weight', expected the whole encoder"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, r"model.safetensors: not readable \("),
        (without_a_tensor, NO_TENSOR),
        (without_a_tokenizer, "found neither tokenizer.json nor vocab.txt"),
        (with_a_tokenizer_of_sentencepiece, "kind Unigram, expected one of: .*; give a model with such a tokenizer"),
        (with_a_larger_vocabulary, "expected at least the "),
    ],
)
def test_an_encoder_that_no_task_can_begin_with_is_refused_before_anything_is_computed(
    damage: Callable[[Path], None], message: str, project: Path, values: dict[str, Any]
) -> None:
    damage(whole_model(project / "encoder"))
    options = {"text_column": "a", "label_column": "label"}
    table_task(project, values, "a\tlabel\nx y\t1\nu\t0\n", options=options, init_from="encoder")
    with pytest.raises(InputError) as error:
        run()
    assert str(error.value).startswith("params.yaml: finetune.tasks.own.init_from: encoder"), error.value
    assert re.search(message, str(error.value)) and not Path("data/inputs").exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "model.safetensors: not readable ("),
        (without_a_tensor, NO_TENSOR),
        (with_a_larger_vocabulary, "expected the "),
    ],
)
def test_weights_that_no_training_can_begin_with_are_refused_before_anything_is_computed(
    damage: Callable[[Path], None], message: str, project: Path, values: dict[str, Any]
) -> None:
    whole_model(project / "other")
    damage(whole_model(project / "encoder"))
    values["recipe"], values["tokenizer"]["vocab_file"] = None, "other/vocab.txt"
    values["mask"] |= {"packing": "full_sentences"}
    values["pretrain"] |= {"model": {"architecture": "bert"}, "init_from": "encoder", "objective": "mlm"}
    values["pretrain"]["objective_options"] = {}
    write(project, values)
    with pytest.raises(BertcoreError) as error:
        run()
    assert str(error.value).startswith("params.yaml: pretrain.init_from: encoder"), error.value
    assert message in str(error.value) and not Path("data/inputs").exists()


def distilled(project: Path, values: dict[str, Any]) -> Path:
    """Params of a distillation, and its teacher's directory."""
    teacher = whole_model(project / "teacher")
    values["recipe"] = None
    values["tokenizer"]["vocab_file"] = "teacher/vocab.txt"
    values["mask"] |= {"packing": "full_sentences"}
    options = {"teacher": "teacher"}
    values["pretrain"] |= {"model": {"architecture": "distilbert", "preset": "tiny"}, "objective_options": options}
    values["pretrain"] |= {"objective": "distillation"}
    return teacher


def test_a_teacher_is_linked_for_dvc_to_watch(project: Path, values: dict[str, Any]) -> None:
    teacher = distilled(project, values)
    write(project, values)
    run()
    linked = Path("data/inputs/objective/teacher")
    assert {path.name for path in linked.iterdir()} == {path.name for path in teacher.iterdir()}
    assert (linked / "model.safetensors").resolve() == (teacher / "model.safetensors").resolve()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("pretrain.objective_options.teacher", None, "objective_options.teacher: found nothing (null), expected the"),
        (
            "pretrain.objective_options.teacher",
            "hf://a/b",
            "objective_options.teacher: found 'hf://a/b', expected",
        ),
        ("tokenizer.vocab_file", None, "tokenizer.vocab_file: found nothing (null) beside pretrain.objective_options"),
        ("tokenizer.vocab_file", "other/vocab.txt", "objective_options.teacher: teacher: found "),
        (
            "tokenizer.lowercase",
            False,
            "tokenizer.lowercase: found false, expected true as pretrain.objective_options.",
        ),
        ("tokenizer.new_entries", 3, "tokenizer.new_entries: found 3 beside pretrain.objective_options.teacher"),
        ("pretrain.objective_options.layers", [2], "objective_options.layers: found 2, expected layers of the teacher"),
        ("pretrain.model.hidden_size", 256, "objective_options.cosine_weight: found 1.0 with hidden_size 256"),
        (
            "pretrain.objective_options.teacher",
            "models/pretrained/x",
            "teacher: found 'models/pretrained/x', which",
        ),
        (
            "pretrain.init_from",
            "models/pretrained",
            "init_from: found 'models/pretrained', which the pipeline",
        ),
    ],
)
def test_a_teacher_that_cannot_teach_is_refused(
    path: str, value: Any, message: str, project: Path, values: dict[str, Any]
) -> None:
    teacher = distilled(project, values)
    (project / "other").mkdir()
    entries = (teacher / "vocab.txt").read_text().split("\n")
    (project / "other" / "vocab.txt").write_text("\n".join([*entries[:7], entries[8], entries[7], *entries[9:]]))
    check(values)
    set_path(values, path, value)
    if path == "pretrain.init_from":
        values["pretrain"]["model"] = {"architecture": "distilbert"}
    with pytest.raises(BertcoreError) as error:
        check(values)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_the_teachers_vocabulary_may_be_packed(project: Path, values: dict[str, Any]) -> None:
    teacher = distilled(project, values)
    (project / "vocab.txt.gz").write_bytes(gzip.compress((teacher / "vocab.txt").read_bytes()))
    values["tokenizer"] |= {"vocab_file": "vocab.txt.gz", "vocab_size": 8192}
    check(values)


@pytest.mark.parametrize("file", ["vocab.txt", "of_another.txt"])
def test_a_vocabulary_that_is_not_the_published_models_is_told_at_once(
    project: Path, values: dict[str, Any], file: str
) -> None:
    model = whole_model(project / "bert")
    first, second, *rest = (model / "vocab.txt").read_text(encoding="utf-8").splitlines()
    (project / file).write_text("\n".join([second, first, *rest]), encoding="utf-8")
    values["recipe"], values["tokenizer"]["vocab_file"] = None, file
    values["mask"] |= {"packing": "full_sentences"}
    values["pretrain"] |= {"model": {"architecture": "bert"}, "init_from": "bert", "objective": "mlm"}
    values["pretrain"]["objective_options"] = {}
    with pytest.raises(BertcoreError, match=f"pretrain.init_from: bert: found '{re.escape(first)}' as entry 0"):
        check(values)


@pytest.mark.parametrize(
    ("kind", "file"), [("wordpiece", "vocab.txt"), ("byte_bpe", "vocab.json"), ("modernbert_bpe", "tokenizer.json")]
)
def test_a_published_model_is_compared_with_the_vocabulary_that_is_given(
    kind: Any, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published_models, "published_config", lambda *_: SimpleNamespace(vocab_size=2))
    for place, entries in (("published", ["a", "b"]), ("given", ["b", "a"])):
        ids = {entry: index for index, entry in enumerate(entries)}
        whole = {"model": {"vocab": ids}, "added_tokens": []} if file == "tokenizer.json" else ids
        (tmp_path / place).mkdir()
        (tmp_path / place / file).write_text("\n".join(entries) if file == "vocab.txt" else json.dumps(whole))
    config = TokenizerConfig(
        kind=kind, vocab_file=str(tmp_path / "given" / file), merges_file="merges.txt" if kind == "byte_bpe" else None
    )
    with pytest.raises(BertcoreError, match="found 'a' as entry 0, expected 'b'"):
        published_models.check_same_entries(str(tmp_path / "published"), config, "pretrain.init_from")


def test_letters_that_the_published_model_has_not_read_are_told_at_once(project: Path, values: dict[str, Any]) -> None:
    model = whole_model(project / "bert")
    values["recipe"], values["tokenizer"]["vocab_file"] = None, "bert/vocab.txt"
    values["mask"] |= {"packing": "full_sentences"}
    values["pretrain"] |= {"model": {"architecture": "bert"}, "init_from": "bert", "objective": "mlm"}
    values["pretrain"]["objective_options"] = {}
    check(values)
    (model / "tokenizer.json").unlink(missing_ok=True)
    (model / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    said = (
        "tokenizer.lowercase: found null, which is true for wordpiece, expected false as pretrain.init_from: bert was"
    )
    with pytest.raises(BertcoreError, match=said):
        check(values)
    values["tokenizer"]["lowercase"] = False
    check(values)


def test_a_student_of_published_weights_takes_nothing_over(project: Path, values: dict[str, Any]) -> None:
    distilled(project, values)
    values["pretrain"] |= {"model": {"architecture": "bert"}, "init_from": "teacher"}
    with pytest.raises(ConfigError, match=r"layers: found None beside pretrain.init_from.*set it to \[\]"):
        check(values)
    values["pretrain"]["objective_options"]["layers"] = []
    check(values)


@pytest.mark.parametrize("where", ["tokenizer.vocab_file", "pretrain.init_from", "finetune.tasks.one.init_from"])
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("hf://google-bert/bert-base-uncased", "a local path; download it"),
        ("~/models/bert-base", "a path without ~; write it out"),
    ],
)
def test_what_must_be_local_is_not_looked_for_elsewhere(
    where: str, path: str, expected: str, values: dict[str, Any]
) -> None:
    values["finetune"]["tasks"] = {"one": {"format": "glue/cola", "data": "cola"}}
    values["pretrain"]["model"] = {}
    set_path(values, where, path)
    with pytest.raises(ConfigError, match=f"{where}: found '{path}', expected {expected}"):
        check(values)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("pretrain.init_from", "google-bert/bert-base-uncased"),
        ("finetune.tasks.topic.init_from", "bert-base-uncased"),
        ("finetune.tasks.topic.distillation.teacher", "bert-base-uncased"),
        ("pretrain.objective_options.teacher", "bert-base-uncased"),
    ],
)
def test_a_name_of_the_hub_is_refused_with_its_key_and_how_to_download_it(
    where: str, value: str, values: dict[str, Any]
) -> None:
    values["pretrain"]["model"] = {"architecture": "bert"}
    if "objective_options" in where:
        values["pretrain"] |= {"objective": "distillation", "objective_options": {}, "model": {"preset": "tiny"}}
    set_path(values, where, value)
    message = f"params.yaml: {where}: {value}/config.json: not found, .* hf download {value} --local-dir {value}$"
    with pytest.raises(ArtifactError, match=f"^{message}"):
        check(values)
    set_path(values, where, f"../models/{value}")
    with pytest.raises(ArtifactError, match=f"^params.yaml: {where}: .*; correct the path$"):
        check(values)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("corpus.contamination", {"texts": [""]}),
        ("corpus.exclude", ""),
        ("tokenizer.vocab_file", ""),
        ("minimal_pairs.pairs", ""),
        ("pretrain.eval_pairs", {"pairs": ""}),
        ("pretrain.init_from", ""),
        ("embed.pairs", ""),
        ("finetune.tasks.one.data", ""),
    ],
)
def test_an_empty_path_is_refused_with_its_key(where: str, value: Any, values: dict[str, Any]) -> None:
    values["finetune"]["tasks"] = {"one": {"format": "glue/cola", "data": "cola"}}
    values["pretrain"]["model"], values["embed"] = {}, {}
    set_path(values, where, value)
    with pytest.raises(ConfigError, match=rf"^params\.yaml: {where}.*: found '', expected a path"):
        check(values)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a.txt:1\n\xff\n", r"corpus\.exclude: ids\.txt: byte 8 is not UTF-8; convert"),
        (None, r"corpus\.exclude: found 'ids.txt', where nothing is, expected a file"),
    ],
)
def test_a_file_of_ids_that_cannot_be_read_is_told_at_once(
    content: bytes | None, message: str, project: Path, values: dict[str, Any]
) -> None:
    if content is not None:
        Path("ids.txt").write_bytes(content)
    values["corpus"]["exclude"] = "ids.txt"
    write(project, values)
    with pytest.raises(InputError, match=rf"^params\.yaml: {message}"):
        run()
    values["corpus"]["exclude"] = "https://example.org/ids.txt"
    with pytest.raises(ConfigError, match=r"corpus\.exclude: found https://.*expected a local file; download it"):
        check(values)


def test_a_list_of_tasks_is_refused(values: dict[str, Any]) -> None:
    values["finetune"]["tasks"] = ["cola"]
    with pytest.raises(ConfigError, match=r"tasks: found \['cola'\] \(list\), expected a mapping of tasks"):
        check(values)


@pytest.mark.parametrize("name", [2020, "2020", True, "-a", "a b", "a" * 300])
def test_a_task_name_that_dvc_would_not_find_is_refused(name: Any, values: dict[str, Any]) -> None:
    values["finetune"]["tasks"] = {name: {"format": "glue/cola", "data": "cola"}}
    with pytest.raises(ConfigError, match=f"found the task name {name!r}.*letter.*; rename it"):
        check(values)


def test_options_are_a_file_that_dvc_watches(project: Path, values: dict[str, Any]) -> None:
    (project / "table").mkdir()
    for split in ("train", "dev"):
        (project / "table" / f"{split}.csv").write_text("text,label\nsome words,1\nmore,0\n")
    entry = {"format": "table", "data": "table", "epochs": 1}
    values["finetune"]["tasks"] = {
        "one": {**entry, "options": {"text_column": "text"}},
        "two": entry,
    }
    write(project, values)
    run()
    written = {path.name: json.loads(path.read_text()) for path in Path("data/inputs/options").iterdir()}
    assert written == {"one.json": {"text_column": "text"}, "two.json": {}}
    assert params.task("one", TaskConfig) == params.task("two", TaskConfig)


@pytest.mark.parametrize(
    ("sources", "data", "message"),
    [
        (["missing.txt"], None, "params.yaml: corpus.sources[0]: missing.txt: no such file"),
        (["pydoc", "params.yaml"], None, "params.yaml: corpus.sources[1]: params.yaml: "),
        (["ftp://x/y"], None, "params.yaml: corpus.sources[0]: ftp://x/y: unknown kind of source 'ftp'"),
        (["hf://only-one-part"], None, "corpus.sources[0]: hf://only-one-part: not the name of a data set on the hub"),
        (["hf://datasets/allenai/c4"], None, "found `datasets/` before the name, expected hf://ORG/NAME"),
        (
            ["pydoc"],
            "missing",
            "params.yaml: finetune.tasks.cola.data: found 'missing', where nothing is, expected a file",
        ),
    ],
)
def test_missing_files_and_unknown_sources_leave_nothing_behind(
    project: Path, values: dict[str, Any], sources: list[str], data: str | None, message: str
) -> None:
    values["corpus"]["sources"] = sources
    if data:
        values["finetune"]["tasks"] = {"cola": {"format": "glue/cola", "data": data}}
    write(project, values)
    with pytest.raises(BertcoreError) as error:
        run()
    assert message in str(error.value) and "\n" not in str(error.value)
    assert not Path("data/inputs").exists() and list(Path("data").glob("*") if Path("data").exists() else []) == []


def test_without_tasks_the_places_that_later_stages_depend_on_are_there(project: Path, values: dict[str, Any]) -> None:
    values["finetune"]["tasks"] = {}
    write(project, values)
    run()
    for name in ("data/examples", "metrics/examples", "metrics/finetune"):
        assert list(Path(name).iterdir()) == []


def test_a_stage_ends_with_status_2_and_its_error_in_one_line(project: Path, values: dict[str, Any]) -> None:
    (project / "dvc.yaml").write_text((ROOT / "dvc.yaml").read_text())
    for link in ("bertcore", "tasks"):
        (project / link).symlink_to(ROOT / link)
    values["pretrain"]["learning_rate"] = "fast"
    write(project, values)
    result = subprocess.run([sys.executable, "-m", "tasks.inputs"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert [
        line for line in result.stderr.splitlines() if line.startswith("error: params.yaml: pretrain.learning_rate")
    ]
    assert "Traceback" not in result.stderr


def published(directory: Path, **changes: Any) -> str:
    """A directory with the config of a small published model, and its tokenizer."""
    directory.mkdir()
    save_tokenizer(tokenizer(100), directory, lowercase=True)
    config = asdict(ModelConfig(preset="tiny", fields=changes).build(100))
    (directory / "config.json").write_text(json.dumps(config))
    return str(directory)


_PAIRS = {"mask.packing": "pairs", "pretrain.objective": "mlm_nsp"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"pretrain.model": {"type_vocab_size": 1}, **_PAIRS},
            "mask.packing: found 'pairs' with pretrain.model.type_vocab_size 1",
        ),
        (
            {"mask.second_phase": {"sequence_length": 256}, "pretrain.second_phase": {"share": 0.0001}},
            "pretrain.second_phase.share: found 0.0001 of 3200 steps, expected at least one step in each phase",
        ),
        (
            {"finetune.tasks.qa.max_query_length": 125},
            "finetune.tasks.qa.sequence_length: found 128 tokens with max_query_length 125, expected at least 129",
        ),
        (
            {"finetune.tasks.topic.crf": True},
            "finetune.tasks.topic.crf: found True with the format 'pydoc/topic', which does not read it; remove it",
        ),
        (
            {"finetune.tasks.pair.null_threshold": "tuned"},
            "finetune.tasks.pair.null_threshold: found 'tuned' with the format 'pydoc/pair'",
        ),
        ({"finetune.tasks.topic.seed": [1, -1]}, "finetune.tasks.topic.seed: found -1, expected 0 <= seed < 2^32"),
        (
            {"pretrain.model": {"type_vocab_size": 1}, "pretrain.objective": "mlm", "mask.packing": "full_sentences"},
            "pretrain.model.type_vocab_size: found an encoder with type_vocab_size 1, expected 2 for 'pydoc/pair'",
        ),
        *(
            (
                {"pretrain.init_from": "BERT", f"pretrain.model.{name}": value},
                f"pretrain.model.{name}: found {value!r} beside init_from",
            )
            for name, value in (
                ("hidden_size", 64),
                ("hidden_act", "relu"),
                ("max_position_embeddings", 256),
                ("num_attention_heads", 24),
            )
        ),
        ({"pretrain.init_from": "BERT"}, "tokenizer.vocab_file: found nothing (null) beside pretrain.init_from"),
        ({"corpus.language": "hi"}, "tokenizer.lowercase: found null with corpus.language 'hi', expected false"),
        (
            {"corpus.language": "ja", "tokenizer.lowercase": True},
            "tokenizer.lowercase: found true with corpus.language 'ja', expected false",
        ),
    ],
)
def test_parameters_that_exclude_each_other_are_found_first(
    values: dict[str, Any], tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    if "pretrain.init_from" in changes:
        changes = changes | {"pretrain.init_from": published(tmp_path / "bert")}
        values["pretrain"]["model"] = {}
    for path, value in changes.items():
        set_path(values, path, value)
    with pytest.raises(ConfigError) as error:
        check(values)
    assert str(error.value).startswith(f"params.yaml: {message}") and "\n" not in str(error.value)


def test_what_a_published_shape_allows_is_checked_against_that_shape(values: dict[str, Any], tmp_path: Path) -> None:
    sizes = {"hidden_size": 96, "num_attention_heads": 3}  # 3 heads divide no preset's width
    values["pretrain"]["init_from"] = published(tmp_path / "bert", **sizes)
    values["tokenizer"]["vocab_file"] = str(tmp_path / "bert" / "vocab.txt")
    values["pretrain"]["model"] = {"num_attention_heads": 3}
    check(values)
    values["pretrain"]["model"] = {"hidden_dropout_prob": 1.5}
    with pytest.raises(ConfigError, match=r"^params\.yaml: pretrain\.model\.hidden_dropout_prob: found 1\.5"):
        check(values)


def with_recipe_of(name: str) -> dict[str, Any]:
    """The committed params, their recipe alone changed."""
    values: dict[str, Any] = YAML(typ="safe", pure=True).load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    return params.complete(values | {"recipe": name})


@pytest.mark.parametrize("name", sorted({*NAMES} - {"distilbert", "roberta"}))  # which have tests of their own
def test_one_key_changes_the_member_of_the_family(name: str, values: dict[str, Any]) -> None:
    configs, tasks = check(with_recipe_of(name))
    others = {"modern": "modernbert", "bert-2018": "bert", "deberta": "deberta-v2", "deberta-v3": "deberta-v2"}
    expected = others.get(name, name)
    assert configs["pretrain"].model.architecture == expected and configs["pretrain"].model.preset == "tiny"
    assert tasks.keys() == values["finetune"]["tasks"].keys()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mask.packing": "pairs"}, "expects 'full_sentences' or 'doc_sentences'; change it"),
        (
            {"pretrain.objective": "mlm_sop"},
            "pretrain.objective: found 'mlm_sop', but electra has no head for pairs of sentences",
        ),
        (
            {"pretrain.objective_options": {"generator_width": 2.0}},
            "pretrain.objective_options.generator_width: found 2.0, expected a share of the model's own",
        ),
        (
            {"minimal_pairs.variant": "within_word_l2r"},
            "minimal_pairs.variant: found 'within_word_l2r', but the model tells replaced tokens",
        ),
    ],
)
def test_what_excludes_a_generator_is_found_first(changes: dict[str, Any], message: str) -> None:
    values = with_recipe_of("electra")
    for path, value in changes.items():
        set_path(values, path, value)
    with pytest.raises(ConfigError) as error:
        check(values)
    assert message in str(error.value) and str(error.value).startswith("params.yaml: "), str(error.value)
    assert "\n" not in str(error.value)


def published_discriminator(directory: Path, generator: dict[str, Any]) -> Path:
    """An ELECTRA of preset tiny, and beside it a generator with other `generator` values."""
    entries = tokenizer(120).get_vocab_size()
    with tempfile.TemporaryDirectory() as folder:
        save_tokenizer(tokenizer(120), Path(folder), lowercase=True)
        for place, fields in ((directory, {}), (directory / GENERATOR, generator)):
            config = ModelConfig(architecture="electra", preset="tiny", fields=fields).build(entries)
            model = build_pretraining(config) if fields else build_discriminator(config)
            save_pretrained(model, place, Path(folder))
    return directory


@pytest.mark.parametrize(
    ("generator", "message"),
    [
        ({"num_hidden_layers": 3}, r"num_hidden_layers: found 3, expected at most the \d of the model"),
        ({"embedding_size": 32}, "embedding_size: found 32, expected .* as in the model beside it"),
    ],
)
def test_a_published_generator_that_does_not_fit_is_found_first(
    generator: dict[str, Any], message: str, project: Path
) -> None:
    values = with_recipe_of("electra")
    published_discriminator(project / "electra", {"num_hidden_layers": 1})
    values["pretrain"] |= {"init_from": "electra", "model": {"architecture": "electra"}}
    values["tokenizer"] |= {"vocab_file": "electra/vocab.txt"}
    check(values)
    shutil.rmtree(project / "electra")
    published_discriminator(project / "electra", generator)
    with pytest.raises(InputError, match=f"^params.yaml: pretrain.init_from: electra/generator: {message}"):
        check(values)


def test_a_published_model_of_sentencepiece_is_refused_for_its_tokenizer(project: Path, values: dict[str, Any]) -> None:
    with_a_tokenizer_of_sentencepiece(whole_model(project / "encoder"))
    (project / "encoder" / "vocab.txt").unlink()
    values["recipe"] = None
    values["mask"] |= {"packing": "full_sentences"}
    values["pretrain"] |= {"model": {"architecture": "bert"}, "init_from": "encoder", "objective": "mlm"}
    values["pretrain"]["objective_options"] = {}
    with pytest.raises(InputError) as error:
        check(values)
    said = "params.yaml: pretrain.init_from: encoder/tokenizer.json: found a tokenizer of the kind Unigram, expected"
    assert str(error.value).startswith(said) and "\n" not in str(error.value)
    (project / "encoder" / "tokenizer.json").rename(project / "encoder" / "spiece.model")
    with pytest.raises(InputError, match="pretrain.init_from: encoder: found neither tokenizer.json nor vocab.txt"):
        check(values)


def test_pairs_cannot_be_learned_from_packed_texts(values: dict[str, Any]) -> None:
    values = with_recipe_of("bert-2018")
    values["mask"]["packing"] = "full_sentences"
    with pytest.raises(ConfigError, match=r"^params\.yaml: mask\.packing: found 'full_sentences' with .* 'mlm_nsp'"):
        check(values)


@pytest.mark.parametrize(
    "path",
    [
        "pretrain.init_from",
        "pretrain.objective_options.teacher",
        "finetune.tasks.topic.init_from",
        "finetune.tasks.topic.distillation.teacher",
    ],
)
def test_a_published_architecture_that_is_not_here_is_refused(path: str, project: Path, values: dict[str, Any]) -> None:
    distilled(project, values)
    other = whole_model(project / "other")
    (other / "config.json").write_text(json.dumps({"model_type": "xlnet", "hidden_size": 128}))
    values["finetune"]["tasks"] = {"topic": {"format": "pydoc/topic", "data": "corpus"}}
    set_path(values, path, "other")
    if path == "pretrain.init_from":
        del values["pretrain"]["model"]["preset"]
    with pytest.raises(ArtifactError) as error:
        check(values)
    said = f"params.yaml: {path}: other/config.json: model_type: found 'xlnet'"
    assert str(error.value).startswith(said) and "\n" not in str(error.value), error.value


@pytest.mark.parametrize(("name", "section"), [("shards", "{}"), ("finetune", "{tasks: {}}")])
def test_a_missing_section_is_told_in_our_words(name: str, section: str, values: dict[str, Any]) -> None:
    del values[name]
    with pytest.raises(
        ConfigError, match=f"params.yaml: {name}: found nothing, .*; add `{name}: {re.escape(section)}`"
    ):
        check(values)


def table_task(project: Path, values: dict[str, Any], text: str, **entry: Any) -> None:
    (project / "task").mkdir()
    for split in ("train", "dev"):
        (project / "task" / f"{split}.tsv").write_text(text)
    values["finetune"]["tasks"] = {"own": {"format": "table", "data": "task", **entry}}
    write(project, values)


def test_a_task_whose_data_cannot_be_read_is_found_before_anything_is_computed(
    project: Path, values: dict[str, Any]
) -> None:
    table_task(
        project, values, "words\tclass\nsome words\t1\n", options={"text_column": "txt", "label_column": "class"}
    )
    with pytest.raises(BertcoreError) as error:
        run()
    assert str(error.value).startswith("params.yaml: finetune.tasks.own.data: task/") and "txt" in str(error.value)
    assert not Path("data/inputs").exists()


def test_warnings_name_the_files_of_a_task_as_they_are_given(
    project: Path, values: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    table_task(project, values, "text\tlabel\nsome words\ta\nother words\tb\n")
    (project / "task" / "notes.tsv").write_text("seen\n")
    run()
    assert caplog.messages == ["task: not read, as no split is made of them: notes.tsv"]


def test_documents_of_a_set_on_the_hub_are_refused(values: dict[str, Any]) -> None:
    entry = {"format": "conll", "data": "hf://o/names", "options": {"unit": "document"}}
    values["finetune"]["tasks"] = {"names": entry}
    with pytest.raises(InputError, match=r"^params.yaml: finetune.tasks.names.options: hf://o/names: found unit: doc"):
        check(values)


def test_pairs_of_texts_need_an_encoder_with_two_segments(project: Path, values: dict[str, Any]) -> None:
    options = {"text_column": "a", "text_pair_column": "b", "label_column": "label"}
    encoder = str(whole_model(project / "one", type_vocab_size=1))
    table_task(project, values, "a\tb\tlabel\nx y\tz\t1\nu\tv\t0\n", options=options, init_from=encoder)
    with pytest.raises(ConfigError, match="finetune.tasks.own.init_from: found an encoder with type_vocab_size 1"):
        run()


def test_a_teacher_of_another_kind_of_task_is_found_first(tmp_path: Path, values: dict[str, Any]) -> None:
    teacher = Path(published(tmp_path / "teacher"))
    values["finetune"]["tasks"]["topic"]["distillation"] = {"teacher": str(teacher)}
    config = json.loads((teacher / "config.json").read_text())
    for architectures in ({}, {"architectures": ["BertForMaskedLM"]}):
        (teacher / "config.json").write_text(json.dumps(config | architectures))
        with pytest.raises(ConfigError, match=r"topic\.distillation\.teacher: .* expected 'BertForSequenceClassif"):
            check(values)
    (teacher / "config.json").write_text(json.dumps(config | {"architectures": ["BertForSequenceClassification"]}))
    check(values)


def fine_tuned(directory: Path, labels: list[str]) -> Path:
    """A classifier with its tokenizer."""
    with tempfile.TemporaryDirectory() as folder:
        save_tokenizer(tokenizer(120), Path(folder), lowercase=True)
        shape = ModelConfig(preset="tiny").build(tokenizer(120).get_vocab_size())
        model = build_head(shape, "sequence_classification", len(labels))
        save_pretrained(model, directory, Path(folder), label_names(labels))
    return directory


def test_a_teacher_of_other_labels_or_entries_is_found_before_anything_is_computed(
    project: Path, values: dict[str, Any]
) -> None:
    options = {"text_column": "a", "label_column": "label"}
    distillation = {"teacher": "teacher"}
    table_task(project, values, "a\tlabel\nx y\t1\nu\t0\n", options=options, distillation=distillation)
    teacher = fine_tuned(project / "teacher", ["0", "1"])
    run()
    values["finetune"]["tasks"]["own"]["init_from"] = "encoder"
    write(project, values)
    student = whole_model(project / "encoder")
    run()
    entries = (student / "vocab.txt").read_text().split("\n")
    (student / "tokenizer.json").unlink()
    (student / "vocab.txt").write_text("\n".join([*entries[:7], entries[8], entries[7], *entries[9:]]))
    with pytest.raises(InputError, match=r"^params.yaml: finetune.tasks.own.distillation.teacher: teacher: .*entry"):
        run()
    values["finetune"]["tasks"]["own"]["init_from"] = None
    write(project, values)
    shutil.rmtree(teacher)
    fine_tuned(teacher, ["0", "2"])
    with pytest.raises(InputError, match=r"^params.yaml: finetune.tasks.own.distillation.teacher: .*: label2id: found"):
        run()


def test_a_question_needs_room_for_the_separators_of_its_tokenizer(roberta: dict[str, Any]) -> None:
    qa = roberta["finetune"]["tasks"]["qa"]
    qa["max_query_length"] = 64
    for length in (68, 69):
        qa["sequence_length"] = length
        if length == 69:
            check(params.complete(roberta))
        else:
            with pytest.raises(ConfigError, match=r"qa\.sequence_length: found 68 tokens .* at least 69"):
                check(params.complete(roberta))


@pytest.mark.parametrize("where", ["minimal_pairs", "pretrain.eval_pairs"])
def test_minimal_pairs_are_linked_and_read_before_any_work(where: str, project: Path, values: dict[str, Any]) -> None:
    (project / "pairs.jsonl").write_text('{"good": "a b", "bad": "b a", "kind": "order"}\n')
    set_path(values, where, {"pairs": ["pairs.jsonl"]})
    values["finetune"]["tasks"] = {}
    write(project, values)
    Path("predictions/minimal_pairs").mkdir(parents=True)
    run()
    assert Path("data/inputs", where.rpartition(".")[2], "0/pairs.jsonl").is_symlink()
    assert Path("predictions/minimal_pairs").is_dir()
    (project / "pairs.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match=r"^pairs\.jsonl:1: found dict, expected an object with good, bad, kind"):
        run()
    set_path(values, where, {"pairs": "hf://nyu-mll/blimp"})
    with pytest.raises(ConfigError, match=rf"{where}\.pairs\[0\]: found 'hf://.*', expected a local path"):
        check(values)


@pytest.mark.parametrize(
    ("given", "found"),
    [({"pairs": "corpus"}, "'corpus', expected files"), ({"pairs": []}, r"\[\], expected files")],
    ids=["those of the corpus", "none"],
)
def test_pairs_that_a_training_cannot_score_are_refused(given: Any, found: str, values: dict[str, Any]) -> None:
    values["pretrain"]["eval_pairs"] = given
    with pytest.raises(ConfigError, match=rf"^params.yaml: pretrain\.eval_pairs\.pairs: found {found}"):
        check(values)


def test_pairs_of_texts_are_linked_and_read_before_any_work(project: Path, values: dict[str, Any]) -> None:
    (project / "texts.jsonl").write_text("".join(f'{{"anchor": "{n}", "positive": "{n}!"}}\n' for n in range(99)))
    values |= {"embed": {"pairs": "texts.jsonl"}, "finetune": {"tasks": {}}}
    write(project, values)
    run()
    assert Path("data/inputs/embed/texts.jsonl").is_symlink()
    (project / "texts.jsonl").write_text('{"anchor": "a", "positive": "b"}\n{"anchor": "a"}\n')
    with pytest.raises(InputError, match=r"^texts\.jsonl:2: found anchor, expected an object with anchor, positive"):
        run()
    for few in (1, 100):
        (project / "texts.jsonl").write_text('{"anchor": "a", "positive": "b"}\n' * few)
        with pytest.raises(InputError, match=r"embed\.pairs: texts\.jsonl: found \d pairs to .*, expected at least 2"):
            run()
    for changes, message in (
        ({"pairs": "neighbors"}, "found 'neighbors', expected neighbours, twins, title_body, or JSON lines"),
        ({"pairs": "hf://a/b"}, "found 'hf://a/b', expected a local path"),
        ({"pairs": "twins", "dimensions": [4096]}, "embed.dimensions: found 4096, expected less than the"),
        ({"pairs": "twins", "sequence_length": 4096}, "embed.sequence_length: found 4096 tokens, expected at most"),
    ):
        write(project, values | {"embed": changes})
        with pytest.raises(BertcoreError, match=message):
            run()


def test_what_a_removed_task_has_left_is_removed_and_nothing_else(project: Path, values: dict[str, Any]) -> None:
    table_task(project, values, "text\tlabel\nsome words\t1\nmore\t0\n")
    for name in ("own", "gone"):
        for directory in ("data/examples", "models/finetuned", "predictions"):
            Path(directory, name).mkdir(parents=True)
        for directory in ("metrics/examples", "metrics/finetune", "metrics/timing/finetune"):
            Path(directory).mkdir(parents=True, exist_ok=True)
            Path(directory, f"{name}.json").write_text("{}")
    outs = [{"path": str(path), "md5": "0"} for path in Path().rglob("*gone*")]
    Path("dvc.lock").write_text(json.dumps({"schema": "2.0", "stages": {"finetune@gone": {"outs": outs}}}))
    Path("predictions/teams.csv").write_text("the user's own")
    run()
    assert [path for path in Path().rglob("*gone*")] == [] and Path("predictions/teams.csv").is_file()
    kept = [path for path in Path().rglob("*own*") if "inputs" not in path.parts]
    assert len(kept) == 6


def test_one_key_asks_for_roberta_from_raw_text_to_tasks(roberta: dict[str, Any]) -> None:
    configs, tasks = check(params.complete(roberta))
    mask, pretrain = configs["mask"], configs["pretrain"]
    assert (configs["tokenizer"].kind, pretrain.model.architecture) == ("byte_bpe", "roberta")
    assert (mask.packing, mask.rounding, mask.random_ids) == ("full_sentences", "roberta", "no_special")
    assert (pretrain.beta2, pretrain.epsilon, pretrain.max_grad_norm) == (0.98, 1e-6, None)
    assert pretrain.max_steps == roberta["pretrain"]["max_steps"] > pretrain.warmup and tasks.keys() == {
        *roberta["finetune"]["tasks"]
    }


@pytest.fixture
def roberta_base(tmp_path: Path) -> Path:
    """A RoBERTa with its tokenizer, and beside it the vocabulary of a BERT."""
    (tmp_path / "tokenizer").mkdir()
    save_byte_tokenizer(byte_tokenizer(), tmp_path / "tokenizer")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = build_pretraining(RobertaConfig(vocab_size=400, **sizes))
    save_pretrained(model, tmp_path / "roberta", tmp_path / "tokenizer")
    save_tokenizer(tokenizer(), tmp_path, lowercase=True)
    return tmp_path / "roberta"


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"tokenizer": {"kind": "wordpiece"}},
            "tokenizer.kind: found 'wordpiece' with the architecture 'roberta', expected 'byte_bpe'; set it to that",
        ),
        ({"tokenizer": {"lowercase": True}}, "params.yaml: tokenizer.lowercase: found true, expected false or null"),
        (
            {"tokenizer": {"vocab_file": "{0}/vocab.json"}},
            "params.yaml: tokenizer.merges_file: found nothing (null) beside vocab_file {0}/vocab.json",
        ),
        (
            {"tokenizer": {"vocab_file": "{0}/../vocab.txt", "merges_file": "{0}/merges.txt"}},
            "found a vocabulary of the kind 'wordpiece' in {0}/../vocab.txt, expected 'byte_bpe'",
        ),
        (
            {"pretrain": {"init_from": "{0}", "model": {"preset": None, "architecture": "bert"}}},
            "pretrain.model.architecture: found 'bert' beside init_from, expected 'roberta'",
        ),
        (
            {
                "pretrain": {
                    "init_from": "{0}",
                    "model": {"preset": None, "architecture": "roberta", "max_position_embeddings": 5},
                }
            },
            "pretrain.model.max_position_embeddings: found 5 beside init_from, expected ",
        ),
        (
            {"pretrain": {"init_from": "{0}", "model": {"preset": None}}},
            "set tokenizer.vocab_file to {0}/vocab.json and tokenizer.merges_file to {0}/merges.txt",
        ),
        (
            {
                "tokenizer": {"kind": "wordpiece"},
                "pretrain": {"init_from": "{0}", "model": {"preset": None, "architecture": "roberta"}},
            },
            "set tokenizer.vocab_file to {0}/vocab.json and tokenizer.merges_file to {0}/merges.txt, and "
            "tokenizer.lowercase as it was trained, with tokenizer.kind: byte_bpe",
        ),
        ({"mask": {"sequence_length": 600}}, "mask.sequence_length: found 600 tokens, expected at most the 512"),
        ({"pretrain": {"objective": "mlm_nsp"}, "mask": {"packing": "pairs"}}, "roberta has no head for pairs"),
    ],
)
def test_what_does_not_go_with_roberta_is_one_line(
    roberta: dict[str, Any], roberta_base: Path, sections: dict[str, Any], message: str
) -> None:
    text = json.dumps(sections).replace("{0}", str(roberta_base))
    for name, values in json.loads(text).items():
        roberta[name] = {**roberta[name], **values}
    with pytest.raises(ConfigError, match=re.escape(message.replace("{0}", str(roberta_base)))) as raised:
        check(params.complete(roberta))
    assert "\n" not in str(raised.value)


def test_published_roberta_weights_with_their_vocabulary_pass(roberta: dict[str, Any], roberta_base: Path) -> None:
    files = {"vocab_file": f"{roberta_base}/vocab.json", "merges_file": f"{roberta_base}/merges.txt"}
    roberta["tokenizer"] = {**roberta["tokenizer"], **files}
    model = {"preset": None, "architecture": "roberta"}
    roberta["pretrain"] = {**roberta["pretrain"], "init_from": str(roberta_base), "model": model}
    configs, _ = check(params.complete(roberta))
    assert configs["pretrain"].init_from == str(roberta_base)


def test_the_files_of_a_vocabulary_are_read(roberta_base: Path) -> None:
    config = TokenizerConfig(
        kind="byte_bpe", vocab_file=f"{roberta_base}/vocab.json", merges_file=f"{roberta_base}/merges.txt"
    )
    inputs._check_vocabulary(config)
    (roberta_base / "merges.txt").write_text("x y\n")
    with pytest.raises(InputError, match=r"tokenizer.vocab_file: .*found the merge of 'x' and 'y'"):
        inputs._check_vocabulary(config)
