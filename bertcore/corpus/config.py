"""Section `corpus` of params.yaml, and mixtures: sources that are used less or more than once."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bertcore import draws
from bertcore.config import suggest, within
from bertcore.corpus import cleaning
from bertcore.corpus.contamination import ContaminationConfig
from bertcore.corpus.documents import Document
from bertcore.corpus.near_duplicates import NearDuplicatesConfig
from bertcore.corpus.quality import QualityConfig

LARGEST_WEIGHT = 100
ENGLISH = "en"


@dataclass(frozen=True, kw_only=True)
class SourceEntry:
    """An entry of `corpus.sources`. One that is a text is the URI alone."""

    uri: str
    """`pydoc`, a local file, glob or directory, `hf://ORG/NAME`, or `http(s)://…`."""
    weight: float = 1.0
    """How often its documents are used (2.5: twice, and half of them once more)."""
    wrapped: bool = False
    """Whether its lines end where a page did, as in letters, scans and books: a paragraph goes on in the next line, a
    blank line ends it, and a `.txt` is one document."""
    column: str | None = None
    """The field of `.jsonl`, or the column of `.parquet` or of a set of the hub, that has the texts; None: `text`."""
    name: str | None = None
    """What the report and the encoder's card call it; None: by its URI."""
    license: str | None = None
    """Of its text, such as CC-BY-SA-3.0, for the report and the card."""

    @property
    def reading(self) -> dict[str, Any]:
        """How its source is opened, beside its URI."""
        return {"wrapped": self.wrapped, "column": self.column}

    def __post_init__(self) -> None:
        within(self, "weight", f"more than 0 and at most {LARGEST_WEIGHT}", above=0, most=LARGEST_WEIGHT)


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """Section `corpus` of params.yaml."""

    sources: list[SourceEntry]
    """URIs, or mappings with a URI; read in this order."""
    max_documents: int | None = None
    """Documents read from each source; None reads all."""
    min_words: int = 8
    """Documents of fewer words are dropped; in scripts without blanks between words every character is one."""
    quality: QualityConfig = field(default_factory=QualityConfig)
    """Filters of lines and documents."""
    near_duplicates: NearDuplicatesConfig | None = None
    """What counts as nearly the same document; None drops exact copies only."""
    contamination: ContaminationConfig | None = None
    """Evaluation texts that the corpus must not hold; None drops nothing (stage `contamination` measures it anyway)."""
    exclude: str | None = None
    """A file of the ids of documents that are dropped, one a line, as the column `id` of data/corpus has them."""
    heldout_fraction: float = 0.02
    """Share of the documents that pre-training never sees; of two and more documents, one at least."""
    language: str = ENGLISH
    """Its code (ISO 639): whose rules split the sentences. Any other code of two or three letters is
    taken, too, with a warning: its sentences are split by the rules of another language, mostly English."""
    seed: int = 1
    """With a document's id it decides whether the document is held out, and how often it is used."""

    @classmethod
    def complete(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Makes a mapping of every source that is a URI alone, as `parse` calls it."""
        sources = values.get("sources")
        if not isinstance(sources, list):
            return dict(values)
        return {**values, "sources": [{"uri": each} if isinstance(each, str) else each for each in sources]}

    def __post_init__(self) -> None:
        if not self.sources:
            raise ValueError("sources: found an empty list, expected at least one source; name one, such as pydoc")
        if twice := [uri for uri in self.uris if self.uris.count(uri) > 1]:
            raise ValueError(
                f"sources: found {twice[0]!r} twice, expected different ones; to use it more often, give it a weight: "
                f"{{uri: {twice[0]}, weight: 2}}"
            )
        within(self, "max_documents", "at least 1, or null for all", least=1)
        within(self, "min_words", "at least 1", least=1)
        if self.quality.max_words is not None and self.quality.max_words < self.min_words:
            raise ValueError(
                f"quality.max_words: found {self.quality.max_words} with min_words {self.min_words}, which drop every "
                "document; raise it or lower min_words"
            )
        if self.exclude is not None and "://" in self.exclude:
            raise ValueError(f"exclude: found {self.exclude}, expected a local file; download it and name the file")
        within(self, "heldout_fraction", "a share between 0 and 1", above=0, below=1)
        if not re.fullmatch("[a-z]{2,3}", self.language):
            known = suggest(self.language, cleaning.LANGUAGES.split())
            raise ValueError(f"language: found {self.language!r}, expected a code of two or three letters; {known}")
        if self.language != ENGLISH and "stop_words" in self.quality.english:
            raise ValueError(
                f"quality.stop_words: found nothing (null) with language {self.language!r} and min_stop_words "
                f"{self.quality.min_stop_words}, which counts English words; give those of your language, or set "
                "min_stop_words to 0"
            )

    @cached_property
    def uris(self) -> list[str]:
        """Of the sources."""
        return [each.uri for each in self.sources]

    def source_at(self, uri: str) -> SourceEntry:
        """The source of this URI."""
        return self.sources[self.uris.index(uri)]

    @property
    def thresholds(self) -> dict[str, float]:
        """Reason for which lines and documents are dropped -> the number that decides it; of what is on."""
        quality, near, contamination = self.quality, self.near_duplicates, self.contamination
        found = {
            "in_evaluation_text": contamination and contamination.ngram,
            "near_duplicate": near and near.threshold,
            "too_few_letters": quality.min_letter_share,
            "too_few_stop_words": quality.min_stop_words,
            "too_few_words": self.min_words,
            "too_long_line": quality.max_line_characters,
            "too_long_words": quality.max_mean_word_length,
            "too_many_repeated_lines": quality.max_repeated_line_share,
            "too_many_words": quality.max_words,
            "too_short_words": quality.min_mean_word_length,
        }
        return {reason: number for reason, number in found.items() if number}

    def split_of(self, document_id: str) -> str:
        """`train` or `heldout`; a function of the seed and the document's id alone."""
        return "heldout" if self.draw_of(document_id) < self.heldout_fraction else "train"

    def draw_of(self, document_id: str) -> float:
        """The number in [0, 1) that decides on which side of the split a document falls."""
        return draws.fraction_of(self.seed, document_id)

    def copies_of(self, document: Document) -> int:
        """How often a document is used; a function of the seed, its source's weight and its id."""
        return copies(self.source_at(document.source).weight, self.seed, document.id)


def copies(weight: float, seed: int, document_id: str) -> int:
    """How often a document of a source of this weight is used.

    The weight is relative to the source's own size: 1 uses every document once, 0.25 a quarter of the documents (those
    that the draw hits), 2.5 all of them twice and half of them once more. The draw is a hash of the seed and the id, so
    it depends on no other document and no other source. Held-out documents are never repeated.
    """
    whole = int(weight)
    return whole + (draws.fraction("weight", seed, document_id) < weight - whole)
