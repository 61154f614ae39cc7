"""Small real trainings to do harm to: the processes of stage `pretrain` in a tree of their own, with real stores."""

import contextlib
import json
import multiprocessing
import os
import random
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from mlflow.tracking import MlflowClient
from ruamel.yaml import YAML
from tokenizers import Tokenizer

from bertcore.export import gate
from bertcore.files import checksum
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.huggingface import save_pretrained
from bertcore.shards.store import Manifest, ShardEntry
from bertcore.tokens.tokenizer import tokenizer_kind
from tasks import mask, pretrain
from tasks import params as task_params
from tasks.paths import INPUTS, OBJECTIVE, TEXT, TEXT_OF_SOURCES, TOKENIZER
from tasks.tracking import runs
from tasks.training import process as pretrain_process
from tests.divided import divide_weights
from tests.import_closure import ROOT
from tests.samples import byte_tokenizer, empty_store, free_port, modernbert_tokenizer, token_shard, tokenizer

PROCESSES = multiprocessing.get_context("forkserver")
"""A process that has imported all that a training needs starts each one by forking: a tenth of the time."""

PATIENCE = 120.0
"""Seconds that anything may take that is not itself measured; a training, from one checkpoint to the next."""

PARAMS: dict[str, Any] = {
    "recipe": None,
    "mask": {"sequence_length": 48, "max_predictions_per_seq": 8},
    "pretrain": {
        "model": {"preset": "tiny", "hidden_size": 32, "num_hidden_layers": 2},
        "batch_size": 8,
        "max_steps": 100,
        "warmup_steps": 2,
        "learning_rate": 0.002,
        "logging_steps": 3,
        "eval_steps": 10,
        "eval_sequences": 64,
        "checkpoint_steps": 7,
    },
    "finetune": {"tasks": {}},
}
"""Dropout is on, as everywhere by default; neither logging nor evaluation falls on the steps of the checkpoints."""


def start_server() -> None:
    """Have the server of `PROCESSES` run; it finds the modules in the project's root, wherever this process stands."""
    PROCESSES.set_forkserver_preload(["tests.faults.trainings"])
    with patch.dict(os.environ, {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}):
        forkserver.ensure_running()


ONE_PIPELINE_RUN = patch.dict(os.environ, {"BERTCORE_PIPELINE_RUN": "faults"})


def params(*, duplicates: int = 1, **pretrain: Any) -> dict[str, Any]:
    """`PARAMS` with other values in section `pretrain`."""
    values = json.loads(json.dumps(PARAMS))
    values["mask"]["duplicates"] = duplicates
    values["pretrain"] |= pretrain
    return values


READ_BY = {"byte_bpe": byte_tokenizer, "modernbert_bpe": modernbert_tokenizer}
"""Kind of tokenizer -> the one that the texts are read by, where that is no WordPiece."""


def prepare(root: Path, values: dict[str, Any]) -> Path:
    """A tree in which stage `pretrain` can run: the stages before it have run, on a small text."""
    root.mkdir(parents=True)
    shutil.copy(ROOT / "dvc.yaml", root)
    with (root / "params.yaml").open("w") as file:
        YAML().dump(values, file)
    with contextlib.chdir(root):
        for directory in (Path("data/shards"), TOKENIZER, INPUTS):
            directory.mkdir(parents=True)
        TEXT.write_text('{"language": "en", "sources": ["pydoc"]}')
        of_pydoc = {"uri": "pydoc", "documents": 60, "train": {"words": 900, "bytes": 5000}, "train_share": 1.0}
        TEXT_OF_SOURCES.parent.mkdir()
        TEXT_OF_SOURCES.write_text(json.dumps({"sources": [of_pydoc]}))
        sections = task_params.read()
        kind = sections.get("tokenizer", {}).get("kind")
        read_by = READ_BY.get(kind, tokenizer)()
        tokenizer_kind(read_by).save(read_by, TOKENIZER, None)
        entries = []
        for split, seed in (("train", 0), ("heldout", 1)):
            shard, name = token_shard(Path("data"), 60, seed, read_by), f"{split}-00000.arrow"
            Path(f"data/seed-{seed}/train-00000.arrow").rename(f"data/shards/{name}")
            entries.append(ShardEntry(name, split, *shard.counts, checksum(Path("data/shards") / name)))
        tokenizer_sum = checksum(TOKENIZER / "tokenizer.json")
        Manifest(read_by.get_vocab_size(), tokenizer_sum, entries).write(Path("data/shards"))
        if "teacher" in sections["pretrain"].get("objective_options", {}):
            _save_teacher(read_by)
        shutil.copy(empty_store(), "mlflow.db")
        with ONE_PIPELINE_RUN:
            runs.start("mask", {})  # makes the experiment and the parent of all attempts
        mask.run(_Silent())  # type: ignore[arg-type]
    return root


def _save_teacher(read_by: Tokenizer) -> None:
    """A BERT of the width of `PARAMS` and twice its layers, where the stage `inputs` would have linked it."""
    shape = PARAMS["pretrain"]["model"]
    sizes = {"hidden_size": shape["hidden_size"], "num_hidden_layers": 2 * shape["num_hidden_layers"]}
    torch.manual_seed(9)
    model = build_pretraining(ModelConfig(preset="tiny", fields=sizes).build(read_by.get_vocab_size()))
    save_pretrained(model, OBJECTIVE / "teacher", TOKENIZER)


class _Silent:
    def log_metrics(self, metrics: object) -> None:
        """Nothing of the mask stage is looked at here."""


@dataclass
class Training:
    """Attempts at one training, each in `world` new processes."""

    root: Path
    world: int = 1
    environment: dict[str, str] = field(default_factory=dict)
    divided: bool = False
    """Whether FSDP divides the weights among the processes."""
    attempts: int = 0
    resumed: list[int] = field(default_factory=list)
    """The step that each attempt after a kill went on from, as its log says."""
    run_id: str = ""

    def start(self) -> list[BaseProcess]:
        """One more attempt, in the MLflow run that the stage would take for it."""
        start_server()
        self.attempts += 1
        with contextlib.chdir(self.root), ONE_PIPELINE_RUN:
            self.run_id = runs.start("pretrain", {}, pretrain.run_file()).run_id
        shared = {**self.environment, runs.RUN_ID: self.run_id, "BERTCORE_PRECISION": "no", "OMP_NUM_THREADS": "1"}
        port = str(free_port())
        processes = []
        for rank in range(self.world):
            joined = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(self.world)}
            own = joined | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "ACCELERATE_USE_CPU": "true"}
            variables = shared | (own if self.world > 1 else {})
            process = PROCESSES.Process(target=_train, args=(self.root, variables, self.log, self.divided))
            process.start()
            processes.append(process)
        return processes

    @property
    def log(self) -> Path:
        """Of the last attempt."""
        return self.root / f"attempt-{self.attempts}.log"

    def steps(self) -> list[int]:
        """Of the checkpoints that there are."""
        found = (self.root / ".checkpoints" / "pretrain").glob("*/step-*")
        return sorted(int(path.name.removeprefix("step-")) for path in found)

    def finish(self) -> int:
        """An attempt without harm; the status of its processes, which is the same in all."""
        processes = self.start()
        for process in processes:
            self.goes_on(process.is_alive)
        self._note()
        (status,) = {process.exitcode for process in processes}
        assert status is not None
        return status

    def goes_on(self, working: Callable[[], bool]) -> None:
        """Wait while `working`, however long it takes, but not when there is nothing new for `PATIENCE` seconds."""
        steps, deadline = self.steps(), time.monotonic() + PATIENCE
        while working():
            if self.steps() != steps:
                steps, deadline = self.steps(), time.monotonic() + PATIENCE
            assert time.monotonic() < deadline, f"no checkpoint after those of {steps} within {PATIENCE:g} s"
            time.sleep(0.02)

    def kill(self, dice: random.Random, longest: float) -> bool:
        """An attempt that gets SIGKILL up to `longest` seconds after its first checkpoint; whether it still ran."""
        before = self.steps()
        processes = self.start()
        while self.steps() == before and all(process.is_alive() for process in processes):
            time.sleep(0.005)
        time.sleep(dice.uniform(0, longest))
        alive = all(process.is_alive() for process in processes)
        victims = processes if self.world == 1 else [dice.choice(processes)]
        for process in victims:
            process.kill()
        for process in processes:
            process.join(30)
            assert process.exitcode is not None, "a process outlived the one that was killed by 30 s"
        self._note()
        return alive

    def kill_at_first_checkpoint(self) -> None:
        assert self.kill(random.Random(0), longest=0.0)

    def _note(self) -> None:
        if found := re.search(r"going on from the checkpoint of step (\d+)", self.log.read_text()):
            self.resumed.append(int(found[1]))

    def result(self) -> dict[str, bytes]:
        """What the stage leaves, without the clocks, and without the card, whose lineage only a run below DVC knows."""
        files = sorted(path for path in (self.root / "models/pretrained").rglob("*") if path.name != "README.md") + [
            self.root / "metrics" / name
            for name in ("pretrain.json", "curves/pretrain_train.csv", "curves/pretrain_eval.csv")
        ]
        return {str(file.relative_to(self.root)): file.read_bytes() for file in files if file.is_file()}

    def curves(self) -> dict[str, list[tuple[int, float]]]:
        """metric -> (step, value) in MLflow's store, of the last attempt's run."""
        client = MlflowClient(f"sqlite:///{self.root / 'mlflow.db'}")
        names = [name for name in client.get_run(self.run_id).data.metrics if name.startswith(("train/", "eval/"))]
        points = {name: client.get_metric_history(self.run_id, name) for name in names}
        return {name: sorted((point.step, point.value) for point in curve) for name, curve in points.items()}


CLOCKS = ("train/tokens_per_second", "train/mfu")


def assert_equal(training: Training, whole: Training) -> None:
    """The same bits, and the same points of every curve, of which those of the clocks have other values."""
    assert training.result() == whole.result(), training.root
    curves, expected = training.curves(), whole.curves()
    assert curves.keys() == expected.keys() >= {"train/loss", "eval/loss", *CLOCKS}
    for name, points in expected.items():
        if name in CLOCKS:
            assert [step for step, _ in curves[name]] == [step for step, _ in points], name
        else:
            assert curves[name] == points, name


def _train(root: Path, variables: dict[str, str], log: Path, divided: bool) -> None:
    os.chdir(root)
    os.environ.update(variables)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stderr.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    gate.check = _passed  # type: ignore[assignment]
    if divided:
        divide_weights()
    sys.exit(pretrain_process.main())


def _passed(*_: object) -> None:
    """In place of the gate, which has tests of its own and takes longer than the training."""
