"""Names of classes and tags, and their indices in a head's logits."""

from collections.abc import Sequence
from typing import Any

from bertcore.errors import InputError


def label_names(labels: Sequence[str]) -> dict[str, Any]:
    """Hugging Face's two mappings between indices and names."""
    return {
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "label2id": {label: index for index, label in enumerate(labels)},
    }


def label_index(index_of: dict[str, int], label: str, where: str) -> int:
    """The index of `label`; `InputError` naming `where` it stands if the task has no such label."""
    if label not in index_of:
        raise InputError(f"{where}: found the label {label!r}, expected one of {', '.join(index_of)}; correct the data")
    return index_of[label]
