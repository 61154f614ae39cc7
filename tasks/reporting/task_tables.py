"""The report's tables of the fine-tuning tasks: scores, protocol, examples."""

from collections.abc import Sequence
from functools import partial

from bertcore.evaluation.systems import MAJORITY
from tasks.reporting.comparison import Comparison, readable, systems
from tasks.reporting.document import NOTHING, Table, count, counted, percent, signed
from tasks.reporting.measurements import Measurements

_PROTOCOL_NAMES = {"sequence_length": "tokens at most"}
SECONDS = "Seconds, Random included"
_IN_WORDS = ("early_choice",)
"""Settings that `_protocol_in_words` says."""
_WORST = 20
"""Labels of a task that are shown."""
_ALWAYS = ("epochs", "batch_size", "learning_rate", "optimizer", "sequence_length")
"""Settings that the protocol shows of every task; the others, where a task's is not the default."""


def contamination(measurements: Measurements) -> Table:
    """The evaluation examples of each task that stand in its own train file, and those of which a long n-gram stands in
    the corpus."""
    rows = []
    for group in measurements.groups("contamination"):
        task, _, split = group.partition("/")
        if task in measurements.tasks:
            number = partial(measurements.number, "contamination", group)
            counts = [count(number(name)) for name in ("examples", "checked", "contaminated")]
            in_train = measurements.numbers(f"examples/{task}", "in_train").get(split)
            counts.insert(1, NOTHING if in_train is None else count(in_train))
            share = f"{percent(number('contaminated_share'))} %" if number("checked") else NOTHING
            rows.append([task, split, *counts, share])
    header = ("Task", "Split", "Examples", "In train", "Checked", "In the corpus", "Share")
    return Table(header, rows, left=("Split",), caption="Overlap with the pre-training text")


def scores(measurements: Measurements, comparisons: Sequence[Comparison]) -> Table:
    """Every metric of every system on every task."""
    rows = []
    for comparison in comparisons:
        metrics = measurements.words(f"finetune/{comparison.task}", "metrics").values()
        for system, values in systems(measurements, comparison.task).items():
            found = ", ".join(f"{readable(metric)} {percent(values[metric])}" for metric in metrics if metric in values)
            rows.append([comparison.task, readable(system), found])
        rows += _other_splits(measurements, comparison.task)
    return Table(("Task", "System", "Scores on dev"), rows, left=("System", "Scores on dev"), caption="Scores")


def by_label(measurements: Measurements) -> Table:
    """Which labels of each task are found worst, in the order of the metrics: the lowest F1 first."""
    rows = []
    for task in measurements.tasks:
        found = list(measurements.below(f"finetune/{task}", "by_label").items())
        for label, scores in found[:_WORST]:
            words = measurements.words(f"finetune/{task}", f"by_label/{label}")
            taken_for = f"{words['confused_with']} ({count(scores['confused'])})" if words else NOTHING
            shares = [percent(scores[name]) for name in ("precision", "recall", "f1")]
            rows.append([task, label, count(scores["gold"]), *shares, taken_for])
        if others := [scores for _, scores in found[_WORST:]]:
            examples = count(sum(scores["gold"] for scores in others))
            least = f"{percent(min(scores['f1'] for scores in others))} or more"
            rows.append([task, f"{count(len(others))} others", examples, NOTHING, NOTHING, least, NOTHING])
    header = ("Task", "Label", "In dev", "Precision", "Recall", "F1", "Most often taken for")
    return Table(header, rows, left=("Label", "Most often taken for"), caption="Scores by label")


def differences(comparisons: Sequence[Comparison]) -> Table:
    """What the verdicts rest on: how much better the pre-trained encoder is, and what it may be by chance."""
    rows = []
    for comparison in comparisons:
        against = {
            "random initialisation": comparison.against_random,
            MAJORITY: comparison.against_majority,
            comparison.baseline_label: comparison.against_baseline,
        }
        for name, found in against.items():
            if found is not None and found.difference is not None:
                low, high = (signed(100 * bound, 1) for bound in (found.low, found.high))
                rows.append([comparison.task, f"over {name}", signed(100 * found.difference, 1), f"{low} to {high}"])
    header = ("Task", "Pre-trained", "Difference", "95 % interval")
    return Table(header, rows, left=("Pre-trained",), caption="Differences")


def _other_splits(measurements: Measurements, task: str) -> list[list[str]]:
    """The pre-trained encoder's scores on further splits with labels, such as MNLI's mismatched one."""
    rows = []
    for split, values in measurements.below(f"finetune/{task}", "other_splits").items():
        found = ", ".join(f"{readable(metric)} {percent(value)}" for metric, value in values.items())
        rows.append([task, f"pre-trained, on {split}", found])
    return rows


def protocol(measurements: Measurements) -> Table:
    """How each task was fine-tuned."""
    known = {task: _settings(measurements, task) for task in measurements.tasks}
    columns = [*_ALWAYS, *dict.fromkeys(name for task in known for name in _chosen(measurements, task))]
    names = [_PROTOCOL_NAMES.get(name, readable(name)).capitalize() for name in columns]
    header = ["Task", "Protocol", "Train", "Dev", *names, "Truncated", SECONDS]
    rows = []
    for task, values in known.items():
        own = measurements.numbers(f"finetune/{task}")
        seconds = measurements.numbers(f"timing/finetune/{task}", "seconds")
        rows.append([
            task,
            _protocol_in_words(measurements, task),
            *(count(own[name]) if name in own else NOTHING for name in ("train_examples", "dev_examples")),
            *(values.get(name, NOTHING) for name in columns),
            count(own["truncated"]) if "truncated" in own else NOTHING,
            f"{sum(seconds.values()):.0f}" if seconds else NOTHING,
        ])  # fmt: skip
    return Table(header, rows, left=("Protocol",), caption="How each task was trained")


def _settings(measurements: Measurements, task: str) -> dict[str, str]:
    """A task's protocol, as it is shown."""
    source = f"finetune/{task}"
    found = measurements.numbers(source, "protocol")
    numbers = {name: count(value) if value == round(value) else f"{value:g}" for name, value in found.items()}
    return numbers | measurements.words(source, "protocol")


def _chosen(measurements: Measurements, task: str) -> list[str]:
    """The settings of a task that are not the default and not shown in any case."""
    source, group = f"finetune/{task}", "protocol/changed"
    names = [*measurements.numbers(source, group), *measurements.words(source, group)]
    return [name for name in names if name not in (*_ALWAYS, *_IN_WORDS)]


def _protocol_in_words(measurements: Measurements, task: str) -> str:
    """What the score is of: "dev, median of 3 seeds, best of 4 settings on 200 examples kept back from
    train, from models/pretrained"."""
    source = f"finetune/{task}"
    words, numbers = measurements.words(source, "protocol"), measurements.numbers(source, "protocol")
    seeds, settings = round(numbers.get("seeds", 1)), round(numbers.get("settings", 1))
    chosen_on = words.get("chosen_on", "part of train")
    parts = [words.get("scored_on", "dev"), "1 seed" if seeds == 1 else f"median of {seeds} seeds"]
    if settings > 1:
        parts.append(f"best of {settings} settings on {chosen_on}")
    if numbers.get("early_choice"):
        parts.append(f"best epoch on {chosen_on} ({numbers.get('saved_epoch', 0):.0f})")
    if "tuned_null_threshold" in numbers:
        parts.append(f"null threshold tuned on {chosen_on} ({numbers['tuned_null_threshold']:.2f})")
    return ", ".join([*parts, *([f"from `{words['started_from']}`"] if "started_from" in words else [])])


def examples(measurements: Measurements) -> Table:
    """What each task's data is."""
    rows = []
    for task in measurements.tasks:
        source = f"examples/{task}"
        if measurements.has(source):
            words, labels = measurements.words(source), measurements.numbers(source).get("labels")
            sizes = measurements.numbers(source, "splits")
            splits = ", ".join(f"{name} {count(number)}" for name, number in sizes.items())
            kind = [f"`{words.get('format', NOTHING)}`", readable(words.get("family", NOTHING))]
            rows.append([task, *kind, NOTHING if labels is None else count(labels), splits])
    return Table(
        ("Task", "Format", "Family", "Labels", "Examples"), rows, left=("Format", "Family", "Examples"), caption="Data"
    )


def dropped_examples(measurements: Measurements) -> Table:
    """What could not be used of each task's data, by reason."""
    rows = []
    for task in measurements.tasks:
        dropped = measurements.numbers(f"examples/{task}", "dropped")
        there = {reason: number for reason, number in dropped.items() if number}
        rows += [[task, *reason] for reason in counted(there)]
    return Table(("Task", "Reason", "Number"), rows, left=("Reason",), caption="Examples left out or mended")
