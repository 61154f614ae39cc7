"""Task `topic`: which package does a documentation string come from?"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bertcore.corpus.sources.pydoc.prose import prose
from bertcore.examples.docstrings.table import BUDGETS, Docstring, Row, build_splits, read_docstrings, shuffled
from bertcore.examples.schema import CLASSIFICATION, ExampleSet

MAX_LABELS = 20
MIN_WORDS, MAX_WORDS = 15, 80  # of the text, the package's name removed
MIN_LONG_DOCSTRINGS = {"train": 150, "dev": 8}  # a package needs, to become a label
LONG = 150  # characters of a docstring that is counted there

ALIASES = {  # other names that people write for a package
    "PIL": ["pillow"],
    "databricks": ["dbx"],
    "google": ["googleapis", "gcp", "gcloud"],
    "huggingface_hub": ["huggingface", "hugging face"],
    "matplotlib": ["mpl", "pyplot", "plt"],
    "networkx": ["nx"],
    "numpy": ["np"],
    "pandas": ["pd"],
    "prompt_toolkit": ["prompt toolkit", "ptk"],
    "scipy": ["sp"],
    "sklearn": ["scikit-learn", "scikit learn", "scikit"],
    "sqlalchemy": ["sa"],
    "torch": ["pytorch", "aten"],
}
SHORT = 4  # characters; shorter names are removed as whole words only, longer ones also inside of identifiers


def read_topic(directory: Path) -> ExampleSet:
    """Single texts, classified by package; every label's name and aliases are removed from every text."""
    docstrings = read_docstrings(directory)
    labels = choose_labels(docstrings)
    names = label_names(labels)
    dropped: Counter[str] = Counter()

    def groups(members: list[Docstring], split: str) -> Iterator[list[Row]]:
        cap = BUDGETS[split] // max(len(labels), 1)
        taken: Counter[str] = Counter()
        for docstring in shuffled(members, "topic"):
            if docstring.package not in labels or taken[docstring.package] == cap:
                continue
            words = without_names(prose(docstring.docstring), names).split()
            if len(words) < MIN_WORDS:
                dropped[f"under {MIN_WORDS} words"] += 1
                continue
            taken[docstring.package] += 1
            text = " ".join(words[:MAX_WORDS])
            yield [{"id": docstring.id, "text_a": text, "text_b": None, "label": docstring.package}]

    splits = build_splits(docstrings, groups, lambda row: row["text_a"], CLASSIFICATION, dropped)
    return ExampleSet(
        family="classification", labels=labels, metrics=["accuracy", "macro_f1"], splits=splits, dropped=dict(dropped)
    )


def choose_labels(docstrings: dict[str, list[Docstring]]) -> list[str]:
    """The packages with enough long docstrings on both sides, those with the most in dev, sorted by name."""
    counts = {
        split: Counter(each.package for each in members if len(each.docstring) >= LONG)
        for split, members in docstrings.items()
    }
    enough = [
        package
        for package in counts["dev"]
        if all(counts[split][package] >= least for split, least in MIN_LONG_DOCSTRINGS.items())
    ]
    return sorted(sorted(enough, key=lambda package: (-counts["dev"][package], package))[:MAX_LABELS])


def label_names(labels: list[str]) -> re.Pattern[str]:
    """Matches the labels' names and their aliases: long ones anywhere, short ones as whole words, in any case."""
    names = {
        name
        for label in labels
        for name in (label, label.replace("_", "-"), label.replace("_", " "), *ALIASES.get(label, []))
    }
    patterns = [re.escape(name) for name in sorted(names) if len(name) >= SHORT]
    patterns += [rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])" for name in sorted(names) if len(name) < SHORT]
    return re.compile("|".join(patterns) or r"(?!)", re.IGNORECASE)


def without_names(text: str, names: re.Pattern[str]) -> str:
    """`text` without the words (runs of anything but spaces) in which `names` matches."""
    kept, position = [], 0
    for match in names.finditer(text):
        start = max(text.rfind(space, 0, match.start()) for space in " \n") + 1
        ends = [end for space in " \n" if (end := text.find(space, match.end())) >= 0]
        kept.append(text[position : max(start, position)])
        position = max(position, min(ends, default=len(text)))
    return "".join([*kept, text[position:]])
