"""Compute one recorded step again: `python -m tasks.training.replay RECORD.json`.

RECORD is the flight record of a step that diverged, where the training wrote it: beside its checkpoints. The step is
computed from the checkpoint before it; nothing is written.
"""

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any

from bertcore.errors import ArtifactError
from bertcore.training import machine
from bertcore.training.flight_record import gradient_norms, weight_norms
from bertcore.training.supervision import Supervision
from tasks.status import exit_status
from tasks.training.process import build

logger = logging.getLogger(__name__)


def replay(path: Path) -> None:
    """Print the loss and the norms of the recorded step. `ArtifactError` where the record is of another training."""
    record = _read(path)
    accelerator = machine.make_accelerator()
    training = build(accelerator, Supervision())
    directory = training.checkpoints.directory
    if directory.resolve() != path.resolve().parent:
        raise ArtifactError(
            f"{path}: found the record of the training {path.resolve().parent.name}, expected of "
            f"{directory.name}: inputs, parameters or code are others now; restore those of the record"
        )
    if record["world_size"] != accelerator.num_processes:
        logger.warning("recorded with %s processes: dropout drew other units there", record["world_size"])
    training.resume(record["step"], report=False)
    began = training.state.step
    training.state.watch.skipped[:] = record["skipped"]
    while training.state.step < record["step"]:
        training.train_step()
    computed = training.compute()
    print(f"step {training.state.step}, from the {'checkpoint of step ' + str(began) if began else 'initial weights'}")
    print(f"{'':30s} {'recorded':>14s} {'computed':>14s}")
    _line("loss", record["loss"], computed.loss)
    for term, loss in computed.losses.items():
        _line(f"loss of {term}", record["loss_terms"][term], loss)
    _line("gradient norm", record["gradient_norm"], computed.norm)
    for part, norm in gradient_norms(training.model).items():
        _line(f"gradient of {part}", record["gradient_norms"][part], norm)
    for part, norm in weight_norms(training.model).items():
        print(f"{'weights of ' + part:45s} {norm:14.8g}")


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path}: {error}, expected a flight record; give the file that the error named") from None


def _line(name: str, recorded: float | str, computed: float) -> None:
    print(f"{name:30s} {float(recorded):14.8g} {computed:14.8g}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tasks.training.replay", description="Compute a recorded step again"
    )
    parser.add_argument("record", type=Path, help="diverged-step-NNNNNNNN.json, beside the checkpoints")
    record = parser.parse_args(arguments).record
    return exit_status(lambda: replay(record))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
