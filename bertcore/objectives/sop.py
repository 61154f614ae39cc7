"""Sentence order prediction: do the two parts of a document stand in their order (Lan et al. 2019, section 3.1)."""

from torch import Tensor, nn

from bertcore.model.bert import BertForPreTraining
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.cross_entropy import cross_entropy
from bertcore.objectives.mlm import masked_language_modeling
from bertcore.objectives.sums import Sums


def sentence_order_prediction(order_logits: Tensor, order_labels: Tensor) -> Sums:
    """(B, 2) logits and (B,) labels, 1 = swapped -> sums over the B sequences. The logits are used up."""
    loss_sum, correct = cross_entropy(order_logits, order_labels)
    return Sums(loss_sum=loss_sum, count=len(order_labels), correct=correct)


class MaskedLanguageModelingAndSentenceOrder:
    """ALBERT's own: the masked tokens, and the order of the segments, by BERT's head for the next sentence."""

    def freeze_unused(self, model: BertForPreTraining) -> None:
        """Every weight takes part."""

    def counts(self, batch: PreTrainingBatch) -> dict[str, int]:
        return {"mlm": len(batch.masked_labels), "sop": batch.layout.batch_size}

    def __call__(self, model: nn.Module, batch: PreTrainingBatch) -> dict[str, Sums]:
        assert batch.next_sentence_labels is not None, "a batch without sentence-order labels"
        mlm_logits, order_logits = model(batch.input_ids, batch.token_type_ids, batch.layout, batch.masked_positions)
        return {
            "mlm": masked_language_modeling(mlm_logits, batch.masked_labels),
            "sop": sentence_order_prediction(order_logits, batch.next_sentence_labels),
        }
