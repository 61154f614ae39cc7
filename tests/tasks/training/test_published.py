"""What `transformers` has saved, of each kind that the house knows: it is trained on and fine-tuned, and the result is
read by the class that it came from."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
import transformers

from bertcore.examples.schema import ExampleSet, schema_of
from bertcore.export import gate
from bertcore.finetune.config import RunConfig
from bertcore.finetune.result import Result
from bertcore.finetune.run import Finetuning
from bertcore.model.huggingface import save_pretrained
from bertcore.tokens.tokenizer import load_tokenizer, tokenizer_kind
from bertcore.training import machine
from bertcore.training.supervision import Supervision
from tasks.paths import INPUTS, TOKENIZER
from tasks.training.process import build
from tests.faults.trainings import params, prepare
from tests.samples import byte_tokenizer, documents, modernbert_tokenizer, tokenizer

PUBLISHED = INPUTS / "init_from"
SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
NARROW = {**SIZES, "embedding_size": 16, "initializer_range": 0.1}
"""Through a projection little would come at 0.02."""
DEBERTA: dict[str, Any] = {
    **{"relative_attention": True, "position_buckets": 16, "norm_rel_ebd": "layer_norm", "share_att_key": True},
    **{"pos_att_type": "p2c|c2p", "position_biased_input": False, "type_vocab_size": 0},
}
DISTILBERT = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "BertForPreTraining": ("mlm_nsp", SIZES),
    "BertForMaskedLM": ("mlm", SIZES),
    "RobertaForMaskedLM": ("mlm", {**SIZES, "max_position_embeddings": 66, "type_vocab_size": 1}),
    "AlbertForPreTraining": ("mlm_sop", NARROW),
    "DebertaV2ForMaskedLM": ("mlm", {**SIZES, **DEBERTA}),
    "ElectraForPreTraining": ("replaced_tokens", NARROW),
    "DistilBertForMaskedLM": ("mlm", DISTILBERT),
    "ModernBertForMaskedLM": ("mlm", {**SIZES, "local_attention": 16}),
}
"""Class -> the objective that its heads are for, and a small shape."""
READ_BY = {"RobertaForMaskedLM": byte_tokenizer, "ModernBertForMaskedLM": modernbert_tokenizer}
"""What reads its texts, where that is no WordPiece."""
PACKINGS = {"mlm_nsp": "pairs", "mlm_sop": "sentence_order"}
PROBLEMS = ("missing_keys", "mismatched_keys")
"""Of the class that reads it: BERT's heads for pairs are saved, too, which a class for masked tokens does not use."""


@pytest.fixture(scope="module", params=KINDS)
def tree(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    return tree_of(request.param, tmp_path_factory.mktemp("published") / "tree")


def tree_of(name: str, directory: Path, longest: int | None = None, **changes: int) -> tuple[Path, Any]:
    """Its root and the reference, with `changes` of its shape, which is saved where stage `inputs` would have linked
    it; its params.yaml trains it on, with `longest` positions."""
    objective, shape = KINDS[name]
    read_by = READ_BY.get(name, tokenizer)()
    kind = tokenizer_kind(read_by)
    values = params(init_from="org/published", objective=objective, max_steps=3, learning_rate=1e-5, warmup_steps=0)
    values["pretrain"]["model"] = {"architecture": "electra"} if objective == "replaced_tokens" else {}
    values["pretrain"]["model"] |= {"max_position_embeddings": longest} if longest else {}
    values["mask"] |= {"packing": PACKINGS.get(objective, "full_sentences")}
    values["tokenizer"] = {"kind": kind.name}
    root = prepare(directory, values)
    reference = getattr(transformers, name)
    torch.manual_seed(1)
    pad = read_by.token_to_id(kind.special.pad)
    model = reference(reference.config_class(vocab_size=read_by.get_vocab_size(), pad_token_id=pad, **shape | changes))
    model.save_pretrained(root / PUBLISHED)
    kind.save(read_by, root / PUBLISHED, None)
    return root, model


@pytest.fixture
def published(tree: tuple[Path, Any], no_accelerator: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The reference, from within its tree, which no test changes."""
    root, model = tree
    monkeypatch.chdir(root)
    return model


@pytest.mark.slow
def test_it_is_trained_on(published: Any, tmp_path: Path) -> None:
    training = build(machine.make_accelerator(), Supervision())
    training.run()
    trained = training.whole_models()[""]
    save_pretrained(trained, tmp_path / "trained", TOKENIZER)
    gate.check(trained, tmp_path / "trained", TOKENIZER)
    found, said = type(published).from_pretrained(tmp_path / "trained", output_loading_info=True)
    assert not any(said[problem] for problem in PROBLEMS)
    moved = {
        name: float((found.state_dict()[name] - tensor).abs().max()) for name, tensor in published.state_dict().items()
    }
    assert max(moved.values()) < 1e-3, "three small steps from where it stood"
    assert sum(distance > 0 for distance in moved.values()) > len(moved) / 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "reserved"), [("BertForMaskedLM", 0), ("RobertaForMaskedLM", 2)])
def test_with_more_positions_it_reads_what_was_out_of_its_reach(
    name: str, reserved: int, no_accelerator: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The word that decides stands behind the last of the 24 tokens that were published."""
    root, _ = tree_of(name, tmp_path / "tree", 48 + reserved, max_position_embeddings=24 + reserved)
    monkeypatch.chdir(root)
    training = build(machine.make_accelerator(), Supervision())
    training.run()
    trained = training.whole_models()[""]
    assert trained.config.max_sequence_length == 48
    save_pretrained(trained, tmp_path / "trained", TOKENIZER)
    gate.check(trained, tmp_path / "trained", TOKENIZER)
    read_by, dice = load_tokenizer(TOKENIZER), random.Random(1)
    ids = read_by.encode(" ".join(each for document in documents(60) for each in document)).ids
    words = [dice.choice(["again", "never"]) for _ in range(96)]
    texts = [f"{read_by.decode(ids[30 * number : 30 * (number + 1)])} {word}" for number, word in enumerate(words)]
    result = tuned(texts, [word == "again" for word in words], tmp_path / "trained", epochs=24)
    assert result.metrics["dev"]["accuracy"] > 0.9


@pytest.mark.slow
def test_it_is_fine_tuned(published: Any, tmp_path: Path) -> None:
    texts = [sentence for document in documents(12) for sentence in document]
    result = tuned(texts, ["again" in text for text in texts], PUBLISHED, epochs=8)
    assert result.metrics["dev"]["accuracy"] > 0.9
    save_pretrained(result.model, tmp_path / "tuned", TOKENIZER, extra_config=result.model_config)
    _, said = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "tuned", output_loading_info=True
    )
    assert not any(said[problem] for problem in PROBLEMS)


def tuned(texts: list[str], labels: list[bool], encoder: Path, epochs: int) -> Result:
    """The encoder fine-tuned on all texts, scored on some of them."""
    rows = [
        {"id": str(number), "text_a": text, "label": "yes" if label else "no"}
        for number, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    schema = schema_of("classification", ["no", "yes"])
    splits = {"train": pa.Table.from_pylist(rows, schema), "dev": pa.Table.from_pylist(rows[:32], schema)}
    examples = ExampleSet(family="classification", labels=["no", "yes"], metrics=["accuracy"], splits=splits)
    task = RunConfig(format="toy", data="toy", sequence_length=48, epochs=epochs, batch_size=8, learning_rate=3e-3)
    return Finetuning(task, examples, load_tokenizer(encoder)).run(encoder)
