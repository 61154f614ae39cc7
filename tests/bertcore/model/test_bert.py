"""The model against transformers: the same weights give the same outputs, loss and gradients."""

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.initialization import no_init_weights

from bertcore.errors import ConfigError
from bertcore.model.bert import PRESETS, BertConfig, BertForPreTraining, BertModel
from bertcore.model.config import ModelConfig
from bertcore.model.layout import Layout
from bertcore.model.names import BERT as NAMES
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.pretraining import build_objective
from tests.bertcore.model.references import LOSS_TOLERANCE, assert_close, padded, random_batch

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def reference_config(config: BertConfig) -> transformers.BertConfig:
    return transformers.BertConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        hidden_act=config.hidden_act,
        max_position_embeddings=config.max_position_embeddings,
        type_vocab_size=config.type_vocab_size,
        hidden_dropout_prob=config.hidden_dropout_prob,
        attention_probs_dropout_prob=config.attention_probs_dropout_prob,
    )


def pair(config: BertConfig, seed: int = 0) -> tuple[transformers.BertForPreTraining, BertForPreTraining]:
    """The same random weights in both; biases and norms are random too, so that no term is silent.

    From 768 dimensions on they have the spread of a trained model, 0.02; less wide ones need more for a clear signal.
    """
    bound = 0.06 if config.hidden_size < 768 else 0.02 * 3**0.5
    generator = torch.Generator().manual_seed(seed)
    with no_init_weights():
        reference = transformers.BertForPreTraining(reference_config(config)).eval()
    reference.tie_weights()
    reference.double()
    with torch.no_grad():
        for name, parameter in reference.named_parameters():
            parameter.uniform_(-bound, bound, generator=generator)
            parameter += name.endswith("LayerNorm.weight")
    with torch.device("meta"):
        ours = BertForPreTraining(config).double().eval()
    state = {name: value for name, value in reference.state_dict().items() if "predictions.decoder" not in name}
    ours.load_state_dict(NAMES.from_huggingface(state), assign=True)
    return reference, ours.requires_grad_()


def reference_outputs(reference: transformers.BertForPreTraining, batch: PreTrainingBatch):
    labels = torch.full_like(batch.input_ids, -100).index_copy(0, batch.masked_positions, batch.masked_labels)
    return reference(
        input_ids=padded(batch.input_ids, batch.layout),
        token_type_ids=padded(batch.token_type_ids, batch.layout),
        attention_mask=batch.layout.key_mask().long(),
        labels=padded(labels, batch.layout, fill=-100),
        next_sentence_label=batch.next_sentence_labels,
        output_hidden_states=True,
    )


def assert_same_forward(config: BertConfig, batch: PreTrainingBatch) -> None:
    reference, ours = pair(config)
    index = batch.layout.padded_index
    with torch.no_grad():
        expected = reference_outputs(reference, batch)
        pooled = reference.bert.pooler(expected.hidden_states[-1])
        hidden, found_pooled = ours.bert(batch.input_ids, batch.token_type_ids, batch.layout)
        first = ours.bert.hidden_states(batch.input_ids, batch.token_type_ids, batch.layout, batch.layout.first_tokens)
        alone = ours.bert.pool(first)
        mlm, nsp = ours(batch.input_ids, batch.token_type_ids, batch.layout, batch.masked_positions)
    assert_close(hidden, expected.hidden_states[-1].flatten(0, 1)[index], "hidden states")
    assert_close(found_pooled, pooled, "pooled")
    assert_close(alone, pooled, "pooled, without the other states")
    assert_close(mlm, expected.prediction_logits.flatten(0, 1)[index][batch.masked_positions], "MLM logits")
    assert_close(nsp, expected.seq_relationship_logits, "NSP logits")


def assert_same_training_step(config: BertConfig, batch: PreTrainingBatch) -> None:
    reference, ours = pair(config)
    expected = reference_outputs(reference, batch).loss
    expected.backward()
    sums = build_objective("mlm_nsp", ours)(ours, batch)
    loss = torch.stack([term.loss_sum / term.count for term in sums.values()]).sum()
    loss.backward()
    assert_close(loss, expected, "loss", LOSS_TOLERANCE)
    gradients = NAMES.to_huggingface({name: value.grad for name, value in ours.named_parameters()})
    references = {name: value.grad for name, value in reference.named_parameters()}
    assert gradients.keys() == references.keys()
    for name, gradient in references.items():
        # A bias of the keys shifts all scores of a query alike: its true gradient is 0, what is seen is rounding.
        silent = name.endswith("attention.self.key.bias")
        query = references[name.replace("key", "query")]
        assert_close(gradients[name], gradient, name, LOSS_TOLERANCE, float(query.abs().max()) if silent else None)


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new"])
@pytest.mark.parametrize("lengths", [[21, 64, 5], [40, 40]], ids=["padded", "full"])
@pytest.mark.parametrize("preset", ["tiny", "mini"])
def test_a_training_step_of_the_presets_equals_transformers(preset, lengths, hidden_act):
    config = ModelConfig(preset=preset, fields={"hidden_act": hidden_act, **NO_DROPOUT}).build(1000)
    batch = random_batch(config, lengths)
    assert_same_forward(config, batch)
    assert_same_training_step(config, batch)


def test_all_512_positions_equal_transformers():
    config = ModelConfig(preset="tiny", fields=NO_DROPOUT).build(500)
    batch = random_batch(config, [512, 77])
    assert_same_forward(config, batch)
    assert_same_training_step(config, batch)


@settings(max_examples=15)
@given(
    heads=st.integers(1, 4),
    head_size=st.integers(1, 9),
    layers=st.integers(1, 3),
    intermediate=st.integers(1, 40),
    vocab=st.integers(3, 60),
    types=st.integers(1, 3),
    act=st.sampled_from(["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"]),
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=5),
)
def test_random_shapes_equal_transformers(heads, head_size, layers, intermediate, vocab, types, act, lengths):
    config = BertConfig(
        vocab_size=vocab,
        # Two values or fewer are normalised to +-1 or 0 whatever they are: nothing is left to compare.
        hidden_size=heads * (head_size + 3),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=intermediate,
        hidden_act=act,
        max_position_embeddings=20,
        type_vocab_size=types,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    assert_same_forward(config, random_batch(config, lengths))


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["base", "large"])
def test_two_layers_of_base_and_large_equal_transformers(preset):
    config = ModelConfig(preset=preset, fields={"num_hidden_layers": 2, **NO_DROPOUT}).build(1000)
    batch = random_batch(config, [17, 30, 9])
    assert_same_forward(config, batch)
    assert_same_training_step(config, batch)


@pytest.mark.parametrize("preset", PRESETS)
def test_each_preset_has_the_parameters_of_transformers(preset):
    config = ModelConfig(preset=preset).build(30_522)
    with torch.device("meta"):
        ours = NAMES.to_huggingface(dict(BertForPreTraining(config).named_parameters()))
        theirs = dict(transformers.BertForPreTraining(reference_config(config)).named_parameters())
    assert {name: value.shape for name, value in ours.items()} == {name: value.shape for name, value in theirs.items()}


def test_a_sequence_is_computed_alone():
    config = ModelConfig(preset="tiny").build(300)
    batch = random_batch(config, [30, 7, 19])
    _, model = pair(config)
    with torch.no_grad():
        together, pooled = model.bert(batch.input_ids, batch.token_type_ids, batch.layout)
        start = 0
        for row, length in enumerate(batch.layout.lengths.tolist()):
            tokens = slice(start, start + length)
            only = Layout.from_lengths(torch.tensor([length]))
            alone, alone_pooled = model.bert(batch.input_ids[tokens], batch.token_type_ids[tokens], only)
            assert_close(alone, together[tokens], "hidden states")
            assert_close(alone_pooled[0], pooled[row], "pooled")
            start += length


def test_activation_checkpointing_changes_no_gradient():
    config = ModelConfig(preset="tiny").build(300)  # with dropout: the masks must be drawn again, not anew
    batch = random_batch(config, [30, 7])
    gradients = []
    for checkpointing in (False, True):
        _, model = pair(config)
        model.train()
        model.bert.encoder.activation_checkpointing = checkpointing
        torch.manual_seed(5)
        build_objective("mlm", model)(model, batch)["mlm"].loss_sum.backward()
        gradients.append({name: value.grad for name, value in model.named_parameters() if value.grad is not None})
    for name, gradient in gradients[0].items():
        assert torch.equal(gradient, gradients[1][name]), name


def test_a_step_is_deterministic():
    config = ModelConfig(preset="tiny").build(300)
    batch = random_batch(config, [30, 7, 19])
    results = []
    for _ in range(2):
        torch.manual_seed(1)
        model = BertForPreTraining(config)
        build_objective("mlm_nsp", model)(model, batch)["mlm"].loss_sum.backward()
        results.append([value.grad for value in model.parameters()])
    for first, second in zip(*results, strict=True):
        assert (first is None and second is None) or torch.equal(first, second)


def test_dropout_drops_its_share_where_transformers_does_and_only_in_training():
    config = ModelConfig(preset="tiny", fields=NO_DROPOUT | {"hidden_dropout_prob": 0.3}).build(300)
    batch = random_batch(config, [50, 20])
    model = BertModel(config)
    layout, dropped = batch.layout, []
    for module in (model.embeddings, model.encoder.layer[0].attention_norm, model.encoder.layer[0].output_norm):
        module.register_forward_hook(lambda _, inputs, output: dropped.append((inputs, output)))
    model.train()(batch.input_ids, batch.token_type_ids, layout)
    embedded = dropped[0][1][: layout.total]
    assert abs(float((embedded == 0).float().mean()) - 0.3) < 0.03  # 8,960 draws: standard deviation 0.005
    kept = model.embeddings.eval()(batch.input_ids, batch.token_type_ids, layout.position_ids)
    assert torch.allclose(embedded[embedded != 0], kept[embedded != 0] / 0.7, atol=1e-6)
    assert torch.equal(kept, model.embeddings(batch.input_ids, batch.token_type_ids, layout.position_ids))


def test_attention_dropout_keeps_the_mean_and_follows_the_mode():
    config = ModelConfig(preset="tiny", fields=NO_DROPOUT | {"attention_probs_dropout_prob": 0.5}).build(300)
    batch = random_batch(config, [50, 20])
    attention = BertModel(config).encoder.layer[0].attention
    hidden = torch.randn(batch.layout.total, config.hidden_size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = attention.eval()(hidden, batch.layout)
        torch.manual_seed(0)
        drawn = torch.stack([attention.train()(hidden, batch.layout) for _ in range(150)])
    spread = drawn.std(0)
    assert float(spread.min()) > 0
    assert float(((drawn.mean(0) - expected) / spread).abs().max()) < 6 / 150**0.5


def test_a_sequence_beyond_the_positions_is_one_clear_error():
    config = BertConfig(vocab_size=20, hidden_size=8, num_attention_heads=2, max_position_embeddings=16)
    batch = random_batch(config, [3, 17])
    with pytest.raises(ConfigError) as caught:
        BertModel(config)(batch.input_ids, batch.token_type_ids, batch.layout)
    assert str(caught.value) == (
        "a sequence of 17 tokens is longer than the 16 positions of the model: expected at most 16; "
        "shorten the sequences or raise max_position_embeddings"
    )


def test_the_decoder_is_the_embedding_matrix():
    model = BertForPreTraining(ModelConfig(preset="tiny").build(300))
    assert not any("decoder" in name for name, _ in model.named_parameters())
    batch = random_batch(model.config, [9])
    build_objective("mlm", model)(model, batch)["mlm"].loss_sum.backward()
    gradient = model.bert.embeddings.word_embeddings.weight.grad
    assert gradient is not None and bool((gradient != 0).any(dim=1).all())  # every entry competes in the softmax
