"""Every class that is exported, as Hugging Face has it, by its name: one module for each architecture."""

from collections.abc import Callable
from typing import Any

from torch import nn

from bertcore.export import padded_albert as albert
from bertcore.export import padded_bert as bert
from bertcore.export import padded_deberta as deberta
from bertcore.export import padded_distilbert as distilbert
from bertcore.export import padded_electra as electra
from bertcore.export import padded_modernbert as modernbert
from bertcore.export import padded_roberta as roberta

# Hugging Face's name -> the model for a config and a number of labels. Where Hugging Face's takes (B, choices, L), each
# of B x choices sequences is a row here, with a logit of its own.
PADDED: dict[str, Callable[[Any, int], nn.Module]] = {
    "AlbertModel": lambda config, labels: albert.PaddedAlbert(config),
    "AlbertForPreTraining": lambda config, labels: albert.PaddedAlbertForPreTraining(config, has_pooler=True),
    "AlbertForMaskedLM": lambda config, labels: albert.PaddedAlbertForPreTraining(config, has_pooler=False),
    "AlbertForSequenceClassification": albert.PaddedAlbertForSequenceClassification,
    "AlbertForTokenClassification": albert.PaddedAlbertForTokenClassification,
    "AlbertForQuestionAnswering": lambda config, labels: albert.PaddedAlbertForQuestionAnswering(config),
    "AlbertForMultipleChoice": albert.PaddedAlbertForSequenceClassification,
    "BertModel": lambda config, labels: bert.PaddedModel(config),
    "BertForPreTraining": lambda config, labels: bert.PaddedForPreTraining(config, has_pooler=True),
    "BertForMaskedLM": lambda config, labels: bert.PaddedForPreTraining(config, has_pooler=False),
    "BertForSequenceClassification": bert.PaddedForSequenceClassification,
    "BertForTokenClassification": bert.PaddedForTokenClassification,
    "BertForQuestionAnswering": lambda config, labels: bert.PaddedForQuestionAnswering(config),
    "BertForMultipleChoice": bert.PaddedForSequenceClassification,
    "DebertaV2Model": lambda config, labels: deberta.PaddedDeberta(config),
    "DebertaV2ForMaskedLM": lambda config, labels: deberta.PaddedDebertaForMaskedLM(config),
    "DebertaV2ForSequenceClassification": deberta.PaddedDebertaForSequenceClassification,
    "DebertaV2ForTokenClassification": deberta.PaddedDebertaForTokenClassification,
    "DebertaV2ForQuestionAnswering": lambda config, labels: deberta.PaddedDebertaForQuestionAnswering(config),
    "DebertaV2ForMultipleChoice": deberta.PaddedDebertaForSequenceClassification,
    "DistilBertModel": lambda config, labels: distilbert.PaddedDistilBert(config),
    "DistilBertForMaskedLM": lambda config, labels: distilbert.PaddedDistilBertForMaskedLM(config),
    "DistilBertForSequenceClassification": distilbert.PaddedDistilBertForSequenceClassification,
    "DistilBertForTokenClassification": distilbert.PaddedDistilBertForTokenClassification,
    "DistilBertForQuestionAnswering": lambda config, labels: distilbert.PaddedDistilBertForQuestionAnswering(config),
    "DistilBertForMultipleChoice": distilbert.PaddedDistilBertForSequenceClassification,
    "ElectraModel": lambda config, labels: electra.PaddedElectra(config),
    "ElectraForPreTraining": lambda config, labels: electra.PaddedElectraForPreTraining(config),
    "ElectraForMaskedLM": lambda config, labels: electra.PaddedElectraForMaskedLM(config),
    "ElectraForSequenceClassification": electra.PaddedElectraForSequenceClassification,
    "ElectraForTokenClassification": electra.PaddedElectraForTokenClassification,
    "ElectraForQuestionAnswering": lambda config, labels: electra.PaddedElectraForQuestionAnswering(config),
    "ElectraForMultipleChoice": lambda config, labels: electra.PaddedElectraForMultipleChoice(config),
    "ModernBertModel": lambda config, labels: modernbert.PaddedModernBert(config),
    "ModernBertForMaskedLM": modernbert.PaddedModernBertForMaskedLM,
    "ModernBertForSequenceClassification": modernbert.PaddedModernBertForSequenceClassification,
    "ModernBertForTokenClassification": modernbert.PaddedModernBertWithHead,
    "ModernBertForQuestionAnswering": modernbert.PaddedModernBertForQuestionAnswering,
    "ModernBertForMultipleChoice": modernbert.PaddedModernBertForSequenceClassification,
    "RobertaModel": lambda config, labels: roberta.PaddedRoberta(config, has_pooler=True),
    "RobertaForMaskedLM": lambda config, labels: roberta.PaddedRobertaForMaskedLM(config),
    "RobertaForSequenceClassification": roberta.PaddedRobertaForSequenceClassification,
    "RobertaForTokenClassification": roberta.PaddedRobertaForTokenClassification,
    "RobertaForQuestionAnswering": lambda config, labels: roberta.PaddedRobertaForQuestionAnswering(config),
    "RobertaForMultipleChoice": lambda config, labels: roberta.PaddedRobertaForMultipleChoice(config),
}
