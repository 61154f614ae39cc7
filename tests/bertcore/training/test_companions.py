"""Two models in one training: resumed with the same bits, averaged, evaluated and exported."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from bertcore.errors import ConfigError
from bertcore.export import gate
from bertcore.instances.sources import DrawnInstances, MaskConfig
from bertcore.model.config import ModelConfig, build_discriminator
from bertcore.model.huggingface import load_config, load_pretrained, save_pretrained
from bertcore.tokens.wordpiece import save_tokenizer
from bertcore.training import machine
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.config import PretrainConfig
from bertcore.training.division import check_division
from bertcore.training.loader import Loader
from bertcore.training.loop import Pretraining, TrainingData
from bertcore.training.segments import keep_distance
from tests.samples import token_shard, tokenizer, vocabulary
from tests.small import assert_resumes

SIZES = {
    **{"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 48},
    "intermediate_size": 64,
}
MODELS = {"deberta-v2": SIZES | {"position_buckets": 16}, "electra": SIZES | {"embedding_size": 16}}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def training(
    directory: Path,
    dropout: bool = True,
    published: Path | None = None,
    architecture: str = "electra",
    **values: Any,
) -> Pretraining:
    shape = {} if published else MODELS[architecture] | ({} if dropout else NO_DROPOUT)
    settings: Any = {"objective": "replaced_tokens", "batch_size": 8, "max_steps": 8, "warmup_steps": 1}
    settings |= {"learning_rate": 5e-3, "logging_steps": 3, "eval_steps": 4, **values}
    config = PretrainConfig(model=ModelConfig(architecture=architecture, fields=shape), **settings)
    mask = MaskConfig(sequence_length=48, packing="full_sentences", mask_share=0.85, random_share=0.0)
    source = [DrawnInstances.of(token_shard(directory, 80), "shard", 0, mask, vocabulary())]
    torch.manual_seed(config.seed)
    model, new = build_discriminator(config.model.build(vocabulary().size)), []
    if published:
        model = build_discriminator(load_config(published))
        new = load_pretrained(model, published).missing
    data = TrainingData(batches=Loader(lambda epoch: source, config.batch_size, config.seed), heldout=source)
    accelerator, checkpoints = machine.make_accelerator(), Checkpoints(directory / "checkpoints")
    return Pretraining(config, model, data, accelerator, checkpoints, new_heads=new, published=published)


def weights(run: Pretraining) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in run._trained.state_dict().items()}


@pytest.mark.parametrize("architecture", MODELS)
def test_both_learn_and_are_reported(architecture: str, tmp_path: Path) -> None:
    run = training(tmp_path, max_steps=60, architecture=architecture)
    before, after = run.evaluate(), run.run()
    assert after["eval/mlm_loss"] < before["eval/mlm_loss"] - 0.5
    assert after["eval/replaced_tokens_loss"] < before["eval/replaced_tokens_loss"] - 0.1
    assert 0.8 < after["eval/replaced_tokens_majority"] < 1.0
    total = after["eval/mlm_loss"] + 50 * after["eval/replaced_tokens_loss"]
    assert after["eval/loss"] == pytest.approx(total)
    assert {"train/mlm_accuracy", "train/replaced_tokens_accuracy", "train/replaced_tokens_majority"} <= {
        name for row in run.state.history.curves for name in row
    }
    assert run.evaluate() == after, "the same samples in every evaluation"


@pytest.mark.parametrize(
    "values",
    [{"ema_decay": 0.9}, {"optimizer": "muon"}, {"architecture": "deberta-v2", "ema_decay": 0.9}],
    ids=["average", "muon", "deberta, average"],
)
def test_a_resumed_training_has_the_bits_of_an_uninterrupted_one(values: dict[str, Any], tmp_path: Path) -> None:
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
    whole = training(tmp_path / "whole", **values)
    whole.run()
    resumed = assert_resumes(partial(training, tmp_path / "stopped", **values), whole)
    for folder, model in whole.whole_models().items():
        for name, tensor in model.state_dict().items():
            assert torch.equal(resumed.whole_models()[folder].state_dict()[name], tensor), (folder, name)


def test_the_average_is_of_both_models(tmp_path: Path) -> None:
    run = training(tmp_path, ema_decay=0.9)
    run.run()
    models = run.whole_models()
    assert list(models) == ["", "generator"]
    for model, trained in ((models[""], run.model), (models["generator"], run.companions["generator"])):
        own = trained.state_dict()
        assert not any(torch.equal(tensor, own[name]) for name, tensor in model.state_dict().items())
    average, table = models["generator"].base_model, "embeddings.word_embeddings.weight"
    assert torch.equal(average.get_parameter(table), models[""].base_model.get_parameter(table))
    for model in models.values():
        first, second = model.base_model.get_parameter("embeddings.token_type_embeddings.weight")
        assert torch.equal(first, second), "no sequence has a second segment: it is read as the first"


def test_the_average_of_a_difference_is_that_of_its_sum(tmp_path: Path) -> None:
    run = training(tmp_path, ema_decay=0.9, architecture="deberta-v2")
    run.run()
    saved = run.whole_models()[""].published.base_model.token_embeddings.weight
    table: Any = run.model.base_model.token_embeddings
    assert not torch.equal(saved, table.whole)
    assert run.state.average is not None
    with run.state.average.in_place():
        assert torch.equal(saved, table.whole)


def test_micro_batches_train_what_whole_batches_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for size in (8, 3):
        monkeypatch.setenv("BERTCORE_MICRO_BATCH", str(size))
        (tmp_path / str(size)).mkdir()
        run = training(tmp_path / str(size), dropout=False, max_steps=4, learning_rate=1e-3)
        run.run()
        runs.append(weights(run))
    for name, tensor in runs[0].items():
        torch.testing.assert_close(runs[1][name], tensor, atol=2e-4, rtol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "kind", "loaded_by"),
    [("deberta-v2", "DebertaV2", "AutoModel"), ("electra", "Electra", "AutoModelForPreTraining")],
)
def test_both_pass_the_gate_and_go_on_from_there(architecture: str, kind: str, loaded_by: str, tmp_path: Path) -> None:
    run = training(tmp_path, architecture=architecture)
    run.run()
    (tmp_path / "tokenizer").mkdir()
    save_tokenizer(tokenizer(), tmp_path / "tokenizer", lowercase=True)
    for folder, model in run.whole_models().items():
        save_pretrained(model, tmp_path / "model" / folder, tmp_path / "tokenizer")
        said = gate.check(model, tmp_path / "model" / folder, tmp_path / "tokenizer")
        head, loader = ("ForMaskedLM", "AutoModelForMaskedLM") if folder else ("ForPreTraining", loaded_by)
        assert f"{kind}{head}, " in said and said.endswith(f"transformers loads it by {loader}, AutoTokenizer")
    if run._distance is not None:
        keep_distance(run.model, run._distance)  # as the copies have it that were saved
    (tmp_path / "again").mkdir()
    further = training(tmp_path / "again", published=tmp_path / "model", init_from="model", architecture=architecture)
    rounding = 0.0 if architecture == "electra" else 1e-7  # a table is saved as the sum of two
    for name, tensor in weights(run).items():
        torch.testing.assert_close(weights(further)[name], tensor, rtol=0, atol=rounding, msg=name)
    assert further.evaluate()["eval/loss"] == pytest.approx(run.evaluate()["eval/loss"])


def test_a_new_generator_is_trained_alone_first(tmp_path: Path) -> None:
    first = training(tmp_path)
    save_pretrained(first.model, tmp_path / "published")  # as discriminators are published, without their generators
    values: Any = {"published": tmp_path / "published", "init_from": "published", "head_warmup_steps": 2}
    run = training(tmp_path, **values)
    start = weights(run)
    for _ in range(2):
        run.train_step()
    changed = {name for name, tensor in weights(run).items() if not torch.equal(tensor, start[name])}
    assert changed and all(name.startswith("objective.generator.") for name in changed)
    for _ in range(2):  # the rate of the first one is 0
        run.train_step()
    changed = {name for name, tensor in weights(run).items() if not torch.equal(tensor, start[name])}
    assert "model.electra.embeddings.word_embeddings.weight" in changed


def test_divided_weights_are_refused() -> None:
    with pytest.raises(ConfigError, match="pretrain.objective: found 'replaced_tokens' where the processes divide"):
        check_division(
            PretrainConfig(model=ModelConfig(architecture="electra"), objective="replaced_tokens"), 2, True, True
        )
