"""The saved directory: the vectors that its own files describe, by transformers, by SentenceTransformers and here."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from bertcore.apply.embed import Embedder
from bertcore.commands.main import main
from bertcore.embedding.directory import Reading, read, save
from bertcore.errors import ArtifactError, ConfigError
from bertcore.model.modernbert import ModernBertModel
from bertcore.serving import models
from bertcore.tokens.wordpiece import save_tokenizer
from tests.samples import sentences, tokenizer

TEXTS = [*sentences(7, seed=5), "the file " * 40, "a"]
MAX_LENGTH = 24


@pytest.fixture
def saved(model: ModernBertModel, tmp_path: Path) -> Path:
    (tmp_path / "tokenizer").mkdir()
    save_tokenizer(tokenizer(), tmp_path / "tokenizer", lowercase=True)
    save(model, tmp_path / "model", tmp_path / "tokenizer", MAX_LENGTH, "card")
    return tmp_path / "model"


def written(directory: Path, name: str) -> Any:
    return json.loads((directory / name).read_text())


def by_transformers(directory: Path) -> NDArray[np.float32]:
    """What a reader does who follows modules.json, with nothing but the files that it names."""
    from transformers import AutoModel, AutoTokenizer

    modules = written(directory, "modules.json")
    assert [each["type"].rpartition(".")[2] for each in modules] == ["Transformer", "Pooling", "Normalize"]
    pooling = written(directory, f"{modules[1]['path']}/config.json")
    assert [key for key, value in pooling.items() if value is True] == ["pooling_mode_mean_tokens", "include_prompt"]
    reading = written(directory, "sentence_bert_config.json")
    encoder = AutoModel.from_pretrained(directory / modules[0]["path"]).eval()
    assert pooling["word_embedding_dimension"] == encoder.config.hidden_size
    encode = AutoTokenizer.from_pretrained(directory / modules[0]["path"])
    arguments = {"padding": True, "truncation": True, "max_length": reading["max_seq_length"], "return_tensors": "pt"}
    batch = encode(TEXTS, **arguments)
    with torch.no_grad():
        states = encoder(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    mask = batch["attention_mask"][..., None]
    vectors: NDArray[np.float32] = functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1).numpy()
    return vectors


def test_the_files_give_these_vectors(saved: Path) -> None:
    vectors, cut = Embedder.load(saved).embed(TEXTS)
    assert cut == 1
    np.testing.assert_allclose(vectors, by_transformers(saved), rtol=0, atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    assert read(saved) == Reading(pooling="mean", normalize=True, max_length=MAX_LENGTH)


@pytest.mark.filterwarnings("default")
def test_sentence_transformers_gives_these_vectors(saved: Path) -> None:
    package = pytest.importorskip("sentence_transformers")
    loaded = package.SentenceTransformer(str(saved), device="cpu")
    np.testing.assert_allclose(loaded.encode(TEXTS), Embedder.load(saved).embed(TEXTS)[0], rtol=0, atol=2e-6)
    assert loaded.max_seq_length == MAX_LENGTH and loaded.similarity_fn_name == "cosine"
    narrow = package.SentenceTransformer(str(saved), device="cpu", truncate_dim=8)
    expected = Embedder.load(saved, dimensions=8).embed(TEXTS)[0]
    np.testing.assert_allclose(narrow.encode(TEXTS, normalize_embeddings=True), expected, rtol=0, atol=2e-6)


def test_the_first_numbers_are_vectors_themselves(saved: Path) -> None:
    whole, narrow = (Embedder.load(saved, dimensions=width).embed(TEXTS)[0] for width in (None, 8))
    expected = whole[:, :8] / np.linalg.norm(whole[:, :8], axis=1, keepdims=True)
    np.testing.assert_allclose(narrow, expected, rtol=1e-5, atol=1e-7)
    with pytest.raises(ConfigError, match="dimensions: found 33, expected 1 to 32, the width of"):
        Embedder.load(saved, dimensions=33)


def test_the_same_model_has_the_same_bytes(saved: Path, model: ModernBertModel, tmp_path: Path) -> None:
    again = tmp_path / "again"
    save(model, again, tmp_path / "tokenizer", MAX_LENGTH, "card")
    first, second = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (saved, again)
    )
    assert first == second


def test_commands_take_what_the_directory_says(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["embed", *TEXTS[:2], "--model", str(saved), "--dimensions", "8", "--format", "jsonl"]) == 0
    found = [json.loads(line)["vector"] for line in capsys.readouterr().out.splitlines()]
    np.testing.assert_allclose(found, Embedder.load(saved, dimensions=8).embed(TEXTS[:2])[0], rtol=1e-4, atol=1e-5)
    assert main(["similar", *TEXTS[:2], "--model", str(saved), "--format", "jsonl"]) == 0
    (row,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    vectors = by_transformers(saved)
    assert row["cosine"] == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-4)


def change(directory: Path, name: str, **values: object) -> None:
    path = directory / name
    path.write_text(json.dumps(written(directory, name) | values))


def test_the_server_gives_the_vectors_that_the_directory_describes(saved: Path) -> None:
    change(saved, "config.json", architectures=["ModernBertForMaskedLM"])  # as some that others have published say
    served = models.load(saved)
    assert served.uses == ["embed"]
    np.testing.assert_array_equal(served.works["embed"](TEXTS[:2]), Embedder.load(saved).unit(TEXTS[:2]))


def test_other_poolings_and_newer_files_are_read(saved: Path) -> None:
    change(saved, "1_Pooling/config.json", pooling_mode_mean_tokens=False, pooling_mode_cls_token=True)
    shutil.rmtree(saved / "2_Normalize")
    (saved / "modules.json").write_text(json.dumps(written(saved, "modules.json")[:2]))
    assert read(saved) == Reading(pooling="cls", normalize=False, max_length=MAX_LENGTH)
    (saved / "1_Pooling" / "config.json").write_text(json.dumps({"embedding_dimension": 32, "pooling_mode": "max"}))
    newer = {"transformer_task": "feature-extraction"}  # the limit stands in the tokenizer's own file
    (saved / "sentence_bert_config.json").write_text(json.dumps(newer))
    change(saved, "tokenizer_config.json", model_max_length=16)
    assert read(saved) == Reading(pooling="max", normalize=False, max_length=16)
    assert Embedder.load(saved).embed(TEXTS)[1] > 0
    change(saved, "tokenizer_config.json", model_max_length=10**30)
    assert read(saved) == Reading(pooling="max", normalize=False, max_length=None)
    expected, _ = Embedder.load(saved, pooling="max").embed(TEXTS)
    np.testing.assert_array_equal(Embedder.load(saved).embed(TEXTS)[0], expected)
    (saved / "modules.json").unlink()
    assert read(saved) is None


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True}, r"pooling_mode: found 'cls\+mean', expected cls"),
        ("1_Pooling/config.json", {"pooling_mode": "lasttoken"}, "pooling_mode: found 'lasttoken'"),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}, "default_prompt_name: found 'query'"),
        ("sentence_bert_config.json", {"do_lower_case": True}, "do_lower_case: found True, expected false"),
    ],
)
def test_what_would_give_other_vectors_is_one_line(
    saved: Path, name: str, values: dict[str, object], message: str
) -> None:
    change(saved, name, **values)
    with pytest.raises(ArtifactError, match=message):
        Embedder.load(saved)


def test_further_modules_are_one_line(saved: Path) -> None:
    modules = written(saved, "modules.json")
    dense = {"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"}
    (saved / "modules.json").write_text(json.dumps([*modules, dense]))
    with pytest.raises(ArtifactError, match=r"modules\.json: type: found .*'Dense'.*, expected Transformer, Pooling"):
        read(saved)
