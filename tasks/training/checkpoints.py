"""Checkpoints of trainings that have finished: they stay until DVC has recorded what came of them.

After its last step a training must still be saved, hashed and committed into DVC's cache. Whatever fails on that way,
the next attempt goes on from the last checkpoint instead of from step 0.
"""

import json
import shutil
from pathlib import Path

from bertcore.files import alone_in, write_json
from tasks.paths import CHECKPOINTS
from tasks.tracking import lineage

_MARK = "finished.json"
_REMOVED = CHECKPOINTS / ".removed"


def mark_finished(directory: Path, stage: str, task: str | None = None) -> None:
    """Write into `directory`, which holds the checkpoints of `stage`, the DVC hashes of its outs; all must be there."""
    _, outs = lineage.stage_paths(stage, task)
    write_json(directory / _MARK, {out: lineage.dvc_hash(Path(out)) for out in outs})


def has_finished(directory: Path) -> bool:
    """Whether the checkpoints there are of a training that `mark_finished` has marked."""
    return (directory / _MARK).is_file()


def clear_finished() -> None:
    """Remove the checkpoints of every training whose outs stand in dvc.lock just as it left them.

    Among the outs are the seconds it took, so that an earlier training's record with the same weights does not count.
    """
    if not CHECKPOINTS.is_dir():
        return
    with alone_in(CHECKPOINTS):  # a stage that has started must not lose what it writes to another's clearing
        shutil.rmtree(_REMOVED, ignore_errors=True)
        marks = list(CHECKPOINTS.glob(f"*/*/{_MARK}"))
        recorded = lineage.recorded_hashes() if marks else {}
        for mark in marks:
            if json.loads(mark.read_text(encoding="utf-8")).items() <= recorded.items():
                mark.parent.rename(_REMOVED)  # a directory is there as a whole, or not at all
                shutil.rmtree(_REMOVED, ignore_errors=True)
