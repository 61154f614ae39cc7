"""All stages but the pre-training, killed at random moments in a tree of their own and run again."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from ruamel.yaml import YAML

from bertcore import files
from tasks.paths import CHECKPOINTS
from tests.import_closure import ROOT
from tests.samples import documents, sentences

STAGES = (
    *("corpus", "examples@topics", "contamination", "tokenizer", "shards", "mask"),
    *("minimal_pairs", "finetune@topics", "embed", "report"),
)
"""In the order in which each finds what it needs."""

BEFORE = {"minimal_pairs": "pretrain"}
"""What is run before a stage, and not killed here."""

CLOCKS = ("metrics/timing", "reports")

MOMENT = 0.005
"""Seconds between two looks at a stage."""


@dataclass
class Killed:
    """What was done to one stage."""

    stage: str
    seconds: list[float] = field(default_factory=list)
    """From the start of the stage to each kill."""
    unfinished: int = 0
    """Kills that had left an unfinished directory; none was there after the next run."""


def prepare(root: Path, count: int) -> Path:
    """A tree whose parameters are checked: `count` documents of a small grammar, and sentences with their subjects."""
    root.mkdir(parents=True)
    shutil.copy(ROOT / "dvc.yaml", root)
    text = "\n\n".join("\n".join(document) for document in documents(count))
    (root / "text.txt").write_text(text + "\n", encoding="utf-8")
    rows = [{"text": sentence, "label": sentence.split()[1]} for sentence in sentences(2000, seed=3)]
    (root / "topics.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    options = {"text_column": "text", "label_column": "label", "dev_fraction": 0.2}
    topics = {"format": "table", "data": "topics.jsonl", "options": options, "epochs": 1, "max_train_examples": 50}
    values = {
        "recipe": None,
        "corpus": {"sources": ["text.txt"], "min_words": 3, "heldout_fraction": 0.1},
        "tokenizer": {"vocab_size": 130, "min_frequency": 1},
        "shards": {"shard_bytes": 40_000},
        "mask": {"sequence_length": 64, "max_predictions_per_seq": 10, "duplicates": 4},
        "pretrain": {"model": {"preset": "tiny"}, "warmup_steps": 1, "max_steps": 10},
        "minimal_pairs": {"pairs": "corpus"},
        "embed": {"pairs": "neighbours", "sequence_length": 32, "batch_size": 32, "max_steps": 10},
        "finetune": {"tasks": {"topics": topics}},
    }
    with (root / "params.yaml").open("w") as file:
        YAML().dump(values, file)
    finish(root, "inputs")
    return root


def kill(root: Path, stage: str, count: int, dice: random.Random) -> Killed:
    """Run `stage` undisturbed; then `count` times with SIGKILL, every second time while it writes a directory, and to
    its end again after each: the same bytes, and nothing beside them that no process owns."""
    if stage in BEFORE:
        finish(root, BEFORE[stage])
    longest, writing = undisturbed(root, stage)
    expected, done = outs(root, stage), Killed(stage)
    assert expected, stage
    while len(done.seconds) < count:
        _remove(root, stage)
        process, began = start(root, stage), time.monotonic()
        if len(done.seconds) % 2 == 0 and writing:
            while process.poll() is None and not _writes(root, stage):
                time.sleep(MOMENT)
            time.sleep(dice.uniform(0, writing))
        else:
            time.sleep(dice.uniform(0.2, 1.0) * longest)
        started = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.kill()
        if process.wait() == 0:
            continue  # it was faster than the first time
        done.seconds.append(time.monotonic() - began)
        _, left = psutil.wait_procs(started, timeout=30)
        assert not left, f"{left} work on for {stage}"
        done.unfinished += bool(unfinished(root))
        finish(root, stage)
        assert outs(root, stage) == expected, stage
        assert not unfinished(root), stage
    return done


def undisturbed(root: Path, stage: str) -> tuple[float, float]:
    """The seconds of `stage`, and those of them in which an unfinished directory is there."""
    process, began = start(root, stage), time.monotonic()
    seen = [began]
    while process.poll() is None:
        if _writes(root, stage):
            seen.append(time.monotonic())
        time.sleep(MOMENT)
    assert process.returncode == 0, (root / "stage.log").read_text()
    return time.monotonic() - began, seen[-1] - seen[min(1, len(seen) - 1)]


def start(root: Path, stage: str) -> "subprocess.Popen[bytes]":
    """`stage` as dvc starts it."""
    name, *task = stage.split("@")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "BERTCORE_PIPELINE_RUN": "faults"}
    with (root / "stage.log").open("wb") as log:
        command = [sys.executable, "-m", f"tasks.{name}", *task]
        return subprocess.Popen(command, cwd=root, env=environment, stdout=log, stderr=log)


def finish(root: Path, stage: str) -> None:
    assert start(root, stage).wait() == 0, (root / "stage.log").read_text()


def outs(root: Path, stage: str) -> dict[str, bytes]:
    """path -> content of everything that the stage leaves, but what clocks decide."""
    paths = sorted(path for out in _outs(root, stage) for path in (out, *out.rglob("*")) if path.is_file())
    named = {str(path.relative_to(root)): path for path in paths}
    return {name: path.read_bytes() for name, path in named.items() if not name.startswith(CLOCKS)}


def unfinished(root: Path) -> list[Path]:
    """What processes that are no more have left beside what the stages write."""
    directories = [path for stage in STAGES for path in _outs(root, stage)]
    return [left for directory in directories if directory.parent.is_dir() for left in files.unfinished(directory)]


def _writes(root: Path, stage: str) -> bool:
    """Whether there is a directory beside the outs of the stage, which will take the place of one of them."""
    return any(found.is_dir() for out in _outs(root, stage) for found in out.parent.glob(f".{out.name}-*"))


def _outs(root: Path, stage: str) -> list[Path]:
    name, *task = stage.split("@")
    entry = YAML(typ="safe").load((root / "dvc.yaml").read_text())["stages"][name]
    declared = [*entry.get("outs", []), *entry.get("metrics", [])]
    names = [next(iter(out)) if isinstance(out, dict) else out for out in declared]
    return [root / name.replace("${key}", *task) if task else root / name for name in names]


def _remove(root: Path, stage: str) -> None:
    """What the stage leaves, as dvc does before it runs it, and what it keeps for another attempt: it begins anew."""
    for out in _outs(root, stage):
        shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
    shutil.rmtree(root / CHECKPOINTS / stage.partition("@")[0], ignore_errors=True)
