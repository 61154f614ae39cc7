"""Every class that is exported, as Hugging Face has it, by its name: a module for each architecture, one for heads."""

from collections.abc import Callable
from functools import partial
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

Build = Callable[[Any, int], nn.Module]
"""The model for a config and a number of labels."""


def _on_tokens(kind: str, name: str, encoder: Callable[[Any], nn.Module]) -> dict[str, Build]:
    """The rows of heads on all tokens of an `encoder`, which Hugging Face's classes of the `kind` call `name`."""
    return {
        f"{kind}ForTokenClassification": lambda config, labels: TokenClassification(
            name, encoder(config), config.hidden_size, labels
        ),
        f"{kind}ForQuestionAnswering": lambda config, labels: QuestionAnswering(
            name, encoder(config), config.hidden_size
        ),
    }


def _on_pooled(name: str, encoder: Callable[[Any], nn.Module], labels: int | None = None) -> Build:
    """The row of a head on what an `encoder` pools; `labels` None: as many as the model has."""
    return lambda config, own: PooledClassification(
        name, encoder(config), config.hidden_size, own if labels is None else labels
    )


# By Hugging Face's name. Where Hugging Face's class takes (B, choices, L), each of B x choices sequences is a row here,
# with a logit of its own.
PADDED: dict[str, Build] = {
    "AlbertModel": lambda config, labels: albert.PaddedAlbert(config),
    "AlbertForPreTraining": lambda config, labels: albert.PaddedAlbertForPreTraining(config, has_pooler=True),
    "AlbertForMaskedLM": lambda config, labels: albert.PaddedAlbertForPreTraining(config, has_pooler=False),
    "AlbertForSequenceClassification": _on_pooled("albert", albert.PaddedAlbert),
    "AlbertForMultipleChoice": _on_pooled("albert", albert.PaddedAlbert, 1),
    **_on_tokens("Albert", "albert", partial(albert.PaddedAlbert, has_pooler=False)),
    "BertModel": lambda config, labels: bert.PaddedModel(config),
    "BertForPreTraining": lambda config, labels: bert.PaddedForPreTraining(config, has_pooler=True),
    "BertForMaskedLM": lambda config, labels: bert.PaddedForPreTraining(config, has_pooler=False),
    "BertForSequenceClassification": _on_pooled("bert", bert.PaddedModel),
    "BertForMultipleChoice": _on_pooled("bert", bert.PaddedModel, 1),
    **_on_tokens("Bert", "bert", partial(bert.PaddedModel, has_pooler=False)),
    "DebertaV2Model": lambda config, labels: deberta.PaddedDeberta(config),
    "DebertaV2ForMaskedLM": lambda config, labels: deberta.PaddedDebertaForMaskedLM(config),
    "DebertaV2ForPreTraining": lambda config, labels: deberta.PaddedDebertaForPreTraining(config),
    "DebertaV2ForSequenceClassification": deberta.PaddedDebertaForSequenceClassification,
    "DebertaV2ForMultipleChoice": deberta.PaddedDebertaForSequenceClassification,
    **_on_tokens("DebertaV2", "deberta", deberta.PaddedDeberta),
    "DistilBertModel": lambda config, labels: distilbert.PaddedDistilBert(config),
    "DistilBertForMaskedLM": lambda config, labels: distilbert.PaddedDistilBertForMaskedLM(config),
    "DistilBertForSequenceClassification": distilbert.PaddedDistilBertForSequenceClassification,
    "DistilBertForMultipleChoice": distilbert.PaddedDistilBertForSequenceClassification,
    **_on_tokens("DistilBert", "distilbert", distilbert.PaddedDistilBert),
    "ElectraModel": lambda config, labels: electra.PaddedElectra(config),
    "ElectraForPreTraining": lambda config, labels: electra.PaddedElectraForPreTraining(config),
    "ElectraForMaskedLM": lambda config, labels: electra.PaddedElectraForMaskedLM(config),
    "ElectraForSequenceClassification": electra.PaddedElectraForSequenceClassification,
    "ElectraForMultipleChoice": lambda config, labels: electra.PaddedElectraForMultipleChoice(config),
    **_on_tokens("Electra", "electra", electra.PaddedElectra),
    "ModernBertModel": lambda config, labels: modernbert.PaddedModernBert(config),
    "ModernBertForMaskedLM": lambda config, labels: modernbert.PaddedModernBertForMaskedLM(config),
    "ModernBertForSequenceClassification": modernbert.PaddedModernBertForSequenceClassification,
    "ModernBertForTokenClassification": modernbert.PaddedModernBertForTokenClassification,
    "ModernBertForQuestionAnswering": lambda config, labels: modernbert.PaddedModernBertForQuestionAnswering(config, 2),
    "ModernBertForMultipleChoice": modernbert.PaddedModernBertForSequenceClassification,
    "RobertaModel": lambda config, labels: roberta.PaddedRoberta(config, has_pooler=True),
    "RobertaForMaskedLM": lambda config, labels: roberta.PaddedRobertaForMaskedLM(config),
    "RobertaForSequenceClassification": roberta.PaddedRobertaForSequenceClassification,
    "RobertaForMultipleChoice": _on_pooled("roberta", partial(roberta.PaddedRoberta, has_pooler=True), 1),
    **_on_tokens("Roberta", "roberta", roberta.PaddedRoberta),
}
