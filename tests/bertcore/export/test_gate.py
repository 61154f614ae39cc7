"""A good model of every head passes; what differs between memory and disk is caught, with and without transformers."""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from accelerate import Accelerator
from safetensors.torch import load_file, save_file

from bertcore.errors import ArtifactError
from bertcore.export import gate, verify
from bertcore.export.directory import OTHER_KEYS, check_tokenizer, read_config, read_model
from bertcore.export.kinds import ROWS, outputs_of_class
from bertcore.export.probe import Expected, Probe, require_equal
from bertcore.model.bert import BERT
from bertcore.model.huggingface import WEIGHTS, load_config, load_pretrained
from bertcore.tokens.wordpiece import make_tokenizer, save_tokenizer
from tests.bertcore.export.conftest import LABELS, SIZES, Example
from tests.samples import tokenizer

HEADS = [name for name in BERT.kinds if name != "BertForMaskedLM"]  # ModernBERT has a file of its own
TIED = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
WEIGHT = "bert.encoder.layer.1.attention.self.value.weight"


@pytest.fixture
def without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)


@pytest.fixture
def copied(examples: dict[str, Example], tmp_path: Path) -> Path:
    """The pre-training model's directory, to be damaged."""
    return Path(shutil.copytree(examples["BertForPreTraining"].directory, tmp_path / "model"))


def change_tensors(directory: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(directory / WEIGHTS)
    change(tensors)
    save_file(tensors, directory / WEIGHTS)


def change_config(directory: Path, **values: Any) -> None:
    path = directory / "config.json"
    content = json.loads(path.read_text()) | values
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not ...}))


def flip(tensors: dict[str, torch.Tensor]) -> None:
    tensors[WEIGHT][3, 4] *= -1


@pytest.mark.parametrize("architecture", HEADS)
def test_a_good_model_of_every_head_passes(architecture: str, examples: dict[str, Example]) -> None:
    example = examples[architecture]
    said = verify.verify(example.directory, example.expected, example.tokenizer)
    assert said.startswith(f"{example.directory}: {architecture}, ") and "outputs as in memory" in said
    assert f"transformers loads it by {ROWS[example.model.kind].auto_class}, " in said


def test_a_fresh_process_accepts_and_says_what_it_verified(
    examples: dict[str, Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    example = examples["BertForPreTraining"]
    monkeypatch.setenv("WORLD_SIZE", "2")  # as in a process of a launcher
    said = gate.check(example.model, example.directory, example.tokenizer)
    assert said.endswith("transformers loads it by AutoModelForPreTraining, AutoModelForMaskedLM, AutoTokenizer")
    assert example.directory.is_dir() and example.model.training


def test_a_rejected_model_is_moved_aside_and_nothing_else_is_left(
    examples: dict[str, Example], copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_tensors(copied, flip)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / ".model.rejected").mkdir()  # of another day
    with pytest.raises(ArtifactError) as caught:
        gate.check(examples["BertForPreTraining"].model, copied)
    message = str(caught.value)
    assert message.startswith(f"{copied}: prediction_logits: found outputs that differ by 0.0") and "\n" not in message
    assert "expected at most 1e-05" in message
    assert message.endswith(f"; the model was moved to {tmp_path}/.model.rejected")
    assert sorted(path.name for path in tmp_path.rglob("*") if path.parent.name != ".model.rejected") == [
        ".model.rejected",
        "temporary",
    ]
    assert (tmp_path / ".model.rejected" / WEIGHTS).is_file()


@pytest.mark.parametrize("replaced", [False, True])
def test_what_another_process_has_put_in_its_place_stays(
    replaced: bool, examples: dict[str, Example], copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As dvc does, and the next run, where a training outlives its killed stage."""
    verifier = tmp_path / "verifier"
    again = f"mkdir {copied} && touch {copied}/{WEIGHTS}" if replaced else "true"
    verifier.write_text(f"#!/bin/sh\nrm -r {copied} && {again}\nexit {gate.REJECTED}\n")
    verifier.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(verifier))
    with pytest.raises(ArtifactError, match=r"another process has removed or replaced it while .* run the same"):
        gate.check(examples["BertForPreTraining"].model, copied)
    assert (copied / WEIGHTS).is_file() == replaced and not (tmp_path / ".model.rejected").exists()


def test_a_process_that_dies_is_no_acceptance(
    examples: dict[str, Example], copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(ArtifactError, match=r"ended with status 1 \(it said nothing\), expected 0; run `python -m"):
        gate.check(examples["BertForPreTraining"].model, copied)
    assert not copied.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (flip, r"prediction_logits: found outputs that differ by 0\.\d+ of the largest"),
        (lambda tensors: tensors.pop(WEIGHT), rf"found 1 missing \({WEIGHT}\) of 46 keys expected; save the model"),
        (lambda tensors: tensors.update(more=torch.ones(2)), r"found 1 unexpected \(more\) of 46 keys expected"),
        (
            lambda tensors: tensors.update({"bert.pooler.bias": tensors.pop("bert.pooler.dense.bias")}),
            r"found 1 missing \(bert\.pooler\.dense\.bias\) and 1 unexpected \(bert\.pooler\.bias\)",
        ),
        (
            lambda tensors: tensors.update({WEIGHT: tensors[WEIGHT][:8].clone()}),
            r"value\.weight: found \(8, 32\) torch\.float32, expected \(32, 32\)",
        ),
        (
            lambda tensors: tensors.update({WEIGHT: tensors[WEIGHT].half()}),
            r"found \(32, 32\) torch\.float16, expected \(32, 32\) torch\.float32",
        ),
        (lambda tensors: tensors[WEIGHT].fill_(float("nan")), "found outputs that differ by nan"),
    ],
    ids=["flipped", "missing", "extra", "renamed", "shape", "type", "nan"],
)
def test_other_tensors_are_caught_without_transformers(
    change: Callable[..., Any], message: str, examples: dict[str, Example], copied: Path, without_transformers: None
) -> None:
    expected = examples["BertForPreTraining"].expected
    assert verify.verify(copied, expected).endswith(" of the largest)")
    change_tensors(copied, change)
    with pytest.raises(ArtifactError, match=message):
        verify.verify(copied, expected)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"layer_norm_eps": 1e-6}, "layer_norm_eps: found 1e-06, expected 1e-12 as in memory"),
        ({"num_attention_heads": 2}, "num_attention_heads: found 2, expected 4"),
        ({"hidden_dropout_prob": 0.0}, "hidden_dropout_prob: found 0.0, expected 0.1"),
        ({"architectures": ["BertForMaskedLM"]}, "found 'BertForMaskedLM', expected 'BertForPreTraining'"),
        ({"architectures": ["XLNetLMHeadModel"]}, "found 'XLNetLMHeadModel', expected one of AlbertModel, "),
        ({"architectures": []}, r"architectures: found \[\], expected one name"),
        ({"pad_token_id": ...}, r"found 1 missing \(pad_token_id\) of 13 keys expected"),
        ({"initializer": "normal"}, r"found 1 unexpected \(initializer\)"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings: found False, expected True"),
    ],
)
def test_another_config_is_caught_without_transformers(
    values: dict[str, Any],
    message: str,
    examples: dict[str, Example],
    copied: Path,
    without_transformers: None,
) -> None:
    change_config(copied, **values)
    with pytest.raises(ArtifactError, match=message):
        verify.verify(copied, examples["BertForPreTraining"].expected)


def test_a_config_that_only_changes_the_outputs_is_caught_by_them(
    examples: dict[str, Example], copied: Path, without_transformers: None
) -> None:
    change_config(copied, hidden_act="gelu")
    expected = examples["BertForPreTraining"].expected
    outputs = verify.run_padded(read_model(read_config(copied)), "BertForPreTraining", expected.probe)
    with pytest.raises(ArtifactError, match="prediction_logits: found outputs that differ by 0.00"):
        require_equal(expected.outputs, outputs, verify.TOLERANCE, "here")


@pytest.mark.parametrize("labels", [{"id2label": {"0": "O", "2": "B"}}, {"label2id": {"O": 1}}, {"id2label": ...}])
def test_names_of_labels_are_required(labels: dict[str, Any], examples: dict[str, Example], tmp_path: Path) -> None:
    directory = shutil.copytree(examples["BertForTokenClassification"].directory, tmp_path / "model")
    assert read_config(directory).num_labels == len(LABELS)
    numbers = {str(number): number for number in range(len(LABELS))}
    change_config(directory, id2label=numbers, label2id=numbers)
    assert read_config(directory).num_labels == len(LABELS)
    change_config(directory, **labels)
    with pytest.raises(ArtifactError, match="id2label, label2id: found .* expected indices from 0 with names"):
        read_config(directory)


def test_another_tokenizer_is_caught(examples: dict[str, Example], copied: Path) -> None:
    source, saved = examples["BertForPreTraining"].tokenizer, read_config(copied)
    check_tokenizer(saved, source)
    entries = tokenizer(120).get_vocab()
    last, other = sorted(entries, key=entries.__getitem__)[-2:]
    swapped = make_tokenizer(entries | {last: entries[other], other: entries[last]}, lowercase=True)

    save_tokenizer(swapped, copied, lowercase=True)
    check_tokenizer(saved)  # sound in itself …
    with pytest.raises(ArtifactError, match=rf"tokenizer\.json: 2 entries are not those of {source}.*: found '"):
        check_tokenizer(saved, source)  # … but not the one of this model
    shutil.copyfile(source / "vocab.txt", copied / "vocab.txt")
    with pytest.raises(ArtifactError, match=r"vocab\.txt: 2 entries are not those of .*/model/tokenizer\.json"):
        check_tokenizer(saved)
    save_tokenizer(tokenizer(130), copied, lowercase=True)
    with pytest.raises(ArtifactError, match="found 130 entries, expected at most the model's vocab_size 120"):
        check_tokenizer(saved)
    bare = tokenizer(120).from_str(tokenizer(120).to_str().replace('"type_id":1', '"type_id":0'))
    bare.save(str(copied / "tokenizer.json"))
    shutil.copyfile(source / "vocab.txt", copied / "vocab.txt")
    with pytest.raises(ArtifactError, match=r"of types \[0, .*0\], expected \[CLS\] .* of types \[0, .*1\]; save"):
        check_tokenizer(saved)
    tokenizer(120).from_str(tokenizer(120).to_str().replace("[MASK]", "masked")).save(str(copied / "tokenizer.json"))
    with pytest.raises(ArtifactError, match=r"/tokenizer\.json: \[MASK\] not found, .*; save it again"):
        check_tokenizer(saved)
    (copied / "tokenizer.json").unlink()
    with pytest.raises(ArtifactError, match=r"tokenizer\.json: not found"):
        check_tokenizer(saved)


def test_the_padding_token_of_config_and_tokenizer_agree(examples: dict[str, Example], copied: Path) -> None:
    change_config(copied, pad_token_id=7)
    with pytest.raises(ArtifactError, match=r"pad_token_id: found 7, expected 0, the id of \[PAD\]"):
        check_tokenizer(read_config(copied))


@pytest.mark.parametrize("architecture", BERT.kinds)
def test_keys_and_outputs_are_those_of_transformers(architecture: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    labels, kind = 2 if architecture == "BertForQuestionAnswering" else 3, BERT.kinds[architecture]
    config = transformers.BertConfig(num_labels=labels, initializer_range=0.2, tie_word_embeddings=True, **SIZES)
    reference = getattr(transformers, architecture)(config).eval()
    reference.save_pretrained(tmp_path)
    saved = read_config(tmp_path)
    own = read_model(saved)
    assert own.state_dict().keys() == reference.state_dict().keys() - TIED
    probe = Probe.of(saved.config)
    results = reference(*probe.for_transformers(kind), return_dict=True)
    kinds = outputs_of_class(architecture, "here")
    assert list(kinds) == list(results)
    expected = {name: probe.select(kind, results[name]).detach() for name, kind in kinds.items()}
    require_equal(expected, verify.run_padded(own, architecture, probe), 1e-5, "here")


def test_keys_of_the_config_are_those_that_transformers_knows() -> None:
    unknown = OTHER_KEYS - set(transformers.BertConfig().to_dict())
    assert unknown <= {"position_embedding_type", "torch_dtype"}  # of version 4


def test_the_probe_reaches_every_part_and_survives_its_file(examples: dict[str, Example], tmp_path: Path) -> None:
    expected = examples["BertForQuestionAnswering"].expected
    probe = expected.probe
    assert probe.lengths.tolist() == [2, 13, 24, 24]
    assert {0, SIZES["vocab_size"] - 1} <= set(probe.input_ids.tolist()) and probe.input_ids.unique().numel() > 60
    assert [set(part.tolist()) for part in probe.token_type_ids.split(probe.lengths.tolist())] == [{0, 1}] * 4
    assert probe.masked_positions[-1] == probe.lengths.sum() - 1
    expected.write(tmp_path / "probe")
    again = Expected.read(tmp_path / "probe")
    assert again.config == expected.config and again.architecture == "BertForQuestionAnswering"
    assert torch.equal(again.probe.input_ids, probe.input_ids) and again.outputs.keys() == expected.outputs.keys()
    assert all(torch.equal(again.outputs[name], tensor) for name, tensor in expected.outputs.items())


def test_outputs_in_memory_are_of_float32_whatever_the_launcher_did(
    examples: dict[str, Example], no_accelerator: None
) -> None:
    example = examples["BertForPreTraining"]
    own = type(example.model)(load_config(example.directory))
    load_pretrained(own, example.directory)
    prepared = Accelerator(cpu=True, mixed_precision="bf16").prepare(own)
    found = Expected.of(prepared).outputs
    assert all(torch.equal(found[name], tensor) for name, tensor in example.expected.outputs.items())


def test_the_command_tells_its_verdict(
    examples: dict[str, Example], copied: Path, capsys: pytest.CaptureFixture[str], without_transformers: None
) -> None:
    assert verify.main([str(copied)]) == gate.ACCEPTED
    assert capsys.readouterr().out == f"{copied}: BertForPreTraining, 46 tensors\n"
    change_tensors(copied, lambda tensors: tensors.pop(WEIGHT))
    assert verify.main([str(copied)]) == gate.REJECTED
    assert capsys.readouterr().out.startswith(f"{copied}/{WEIGHTS}: found 1 missing")


def test_a_saved_tokenizer_cuts_texts_to_what_the_model_reads(examples: dict[str, Example]) -> None:
    for example in examples.values():
        loaded = transformers.AutoTokenizer.from_pretrained(example.directory)
        assert loaded.model_max_length == example.model.config.max_position_embeddings
        ids = loaded("the parser reads the file. " * 200, truncation=True)["input_ids"]
        assert len(ids) == example.model.config.max_position_embeddings
