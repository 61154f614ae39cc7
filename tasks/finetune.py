"""Stage `finetune@TASK`: the pre-trained encoder on one task, beside the same architecture from random initialisation
with the same budget and beside baselines that learn no representation."""

import sys
from dataclasses import asdict

from bertcore.data.wordpiece import load_tokenizer
from bertcore.evaluation.baselines import baselines
from bertcore.examples import schema
from bertcore.examples.schema import ExampleSet
from bertcore.export import gate
from bertcore.files import write_json
from bertcore.finetune.config import TaskConfig
from bertcore.finetune.fitting import Finetuning
from bertcore.finetune.result import Result
from bertcore.model.huggingface import load_config
from tasks import params
from tasks.paths import EXAMPLES, FINETUNED, METRICS, PREDICTIONS, PRETRAINED
from tasks.stage import main
from tasks.tracking import StageRun

PERCENT = "question_answering"
"""The family whose official scores are percentages; all others are shares, and so is every number written here."""


def run(stage_run: StageRun, name: str) -> None:
    task = params.task(name, TaskConfig)
    examples = schema.read(EXAMPLES / name)
    finetuning = Finetuning(task, examples, load_tokenizer(PRETRAINED))
    pretrained = finetuning.run(PRETRAINED, name=f"{name}.pretrained", report=stage_run.report)
    random = finetuning.run(load_config(PRETRAINED), name=f"{name}.random")

    pretrained.save_model(FINETUNED / name, PRETRAINED)
    gate.check(pretrained.model, FINETUNED / name, PRETRAINED)
    pretrained.save_predictions(PREDICTIONS / name)
    metrics = {
        "format": task.format,
        "family": examples.family,
        "metrics": examples.metrics,
        "pretrained": _shares(pretrained.metrics["dev"], examples),
        "random_initialisation": _shares(random.metrics["dev"], examples),
        **{
            baseline: _shares(scores, examples)
            for baseline, scores in baselines(finetuning.examples, task.seed).items()
        },
        "other_splits": {
            split: _shares(scores, examples) for split, scores in pretrained.metrics.items() if split != "dev"
        },
        "protocol": {key: value for key, value in asdict(task).items() if key not in ("format", "data")},
        "counts": pretrained.counts,
        "train_examples": pretrained.counts["train"]["examples"],
        "dev_examples": pretrained.counts["dev"]["examples"],
    }
    write_json(METRICS / "finetune" / f"{name}.json", metrics)
    seconds = {"pretrained": _seconds(pretrained), "random_initialisation": _seconds(random)}
    write_json(METRICS / "timing" / "finetune" / f"{name}.json", {"seconds": seconds})
    compared = {key: value for key, value in metrics.items() if key in ("random_initialisation", "majority")}
    stage_run.log_metrics({**compared, "seconds": seconds["pretrained"]}, pretrained.steps)


def _shares(scores: dict[str, float], examples: ExampleSet) -> dict[str, float]:
    scale = 0.01 if examples.family == PERCENT else 1.0
    return {metric: scale * value for metric, value in scores.items()}


def _seconds(result: Result) -> float:
    return round(sum(result.seconds.values()), 2)


if __name__ == "__main__":
    name = sys.argv[1]
    sys.exit(main("finetune", lambda stage_run: run(stage_run, name), name))
