"""The report's tables, every number already as it is shown."""

from collections.abc import Callable, Sequence
from functools import partial

from tasks.reporting.comparison import BAD, GOOD, PRETRAINED, RANDOM, Comparison, Verdict, margin, readable, systems
from tasks.reporting.document import Table
from tasks.reporting.measurements import Measurements
from tasks.reporting.summary import Summary

NOTHING = "–"

_RESULT_HEADER = ("Task", "Metric", "Majority", "Simple baseline", "Random", "Pre-trained", "Gain", "Verdict")
_PROTOCOL_NAMES = {"sequence_length": "tokens at most"}
_IN_WORDS = ("early_choice",)
"""Settings that `_protocol_in_words` says."""
_ALWAYS = ("epochs", "batch_size", "learning_rate", "optimizer", "sequence_length")
"""Settings that the protocol shows of every task; the others, where a task's is not the default."""


def percent(share: float) -> str:
    return f"{100 * share:.1f}".replace("-", "−")


def count(number: float) -> str:
    return f"{round(number):,}"


def _signed(number: float, digits: int) -> str:
    return f"{number:+.{digits}f}".replace("-", "−")


def results(measurements: Measurements, summary: Summary, comparisons: Sequence[Comparison]) -> Table:
    """The pre-training's own objectives, then every task by its headline metric."""
    rows = [*_pretraining_rows(measurements, summary), *map(_task_row, comparisons)]
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
    loss, unigram_loss = pretrain["mlm_loss"], pretrain["unigram_loss"]
    loss_row = ["masked LM", "loss", NOTHING, f"{unigram_loss:.2f} unigram", NOTHING, f"{loss:.2f}"]
    better = loss < unigram_loss
    verdict = Verdict("beats unigram", GOOD) if better else Verdict("no better than unigram", BAD)
    # As many as the model was evaluated on: the baselines are of all held-out sequences, and vary less.
    sequences = round(measurements.number("pretrain", "", "heldout_sequences"))
    predicted_tokens, written = (measurements.number("mask", "heldout", of) for of in ("predicted_tokens", "sequences"))
    predicted = round(sequences * predicted_tokens / written)
    rows = [
        ([*loss_row, _signed(loss - unigram_loss, 2)], verdict),
        _accuracy_row("masked LM", None, "unigram", pretrain["unigram_accuracy"], pretrain["mlm_accuracy"], predicted),
    ]
    if "nsp_accuracy" in pretrain:
        majority, by_length = pretrain["nsp_majority"], pretrain["nsp_by_length_alone"]
        rows.append(_accuracy_row("NSP", majority, "length", by_length, pretrain["nsp_accuracy"], sequences))
    return rows


def _accuracy_row(
    task: str, majority: float | None, name: str, baseline: float, score: float, examples: int
) -> tuple[list[str], Verdict]:
    shown = [NOTHING if majority is None else percent(majority), f"{percent(baseline)} {name}", NOTHING, percent(score)]
    difference = score - baseline
    if difference > margin("accuracy", score, baseline, examples):
        verdict = Verdict(f"beats {name}", GOOD)
    else:
        verdict = Verdict(f"no better than {name}", BAD)
    return [task, "accuracy", *shown, _signed(100 * difference, 1)], verdict


def _task_row(comparison: Comparison) -> tuple[list[str], Verdict]:
    baseline = NOTHING if comparison.baseline is None else f"{percent(comparison.baseline)} {comparison.baseline_label}"
    named = [comparison.task, readable(comparison.metric), percent(comparison.majority), baseline]
    scores = [
        _with_range(comparison.random_initialisation, comparison, RANDOM),
        _with_range(comparison.pretrained, comparison, PRETRAINED),
        _signed(100 * comparison.gain, 1),
    ]
    return [*named, *scores], comparison.verdict()


def _with_range(score: float, comparison: Comparison, system: str) -> str:
    """A median over several seeds with the lowest and the highest score."""
    if comparison.seeds < 2 or system not in comparison.ranges:
        return percent(score)
    low, high = comparison.ranges[system]
    return f"{percent(score)} ({percent(low)}–{percent(high)})"


def pretraining(summary: Summary) -> Table:
    """What the training was, in numbers."""
    shown: dict[str, tuple[str, Callable[[float], str]]] = {
        "mlm_loss": ("held-out masked LM loss (nats per predicted token)", "{:.3f}".format),
        "perplexity": ("the same as perplexity", "{:,.1f}".format),
        "parameters": ("parameters, heads included", count),
        "steps": ("optimizer steps", count),
        "tokens": ("tokens trained on (no padding among them)", count),
        "tokens_per_second": ("tokens per second", count),
    }
    pretrain = summary["pretrain"]
    rows = [[label, form(pretrain[key])] for key, (label, form) in shown.items() if key in pretrain]
    return Table(("Training", "Value"), rows)


def corpus(measurements: Measurements) -> Table:
    """The two splits of the text."""
    splits = {"train": "train", "heldout": "held out"}
    rows = [
        [label, *(count(measurements.number("corpus", split, name)) for name in ("documents", "sentences", "words")),
         f"{measurements.number('corpus', split, 'bytes') / 1e6:,.1f}"]
        for split, label in splits.items()
    ]  # fmt: skip
    return Table(("Text", "Documents", "Sentences", "Words", "MB"), rows)


def counted(header: tuple[str, str], counts: dict[str, float], code: bool = False) -> Table:
    """Names with their counts, the largest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Table(header, [[f"`{name}`" if code else name, count(number)] for name, number in ordered])


def vocabulary(measurements: Measurements) -> Table:
    number = lambda name: measurements.number("tokenizer", "", name)  # noqa: E731 - shorter than six full calls
    rows = [
        ["entries", count(number("vocab_size"))],
        ["entries that the held-out text uses", f"{percent(number('heldout_vocabulary_used'))} %"],
        ["held-out words counted", count(number("heldout_words"))],
        ["of them written as one entry", f"{percent(number('heldout_whole_word_share'))} %"],
        ["of them unknown", f"{100 * number('heldout_unknown_word_share'):.2g} %"],
        ["pieces per word", f"{number('heldout_pieces_per_word'):.3f}"],
    ]
    return Table(("Vocabulary", "Value"), rows)


_AUDIT_LABELS = {"random_next": "pairs with a random second part", "swapped": "pairs in swapped order"}
_CHANCE = "> 0.000001"


def masking(measurements: Measurements) -> Table:
    """The audit of the masked instances: what was counted in them, beside what the rule leads to expect of them."""
    share = lambda value: f"{100 * value:.2f} %"  # noqa: E731
    p_value = lambda value: f"{value:.2g}"  # noqa: E731
    lines: list[tuple[str, str, str, Callable[[float], str]]] = [
        ("sequences", "", "sequences", count),
        ("tokens", "", "tokens", count),
        ("predicted tokens", "", "predicted_tokens", count),
        ("share of all tokens", "", "predicted_share", share),
        ("predicted: became [MASK]", "expected", "mask_share", share),
        ("predicted: became a random token", "expected", "random_share", share),
        ("predicted: stayed as they were", "expected", "kept_share", share),
        ("p-value of these three shares", _CHANCE, "replacement_p_value", p_value),
        ("p-value of even positions", _CHANCE, "position_p_value", p_value),
        ("p-value of even random tokens", _CHANCE, "random_id_p_value", p_value),
        ("special tokens predicted", "0", "special_tokens_predicted", count),
        ("words predicted in part", "0", "words_predicted_in_part", count),
        ("random tokens that the rule excludes", "0", "random_ids_outside_the_rule", count),
        ("sequences with a wrong number of predictions", "0", "sequences_with_wrong_count", count),
    ]
    for label, words in _AUDIT_LABELS.items():
        if measurements.has("mask", "train", f"{label}_share"):
            lines += [
                (words, "expected", f"{label}_share", share),
                ("p-value of this share", _CHANCE, f"{label}_p_value", p_value),
            ]
    lines += [
        ("tokens cut off to fit", "", "truncated_tokens", count),
        ("padding, if the sequences were padded", "", "padding_share_if_padded", share),
    ]
    rows = []
    for label, rule, name, form in lines:
        if rule == "expected":
            rule = share(measurements.number("mask", "train", f"{name}_expected"))
        values = (form(measurements.number("mask", split, name)) for split in ("train", "heldout"))
        rows.append([label, rule, *values])
    return Table(("Audit", "Expected", "Train", "Held out"), rows)


def contamination(measurements: Measurements) -> Table:
    """The evaluation examples of each task of which a long n-gram stands in the corpus."""
    rows = []
    for group in measurements.groups("contamination"):
        task, _, split = group.partition("/")
        if task in measurements.tasks:
            number = partial(measurements.number, "contamination", group)
            counts = [count(number(name)) for name in ("examples", "checked", "contaminated")]
            rows.append([task, split, *counts, f"{percent(number('contaminated_share'))} %"])
    return Table(("Task", "Split", "Examples", "Checked", "In the corpus", "Share"), rows, left=("Split",))


def scores(measurements: Measurements, comparisons: Sequence[Comparison]) -> Table:
    """Every metric of every system on every task."""
    rows = []
    for comparison in comparisons:
        metrics = measurements.words(f"finetune/{comparison.task}", "metrics").values()
        for system, values in systems(measurements, comparison.task).items():
            found = ", ".join(f"{readable(metric)} {percent(values[metric])}" for metric in metrics if metric in values)
            rows.append([comparison.task, readable(system), found])
        rows += _other_splits(measurements, comparison.task)
    return Table(("Task", "System", "Scores on dev"), rows, left=("System", "Scores on dev"))


def _other_splits(measurements: Measurements, task: str) -> list[list[str]]:
    """The pre-trained encoder's scores on further splits with labels, such as MNLI's mismatched one."""
    source, rows = f"finetune/{task}", []
    for group in measurements.groups(source):
        if group.startswith("other_splits/"):
            values = measurements.numbers(source, group)
            found = ", ".join(f"{readable(metric)} {percent(value)}" for metric, value in values.items())
            rows.append([task, f"pre-trained, on {group.partition('/')[2]}", found])
    return rows


def protocol(measurements: Measurements) -> Table:
    """How each task was fine-tuned."""
    known = {task: _settings(measurements, task) for task in measurements.tasks}
    columns = [*_ALWAYS, *dict.fromkeys(name for task in known for name in _chosen(measurements, task))]
    names = [_PROTOCOL_NAMES.get(name, readable(name)).capitalize() for name in columns]
    header = ["Task", "Protocol", "Train", "Dev", *names, "Truncated", "Seconds"]
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
    return Table(header, rows, left=("Protocol",))


def _settings(measurements: Measurements, task: str) -> dict[str, str]:
    """A task's protocol, as it is shown."""
    source = f"finetune/{task}"
    numbers = {name: f"{value:g}" for name, value in measurements.numbers(source, "protocol").items()}
    return numbers | measurements.words(source, "protocol")


def _chosen(measurements: Measurements, task: str) -> list[str]:
    """The settings of a task that are not the default and not shown in any case."""
    source, group = f"finetune/{task}", "protocol/changed"
    names = [*measurements.numbers(source, group), *measurements.words(source, group)]
    return [name for name in names if name not in (*_ALWAYS, *_IN_WORDS)]


def _protocol_in_words(measurements: Measurements, task: str) -> str:
    """What the score is of: "dev, median of 3 seeds, best of 4 settings on dev, from models/pretrained"."""
    source = f"finetune/{task}"
    words, numbers = measurements.words(source, "protocol"), measurements.numbers(source, "protocol")
    seeds, settings = round(numbers.get("seeds", 1)), round(numbers.get("settings", 1))
    parts = [words.get("scored_on", "dev"), "1 seed" if seeds == 1 else f"median of {seeds} seeds"]
    if settings > 1:
        parts.append(f"best of {settings} settings on dev")
    if numbers.get("early_choice"):
        parts.append(f"best epoch on dev ({numbers.get('saved_epoch', 0):.0f})")
    if "tuned_null_threshold" in numbers:
        parts.append(f"null threshold tuned on dev ({numbers['tuned_null_threshold']:.2f})")
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
    return Table(("Task", "Format", "Family", "Labels", "Examples"), rows, left=("Format", "Family", "Examples"))


def dropped_examples(measurements: Measurements) -> Table:
    """What could not be used of each task's data, by reason."""
    rows = []
    for task in measurements.tasks:
        dropped = measurements.numbers(f"examples/{task}", "dropped")
        ordered = sorted(dropped.items(), key=lambda item: (-item[1], item[0]))
        rows += [[task, reason, count(number)] for reason, number in ordered if number]
    return Table(("Task", "Left out because", "Number"), rows, left=("Left out because",))


def machine(measurements: Measurements) -> Table:
    """Where and how fast the pre-training ran."""
    labels = {
        "device": "device",
        "precision": "mixed precision",
        "world_size": "processes",
        "threads": "threads of each",
        "torch": "PyTorch",
    }
    found: dict[str, str | float] = {**measurements.words("timing/pretrain"), **measurements.numbers("timing/pretrain")}
    shown = {name: found[name] for name in labels if name in found}
    rows = [[labels[name], value if isinstance(value, str) else count(value)] for name, value in shown.items()]
    return Table(("Machine", "Value"), rows)
