"""metrics/summary.json: the numbers by which two runs of the pipeline are compared."""

from collections.abc import Sequence
from math import exp
from typing import Any

from bertcore.evaluation.systems import MAJORITY, PRETRAINED_WEIGHTS, RANDOM_WEIGHTS
from tasks.reporting import embed, minimal_pairs
from tasks.reporting.comparison import Comparison
from tasks.reporting.measurements import Measurements

Summary = dict[str, dict[str, Any]]

PAIR_TERMS = ("nsp", "sop")
"""Terms that ask a question with two answers about a pair of texts."""

_OWN = ("mlm_loss", "unigram_loss", "mlm_loss_before")


def summarize(measurements: Measurements, comparisons: Sequence[Comparison]) -> Summary:
    """``{"pretrain": {name: number}, "minimal_pairs": {…}, "embed": {…}, "finetune": {task: {name: number}}}``; losses
    in nats, scores as shares."""
    return {
        "pretrain": _pretrain(measurements),
        **minimal_pairs.summary(measurements),
        **embed.summary(measurements),
        "finetune": {comparison.task: _finetune(comparison) for comparison in comparisons},
    }


def scores_of(term: str) -> tuple[str, str]:
    """The names under which a term of the objective is measured."""
    return f"{term}_loss", f"{term}_accuracy"


def pretrain_terms(summary: Summary) -> list[str]:
    """The terms of the objective beside the masked LM, in their order."""
    return [name.removesuffix("_loss") for name in summary["pretrain"] if name.endswith("_loss") and name not in _OWN]


def has_generator(summary: Summary) -> bool:
    """Whether the model tells replaced tokens apart, so that the masked LM's numbers are those of its generator."""
    return "replaced_tokens" in pretrain_terms(summary)


def masked_lm(summary: Summary) -> str:
    """Whose numbers those of the masked LM are."""
    return "generator's masked LM" if has_generator(summary) else "masked LM"


def headlines(summary: Summary) -> dict[str, float]:
    """The few numbers that stand for a whole run, by MLflow's names."""
    pretrain = summary["pretrain"]
    names = ["mlm_loss", "mlm_accuracy", *(name for term in pretrain_terms(summary) for name in scores_of(term))]
    found = {f"eval/{name}": pretrain[name] for name in names if name in pretrain}
    if "tokens_per_second" in pretrain:
        found["train/tokens_per_second"] = pretrain["tokens_per_second"]
    if "minimal_pairs" in summary:
        found["eval/minimal_pairs"] = summary["minimal_pairs"]["model"]
    if "embed" in summary:
        found["eval/embed"] = summary["embed"]["model"]
    for task, scores in summary["finetune"].items():
        found[f"{task}/{scores['metric']}"] = scores[PRETRAINED_WEIGHTS]
        if "gain" in scores:
            found[f"{task}/gain"] = scores["gain"]
    return found


def _pretrain(measurements: Measurements) -> dict[str, float | int]:
    loss = measurements.number("pretrain", "", "mlm_loss")
    summary: dict[str, float | int] = {
        "mlm_loss": loss,
        "unigram_loss": measurements.number("mask", "heldout_unigram_baseline", "loss"),
        "perplexity": exp(loss),
        "mlm_accuracy": measurements.number("pretrain", "", "mlm_accuracy"),
        "unigram_accuracy": measurements.number("mask", "heldout_unigram_baseline", "accuracy"),
        **_other_terms(measurements),
    }
    before = measurements.curve("curves/pretrain_eval", "eval/mlm_loss")
    if 0 in before.index:
        summary["mlm_loss_before"] = float(before.loc[0])
    for name in ("steps", "tokens", "parameters"):
        summary[name] = round(measurements.number("pretrain", "", name))
    companions = measurements.numbers("pretrain", "companions")
    summary |= {f"parameters_of_{name}": round(number) for name, number in companions.items()}
    if measurements.has("timing/pretrain"):
        summary["tokens_per_second"] = measurements.number("timing/pretrain", "", "tokens_per_second")
    return summary


def _other_terms(measurements: Measurements) -> dict[str, float]:
    """Loss and accuracy of every term of the objective beside the masked LM, and what its most frequent label gives;
    of pairs, what lengths alone give, too."""
    found = measurements.numbers("pretrain")
    terms = [name.removesuffix("_loss") for name in found if name.endswith("_loss") and name != "mlm_loss"]
    summary: dict[str, float] = {}
    for term in terms:
        summary |= {name: found[name] for name in (*scores_of(term), f"{term}_majority") if name in found}
        baselines = measurements.numbers("mask", "heldout_label_baselines")
        if term in PAIR_TERMS and baselines:
            summary[f"{term}_majority"] = baselines["majority_accuracy"]
            summary[f"{term}_by_length_alone"] = baselines["by_length_alone_accuracy"]
    return summary


def _finetune(comparison: Comparison) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "metric": comparison.metric,
        PRETRAINED_WEIGHTS: comparison.pretrained,
        RANDOM_WEIGHTS: comparison.random_initialisation,
        MAJORITY: comparison.majority,
    }
    if comparison.baseline_name is not None:
        summary[comparison.baseline_name] = comparison.baseline
    summary |= {"gain": comparison.gain, "dev_examples": comparison.dev_examples}
    return {name: value for name, value in summary.items() if value is not None}
