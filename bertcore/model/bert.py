"""BERT (Devlin et al. 2018) on sequences without padding: the encoder, and the encoder with its pre-training heads.

Parameters outside of the encoder layers have Hugging Face's names; `bertcore.model.huggingface` maps the others.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.errors import ConfigError
from bertcore.model.config import BertConfig
from bertcore.model.embeddings import BertEmbeddings
from bertcore.model.encoder import ACTIVATIONS, BertEncoder
from bertcore.model.initialization import initialize
from bertcore.model.layout import Layout, even


class BertPooler(nn.Module):
    """(B, H) hidden states of the [CLS] tokens -> (B, H) representations of the whole sequences."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, first: Tensor) -> Tensor:
        return torch.tanh(self.dense(first))


class BertModule(nn.Module):
    """What `bertcore.model.huggingface` reads and writes: an encoder, alone or as attribute `bert` beside a head."""

    architecture: str
    """Hugging Face's name of the class."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config


class BertModel(BertModule):
    """The encoder, and its pooled [CLS]."""

    architecture = "BertModel"

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config)
        initialize(self, config)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """(T,) token ids and (T,) segment ids of the B sequences in `layout` -> (T, H) hidden states, (B, H) pooled.

        `ConfigError` if a sequence is longer than the position embeddings.
        """
        hidden = self.hidden_states(input_ids, token_type_ids, layout)
        return hidden, self.pooler(hidden.index_select(0, layout.first_tokens))

    def pooled(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        """As `forward`, the (B, H) pooled states alone, for less work."""
        return self.pooler(self.hidden_states(input_ids, token_type_ids, layout, layout.first_tokens))

    def hidden_states(
        self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout, rows: Tensor | None = None
    ) -> Tensor:
        """As `forward`, without the pooler; with `rows`, flat positions (R,), only their (R, H) states."""
        positions = self.config.max_position_embeddings
        if layout.max_length > positions:
            raise ConfigError(
                f"a sequence of {layout.max_length} tokens is longer than the {positions} positions of the model: "
                f"expected at most {positions}; shorten the sequences or raise max_position_embeddings"
            )
        ids = [input_ids, token_type_ids, layout.position_ids]
        if input_ids.device.type != "cpu" or torch.compiler.is_compiling():
            return self.encoder(self.embeddings(*ids), layout, rows)
        filling = (0, even(layout.total) - layout.total)
        hidden = self.encoder(self.embeddings(*(functional.pad(each, filling) for each in ids)), layout, rows)
        return hidden[: layout.total] if rows is None else hidden


class MaskedTokenHead(nn.Module):
    """(M, H) hidden states at masked positions -> (M, V) logits; the decoder is the embedding matrix itself."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = nn.ModuleDict(
            {
                "dense": nn.Linear(config.hidden_size, config.hidden_size),
                "LayerNorm": nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps),
            }
        )
        self.activation = ACTIVATIONS[config.hidden_act]
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, masked: Tensor, embeddings: Tensor) -> Tensor:
        transformed = self.transform["LayerNorm"](self.activation(self.transform["dense"](masked)))
        return functional.linear(transformed, embeddings, self.bias)


class BertForPreTraining(BertModule):
    """The encoder with the heads of both pre-training objectives."""

    architecture = "BertForPreTraining"

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        self.cls = nn.ModuleDict(
            {"predictions": MaskedTokenHead(config), "seq_relationship": nn.Linear(config.hidden_size, 2)}
        )
        initialize(self.cls, config)

    def forward(
        self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout, masked_positions: Tensor
    ) -> tuple[Tensor, Tensor]:
        """As `BertModel`, with (M,) flat positions -> (M, V) logits there, and (B, 2) next-sentence logits."""
        rows = torch.cat([layout.first_tokens, masked_positions])
        hidden = self.bert.hidden_states(input_ids, token_type_ids, layout, rows)
        first, masked = hidden.split([layout.batch_size, len(masked_positions)])
        mlm_logits = self.cls["predictions"](masked, self.bert.embeddings.word_embeddings.weight)
        return mlm_logits, self.cls["seq_relationship"](self.bert.pooler(first))
