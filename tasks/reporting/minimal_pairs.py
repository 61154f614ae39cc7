"""What the report says of minimal pairs: a phenomenon a line, beside what frequencies and lengths tell."""

from tasks.reporting.comparison import STANDARD_ERRORS, Verdict
from tasks.reporting.document import NOTHING, Paragraph, Section, Table, count, percent, signed
from tasks.reporting.measurements import Measurements

SOURCE = "minimal_pairs"
TITLE = "Minimal pairs"

_SYSTEMS = {"model": "Model", "trigram": "Trigrams", "bigram": "Bigrams", "unigram": "Unigrams", "length": "Length"}
_NOTE = (
    "Of two sentences that differ in little the model must find the right one more likely; nothing is trained for it. "
    "A sentence's score is the sum of the log-probabilities {scored}. Scores are times 100, ties count half, chance is "
    "50. Trigrams, bigrams and unigrams are counted in the training text, in the encoder's own "
    "tokens; length prefers fewer of them. The error is the standard error of the model's score by the choice of the "
    "pairs; the spread over seeds comes on top of that. Against {baseline}, pair by pair: {gain}."
)
_BALANCED = (
    " These pairs are made so that, but for a and an, the word bigrams of the training text favour the wrong sentence "
    "as often as the right one: the lead over bigrams and trigrams would be another one on "
    "other pairs."
)
_SCORED = {
    "original": "of its tokens, each masked by itself",
    "within_word_l2r": "of its tokens, each masked together with the later pieces of its word",
    "originality": "that each of its tokens is the original one, and nothing is masked",
}


def summary(measurements: Measurements) -> dict[str, dict[str, float]]:
    """The entry of the summary; empty where no pairs were scored."""
    if not measurements.has(SOURCE):
        return {}
    names = ("standard_error", "macro_accuracy", "macro_standard_error")
    further = {name: measurements.number(SOURCE, "systems/model", name) for name in names}
    return {SOURCE: {**accuracies(measurements), **further, "pairs": measurements.number(SOURCE, "", "pairs")}}


def sections(measurements: Measurements) -> list[Section]:
    """One section; none where no pairs were scored."""
    if not measurements.has(SOURCE):
        return []
    baseline, gain, error = against_strongest(measurements)
    note = _NOTE.format(
        scored=_SCORED[measurements.word(SOURCE, "", "variant")],
        baseline=_SYSTEMS[baseline].lower(),
        gain=f"{signed(100 * gain, 1)} ± {percent(error)}",
    )
    balanced = _BALANCED if measurements.words(SOURCE).get("made_of") == "corpus" else ""
    return [Section(TITLE, [_table(measurements), Paragraph(note + balanced)])]


def result(measurements: Measurements) -> list[tuple[list[str], Verdict]]:
    """All pairs against the strongest baseline, as a row of the first table; none where no pairs were scored."""
    if not measurements.has(SOURCE):
        return []
    baseline, gain, error = against_strongest(measurements)
    shares, name = accuracies(measurements), _SYSTEMS[baseline].lower()
    verdict = Verdict.beside(name, gain > STANDARD_ERRORS * error)
    shown = [NOTHING, f"{percent(shares[baseline])} {name}", NOTHING, percent(shares["model"])]
    return [(["minimal pairs", "accuracy", *shown, signed(100 * gain, 1)], verdict)]


def against_strongest(measurements: Measurements) -> tuple[str, float, float]:
    """The baseline that is right most often, by how much more the model is, and the standard error of that."""
    shares = accuracies(measurements)
    baseline = max((name for name in shares if name != "model"), key=shares.__getitem__)
    gain, error = (measurements.number(SOURCE, f"gain/{baseline}", name) for name in ("accuracy", "standard_error"))
    return baseline, gain, error


def accuracies(measurements: Measurements) -> dict[str, float]:
    """System -> the share of the pairs that it is right in."""
    return {name: measurements.number(SOURCE, f"systems/{name}", "accuracy") for name in _SYSTEMS}


def _table(measurements: Measurements) -> Table:
    phenomena = measurements.below(SOURCE, "phenomena")
    rows = [_row(name.replace("_", " "), numbers) for name, numbers in phenomena.items()]
    pairs = measurements.number(SOURCE, "", "pairs")
    for label, kind in (("all pairs", ""), ("macro mean of the paradigms", "macro_")):
        found = {name: measurements.number(SOURCE, f"systems/{name}", f"{kind}accuracy") for name in _SYSTEMS}
        error = measurements.number(SOURCE, "systems/model", f"{kind}standard_error")
        rows.append(_row(label, {"pairs": pairs, **found, "standard_error": error}))
    return Table(("Phenomenon", "Pairs", *_SYSTEMS.values(), "Error"), rows, strong=_SYSTEMS["model"])


def _row(label: str, numbers: dict[str, float]) -> list[str]:
    shares = [percent(numbers[name]) for name in _SYSTEMS]
    return [label, count(numbers["pairs"]), *shares, percent(numbers["standard_error"])]
