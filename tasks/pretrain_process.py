"""One training process of stage `pretrain`; `tasks.pretrain` starts as many as the machine has GPUs."""

import csv
import dataclasses
import json
import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import torch
from accelerate import Accelerator

import bertcore
from bertcore.data.instances import MaskConfig, open_sources
from bertcore.data.loader import Loader, OpenEpoch, Phases
from bertcore.data.shards import MANIFEST, Vocabulary, checksum
from bertcore.data.wordpiece import load_tokenizer
from bertcore.export import gate
from bertcore.files import replace_file, write_json
from bertcore.model.huggingface import save_pretrained
from bertcore.training import distributed
from bertcore.training.checkpoint import Checkpoints, code_hash, training_key
from bertcore.training.config import PretrainConfig
from bertcore.training.initial import initial_model
from bertcore.training.pretraining import Pretraining
from tasks import params, tracking
from tasks.paths import CHECKPOINTS, INPUTS, INSTANCES, METRICS, PRETRAINED, SHARDS, TOKENIZER
from tasks.stage import exit_status


def train() -> None:
    accelerator = distributed.make_accelerator()
    config, mask = params.section("pretrain", PretrainConfig), params.section("mask", MaskConfig)
    vocabulary = Vocabulary.of(load_tokenizer(TOKENIZER))

    torch.manual_seed(config.seed)
    model = initial_model(config, vocabulary, TOKENIZER, INPUTS / "init_from")
    phases = [partial(open_sources, INSTANCES, SHARDS, phase, vocabulary) for phase in mask.phases]
    loader = Phases(_loaders([partial(phase, "train") for phase in phases], config))
    heldout = phases[0]("heldout", 0)
    checkpoints = Checkpoints(CHECKPOINTS / "pretrain" / _key(config, mask))
    run = tracking.attach(os.environ[tracking.RUN_ID]) if accelerator.is_main_process else None
    report = run.report if run else lambda step, metrics: None
    torch.manual_seed(config.seed + accelerator.process_index)  # every rank drops out other units

    training = Pretraining(config, model, loader, heldout, accelerator, checkpoints, report)
    final = training.run()
    if run is not None:
        save_pretrained(training.model, PRETRAINED, TOKENIZER)
        gate.check(training.model, PRETRAINED, TOKENIZER)
        _write_metrics(training, final, accelerator, run)
        checkpoints.remove()
    accelerator.wait_for_everyone()


def _loaders(phases: list[OpenEpoch], config: PretrainConfig) -> list[tuple[int, Loader]]:
    loaders = [(0, Loader(phases[0], config.batch_size, config.seed))]
    if config.second_phase:
        batch_size = config.second_phase.batch_size or config.batch_size
        loaders.append((config.first_phase_steps, Loader(phases[1], batch_size, config.seed)))
    return loaders


def _key(config: PretrainConfig, mask: MaskConfig) -> str:
    inputs = [checksum(SHARDS / MANIFEST), checksum(TOKENIZER / "tokenizer.json")]
    sections = [json.dumps(dataclasses.asdict(section), sort_keys=True) for section in (config, mask)]
    return training_key(*inputs, *sections, code_hash(Path(bertcore.__file__).parent))


def _write_metrics(
    training: Pretraining, final: dict[str, float], accelerator: Accelerator, run: tracking.StageRun
) -> None:
    for name in ("train", "eval"):
        rows = [row for row in training.curves if f"{name}/loss" in row]
        _write_csv(METRICS / "curves" / f"pretrain_{name}.csv", rows)
    metrics = {
        **{name.removeprefix("eval/"): value for name, value in final.items()},
        "steps": training.step,
        "tokens": training.tokens,
        "parameters": sum(parameter.numel() for parameter in training.model.parameters()),
    }
    write_json(METRICS / "pretrain.json", metrics)
    machine = distributed.describe(accelerator)
    timing = training.timing()
    write_json(METRICS / "timing" / "pretrain.json", {**{k: float(f"{v:.4g}") for k, v in timing.items()}, **machine})
    run.log_metrics({**timing, "tokens": training.tokens})
    run.set_tags({f"machine.{name}": str(value) for name, value in machine.items()})


def _write_csv(path: Path, rows: Iterable[dict[str, float]]) -> None:
    table = list(rows)
    with replace_file(path) as beside, beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(table[0]))
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    sys.exit(exit_status(train))
