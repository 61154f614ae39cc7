"""What a kind of tokenizer must say of itself, so that nothing else in the library knows it by name.

A kind is a module with a `Kind` (`wordpiece`) and a row in `tokenizer.KINDS`.
"""

from collections.abc import Callable
from dataclasses import astuple, dataclass


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The special tokens as they are written in a vocabulary."""

    pad: str
    unk: str
    cls: str
    """Begins every sequence."""
    sep: str
    """Ends every text of a sequence."""
    mask: str

    @property
    def names(self) -> tuple[str, ...]:
        """All of them: pad, unk, cls, sep, mask."""
        return astuple(self)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of tokenizer."""

    name: str
    """Its key in `tokenizer.KINDS`."""
    model: type
    """The class of its model in the library `tokenizers`, by which a tokenizer is recognised."""
    special: SpecialTokens
    continues: Callable[[str], bool]
    """Whether an entry of the vocabulary that is no special token continues a word; all others begin one."""
    separators: int
    """How many `sep` stand between the two texts of a pair."""
    segment_ids: bool
    """Whether the second text of a pair, with the `sep` behind it, has token type 1; else every token has type 0."""
