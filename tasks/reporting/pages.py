"""What the report says, and in which order."""

from collections.abc import Sequence
from math import log
from pathlib import Path

from tasks.reporting import embed, minimal_pairs, plots, results, signs, task_tables, teachers, text_tables
from tasks.reporting.comparison import Comparison, read_comparison
from tasks.reporting.document import (
    TABLES,
    Card,
    Document,
    Paragraph,
    Picture,
    Section,
    Table,
    count,
    percent,
    write_tables,
)
from tasks.reporting.measurements import CURVES, Measurements
from tasks.reporting.rendering import to_html, to_markdown
from tasks.reporting.setup import Setup
from tasks.reporting.signs import Sign
from tasks.reporting.summary import Summary, has_generator, masked_lm, pretrain_terms, summarize

WHISKERS = "Whiskers: two standard errors of the score, by the number of dev examples, without those of another seed."
CURVES_NOTE = (
    "The baseline predicts every masked token from how often the tokens occur in the training text, whatever stands "
    "around it. What the curve gains below that line it has learned from context."
)
LENGTH_NOTE = (
    "Guessing by length alone knows how many of the training pairs of each length are random ones (or swapped ones); "
    "what the model scores above that it has read in the text."
)
AUDIT_NOTE = (
    "Counted in the instances themselves (those of the first epoch, where masks are drawn while training). What is "
    "expected allows for random tokens that are the old ones by chance, and for pairs that had to be random ones."
)
CONTAMINATION_NOTE = (
    "Evaluation examples of which a text shares 13 words in a row with the pre-training text; shorter texts are not "
    "checked. Their scores may owe something to having been read before."
)
LABELS_NOTE = (
    "Of the saved model, that of the median run where there are several seeds; the lowest F1 first. In brackets: how "
    "often a label was taken for that one. An entity is right where its type and both ends are."
)

SOURCES_NOTE = (
    "Documents are read and kept once; words, MB and share are those of the training text, each document as often as "
    "the weight of its source says. Of documents that several sources have, the first source has the kept one."
)

Part = Paragraph | Table | Picture


def build_report(measurements: Measurements, setup: Setup, directory: Path) -> tuple[Summary, list[Sign]]:
    """Write report.md with its pictures, report.html, tables.json and measurements.csv into `directory`; the summary,
    and the signs of trouble that it names."""
    comparisons = [read_comparison(measurements, task) for task in measurements.tasks]
    summary = summarize(measurements, comparisons)
    given = (setup.params.get("tokenizer") or {}).get("vocab_file") is not None
    found = signs.signs(measurements, summary, given)
    document = describe(measurements, setup, summary, comparisons, found)
    pictures = plots.draw(measurements, summary, comparisons)
    for name, picture in pictures.items():
        (directory / f"{name}.png").write_bytes(picture.png)
    page = to_html(document, {name: picture.svg for name, picture in pictures.items()})
    (directory / "report.html").write_text(page, encoding="utf-8")
    (directory / "report.md").write_text(to_markdown(document), encoding="utf-8")
    write_tables(document, directory / TABLES)
    measurements.table.to_csv(directory / "measurements.csv", index=False, lineterminator="\n")
    return summary, found


def describe(
    measurements: Measurements,
    setup: Setup,
    summary: Summary,
    comparisons: Sequence[Comparison],
    found: Sequence[Sign],
) -> Document:
    """The document; what was not measured is left out."""
    sections = [_results(measurements, summary, comparisons), _pretraining(measurements, summary, found)]
    sections += [*minimal_pairs.sections(measurements), *embed.sections(measurements)]
    if comparisons:
        sections.append(_tasks(measurements, setup, comparisons))
    sections += [_text(measurements, setup), _sequences(measurements), setup.section()]
    cards = _cards(summary, comparisons)
    if found:
        names = ", ".join(sign.name for sign in found)
        cards.append(Card(count(len(found)), "signs of trouble in the pre-training", names))
    return Document("BERT pre-training report", _introduction(measurements, setup, summary), sections, cards)


def _introduction(measurements: Measurements, setup: Setup, summary: Summary) -> str:
    pretrain, tasks = summary["pretrain"], len(measurements.tasks)
    sources = ", ".join(f"`{uri}`" for uri in measurements.numbers("corpus", "documents_read"))
    words = count(measurements.number("corpus", "train", "words"))
    then = f", then fine-tuned on {tasks} {'task' if tasks == 1 else 'tasks'}" if tasks else ""
    recipe = f" by the recipe `{setup.recipe}`" if setup.recipe else ""
    return (
        f"An encoder of {count(pretrain['parameters'])} parameters, pre-trained{recipe} for "
        f"{count(pretrain['steps'])} steps ({text_tables.passes(measurements, summary):.2f} passes over the text) on "
        f"{words} words from {sources}{then}."
    )


def _cards(summary: Summary, comparisons: Sequence[Comparison]) -> list[Card]:
    pretrain = summary["pretrain"]
    cards = [
        Card(
            f"{pretrain['mlm_loss']:.2f}",
            f"held-out {masked_lm(summary)} loss",
            f"unigram baseline {pretrain['unigram_loss']:.2f}",
        ),
        Card(
            f"{percent(pretrain['mlm_accuracy'])} %",
            "masked tokens predicted right" + (" by the generator" if has_generator(summary) else ""),
            f"unigram baseline {percent(pretrain['unigram_accuracy'])} %",
        ),
    ]
    own = [each for each in comparisons if each.started_from is None and each.against_random is not None]
    if own:
        helped = sum(each.helped for each in own)
        cards.append(Card(f"{helped} of {len(own)}", "tasks helped by pre-training", "against random weights"))
    speed = f"{count(pretrain['tokens_per_second'])} a second" if "tokens_per_second" in pretrain else ""
    cards.append(Card(f"{pretrain['tokens'] / 1e6:,.1f} M", "tokens trained on", speed))
    return cards


def _results(measurements: Measurements, summary: Summary, comparisons: Sequence[Comparison]) -> Section:
    parts: list[Part] = [
        results.results(measurements, summary, comparisons),
        Paragraph(_explanation(summary, comparisons)),
    ]
    if comparisons:
        chart = Picture("comparison", f"Bar chart of the scores on {', '.join(each.task for each in comparisons)}")
        parts += [chart, Paragraph(WHISKERS)]
    return Section("Results", parts)


def _explanation(summary: Summary, comparisons: Sequence[Comparison]) -> str:
    """What the first table's columns mean, as far as it has them."""
    terms = pretrain_terms(summary)
    said = [
        "Scores are times 100, on held-out text and on each task's dev examples; the loss is in nats, less is better.",
        "The model is evaluated on a random choice of the held-out sequences, what is frequent (majority, unigram) on "
        "all of them.",
        *(_TERMS[term] for term in terms if term in _TERMS),
        "Gain of the pre-training's own rows: over the stronger one of majority and the simple baseline. Accuracies "
        "count beyond two standard errors; losses, whose spread is not measured, count as they are shown.",
    ]
    if any(each.against_random is not None for each in comparisons):
        said += [
            "Gain of the tasks: over the same architecture fine-tuned from random weights with the same budget (column "
            "Random). It helps where the whole 95 % interval of the difference is above zero: a paired bootstrap over "
            "the dev examples (table Differences below)."
        ]
    if any(each.against_random is None for each in comparisons):
        said.append(
            "A task without a gain was not trained from random weights (`random_initialisation: false`): what is said "
            "of it is how it stands beside the majority and the simple baseline."
        )
    if any(comparison.seeds > 1 for comparison in comparisons):
        said.append(
            "Of several seeds the scores are medians, with the lowest and the highest in brackets; the intervals are "
            "of the difference of the means over the seeds, and hold their spread, too."
        )
    if any(comparison.seeds == 1 for comparison in comparisons):
        said.append("Of one seed, how much another one would change is not in the interval: give several to know it.")
    return " ".join(said)


_TERMS = {
    "nsp": "NSP: whether the second part of a sequence follows the first one; length: what the parts' lengths tell.",
    "sop": "SOP: whether two parts stand in their order; length: what their lengths tell of it.",
    "repeats": "Repeats: whether an unmasked token occurs again in its sequence.",
}


def _pretraining(measurements: Measurements, summary: Summary, found: Sequence[Sign]) -> Section:
    pretrain = summary["pretrain"]
    uniform = log(measurements.number("tokenizer", "", "vocab_size"))
    beside = signs.expected(measurements, summary)
    parts: list[Part] = []
    if any(measurements.has(source) for source in CURVES):
        shown = f"Masked LM loss by step, {pretrain['mlm_loss']:.2f} at the end, and the learning rate"
        parts += [
            Picture("curves", shown),
            Paragraph(f"{CURVES_NOTE} Untrained, the loss is about {uniform:.2f}, that of a uniform guess."),
            Picture("accuracy", "Accuracy on held-out text by step"),
        ]
        if any(f"{term}_by_length_alone" in pretrain for term in pretrain_terms(summary)):
            parts.append(Paragraph(LENGTH_NOTE))
        parts.append(signs.part(found, bool(beside)))
    parts.append(text_tables.pretraining(measurements, summary, beside))
    if (phases := text_tables.phases(measurements)).rows:
        parts.append(phases)
    if measurements.has("timing/pretrain"):
        parts.append(text_tables.machine(measurements))
    return Section("Pre-training", parts)


def _tasks(measurements: Measurements, setup: Setup, comparisons: Sequence[Comparison]) -> Section:
    parts: list[Part] = [
        task_tables.scores(measurements, comparisons),
        task_tables.differences(comparisons),
    ]
    if (labels := task_tables.by_label(measurements)).rows:
        parts += [labels, Paragraph(LABELS_NOTE)]
    parts.append(task_tables.protocol(measurements))
    if (taught := teachers.students(measurements, setup.params)).rows:
        parts += [taught, Paragraph(teachers.NOTE)]
    described = (task_tables.examples(measurements), task_tables.dropped_examples(measurements))
    parts += [table for table in described if table.rows]
    contaminated = task_tables.contamination(measurements)
    return Section("Tasks", [*parts, contaminated, Paragraph(CONTAMINATION_NOTE)] if contaminated.rows else parts)


def _text(measurements: Measurements, setup: Setup) -> Section:
    parts: list[Part] = [text_tables.corpus(measurements), text_tables.sources(measurements, setup.sources)]
    parts.append(Paragraph(SOURCES_NOTE))
    left_out = (text_tables.dropped(measurements), text_tables.dropped_by_source(measurements))
    parts += [table for table in left_out if table.rows]
    return Section("Text and vocabulary", [*parts, text_tables.vocabulary(measurements)])


def _sequences(measurements: Measurements) -> Section:
    lengths = Picture("lengths", "Share of the pre-training sequences by their number of tokens")
    return Section("Masking audit", [Paragraph(AUDIT_NOTE), text_tables.masking(measurements), lengths])
