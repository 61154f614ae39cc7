"""Checkpoints of a training: complete, written beside and renamed, checksummed, keyed by what the training is made of.

A checkpoint is a directory: `tensors.safetensors`, the rest of the state as `state.json`, and `summary.json` with the
checksums of both. Nothing in it is code, and nothing is unpickled.
"""

import fcntl
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from bertcore.errors import TrainingError
from bertcore.files import begun_in, checksum, clear_unfinished, replace_directory, sync

logger = logging.getLogger(__name__)

_TENSORS, _STATE, _SUMMARY = "tensors.safetensors", "state.json", "summary.json"


def training_key(*parts: str) -> str:
    """The name of a training: a hash of its inputs, its parameters and its code."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


class Checkpoints:
    """The last `keep` checkpoints of one training, in `directory`/step-NNNNNNNN."""

    def __init__(self, directory: Path, keep: int = 2) -> None:
        self.directory, self._keep = directory, keep
        self._lock: int | None = None

    def hold(self, seconds: float = 30.0) -> None:
        """Keep others from the directory until `release`, or the end of the process; clear what was left half-written.

        `TrainingError` where another process holds it after `seconds`: one that is being stopped needs a few.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.directory / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise self._unwritable("the checkpoints", error) from None
        deadline = time.monotonic() + seconds
        while not _locked(self._lock):
            if time.monotonic() > deadline:
                self.release()
                raise TrainingError(
                    f"{self.directory}: another process is at this training; wait for it or stop it, and run this again"
                )
            time.sleep(0.2)
        for directory in begun_in(self.directory):
            clear_unfinished(directory)

    def release(self) -> None:
        """Let others have the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Keep `state` (tensors, numbers, text, None; lists, tuples, dicts of them) as that of the first `step` steps.

        `TrainingError` where it cannot be written; the checkpoints before it stay.
        """
        tensors: dict[str, torch.Tensor] = {}
        written = json.dumps(_encode(state, tensors))
        try:
            with replace_directory(self._path(step)) as beside:
                save_file(_apart(tensors), beside / _TENSORS)
                (beside / _STATE).write_text(written, encoding="utf-8")
                checksums = {name: checksum(beside / name) for name in (_TENSORS, _STATE)}
                (beside / _SUMMARY).write_text(json.dumps({"step": step, "sha256": checksums}), encoding="utf-8")
            sync(self.directory)
        except (OSError, SafetensorError) as error:
            raise self._unwritable(f"the checkpoint of step {step}", error) from None
        for old in self._steps()[: -self._keep]:
            if old == self._path(step):  # which may be of fewer steps than those that stand there
                continue
            try:
                shutil.rmtree(old)
            except OSError as error:  # the new one is safe
                logger.warning("%s: cannot be removed (%s)", old, error)

    def latest(self, most: int | None = None) -> dict[str, Any] | None:
        """The newest sound state, of at most `most` steps; None = there is none. A damaged one is told and left out."""
        for directory in reversed(self._steps()):
            if most is not None and directory.name > self._path(most).name:
                continue
            try:
                return _read(directory)
            except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
                logger.warning("checkpoint %s is damaged (%s): trying the one before it", directory, error)
        return None

    def steps(self) -> list[int]:
        """Of the checkpoints that there are, sound or not, the newest last."""
        return [int(path.name.removeprefix("step-")) for path in self._steps()]

    def latest_step(self) -> int | None:
        """The last of `steps`."""
        return next(reversed(self.steps()), None)

    def _path(self, step: int) -> Path:
        return self.directory / f"step-{step:08d}"

    def _steps(self) -> list[Path]:
        return sorted(self.directory.glob("step-*"))

    def _unwritable(self, what: str, error: Exception) -> TrainingError:
        kept = self.latest_step()
        left = "there is none before it" if kept is None else f"that of step {kept} is kept"
        return TrainingError(
            f"{self.directory}: {what} cannot be written ({getattr(error, 'strerror', None) or error}); {left}; make "
            "room or give write access there and run the same command again"
        )


def _read(directory: Path) -> dict[str, Any]:
    summary = json.loads((directory / _SUMMARY).read_text(encoding="utf-8"))
    for name, expected in summary["sha256"].items():
        if checksum(directory / name) != expected:
            raise ValueError(f"the checksum of {name} does not match")
    state = json.loads((directory / _STATE).read_text(encoding="utf-8"))
    # Read, not mapped: an optimizer goes on with these arrays, and a mapped file that is removed stays on the disk.
    return _decode(state, load_file(directory / _TENSORS, backend="pread"))


def _encode(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """`value` as JSON has it; tensors go into `tensors`. What JSON would not give back has a name in front."""
    if isinstance(value, torch.Tensor):
        name = f"{len(tensors):06d}"
        tensors[name] = value.detach().to("cpu").contiguous()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[key, _encode(item, tensors)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_encode(item, tensors) for item in value]}
    return [_encode(item, tensors) for item in value] if isinstance(value, list) else value


def _apart(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Each with memory of its own: weights that share theirs are written twice. The others are not copied."""
    met: set[int] = set()
    result = {}
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        result[name] = tensor.clone() if place in met else tensor
        met.add(place)
    return result


def _decode(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, list):
        return [_decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: _decode(item, tensors) for key, item in content}
    return tuple(_decode(item, tensors) for item in content)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
