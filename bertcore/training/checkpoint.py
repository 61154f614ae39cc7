"""Checkpoints of a training: complete, written beside and renamed, checksummed, keyed by what the training is made
of."""

import hashlib
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import torch

from bertcore.files import replace_directory

logger = logging.getLogger(__name__)

_STATE, _SUMMARY = "state.pt", "summary.json"


def training_key(*parts: str) -> str:
    """The name of a training: a hash of its inputs, its parameters and its code."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def code_hash(package: Path) -> str:
    """A hash of every source file below `package`."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode() + path.read_bytes())
    return digest.hexdigest()


class Checkpoints:
    """The last `keep` checkpoints of one training, in `directory`/step-NNNNNNNN."""

    def __init__(self, directory: Path, keep: int = 2) -> None:
        self._directory, self._keep = directory, keep

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Keep `state` (tensors, numbers, text, lists and dicts of them) as that of the first `step` steps."""
        with replace_directory(self._directory / f"step-{step:08d}") as beside:
            torch.save(state, beside / _STATE)
            summary = {"step": step, "sha256": _checksum(beside / _STATE)}
            (beside / _SUMMARY).write_text(json.dumps(summary), encoding="utf-8")
        for old in self._steps()[: -self._keep]:
            shutil.rmtree(old)

    def latest(self) -> dict[str, Any] | None:
        """The newest sound state; a damaged one is said and passed over. None where there is none."""
        for directory in reversed(self._steps()):
            try:
                summary = json.loads((directory / _SUMMARY).read_text(encoding="utf-8"))
                if _checksum(directory / _STATE) == summary["sha256"]:
                    return torch.load(directory / _STATE, map_location="cpu", weights_only=True)
                problem = "its checksum does not match"
            except (OSError, ValueError, KeyError) as error:
                problem = str(error)
            logger.warning("checkpoint %s is damaged (%s): trying the one before it", directory, problem)
        return None

    def remove(self) -> None:
        """Forget the training: the next one of the same key begins anew."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _steps(self) -> list[Path]:
        return sorted(self._directory.glob("step-*"))


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
