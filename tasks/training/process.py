"""One training process of stage `pretrain`; `tasks.pretrain` starts as many as the machine has GPUs."""

import csv
import logging
import os
import socket
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from tokenizers import Tokenizer

from bertcore.files import replace_file, write_json
from bertcore.instances.config import MaskConfig, MaskingRule
from bertcore.instances.sources import InstanceSource
from bertcore.instances.store import open_sources
from bertcore.minimal_pairs.pairs import read_numbered, subset
from bertcore.objectives.pretraining import models_of
from bertcore.tokens.tokenizer import Vocabulary, load_tokenizer
from bertcore.training import machine
from bertcore.training.agreement import UnlikeError, require_agreement
from bertcore.training.config import Phase, PretrainConfig
from bertcore.training.control import Control, how_failed, how_lost
from bertcore.training.eval_pairs import EvalPairs
from bertcore.training.flight_record import rows_of
from bertcore.training.initial import check_vocabulary, initial_model
from bertcore.training.loader import BatchRamp, Loader, Phases
from bertcore.training.loop import Pretraining, TrainingData
from bertcore.training.metrics import Report, silent
from bertcore.training.network import choose_interface, require_connections
from bertcore.training.signs_of_life import PATIENCE, SignsOfLife, store_of
from bertcore.training.stopping import StopRequest
from bertcore.training.supervision import Supervision
from tasks import params
from tasks.paths import EVAL_PAIRS, INPUTS, INSTANCES, METRICS, OBJECTIVE, PRETRAINED, SHARDS, TOKENIZER
from tasks.processes import stuck_grace
from tasks.status import ProcessEnded, exit_status
from tasks.tracking import runs
from tasks.tracking.curves import Unreported
from tasks.training import checkpoints
from tasks.training.launcher import LOST, OWNER, UNLIKE, report_end
from tasks.training.naming import TrainingNames
from tasks.training.saving import KeptEncoders, metrics_of, save


def main() -> int:
    """The status of one training process; 75 where it was asked to stop."""
    if os.environ.get("RANK", "0") != "0":  # the first process says the same, but not why another one was stopped
        logging.getLogger("bertcore.training").setLevel(logging.ERROR)
        logging.getLogger("bertcore.training.stopping").setLevel(logging.INFO)
    stop = StopRequest(stuck_grace())
    stop.listen()
    owner = os.environ.get(OWNER)
    stop.follow(Path(owner) if owner else None)
    return report_end(exit_status(partial(_train, stop)))


def _train(stop: StopRequest) -> None:
    try:
        choose_interface()
        accelerator = machine.make_accelerator()
        if accelerator.num_processes > 1:
            require_connections()
        control = Control(accelerator.num_processes)
        with _signs_of_life(control):
            _train_and_save(accelerator, control, stop)
            control.gather(None)  # while rank 0 saves; the GPUs' own exchange would give up after ten minutes
        accelerator.end_training()
    except UnlikeError as error:
        if os.environ.get("LOCAL_RANK") == "0":  # once on each machine
            print(f"error: {error}", file=sys.stderr)
        raise ProcessEnded(UNLIKE) from None
    except RuntimeError as error:
        if reason := how_lost(error):
            _say_lost(reason)
        elif reason := how_failed(error):
            _say_failed(reason)
        else:
            raise
        raise ProcessEnded(LOST) from None


def _say_lost(reason: str) -> None:
    print(
        f"error: another process of the training is no more ({reason}); run the same command again to go on from the "
        "last checkpoint",
        file=sys.stderr,
        flush=True,
    )


def _say_failed(reason: str) -> None:
    """The others of the training lose this process, and say so, too."""
    print(
        f"error: process {os.environ.get('RANK', '0')} ({socket.gethostname()}): {reason}; run the same command again "
        "to go on from the last checkpoint, with NCCL_DEBUG=WARN and CUDA_LAUNCH_BLOCKING=1 to learn more if it fails "
        "again",
        file=sys.stderr,
        flush=True,
    )


def _end_without(rank: int) -> None:
    """End this process, wherever it waits: process `rank` is silent."""
    _say_lost(f"nothing was heard of process {rank} for {PATIENCE:.0f} s")
    os._exit(report_end(LOST))


def _signs_of_life(control: Control) -> AbstractContextManager[object]:
    """Among several machines; on one, a process that ends closes its connections."""
    if int(os.environ.get("GROUP_WORLD_SIZE", "1")) == 1:
        return nullcontext()
    return SignsOfLife(store_of(control), torch.distributed.get_rank(), control.world_size, _end_without)


def _train_and_save(accelerator: Accelerator, control: Control, stop: StopRequest) -> None:
    run = runs.attach(os.environ[runs.RUN_ID]) if accelerator.is_main_process else None
    with closing(run) if run else nullcontext():
        report = Unreported(run).report if run else silent
        training = build(accelerator, Supervision(report=report, run_id=run.run_id if run else "", stop=stop))
        kept = KeptEncoders(training, params.section("pretrain", PretrainConfig).kept_steps, control)
        training.run(kept.keep)
        models = training.whole_models()
        if run is not None:
            if resumed := training.state.resumed_from:
                run.set_tags({f"resumed.{name}": str(value) for name, value in resumed.items()})
            metrics = metrics_of(training)
            save(models, metrics, PRETRAINED)
            kept.publish()
            facts = machine.describe(accelerator)
            _write_metrics(training, metrics, facts, report)
            run.set_tags({f"machine.{name}": str(value) for name, value in facts.items()})
            checkpoints.mark_finished(training.checkpoints.directory, "pretrain")


def build(accelerator: Accelerator, supervision: Supervision) -> Pretraining:
    """The training that params.yaml describes, at its start."""
    config, mask = params.section("pretrain", PretrainConfig), params.section("mask", MaskConfig)
    names = TrainingNames(config, mask)
    require_agreement(Control(accelerator.num_processes), names.run)
    tokenizer = load_tokenizer(TOKENIZER)
    vocabulary = Vocabulary.of(tokenizer)
    torch.manual_seed(config.seed)
    published = INPUTS / "init_from"
    model, new_heads = initial_model(config, vocabulary, TOKENIZER, published)
    models = models_of(config.objective, config.objective_options)
    for option, name in models.items():
        check_vocabulary(OBJECTIVE / option, TOKENIZER, name, f"pretrain.objective_options.{option}")
    heldout = [open_sources(INSTANCES, SHARDS, phase, vocabulary, "heldout", 0) for phase in mask.phases]
    torch.manual_seed(config.seed + accelerator.process_index)  # every rank drops out other units

    def rows(step: int) -> list[dict[str, Any]]:
        # Drawn anew from the shards, which know the documents; the copies on the disk do not.
        return rows_of(_loaders(replace(mask, duplicates=0), config, vocabulary, mask.duplicates), step)

    first, *second = heldout
    data = TrainingData(
        batches=_loaders(mask, config, vocabulary),
        heldout=first,
        heldout_longer=second[0] if second else (),
        pairs=_eval_pairs(config, tokenizer),
        rows=rows,
    )
    if accelerator.is_main_process:
        names.tell_of_others()
    links = {option: str(OBJECTIVE / option) for option in models}
    # `names` are of the paths in params.yaml.
    linked = replace(config, objective_options=config.objective_options | links)
    return Pretraining(
        config=linked,
        model=model,
        data=data,
        accelerator=accelerator,
        checkpoints=names.checkpoints,
        supervision=supervision,
        stable=names.stable_phases,
        new_heads=new_heads,
        published=None if config.init_from is None else published,
    )


def _eval_pairs(config: PretrainConfig, tokenizer: Tokenizer) -> EvalPairs:
    if config.eval_pairs is None:
        return EvalPairs()
    pairs = read_numbered(EVAL_PAIRS, len(config.eval_pairs.files))
    return EvalPairs(subset(pairs, config.eval_pairs.share), tokenizer)


def _loaders(mask: MaskConfig, config: PretrainConfig, vocabulary: Vocabulary, copies: int = 0) -> Phases:
    """The loaders of all phases; with `copies`, the epochs repeat after so many."""

    def loader(phase: Phase, masks: MaskConfig) -> Loader:
        def opened(epoch: int) -> list[InstanceSource]:
            return open_sources(INSTANCES, SHARDS, masks, vocabulary, "train", epoch % copies if copies else epoch)

        def rule(step: int) -> MaskingRule:
            return masks.rule_at((phase.begin + step) / max(config.max_steps - 1, 1))

        ramp = None
        if phase.begin == 0 and config.batch_size_start is not None:
            ramp = BatchRamp(config.batch_size_start, config.batch_size, config.ramp_steps)
        falling = None if masks.masked_lm_prob_start is None else rule
        return Loader(opened, phase.batch_size, config.seed, ramp=ramp, rule=falling, key=phase.key)

    both = zip(config.phases, mask.phases, strict=True)
    return Phases([(phase.begin, loader(phase, masks)) for phase, masks in both])


def _write_metrics(training: Pretraining, metrics: dict[str, Any], facts: dict[str, Any], report: Report) -> None:
    for name in ("train", "eval"):
        rows = [row for row in training.state.history.curves if f"{name}/loss" in row]
        _write_csv(METRICS / "curves" / f"pretrain_{name}.csv", rows)
    write_json(METRICS / "pretrain.json", metrics)
    timing = training.timing()
    write_json(METRICS / "timing" / "pretrain.json", {**{k: float(f"{v:.4g}") for k, v in timing.items()}, **facts})
    report(training.state.step, {**timing, "tokens": training.state.tokens})


def _write_csv(path: Path, rows: Iterable[dict[str, float]]) -> None:
    """The columns are those of all rows, in the order in which they come."""
    table = list(rows)
    with replace_file(path) as beside, beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(dict.fromkeys(name for row in table for name in row)))
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    sys.exit(main())
