"""metrics/summary.json: the numbers by which two runs of the pipeline are compared."""

from collections.abc import Mapping, Sequence
from math import exp
from typing import Any

from tasks.reporting.comparison import MAJORITY, PRETRAINED, RANDOM, Comparison
from tasks.reporting.measurements import Measurements

Summary = dict[str, dict[str, Any]]


def summarize(measurements: Measurements, comparisons: Sequence[Comparison]) -> Summary:
    """``{"pretrain": {name: number}, "finetune": {task: {name: number}}}``; losses in nats, scores as shares."""
    return {
        "pretrain": _pretrain(measurements),
        "finetune": {comparison.task: _finetune(comparison) for comparison in comparisons},
    }


def headlines(summary: Summary) -> dict[str, float]:
    """The few numbers that stand for a whole run, by MLflow's names."""
    pretrain = summary["pretrain"]
    names = ("mlm_loss", "mlm_accuracy", "nsp_accuracy")
    found = {f"eval/{name}": pretrain[name] for name in names if name in pretrain}
    if "tokens_per_second" in pretrain:
        found["train/tokens_per_second"] = pretrain["tokens_per_second"]
    for task, scores in summary["finetune"].items():
        found |= {f"{task}/{scores['metric']}": scores[PRETRAINED], f"{task}/gain": scores["gain"]}
    return found


def _pretrain(measurements: Measurements) -> dict[str, float | int]:
    loss = measurements.number("pretrain", "", "mlm_loss")
    summary: dict[str, float | int] = {
        "mlm_loss": loss,
        "unigram_loss": measurements.number("mask", "heldout_unigram_baseline", "loss"),
        "perplexity": exp(loss),
        "mlm_accuracy": measurements.number("pretrain", "", "mlm_accuracy"),
        "unigram_accuracy": measurements.number("mask", "heldout_unigram_baseline", "accuracy"),
        **_next_sentence(measurements),
    }
    for name in ("steps", "tokens", "parameters"):
        summary[name] = round(measurements.number("pretrain", "", name))
    if measurements.has("timing/pretrain"):
        summary["tokens_per_second"] = measurements.number("timing/pretrain", "", "tokens_per_second")
    return summary


def _next_sentence(measurements: Measurements) -> Mapping[str, float]:
    """Empty where the objective asks nothing about the next sentence."""
    if not measurements.has("pretrain", "", "nsp_accuracy"):
        return {}
    return {
        "nsp_accuracy": measurements.number("pretrain", "", "nsp_accuracy"),
        "nsp_majority": measurements.number("mask", "heldout_label_baselines", "majority_accuracy"),
        "nsp_by_length_alone": measurements.number("mask", "heldout_label_baselines", "by_length_alone_accuracy"),
    }


def _finetune(comparison: Comparison) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "metric": comparison.metric,
        PRETRAINED: comparison.pretrained,
        RANDOM: comparison.random_initialisation,
        MAJORITY: comparison.majority,
    }
    if comparison.baseline_name is not None:
        summary[comparison.baseline_name] = comparison.baseline
    return {**summary, "gain": comparison.gain, "dev_examples": comparison.dev_examples}
