"""Stage `finetune@TASK`: the pre-trained encoder on one task, beside baselines that learn no representation and, unless
the task says otherwise, beside the same architecture from random initialisation with the same protocol."""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from bertcore.evaluation.baselines import Scores, baselines
from bertcore.evaluation.bootstrap import compare
from bertcore.evaluation.per_example import Records
from bertcore.evaluation.scoring import by_label
from bertcore.evaluation.systems import MAJORITY, PRETRAINED_WEIGHTS, RANDOM_WEIGHTS
from bertcore.examples import schema
from bertcore.export import gate
from bertcore.files import write_json
from bertcore.finetune import side_by_side
from bertcore.finetune.config import GRID, RunConfig, TaskConfig
from bertcore.finetune.distilled import compare_with_teacher
from bertcore.finetune.encoder_tokenizer import tokenizer_directory
from bertcore.finetune.family import CHOICE
from bertcore.finetune.grid import Outcome
from bertcore.finetune.run import Finetuning, InitialEncoder
from bertcore.model.huggingface import load_config
from bertcore.tokens.tokenizer import load_tokenizer
from bertcore.training.checkpoint import training_key
from bertcore.training.machine import describe, finetune_processes
from tasks import cards, params
from tasks.paths import CHECKPOINTS, ENCODERS, EXAMPLES, FINETUNED, METRICS, PREDICTIONS, PRETRAINED, TEACHERS
from tasks.stage import main
from tasks.tracking import lineage
from tasks.tracking.runs import StageRun
from tasks.training import checkpoints

TRUNCATED = ("truncated", "questions_cut", "words_cut", "choices_cut")
"""Among the counts of a split: texts, questions, words and choices with their context whose end the model does not
see."""


def run(stage_run: StageRun, name: str) -> None:
    task = params.task(name, TaskConfig)
    encoder = PRETRAINED if task.init_from is None else ENCODERS / name
    with tokenizer_directory(encoder) as tokenizer_files:
        _run(stage_run, name, task, encoder, tokenizer_files)


def _run(stage_run: StageRun, name: str, task: TaskConfig, encoder: Path, tokenizer_files: Path) -> None:
    examples, settings, directory = schema.read(EXAMPLES / name), task.settings(), CHECKPOINTS / "finetune" / name
    teacher = TEACHERS / name if task.distillation else None
    tokenizer, several = load_tokenizer(tokenizer_files), len(settings) > 1
    systems: dict[str, InitialEncoder] = {f"{name}.pretrained": encoder}
    if task.random_initialisation:
        systems[f"{name}.random"] = load_config(encoder)
    processes = finetune_processes(len(systems) * sum(map(len, settings)))
    side_by_side.share_threads(processes)
    prepare = partial(Finetuning, settings[0][0], examples, tokenizer, several_settings=several, teacher=teacher)
    finetuning = prepare()
    key = _key(finetuning, name, several, encoder, *([teacher] if teacher else []))
    runs = side_by_side.Runs(prepare, systems, settings, directory, key)
    grids = runs.grids(finetuning)
    side_by_side.make(runs, grids, processes)
    outcomes = {PRETRAINED_WEIGHTS: grids[f"{name}.pretrained"].run(stage_run.report)}
    if task.random_initialisation:
        outcomes[RANDOM_WEIGHTS] = grids[f"{name}.random"].run()
    _save(stage_run, name, task, tokenizer_files, finetuning, outcomes)
    checkpoints.mark_finished(directory, "finetune", name)


def _save(
    stage_run: StageRun,
    name: str,
    task: TaskConfig,
    tokenizer_files: Path,
    finetuning: Finetuning,
    outcomes: Mapping[str, Outcome],
) -> None:
    """Write the model of the pre-trained encoder, what it said of dev, and the metrics beside the simple baselines."""
    examples, pretrained = finetuning.examples, outcomes[PRETRAINED_WEIGHTS]
    simple, scores = baselines(examples, task.settings()[0][0].seed)
    records = _records(finetuning, outcomes, simple)
    metrics, result = _metrics(task, finetuning, outcomes, scores, records), pretrained.result
    known = schema.in_train(examples)["dev"]
    card = cards.of_finetuned(name, result.model, result.model_config, examples.labels, metrics, known)
    result.save_model(FINETUNED / name, tokenizer_files, card)
    gate.check(result.model, FINETUNED / name, tokenizer_files)
    result.save_predictions(PREDICTIONS / name, records)
    seconds = {system: round(outcome.seconds, 2) for system, outcome in outcomes.items()}
    timing: dict[str, Any] = {
        "seconds": seconds,
        "examples_per_second": float(f"{pretrained.examples_per_second:.4g}"),
    }
    if (distilled := compare_with_teacher(finetuning, pretrained)) is not None:
        metrics["distillation"] = {"teacher": distilled.teacher, **distilled.sizes}
        timing["distillation"] = distilled.speeds
    write_json(METRICS / "finetune" / f"{name}.json", metrics)
    write_json(METRICS / "timing" / "finetune" / f"{name}.json", timing)
    compared = {system: metrics[system] for system in (*outcomes, MAJORITY) if system in metrics}
    stage_run.log_metrics({**compared, "seconds": seconds[PRETRAINED_WEIGHTS]}, result.steps)
    # The report does so for all tasks; `finetune-flow` makes none, and its runs are compared, too.
    headline = finetuning.headline
    stage_run.parent.log_metrics({name: {headline: metrics[PRETRAINED_WEIGHTS][headline]}})


def _metrics(
    task: TaskConfig,
    finetuning: Finetuning,
    outcomes: Mapping[str, Outcome],
    scores: Scores,
    records: Records,
) -> dict[str, Any]:
    """What metrics/finetune/NAME.json says, beside the comparison with a teacher. `by_label` is of the saved run, whose
    predictions are the stage's."""
    examples, pretrained = finetuning.examples, outcomes[PRETRAINED_WEIGHTS]
    saved = pretrained.result.predictions["dev"].predicted
    return {
        "format": task.format,
        "family": examples.family,
        "metrics": examples.metrics,
        **{system: outcome.metrics["dev"] for system, outcome in outcomes.items()},
        **scores,
        "comparison": _comparison(records, scores, finetuning.headline),
        "other_splits": {split: scored for split, scored in pretrained.metrics.items() if split not in ("dev", CHOICE)},
        "spread": {system: outcome.spread for system, outcome in outcomes.items()},
        "runs": {system: [run.row() for run in outcome.runs] for system, outcome in outcomes.items()},
        "parameters": pretrained.result.model.num_parameters(),
        "protocol": _protocol(task, outcomes, finetuning.counts.get(CHOICE, {}).get("examples", 0)),
        "counts": finetuning.counts,
        "truncated": sum(each.get(reason, 0) for each in finetuning.counts.values() for reason in TRUNCATED),
        "train_examples": finetuning.counts["train"]["examples"],
        "dev_examples": finetuning.counts["dev"]["examples"],
        "by_label": by_label(examples, examples.splits["dev"], saved),
    }


def _records(finetuning: Finetuning, outcomes: Mapping[str, Outcome], simple: dict[str, Any]) -> Records:
    """What every dev example adds to the headline metric, by system and seed."""
    baseline_units = {name: finetuning.units(predicted) for name, predicted in simple.items()}
    return Records(
        metric=baseline_units[MAJORITY][0],
        ids=finetuning.examples.splits["dev"]["id"].to_pylist(),
        runs={system: outcome.dev_units for system, outcome in outcomes.items()}
        | {name: [units] for name, (_, units) in baseline_units.items()},
    )


def _comparison(records: Records, scores: dict[str, dict[str, float]], headline: str) -> dict[str, Any]:
    """How much better the pre-trained encoder is than random weights, the majority and the best simple baseline on
    dev."""
    learned = [name for name in scores if name != MAJORITY] or [MAJORITY]
    best = max(learned, key=lambda name: scores[name][headline])
    against = {"random": RANDOM_WEIGHTS, "majority": MAJORITY, "baseline": best}
    found = {
        name: asdict(compare(records.metric, records.runs[PRETRAINED_WEIGHTS], records.runs[system]))
        for name, system in against.items()
        if system in records.runs
    }
    return found | {"baseline": {"name": best, **found["baseline"]}}


def _key(finetuning: Finetuning, name: str, several: bool, *models: Path) -> str:
    """What the bits of a run depend on beside its own config. With `several` settings part of train is kept back, so
    that other examples are trained on."""
    inputs = [lineage.dvc_hash(path) for path in (EXAMPLES / name, *models)]
    facts = describe(finetuning.accelerator)
    machine = [f"{key}={value}" for key, value in facts.items() if key != "compiled"]  # which only pre-training is
    return training_key(*inputs, *machine, f"{several=}", lineage.code_of("finetune"))


def _protocol(task: TaskConfig, outcomes: Mapping[str, Outcome], held_back: int) -> dict[str, Any]:
    """How the scores came about: the chosen setting, and from what it was chosen.

    `chosen_on` says what setting, epoch or threshold were chosen on, null where nothing was left open. `saved_seed` is
    that of the median run, whose weights and predictions are the stage's outputs.
    """
    pretrained, random = outcomes[PRETRAINED_WEIGHTS], outcomes.get(RANDOM_WEIGHTS)
    chosen = asdict(pretrained.chosen[0].task)
    settings = {key: value for key, value in chosen.items() if key not in _NOT_PROTOCOL}
    saved, listed = pretrained.saved, [key for key in GRID if isinstance(getattr(task, key), list)]
    return {
        "scored_on": "dev",
        "chosen_on": f"{held_back} examples kept back from train" if held_back else None,
        "started_from": str(PRETRAINED) if task.init_from is None else task.init_from,
        "seeds": len(pretrained.chosen),
        "settings": len(pretrained.runs) // len(pretrained.chosen),
        **settings,
        "changed": {key: value for key, value in settings.items() if value != getattr(RunConfig, key)},
        "saved_seed": saved.task.seed,
        **({} if saved.best_epoch is None else {"saved_epoch": saved.best_epoch}),
        **{f"tuned_{key}": value for key, value in saved.tuned.items()},
        **({} if random is None else {f"{key}_of_random": getattr(random.chosen[0].task, key) for key in listed}),
    }


_NOT_PROTOCOL = ("format", "data", "init_from", "seed")


if __name__ == "__main__":
    name = sys.argv[1]
    sys.exit(main("finetune", lambda stage_run: run(stage_run, name), name, configs={"finetune": TaskConfig}))
