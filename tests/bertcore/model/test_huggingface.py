"""What is written loads in transformers in a fresh process; what transformers wrote loads here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertcore.errors import ArtifactError
from bertcore.model.bert import BertConfig, BertForPreTraining, BertForTokenClassification, BertModel
from bertcore.model.config import ARCHITECTURES, ModelConfig, build_head, build_pretraining
from bertcore.model.encoder import EncoderModule
from bertcore.model.huggingface import checked_config, load_config, load_pretrained, save_pretrained
from bertcore.model.layout import Layout
from bertcore.model.names import BERT as NAMES

SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
}
CONFIG = BertConfig(hidden_act="gelu_new", **SIZES)
IDS = torch.tensor([2, 7, 9, 31, 3])


def randomised(network: EncoderModule) -> EncoderModule:
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    return network.eval()


@pytest.fixture
def model() -> EncoderModule:
    return randomised(BertForPreTraining(CONFIG))


def inputs() -> tuple[Tensor, Tensor, Layout]:
    return IDS, torch.zeros_like(IDS), Layout.from_lengths(torch.tensor([len(IDS)]))


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> dict[str, tuple[EncoderModule, Path]]:
    """Each kind of model, and the directory it was saved in."""
    network, root = randomised(BertForPreTraining(CONFIG)), tmp_path_factory.mktemp("saved")
    models = {
        "pretrained": network,
        "encoder": network.bert,
        "tagger": randomised(BertForTokenClassification(CONFIG, 3)),
    }
    for name, each in models.items():
        extra = {"id2label": {"0": "O", "1": "B", "2": "I"}} if name == "tagger" else None
        save_pretrained(each, root / name, extra_config=extra)
    return {name: (each, root / name) for name, each in models.items()}


@pytest.fixture(scope="module")
def reports(saved) -> dict[str, dict]:
    """By "CLASS of NAME": the keys that transformers missed or did not expect, and its outputs for `IDS`.

    One fresh process for all, since importing transformers takes seconds.
    """
    code = f"""
import json, sys, torch, transformers
transformers.utils.logging.set_verbosity_error()
reports = {{}}
for name, directory in zip(sys.argv[1::2], sys.argv[2::2]):
    loader = getattr(transformers, name.split()[0])
    model, report = loader.from_pretrained(directory, output_loading_info=True)
    with torch.no_grad():
        outputs = model.eval()(torch.tensor([{IDS.tolist()}]))
    reports[name] = {{
        "class": type(model).__name__,
        "outputs": {{key: value.tolist() for key, value in outputs.items()}},
    }} | {{kind: sorted(report[kind + "_keys"]) for kind in ("missing", "unexpected", "mismatched")}}
print(json.dumps(reports))
"""
    pairs = [
        ("AutoModelForPreTraining", "pretrained"),
        ("AutoModelForMaskedLM", "pretrained"),
        ("AutoModel", "pretrained"),
        ("AutoModel", "encoder"),
        ("AutoModelForTokenClassification", "tagger"),
    ]
    arguments = [text for loader, name in pairs for text in (f"{loader} of {name}", str(saved[name][1]))]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def assert_outputs(report: dict, expected: dict[str, Tensor]) -> None:
    for name, tensor in expected.items():
        found = torch.tensor(report["outputs"][name])[0]
        torch.testing.assert_close(found, tensor.detach(), rtol=0, atol=1e-5 * float(tensor.detach().abs().max()))


def test_a_saved_model_loads_for_pretraining_without_a_missing_or_unexpected_key(saved, reports):
    report = reports["AutoModelForPreTraining of pretrained"]
    assert report["class"] == "BertForPreTraining"
    assert report["missing"] == report["unexpected"] == report["mismatched"] == []
    mlm, nsp = saved["pretrained"][0](*inputs(), torch.arange(len(IDS)))
    assert_outputs(report, {"prediction_logits": mlm, "seq_relationship_logits": nsp[0]})


def test_a_saved_model_loads_for_masked_lm_and_as_encoder(saved, reports):
    model = saved["pretrained"][0]
    mlm, _ = model(*inputs(), torch.arange(len(IDS)))
    hidden, pooled = model.bert(*inputs())
    for loader, outputs, heads in (
        ("AutoModelForMaskedLM", {"logits": mlm}, ("cls.seq_relationship.", "bert.pooler.")),
        ("AutoModel", {"last_hidden_state": hidden, "pooler_output": pooled[0]}, ("cls.",)),
    ):
        report = reports[f"{loader} of pretrained"]
        assert report["missing"] == report["mismatched"] == []
        assert all(key.startswith(heads) for key in report["unexpected"])  # heads that this class has not
        assert_outputs(report, outputs)


def test_an_encoder_alone_and_a_head_load_too(saved, reports):
    report = reports["AutoModel of encoder"]
    assert report["missing"] == report["unexpected"] == []
    assert_outputs(report, {"last_hidden_state": saved["encoder"][0](*inputs())[0]})
    report = reports["AutoModelForTokenClassification of tagger"]
    assert report["class"] == "BertForTokenClassification" and report["missing"] == []
    assert all("pooler" in key for key in report["unexpected"])
    assert_outputs(report, {"logits": saved["tagger"][0](*inputs())})


@pytest.mark.parametrize("name", ["BertForPreTraining", "BertForMaskedLM", "BertModel", "BertForTokenClassification"])
@pytest.mark.parametrize("sharded", [False, True], ids=["single", "sharded"])
def test_directories_of_transformers_load_here(name, sharded, model, tmp_path):
    reference = getattr(transformers, name)(transformers.BertConfig(hidden_act="gelu_new", **SIZES)).eval()
    reference.save_pretrained(tmp_path, max_shard_size="10kB" if sharded else "5GB")
    assert (tmp_path / "model.safetensors.index.json").exists() == sharded
    loaded = load_pretrained(model, tmp_path)
    heads = {
        "BertForPreTraining": ([], []),
        "BertForMaskedLM": (["bert.pooler", "cls.seq_relationship"], []),
        "BertModel": (["cls.predictions", "cls.seq_relationship"], []),
        "BertForTokenClassification": (["bert.pooler", "cls.predictions", "cls.seq_relationship"], ["classifier"]),
    }
    found = [sorted({".".join(key.split(".")[:2]) for key in keys}) for keys in (loaded.missing, loaded.unused)]
    missing, unused = heads[name]
    assert found == [missing, sorted(f"{head}.{kind}" for head in unused for kind in ("weight", "bias"))]
    encoder = reference if name == "BertModel" else reference.bert
    expected = encoder(IDS[None]).last_hidden_state[0]
    torch.testing.assert_close(model.bert(*inputs())[0], expected, rtol=0, atol=2e-5)


def test_a_checkpoint_with_old_names_and_copies_loads(model, tmp_path):
    save_pretrained(model, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in tensors.items()
    }
    assert old.keys() != tensors.keys()
    old["cls.predictions.decoder.weight"] = old["bert.embeddings.word_embeddings.weight"].clone()
    old["cls.predictions.decoder.bias"] = old["cls.predictions.bias"].clone()
    old["bert.embeddings.position_ids"] = torch.arange(32)[None]
    save_file(old, tmp_path / "model.safetensors")
    other = BertForPreTraining(CONFIG)
    loaded = load_pretrained(other, tmp_path)
    assert loaded.missing == loaded.unused == []
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name


def test_an_encoder_takes_its_part_of_a_model_with_heads(model, tmp_path):
    save_pretrained(model, tmp_path)
    encoder = BertModel(CONFIG)
    loaded = load_pretrained(encoder, tmp_path)
    assert loaded.missing == [] and all(name.startswith("cls.") for name in loaded.unused)
    assert torch.equal(encoder.pooler.dense.weight, model.bert.pooler.dense.weight)


def test_saving_and_loading_is_the_identity_and_the_bytes_are_always_the_same(model, tmp_path):
    save_pretrained(model, tmp_path / "a")
    assert load_config(tmp_path / "a") == CONFIG
    other = BertForPreTraining(load_config(tmp_path / "a"))
    load_pretrained(other, tmp_path / "a")
    for _ in range(2):  # the second time over an existing directory
        save_pretrained(other, tmp_path / "b")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["config.json", "model.safetensors"]


def test_names_map_both_ways_and_heads_stay_as_they_are(model):
    state = dict(model.state_dict()) | {"qa_outputs.weight": torch.ones(2, 16)}
    mapped = NAMES.to_huggingface(state)
    reference = transformers.BertForPreTraining(transformers.BertConfig(**SIZES)).state_dict()
    copies = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    assert mapped.keys() == (reference.keys() - copies) | {"qa_outputs.weight"}
    back = NAMES.from_huggingface(mapped)
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], value) for name, value in state.items())


def test_the_tokenizer_travels_with_the_model(model, tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"word{index}" for index in range(45)]
    source = tmp_path / "tokenizer"
    source.mkdir()
    (source / "vocab.txt").write_text("\n".join(words) + "\n")
    (source / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": true}')
    save_pretrained(model, tmp_path / "model", source)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    assert tokenizer("word3 word7")["input_ids"] == [2, 8, 12, 3]
    (source / "vocab.txt").write_text("\n".join([*words, "more"]) + "\n")
    with pytest.raises(
        ArtifactError, match="found 51 entries, expected at most the model's vocab_size 50; use the tok"
    ):
        save_pretrained(model, tmp_path / "other", source)
    with pytest.raises(ArtifactError, match="found no tokenizer"):
        save_pretrained(model, tmp_path / "other", tmp_path / "model" / "nothing")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "tokenizer"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": 51}, "vocab_size: found 50, expected 51; use the tokenizer saved with it"),
        ({"hidden_size": 32}, "hidden_size: found 16, expected 32; build the same model"),
        ({"hidden_act": "gelu"}, "hidden_act: found 'gelu_new', expected 'gelu'; build the same model"),
    ],
)
def test_another_shape_is_named_with_both_numbers(change, message, model, tmp_path):
    save_pretrained(model, tmp_path)
    other = BertModel(BertConfig(**{"hidden_act": "gelu_new", **SIZES} | change))
    with pytest.raises(ArtifactError) as caught:
        load_pretrained(other, tmp_path)
    assert str(caught.value) == f"{tmp_path}/config.json: {message}"


def test_a_head_with_other_labels_is_refused(tmp_path):
    save_pretrained(BertForTokenClassification(CONFIG, 3), tmp_path)
    with pytest.raises(
        ArtifactError, match=r"classifier\.(weight|bias): found shape \(3,.*\), expected \(5,.*\); give a"
    ):
        load_pretrained(BertForTokenClassification(CONFIG, 5), tmp_path)


def test_damaged_directories_are_one_clear_error(model, tmp_path):
    (tmp_path / "file").touch()
    for none in (tmp_path, tmp_path / "file"):
        with pytest.raises(ArtifactError, match=r"config\.json: not found, expected a Hugging Face model directory"):
            load_config(none)
    save_pretrained(model, tmp_path / "m")
    config, weights = tmp_path / "m" / "config.json", tmp_path / "m" / "model.safetensors"
    good = json.loads(config.read_text())
    for change, message in (
        ({"model_type": "xlnet"}, "model_type: found 'xlnet', expected 'albert' or 'bert' .*; give such an encoder"),
        ({"model_type": ["bert"]}, r"model_type: found \['bert'\], expected 'albert' or 'bert'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type: found 'relative_key'"),
        ({"num_attention_heads": 3}, "num_attention_heads: found 3, expected a divisor of hidden_size"),
        ({"hidden_size": "16"}, r"hidden_size: found '16' \(str\), expected integer"),
    ):
        config.write_text(json.dumps(good | change))
        with pytest.raises(ArtifactError, match=message):
            load_config(tmp_path / "m")
    config.write_text("[")
    with pytest.raises(ArtifactError, match="not valid JSON"):
        load_config(tmp_path / "m")
    config.write_text(json.dumps(good))
    tensors = load_file(weights)
    del tensors["bert.encoder.layer.1.attention.self.key.weight"]
    save_file(tensors, weights)
    with pytest.raises(ArtifactError, match=r"found no tensor for 'bert\.encoder\.layer\.1\.attention\.qkv\.weight'"):
        load_pretrained(model, tmp_path / "m")
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ArtifactError, match=r"model\.safetensors: not readable"):
        load_pretrained(model, tmp_path / "m")
    weights.unlink()
    with pytest.raises(ArtifactError, match="found neither model.safetensors nor model.safetensors.index.json"):
        load_pretrained(model, tmp_path / "m")
    (tmp_path / "m" / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(ArtifactError, match=r"index\.json: found no weight_map"):
        load_pretrained(model, tmp_path / "m")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_can_be_loaded_is_known_by_its_headers(architecture: str, tmp_path: Path) -> None:
    config = ModelConfig(architecture=architecture, preset="tiny").build(50)
    for name, model in (("pretraining", build_pretraining(config)), ("head", build_head(config, "question_answering"))):
        save_pretrained(model, tmp_path / name)
        checked_config(tmp_path / name)
    weights = tmp_path / "head" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(ArtifactError, match=r"model\.safetensors: not readable \("):
        checked_config(tmp_path / "head")
