"""The report's tables of the text, the vocabulary, the masked sequences and the pre-training."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from bertcore.vocabulary.size import CHOSEN
from tasks.reporting.comparison import readable
from tasks.reporting.document import NOTHING, Table, count, counted, percent
from tasks.reporting.measurements import Measurements
from tasks.reporting.normal import Curve
from tasks.reporting.summary import Summary, masked_lm


def passes(measurements: Measurements, summary: Summary) -> float:
    """How often the training has read its text."""
    return summary["pretrain"]["tokens"] / max(text_tokens(measurements), 1)


def text_tokens(measurements: Measurements) -> float:
    """Of the training's sequences in one epoch: static copies of them are counted together."""
    return measurements.number("mask", "train", "tokens") / measurements.numbers("mask").get("copies", 1)


def pretraining(measurements: Measurements, summary: Summary, beside: Sequence[tuple[Curve, float]]) -> Table:
    """What the training was, in numbers, and `beside` it what others came to (`signs.expected`)."""
    of = masked_lm(summary)
    shown: dict[str, tuple[str, Callable[[float], str]]] = {
        "mlm_loss": (f"held-out {of} loss (nats per predicted token)", "{:.3f}".format),
        "perplexity": (f"held-out {of} perplexity (exp of the loss)", "{:,.1f}".format),
        "mlm_loss_before": (f"held-out {of} loss before the first step, of the weights it began with", "{:.3f}".format),
        "parameters": ("parameters, heads included", count),
        "steps": ("optimizer steps", count),
        "tokens": ("tokens trained on (no padding among them)", count),
        "tokens_per_second": ("tokens per second", count),
    }
    pretrain = summary["pretrain"]
    rows = [[label, form(pretrain[key])] for key, (label, form) in shown.items() if key in pretrain]
    rows[1:1] = [
        [
            f"held-out loss of an encoder of this size after as many tokens (`{curve.source}`, unigrams "
            f"{curve.unigram_loss:g})",
            f"{loss:.3f}",
        ]
        for curve, loss in beside
    ]
    if "tokens_per_second" in pretrain:
        seconds = round(pretrain["tokens"] / pretrain["tokens_per_second"])
        rows.append(["time of the steps, without evaluations (h:mm:ss)", str(timedelta(seconds=seconds))])
    companion = "parameters_of_"
    rows += [
        [f"parameters of the {key.removeprefix(companion)}, which is saved beside it", count(value)]
        for key, value in pretrain.items()
        if key.startswith(companion)
    ]
    rows.append(["passes over the training text", f"{passes(measurements, summary):.2f}"])
    return Table(("Training", "Value"), rows)


def corpus(measurements: Measurements) -> Table:
    """The two splits of the text."""
    splits = {"train": "train", "heldout": "held out"}
    known = percent(measurements.number("corpus", "", "heldout_sentences_in_train_share"))
    shared = {"train": NOTHING, "heldout": f"{known} %"}
    rows = [
        [label, *(count(measurements.number("corpus", split, name)) for name in ("documents", "sentences", "words")),
         f"{measurements.number('corpus', split, 'bytes') / 1e6:,.1f}", shared[split]]
        for split, label in splits.items()
    ]  # fmt: skip
    return Table(("Text", "Documents", "Sentences", "Words", "MB", "Its sentences in train"), rows)


def sources(measurements: Measurements, entries: Mapping[str, Mapping[str, Any]]) -> Table:
    """How much of the text is of which source; `entries` of params.yaml, by URI, say its name and licence."""
    read, rows = measurements.numbers("corpus", "documents_read"), []
    for group in [each for each in measurements.groups("sources") if each.count("/") == 1]:
        uri = measurements.word("sources", group, "uri")
        entry, train = entries.get(uri, {}), f"{group}/train"
        rows.append([
            f"{entry['name']} (`{uri}`)" if entry.get("name") else f"`{uri}`",
            entry.get("license") or NOTHING,
            f"{entry.get('weight', 1):g}",
            count(read[uri]),
            *(count(measurements.number("sources", *place)) for place in ((group, "documents"), (train, "words"))),
            f"{measurements.number('sources', train, 'bytes') / 1e6:,.1f}",
            f"{percent(measurements.number('sources', group, 'train_share'))} %",
        ])  # fmt: skip
    header = ("Source", "Licence", "Weight", "Documents read", "Documents kept", "Words", "MB", "Share")
    return Table(header, rows, left=("Licence",))


def phases(measurements: Measurements) -> Table:
    """What the finished model comes to on held-out sequences of the length of each phase; empty where there is one."""
    first, second = (measurements.numbers("pretrain", group) for group in ("", "second_phase"))

    def shown(name: str, value: float) -> str:
        if name == "heldout_sequences":
            return count(value)
        return f"{percent(value)} %" if name.endswith(("accuracy", "majority")) else f"{value:.3f}"

    rows = [[readable(name), shown(name, first[name]), shown(name, second[name])] for name in second if name in first]
    return Table(("Held out, of the length of", "First phase", "Second phase"), rows)


def dropped(measurements: Measurements) -> Table:
    """Why lines and documents were left out, with the number of params.yaml that decided it; empty where none was."""
    thresholds = measurements.numbers("corpus", "thresholds")
    rows = [
        [reason.replace("_", " "), number, f"{thresholds[reason]:g}" if reason in thresholds else NOTHING]
        for reason, number in counted(measurements.numbers("corpus", "dropped"))
    ]
    return Table(("Left out because", "Number", "Threshold"), rows)


def dropped_by_source(measurements: Measurements) -> Table:
    """The same numbers, where there are several sources."""
    found = measurements.below("corpus", "dropped_by_source")
    if len(measurements.numbers("corpus", "documents_read")) == 1:
        found = {}
    rows = [
        [f"`{uri}`", reason.replace("_", " "), number]
        for uri, reasons in found.items()
        for reason, number in counted(reasons)
    ]
    return Table(("Left out of", "Because", "Number"), rows, left=("Because",))


def vocabulary(measurements: Measurements) -> Table:
    number = lambda name: measurements.number("tokenizer", "", name)  # noqa: E731 - shorter than six full calls
    chosen = measurements.words("tokenizer").get(CHOSEN)
    rows = [
        ["entries", count(number("vocab_size"))],
        *([["chosen by `vocab_size: auto`", chosen]] if chosen else []),
        ["entries that the held-out text uses", f"{percent(number('heldout_vocabulary_used'))} %"],
        ["held-out words and marks counted", count(number("heldout_words"))],
        ["of them written as one entry", f"{percent(number('heldout_whole_word_share'))} %"],
        ["of them unknown", f"{100 * number('heldout_unknown_word_share'):.2g} %"],
        ["characters in unknown ones", f"{100 * number('heldout_unknown_character_share'):.2g} %"],
        ["pieces per word", f"{number('heldout_pieces_per_word'):.3f}"],
    ]
    return Table(("Vocabulary", "Value"), rows)


_AUDIT_LABELS = {"random_next": "pairs with a random second part", "swapped": "pairs in swapped order"}
_CHANCE = "> 0.000001"
_IN_PART = "words_predicted_in_part"


def masking(measurements: Measurements) -> Table:
    """The audit of the masked instances: what was counted in them, beside what the rule leads to expect of them."""
    share = lambda value: f"{100 * value:.2f} %"  # noqa: E731
    p_value = lambda value: f"{value:.2g}"  # noqa: E731
    whole_words = measurements.has("mask", "train", _IN_PART)
    lines: list[tuple[str, str, str, Callable[[float], str]]] = [
        ("sequences", "", "sequences", count),
        ("tokens", "", "tokens", count),
        ("predicted tokens", "", "predicted_tokens", count),
        ("share of all tokens, in the end", "", "predicted_share", share),
        ("predicted: became [MASK]", "expected", "mask_share", share),
        ("predicted: became a random token", "expected", "random_share", share),
        ("predicted: stayed as they were", "expected", "kept_share", share),
        ("p-value of these three shares", _CHANCE, "replacement_p_value", p_value),
        ("p-value of even positions", _CHANCE, "position_p_value", p_value),
        ("p-value of even random tokens", _CHANCE, "random_id_p_value", p_value),
        ("special tokens predicted", "0", "special_tokens_predicted", count),
        *([("words predicted in part", "0", _IN_PART, count)] if whole_words else []),
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
        values = [form(measurements.number("mask", "train", name))]
        # Held-out masks are of single tokens for every rule of the training, so that words are no unit there.
        is_there = name != _IN_PART or measurements.has("mask", "heldout", name)
        values.append(form(measurements.number("mask", "heldout", name)) if is_there else NOTHING)
        rows.append([label, rule, *values])
    return Table(("Audit", "Expected", "Train", "Held out"), rows)


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
