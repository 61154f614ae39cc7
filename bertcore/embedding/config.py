"""Section `embed` of params.yaml: from what text an encoder learns vectors of sentences, and how."""

from dataclasses import dataclass, field
from pathlib import Path

from bertcore.config import within
from bertcore.embedding import FROM_CORPUS
from bertcore.finetune.short_training import ShortTrainingConfig


@dataclass(frozen=True, kw_only=True)
class EmbedConfig(ShortTrainingConfig):
    """Section `embed` of params.yaml."""

    pairs: str | None = None
    """What is to have near vectors: `neighbours` (sentences that follow each other), `twins` (a sentence and itself,
    read with other dropout; Gao et al. 2021, SimCSE), `title_body` (the first sentence of a document and what follows
    it; of docstrings, where the corpus keeps them, the summary and the body), or a file or directory of JSON lines with
    `anchor`, `positive` and, if they like, `negative` (a text or a list). None = no sentence vectors."""
    max_pairs: int = 100_000
    """Training pairs at most, a fixed random choice."""
    heldout_pairs: int = 1000
    """Scored pairs at most, a fixed random choice: of held-out documents, or of a file's `heldout_fraction`."""
    heldout_fraction: float = 0.1
    """Share of the anchors of a file that are kept out of the training; of the corpus' documents stage corpus does
    it."""
    sequence_length: int = 128
    """Tokens of a text at most, [CLS] and [SEP] included; the rest is cut off."""
    temperature: float = 0.05
    """Divides the cosines."""
    dimensions: list[int] = field(default_factory=list)
    """Smaller widths that are trained beside the whole one: the first numbers of a vector are a vector themselves
    (Kusupati et al. 2022, Matryoshka representations)."""
    batch_size: int = 256
    """Pairs of one optimizer step; each is told from all others of its batch."""
    chunk_size: int = 64
    """Texts that are computed at once, which bounds the memory; a batch of more texts is computed twice (Gao et al.
    2021, gradient caching)."""
    learning_rate: float = 3e-4
    """Peak of the schedule. For tiny 3e-3 was the best of 3e-4, 1e-3 and 3e-3; larger encoders want less."""
    epochs: int = 1
    """Passes over the pairs."""
    max_steps: int | None = None
    """Optimizer steps in place of `epochs`."""
    dropout: float = 0.1
    """Share of activations dropped in the encoder."""
    seed: int = 1
    """Of the dropout and the order of the pairs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (
            ("max_pairs", 2),
            ("heldout_pairs", 2),
            ("batch_size", 2),
            ("chunk_size", 1),
            ("epochs", 1),
        ):
            within(self, name, f"at least {least}; raise it", least=least)
        within(self, "sequence_length", f"at least {_SHORTEST} tokens", least=_SHORTEST)
        within(self, "max_steps", "1 or more, or null for whole epochs", least=1)
        within(self, "temperature", "more than 0, such as 0.05", above=0)
        if any(each < 1 for each in self.dimensions) or len(set(self.dimensions)) < len(self.dimensions):
            raise ValueError(f"dimensions: found {self.dimensions}, expected different widths of at least 1")
        for name in ("heldout_fraction", "dropout"):
            within(self, name, f"0 <= {name} < 1, such as 0.1", least=0.0, below=1.0)
        if self.file is not None and not self.heldout_fraction:
            raise ValueError("heldout_fraction: found 0 with pairs of a file, expected some to score, such as 0.1")
        if self.pairs == "twins" and not self.dropout:
            raise ValueError("dropout: found 0 with pairs: twins, which would be equal; expected more, such as 0.1")

    @property
    def file(self) -> Path | None:
        """The file or directory that the pairs are read from; None where the corpus gives them, or there are none."""
        return None if self.pairs is None or self.pairs in FROM_CORPUS else Path(self.pairs)

    def check_width(self, hidden_size: int) -> None:
        """`ValueError` for a dimension that is no smaller one of vectors of `hidden_size` numbers."""
        if wide := [each for each in self.dimensions if each >= hidden_size]:
            raise ValueError(
                f"dimensions: found {wide[0]}, expected less than the {hidden_size} numbers of the encoder's vectors; "
                "remove it"
            )


_SHORTEST = 8
"""[CLS], a few tokens of the text, [SEP]."""
