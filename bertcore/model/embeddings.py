"""Token, position and segment embeddings, added and normalised (Devlin et al. 2018, figure 2)."""

from torch import Tensor, nn

from bertcore.model.config import BertConfig
from bertcore.model.dropout import dropout


class BertEmbeddings(nn.Module):
    """(T,) token, segment and position ids -> (T, H)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout_prob = config.hidden_dropout_prob

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor) -> Tensor:
        embedded = (
            self.word_embeddings(input_ids)
            + self.token_type_embeddings(token_type_ids)
            + self.position_embeddings(position_ids)
        )
        return dropout(self.LayerNorm(embedded), self.dropout_prob, self.training)
