"""Mixtures: sources that are used less or more than once."""

from collections.abc import Mapping
from typing import Any

from bertcore.config import describe, suggest
from bertcore.draws import key

LARGEST = 100
KEYS = ("uri", "weight")


def copies(weight: float, seed: int, document_id: str) -> int:
    """How often a document of a source of this weight is used.

    The weight is relative to the source's own size: 1 uses every document once, 0.25 a quarter of the documents (those
    that the draw hits), 2.5 all of them twice and half of them once more. The draw is a hash of the seed and the id, so
    it depends on no other document and no other source. Held-out documents are never repeated.
    """
    whole = int(weight)
    return whole + (key("weight", seed, document_id) / 2.0**64 < weight - whole)


def part_weights(values: Mapping[str, Any]) -> dict[str, Any]:
    """`sources` whose entries are URIs or mappings {uri, weight} as the lists `sources` and `weights`; `ValueError` for
    an entry that is neither."""
    entries = values.get("sources")
    if not isinstance(entries, list) or not any(isinstance(entry, Mapping) for entry in entries):
        return dict(values)
    if "weights" in values:
        raise ValueError("weights: found beside sources with a weight of their own, expected one of them; remove one")
    pairs = [_pair(entry, f"sources[{index}]") for index, entry in enumerate(entries)]
    return {**values, "sources": [uri for uri, _ in pairs], "weights": [weight for _, weight in pairs]}


def _pair(entry: Any, where: str) -> tuple[Any, Any]:
    if not isinstance(entry, Mapping):
        return entry, 1.0
    if unknown := [name for name in entry if name not in KEYS]:
        raise ValueError(f"{where}: unknown key {unknown[0]!r}; {suggest(str(unknown[0]), KEYS)}")
    if not isinstance(entry.get("uri"), str):
        raise ValueError(f"{where}.uri: found {describe(entry.get('uri'))}, expected the source's URI; add it")
    return entry["uri"], entry.get("weight", 1.0)
