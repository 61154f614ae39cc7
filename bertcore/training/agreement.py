"""What the processes of one training must have in common, on however many machines: found out before the first step."""

import platform
import socket
from collections.abc import Iterator
from importlib.metadata import version

from bertcore.errors import TrainingError
from bertcore.training.control import Control, Value

PACKAGES = ("torch", "accelerate", "numpy", "tokenizers")
"""Those that compute, or that the processes speak to each other through."""

_SAME_VERSIONS = "install the same requirements.lock on every machine"
_SAME_TREE = "give every machine the same commit, params.yaml and data"


class UnlikeError(TrainingError):
    """The processes of a training differ in what they must have in common."""


def require_same_step(control: Control, step: int | None) -> None:
    """`UnlikeError`, the same line in every process, where one goes on from another checkpoint than rank 0."""
    for process, first, found, expected in _unlike(control, step):
        raise UnlikeError(
            f"{process}: found {_checkpoint(found)}, expected {_checkpoint(expected)}, as {first} did; give every "
            "machine the same .checkpoints/ and run the same command again"
        )


def _checkpoint(step: int | None) -> str:
    return "no checkpoint" if step is None else f"the checkpoint of step {step}"


def require_agreement(control: Control, training: str) -> None:
    """`UnlikeError`, the same line in every process, where one has another version, or trains something else, than
    rank 0. `training`: a fingerprint of the params, the inputs and the code."""
    own = {name: version(name) for name in PACKAGES} | {"Python": platform.python_version(), "training": training}
    for process, first, found, expected in _unlike(control, own):
        name = next(name for name in expected if found[name] != expected[name])
        raise UnlikeError(
            f"{process}: found {name} {found[name]}, expected {expected[name]}, that of {first}; "
            f"{_SAME_TREE if name == 'training' else _SAME_VERSIONS}"
        )


def _unlike(control: Control, own: Value) -> Iterator[tuple[str, str, Value, Value]]:
    """Of the processes that have another value than rank 0: their name, that of rank 0, and both values."""
    (host, expected), *others = control.gather((socket.gethostname(), own))
    for rank, (other, found) in enumerate(others, 1):
        if found != expected:
            yield f"process {rank} ({other})", f"process 0 ({host})", found, expected
