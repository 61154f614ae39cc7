"""Every class that is exported, as Hugging Face has it, by its name: a module for each architecture, one for heads."""

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
from bertcore.export.padded_heads import PooledClassification, QuestionAnswering, TokenClassification

# Hugging Face's name -> the model for a config and a number of labels. Where Hugging Face's takes (B, choices, L), each
# of B x choices sequences is a row here, with a logit of its own.
PADDED: dict[str, Callable[[Any, int], nn.Module]] = {
    "AlbertModel": lambda config, labels: albert.PaddedAlbert(config),
    "AlbertForPreTraining": lambda config, labels: albert.PaddedAlbertForPreTraining(config, has_pooler=True),
    "AlbertForMaskedLM": lambda config, labels: albert.PaddedAlbertForPreTraining(config, has_pooler=False),
    "AlbertForSequenceClassification": lambda config, labels: PooledClassification(
        "albert", albert.PaddedAlbert(config, has_pooler=True), config.hidden_size, labels
    ),
    "AlbertForTokenClassification": lambda config, labels: TokenClassification(
        "albert", albert.PaddedAlbert(config, has_pooler=False), config.hidden_size, labels
    ),
    "AlbertForQuestionAnswering": lambda config, labels: QuestionAnswering(
        "albert", albert.PaddedAlbert(config, has_pooler=False), config.hidden_size, 2
    ),
    "AlbertForMultipleChoice": lambda config, labels: PooledClassification(
        "albert", albert.PaddedAlbert(config, has_pooler=True), config.hidden_size, 1
    ),
    "BertModel": lambda config, labels: bert.PaddedModel(config),
    "BertForPreTraining": lambda config, labels: bert.PaddedForPreTraining(config, has_pooler=True),
    "BertForMaskedLM": lambda config, labels: bert.PaddedForPreTraining(config, has_pooler=False),
    "BertForSequenceClassification": lambda config, labels: PooledClassification(
        "bert", bert.PaddedModel(config, has_pooler=True), config.hidden_size, labels
    ),
    "BertForTokenClassification": lambda config, labels: TokenClassification(
        "bert", bert.PaddedModel(config, has_pooler=False), config.hidden_size, labels
    ),
    "BertForQuestionAnswering": lambda config, labels: QuestionAnswering(
        "bert", bert.PaddedModel(config, has_pooler=False), config.hidden_size, 2
    ),
    "BertForMultipleChoice": lambda config, labels: PooledClassification(
        "bert", bert.PaddedModel(config, has_pooler=True), config.hidden_size, 1
    ),
    "DebertaV2Model": lambda config, labels: deberta.PaddedDeberta(config),
    "DebertaV2ForMaskedLM": lambda config, labels: deberta.PaddedDebertaForMaskedLM(config),
    "DebertaV2ForSequenceClassification": deberta.PaddedDebertaForSequenceClassification,
    "DebertaV2ForTokenClassification": lambda config, labels: TokenClassification(
        "deberta", deberta.PaddedDeberta(config), config.hidden_size, labels
    ),
    "DebertaV2ForQuestionAnswering": lambda config, labels: QuestionAnswering(
        "deberta", deberta.PaddedDeberta(config), config.hidden_size, 2
    ),
    "DebertaV2ForMultipleChoice": deberta.PaddedDebertaForSequenceClassification,
    "DistilBertModel": lambda config, labels: distilbert.PaddedDistilBert(config),
    "DistilBertForMaskedLM": lambda config, labels: distilbert.PaddedDistilBertForMaskedLM(config),
    "DistilBertForSequenceClassification": distilbert.PaddedDistilBertForSequenceClassification,
    "DistilBertForTokenClassification": lambda config, labels: TokenClassification(
        "distilbert", distilbert.PaddedDistilBert(config), config.hidden_size, labels
    ),
    "DistilBertForQuestionAnswering": lambda config, labels: QuestionAnswering(
        "distilbert", distilbert.PaddedDistilBert(config), config.hidden_size, 2
    ),
    "DistilBertForMultipleChoice": distilbert.PaddedDistilBertForSequenceClassification,
    "ElectraModel": lambda config, labels: electra.PaddedElectra(config),
    "ElectraForPreTraining": lambda config, labels: electra.PaddedElectraForPreTraining(config),
    "ElectraForMaskedLM": lambda config, labels: electra.PaddedElectraForMaskedLM(config),
    "ElectraForSequenceClassification": electra.PaddedElectraForSequenceClassification,
    "ElectraForTokenClassification": lambda config, labels: TokenClassification(
        "electra", electra.PaddedElectra(config), config.hidden_size, labels
    ),
    "ElectraForQuestionAnswering": lambda config, labels: QuestionAnswering(
        "electra", electra.PaddedElectra(config), config.hidden_size, 2
    ),
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
    "RobertaForTokenClassification": lambda config, labels: TokenClassification(
        "roberta", roberta.PaddedRoberta(config, has_pooler=False), config.hidden_size, labels
    ),
    "RobertaForQuestionAnswering": lambda config, labels: QuestionAnswering(
        "roberta", roberta.PaddedRoberta(config, has_pooler=False), config.hidden_size, 2
    ),
    "RobertaForMultipleChoice": lambda config, labels: PooledClassification(
        "roberta", roberta.PaddedRoberta(config, has_pooler=True), config.hidden_size, 1
    ),
}
