"""The objectives that a model can be pre-trained with: which terms the loss has.

The loss of a global batch is the sum of `loss_sum / count` over the terms, where both are first added over all
micro-batches and ranks. `counts` tells a batch's part of that divisor before the model has run.
"""

from typing import Protocol

from torch import nn

from bertcore.model.bert import BertForPreTraining
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.mlm import masked_language_modeling
from bertcore.objectives.nsp import next_sentence_prediction
from bertcore.objectives.sop import MaskedLanguageModelingAndSentenceOrder
from bertcore.objectives.sums import Sums


class Objective(Protocol):
    """Terms by name: the number of predictions in a batch, and the sums once a model has made them."""

    def counts(self, batch: PreTrainingBatch) -> dict[str, int]: ...

    def __call__(self, model: nn.Module, batch: PreTrainingBatch) -> dict[str, Sums]: ...

    def freeze_unused(self, model: BertForPreTraining) -> None: ...


class MaskedLanguageModeling:
    """The masked tokens alone, for batches of packed sequences that have no sentence pairs."""

    def freeze_unused(self, model: BertForPreTraining) -> None:
        """No gradient reaches the pooler and the next-sentence head: they keep their initial weights."""
        model.bert.pooler.requires_grad_(False)
        model.cls["seq_relationship"].requires_grad_(False)

    def counts(self, batch: PreTrainingBatch) -> dict[str, int]:
        return {"mlm": len(batch.masked_labels)}

    def __call__(self, model: nn.Module, batch: PreTrainingBatch) -> dict[str, Sums]:
        mlm_logits, _ = model(batch.input_ids, batch.token_type_ids, batch.layout, batch.masked_positions)
        return {"mlm": masked_language_modeling(mlm_logits, batch.masked_labels)}


class MaskedLanguageModelingAndNextSentence:
    """BERT's own: the masked tokens, and whether the second sentence follows the first."""

    def freeze_unused(self, model: BertForPreTraining) -> None:
        """Every weight takes part."""

    def counts(self, batch: PreTrainingBatch) -> dict[str, int]:
        return {"mlm": len(batch.masked_labels), "nsp": batch.layout.batch_size}

    def __call__(self, model: nn.Module, batch: PreTrainingBatch) -> dict[str, Sums]:
        assert batch.next_sentence_labels is not None, "a batch without next-sentence labels"
        mlm_logits, nsp_logits = model(batch.input_ids, batch.token_type_ids, batch.layout, batch.masked_positions)
        return {
            "mlm": masked_language_modeling(mlm_logits, batch.masked_labels),
            "nsp": next_sentence_prediction(nsp_logits, batch.next_sentence_labels),
        }


OBJECTIVES: dict[str, Objective] = {
    "mlm": MaskedLanguageModeling(),
    "mlm_nsp": MaskedLanguageModelingAndNextSentence(),
    "mlm_sop": MaskedLanguageModelingAndSentenceOrder(),
}
