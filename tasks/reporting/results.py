"""The report's first table: what the pre-training and every task came to, with a verdict."""

from collections.abc import Mapping, Sequence

from bertcore.evaluation.systems import MAJORITY, PRETRAINED_WEIGHTS, RANDOM_WEIGHTS
from tasks.reporting import minimal_pairs
from tasks.reporting.comparison import (
    MIXED,
    Comparison,
    Verdict,
    margin,
    readable,
)
from tasks.reporting.document import NOTHING, Table, percent, signed
from tasks.reporting.measurements import Measurements
from tasks.reporting.summary import Summary, masked_lm, pretrain_terms, scores_of

_RESULT_HEADER = ("Task", "Metric", "Majority", "Simple baseline", "Random", "Pre-trained", "Gain", "Verdict")


def results(measurements: Measurements, summary: Summary, comparisons: Sequence[Comparison]) -> Table:
    """The pre-training's own objectives, the minimal pairs, then every task by its headline metric."""
    pretraining = _pretraining_rows(measurements, summary)
    rows = [*pretraining, *minimal_pairs.result(measurements), *map(_task_row, comparisons)]
    return Table(
        header=_RESULT_HEADER,
        rows=[[*cells, verdict.text] for cells, verdict in rows],
        left=("Metric", "Simple baseline"),
        strong="Pre-trained",
        verdicts="Verdict",
        tones=[verdict.tone for _, verdict in rows],
    )


def _pretraining_rows(measurements: Measurements, summary: Summary) -> list[tuple[list[str], Verdict]]:
    pretrain = summary["pretrain"]
    task, loss = masked_lm(summary), pretrain["mlm_loss"]
    # As many as the model was evaluated on: the baselines are of all held-out sequences, and vary less.
    sequences = round(measurements.number("pretrain", "", "heldout_sequences"))
    written, *kinds = (measurements.number("mask", "heldout", of) for of in ("sequences", "predicted_tokens", "tokens"))
    predicted, tokens = (round(sequences * number / written) for number in kinds)
    rows = [
        _loss_row(task, "unigram", pretrain["unigram_loss"], loss, "beats unigram"),
        _accuracy_row(task, {"unigram": pretrain["unigram_accuracy"]}, pretrain["mlm_accuracy"], predicted),
    ]
    if "mlm_loss_before" in pretrain:
        rows.append(_loss_row(task, "before", pretrain["mlm_loss_before"], loss, "adapted"))
    return [*rows, *(_term_row(pretrain, term, sequences, tokens) for term in pretrain_terms(summary))]


def _term_row(pretrain: Mapping[str, float], term: str, sequences: int, tokens: int) -> tuple[list[str], Verdict]:
    """A term beside the masked LM: tokens against their most frequent label, pairs also against what their lengths
    tell, others without a baseline."""
    loss, accuracy = (pretrain.get(name) for name in scores_of(term))
    majority, by_length = (pretrain.get(f"{term}_{baseline}") for baseline in (MAJORITY, "by_length_alone"))
    if accuracy is not None and majority is not None:
        if by_length is not None:
            return _accuracy_row(readable(term), {MAJORITY: majority, "length": by_length}, accuracy, sequences)
        return _accuracy_row(readable(term), {MAJORITY: majority}, accuracy, tokens)
    shown = ["loss", f"{loss:.2f}"] if accuracy is None else ["accuracy", percent(accuracy)]
    return [readable(term), shown[0], *[NOTHING] * 3, shown[1], NOTHING], Verdict(NOTHING, MIXED)


def _loss_row(task: str, name: str, baseline: float, loss: float, praise: str) -> tuple[list[str], Verdict]:
    gain = round(loss - baseline, 2)  # its spread over the sequences is not measured: what is shown counts
    verdict = Verdict.beside(name, better=gain < 0, praise=praise)
    shown = [NOTHING, f"{baseline:.2f} {name}", NOTHING, f"{loss:.2f}", signed(gain, 2)]
    return [task, "loss", *shown], verdict


def _accuracy_row(task: str, baselines: Mapping[str, float], score: float, examples: int) -> tuple[list[str], Verdict]:
    """Against the strongest of `baselines`; that of the most frequent label has a column of its own."""
    majority = percent(baselines[MAJORITY]) if MAJORITY in baselines else NOTHING
    simple = [f"{percent(value)} {name}" for name, value in baselines.items() if name != MAJORITY]
    shown = [majority, *(simple or [NOTHING]), NOTHING, percent(score)]
    name = max(baselines, key=lambda name: baselines[name])
    difference = score - baselines[name]
    verdict = Verdict.beside(name, difference > margin("accuracy", score, baselines[name], examples))
    return [task, "accuracy", *shown, signed(100 * difference, 1)], verdict


def _task_row(comparison: Comparison) -> tuple[list[str], Verdict]:
    baseline = NOTHING if comparison.baseline is None else f"{percent(comparison.baseline)} {comparison.baseline_label}"
    name = comparison.task if comparison.started_from is None else f"{comparison.task}, from {comparison.started_from}"
    named = [name, readable(comparison.metric), percent(comparison.majority), baseline]
    scores = [
        _with_range(comparison.random_initialisation, comparison, RANDOM_WEIGHTS),
        _with_range(comparison.pretrained, comparison, PRETRAINED_WEIGHTS),
        NOTHING if comparison.gain is None else signed(100 * comparison.gain, 1),
    ]
    return [*named, *scores], comparison.verdict()


def _with_range(score: float | None, comparison: Comparison, system: str) -> str:
    """A median over several seeds with the lowest and the highest score."""
    if score is None:
        return NOTHING
    if comparison.seeds < 2 or system not in comparison.ranges:
        return percent(score)
    low, high = comparison.ranges[system]
    return f"{percent(score)} ({percent(low)}–{percent(high)})"
