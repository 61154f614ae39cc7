"""What the report says of sentence vectors: what they find, beside words alone and the encoder before."""

from tasks.reporting.document import Paragraph, Section, Table, count, percent
from tasks.reporting.measurements import Measurements

SOURCE = "embed"
TITLE = "Sentence vectors"

_SCORES = {"ndcg_at_10": "nDCG@10", "recall_at_1": "Recall@1", "recall_at_10": "Recall@10"}
_DIMENSION = "dimension_"
_NOTE = (
    "A search among held-out texts: {queries} anchors look for their own positives among {passages}. The vectors were "
    "trained in {steps} steps on {pairs} pairs ({source}), without labels. BM25 counts words in common and learns "
    "nothing; the encoder before is the mean of its states. Scores are times 100, of one seed."
)


def summary(measurements: Measurements) -> dict[str, dict[str, float]]:
    """The entry of the summary, nDCG@10 by system; empty where no vectors were trained."""
    found = {name: scores["ndcg_at_10"] for name, scores in measurements.below(SOURCE, "systems").items()}
    return {SOURCE: found} if found else {}


def sections(measurements: Measurements) -> list[Section]:
    """One section; none where no vectors were trained."""
    if not measurements.has(SOURCE):
        return []
    numbers = measurements.numbers(SOURCE)
    rows = [
        [_label(name, numbers["width"]), *(percent(scores[score]) for score in _SCORES)]
        for name, scores in measurements.below(SOURCE, "systems").items()
    ]
    note = _NOTE.format(
        **{name: count(numbers[name]) for name in ("queries", "passages", "steps")},
        pairs=count(numbers["train_pairs"]),
        source=measurements.word(SOURCE, "", "pairs"),
    )
    return [Section(TITLE, [Table(("System", *_SCORES.values()), rows, strong="nDCG@10"), Paragraph(note)])]


def _label(system: str, width: float) -> str:
    if system.startswith(_DIMENSION):
        return f"their first {system.removeprefix(_DIMENSION)} numbers"
    return {"model": f"trained vectors, {count(width)} numbers", "before": "the encoder before", "bm25": "BM25"}[system]
