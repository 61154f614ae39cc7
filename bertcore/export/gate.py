"""The gate that every saved model passes: a fresh process must read from the directory what the model in memory is."""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bertcore.errors import ArtifactError
from bertcore.export.probe import Expected
from bertcore.model.encoder import EncoderModule

logger = logging.getLogger(__name__)

ACCEPTED, REJECTED = 0, 3
"""How `bertcore.export.verify` ends; any other status is an accident."""
_LAUNCHER = ("ACCELERATE_", "TORCHELASTIC_", "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_")
"""Beginnings of the variables by which a process knows that it is one of several; the fresh process is none of them."""


def check(model: EncoderModule, directory: Path, tokenizer_directory: Path | None = None) -> str:
    """Verify that `directory` is `model`, saved: config, tensors, tokenizer (that of `tokenizer_directory`, if given),
    equal outputs; by transformers too where it is installed. Gives back one line that says what was verified.

    `ArtifactError` if it is not. The directory is then moved aside, to .NAME.rejected, so that nothing stands where the
    next stage, or a person, expects a good model; the weights are still there for whoever looks for the reason. What
    another process has put in its place meanwhile stays: a training may outlive its stage by some seconds.
    """
    with _held(directory) as own:
        accepted, said = _verified(model, directory, tokenizer_directory)
        if not accepted and not _lies_at(directory, own):
            raise _replaced(directory)
        if not accepted:
            raise ArtifactError(f"{said}; the model was moved to {_move_aside(directory)}")
    logger.info(said)
    return said


def _verified(model: EncoderModule, directory: Path, tokenizer_directory: Path | None) -> tuple[bool, str]:
    """Whether a fresh process accepts `directory`, and the line that says what was verified, or what is wrong."""
    with tempfile.TemporaryDirectory(prefix="bertcore-gate-") as folder:
        probe = Path(folder) / "probe.safetensors"
        Expected.of(model).write(probe)
        options = [] if tokenizer_directory is None else ["--tokenizer", str(tokenizer_directory.resolve())]
        command = [sys.executable, "-m", "bertcore.export.verify", str(directory.resolve()), "--probe", str(probe)]
        options += ["--import", type(model.config).__module__]  # which adds its row, if it is none of the package's
        done = subprocess.run(
            [*command, *options],
            cwd=Path(__file__).resolve().parents[2],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode in (ACCEPTED, REJECTED):
        return done.returncode == ACCEPTED, (done.stdout.strip().splitlines() or [""])[-1]
    reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    return False, (
        f"{directory}: the process that loads it ended with status {done.returncode} ({reason}), expected 0; "
        f"run `python -m bertcore.export.verify` on it"
    )


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(_LAUNCHER)}
    found_here = os.pathsep.join(os.path.abspath(path) for path in sys.path)  # '' is the working directory
    return own | {"PYTHONPATH": found_here, "HF_HUB_OFFLINE": "1"}  # all that is to be loaded is here


@contextmanager
def _held(directory: Path) -> Iterator[int]:
    """`directory`, open, so that the system gives its number to no other one; `ArtifactError` where it is gone."""
    try:
        own = os.open(directory, os.O_RDONLY)
    except FileNotFoundError:
        raise _replaced(directory) from None
    try:
        yield own
    finally:
        os.close(own)


def _lies_at(directory: Path, own: int) -> bool:
    """Whether what is open as `own` still lies there."""
    with suppress(FileNotFoundError):
        return os.path.samestat(directory.stat(), os.fstat(own))
    return False


def _replaced(directory: Path) -> ArtifactError:
    return ArtifactError(
        f"{directory}: found that another process has removed or replaced it while it was checked, expected the model "
        "that was saved; run the same command again"
    )


def _move_aside(directory: Path) -> Path:
    rejected = directory.with_name(f".{directory.name}.rejected")  # hidden: no `models/finetuned/*` finds it
    shutil.rmtree(rejected, ignore_errors=True)
    directory.rename(rejected)
    return rejected
