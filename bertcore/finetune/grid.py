"""All runs that a task asks for from one encoder, and what is concluded from them.

No number here is the best of several runs: a setting is chosen by its median over the seeds on examples kept back from
train, and what is reported of the chosen one is the median over the seeds on dev, beside the smallest, the largest and
the quartiles. Runs that have finished survive an interruption.
"""

import dataclasses
import json
import logging
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertcore.errors import TrainingError
from bertcore.evaluation.per_example import Units
from bertcore.finetune.config import GRID, RunConfig
from bertcore.finetune.family import CHOICE
from bertcore.finetune.result import Result, Trained
from bertcore.finetune.run import Finetuning, InitialEncoder
from bertcore.training.checkpoint import Checkpoints, training_key
from bertcore.training.metrics import Report, report_again, silent

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Run:
    """The scores of one run."""

    task: RunConfig
    metrics: dict[str, dict[str, float]]
    """Split -> metric -> value."""
    best_epoch: int | None
    """As in `Result`."""
    tuned: dict[str, float]
    """As in `Result`."""
    dev_units: Units = field(compare=False, repr=False)
    """What each dev example adds to the headline metric."""
    seconds: float = field(compare=False)
    """Of training and evaluation."""
    examples_per_second: float = field(compare=False)
    """Of the evaluation."""

    def row(self) -> dict[str, Any]:
        """As it is written down."""
        chosen = {} if self.best_epoch is None else {"best_epoch": self.best_epoch}
        fields = {name: getattr(self.task, name) for name in (*GRID, "seed")}
        return {**fields, **chosen, **self.tuned, "scores": self.metrics}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came out of all runs."""

    runs: list[Run]
    """All of them, setting by setting, in the order of the seeds."""
    chosen: list[Run]
    """Those of the chosen setting."""
    saved: Run
    """The run of the chosen setting that has the median score on dev."""
    result: Result
    """Of that run."""

    @property
    def seconds(self) -> float:
        """Of all runs."""
        return sum(run.seconds for run in self.runs)

    @property
    def examples_per_second(self) -> float:
        """Of the fastest evaluation: other programs may have disturbed the others."""
        return max(run.examples_per_second for run in self.runs)

    @property
    def dev_units(self) -> list[Units]:
        """Of each seed, what the dev examples add to the headline metric."""
        return [run.dev_units for run in self.chosen]

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Split -> metric -> median over the seeds."""
        return medians(self.chosen)

    @property
    def spread(self) -> dict[str, dict[str, dict[str, float]]]:
        """Split -> metric -> quantiles over the seeds."""
        return spread(self.chosen)


class Grid:
    """The runs of one encoder, called `name`, with `settings`, as `TaskConfig.settings` gives them.

    Each finished run is kept in `directory` under a hash of `key` (what data, encoder and code are), of `name` and of
    its own config; of its weights only those that may still be asked for: the current setting's and the leading run's.
    """

    def __init__(
        self,
        finetuning: Finetuning,
        encoder: InitialEncoder,
        name: str,
        settings: Sequence[Sequence[RunConfig]],
        directory: Path,
        key: str,
    ) -> None:
        self._finetuning, self._encoder, self._name = finetuning, encoder, name
        self._settings, self._directory, self._key = settings, directory, key
        self._metric = finetuning.headline

    def missing(self) -> list[RunConfig]:
        """The runs that are still to be made."""
        return [task for task in self._flat if self._is_missing(task)]

    def tell_finished(self) -> None:
        """Say which runs are there from before."""
        for task in self._flat:
            if not self._is_missing(task):
                logger.info("%s: this run has finished before", self._title(task))

    def _is_missing(self, task: RunConfig) -> bool:
        return self._checkpoints(task).latest_step() is None

    def make(self, task: RunConfig, report: Report = silent) -> dict[str, Any]:
        """Make one run and keep it; its record."""
        record = self._train(task, report)
        self._checkpoints(task).save(record["steps"], record)
        return record

    def forget_weights(self, made: RunConfig) -> None:
        """Drop those that nobody can ask for any more, where `made` was the last run of its setting; processes that
        make runs side by side may all do it."""
        one_at_a_time = Checkpoints(self._directory)
        one_at_a_time.hold(_LONGEST_WAIT)
        try:
            finished = [setting for setting in self._settings if not any(map(self._is_missing, setting))]
            if any(made in setting for setting in finished):
                self._keep_only_leading_weights([[self._kept_run(task) for task in setting] for setting in finished])
        finally:
            one_at_a_time.release()

    def run(self, report: Report = silent) -> Outcome:
        """Make all runs that are not there yet, and choose.

        The curves of all runs are reported, those of earlier ones too; where there are several, the name of a metric
        begins with what tells its run from the others.
        """
        if isinstance(self._encoder, Path):  # random weights have learned nothing that a wrong setting could destroy
            highest = max(self._flat, key=lambda task: (task.learning_rate, task.epochs))
            self._finetuning.advise(self._encoder, highest)
        done: list[list[Run]] = []
        for setting in self._settings:
            done.append([self._kept_or_made_run(task, report) for task in setting])
            self._keep_only_leading_weights(done)
        chosen, saved = self._leading(done)
        return Outcome(
            runs=[run for runs in done for run in runs],
            chosen=chosen,
            saved=saved,
            result=self._finetuning.result(self._restored(saved.task)),
        )

    @property
    def _flat(self) -> list[RunConfig]:
        return [task for setting in self._settings for task in setting]

    def _kept_or_made_run(self, task: RunConfig, report: Report) -> Run:
        """The run of `task`: as it was kept, with its curves reported again, or made now."""
        record = self._checkpoints(task).latest()
        if record is None:
            record = self.make(task, report)
        else:
            report_again(record["curves"], self._named(report, task))
        return self._run_of(task, record)

    def _kept_run(self, task: RunConfig) -> Run:
        """The run of `task`, which has finished."""
        record = self._checkpoints(task).latest()
        assert record is not None, f"{self._title(task)} has not finished"
        return self._run_of(task, record)

    def _run_of(self, task: RunConfig, record: Mapping[str, Any]) -> Run:
        """The run of `task` that is kept as `record`."""
        evaluated = sum(each["examples"] for split, each in self._finetuning.counts.items() if split != "train")
        return Run(
            task=task,
            metrics=record["metrics"],
            best_epoch=record["best_epoch"],
            tuned=record["tuned"],
            dev_units=record["dev_units"].numpy(),
            seconds=sum(record["seconds"].values()),
            examples_per_second=evaluated / record["seconds"]["evaluate"],
        )

    def _train(self, task: RunConfig, report: Report) -> dict[str, Any]:
        named = self._named(report, task)
        title = self._title(task)
        try:
            trained = self._finetuning.train(self._encoder, task, name=title, report=named)
        except TrainingError as error:
            raise TrainingError(f"{title}: {error}") from None
        assert trained.dev_units is not None, "a headline without labels"
        return {
            "model": {key: tensor.cpu() for key, tensor in trained.model.state_dict().items()},
            "logits": {split: torch.from_numpy(logits) for split, logits in trained.logits.items()},
            "dev_units": torch.from_numpy(trained.dev_units),
            **{name: getattr(trained, name) for name in _RECORDED},
        }

    def _restored(self, task: RunConfig) -> Trained:
        """A finished run with its weights; made again where they are not kept."""
        record = self._checkpoints(task).latest()
        if record is None or "model" not in record:
            record = self._train(task, silent)
        model = self._finetuning.build(self._encoder, task).to(self._finetuning.accelerator.device)
        model.load_state_dict(record["model"])
        logits = {split: tensor.numpy() for split, tensor in record["logits"].items()}
        units = record["dev_units"].numpy()
        return Trained(model=model.eval(), logits=logits, dev_units=units, **{name: record[name] for name in _RECORDED})

    def _leading(self, done: Sequence[Sequence[Run]]) -> tuple[list[Run], Run]:
        """The runs of the best setting, and the median one among them."""
        chosen = [*done[best_setting(done, self._metric)]]
        return chosen, chosen[median_run(chosen, self._metric)]

    def _keep_only_leading_weights(self, done: Sequence[Sequence[Run]]) -> None:
        """Drop the weights of all runs so far but the leading one, which may be chosen in the end."""
        _, leading = self._leading(done)
        for task in (run.task for runs in done for run in runs if run.task != leading.task):
            checkpoints = self._checkpoints(task)
            record = checkpoints.latest()
            if record is not None and "model" in record:
                checkpoints.save(record["steps"], {key: each for key, each in record.items() if key not in _TENSORS})

    def _checkpoints(self, task: RunConfig) -> Checkpoints:
        config = json.dumps(dataclasses.asdict(task), sort_keys=True)
        return Checkpoints(self._directory / training_key(self._key, self._name, config), keep=1)

    def _named(self, report: Report, task: RunConfig) -> Report:
        """`report` for one run, whose points are not to be mixed with those of another."""
        title = self._varied(task)
        if not title:
            return report
        return lambda step, metrics: report(step, {f"{title}/{key}": value for key, value in metrics.items()})

    def _title(self, task: RunConfig) -> str:
        return f"{self._name} {self._varied(task)}".rstrip()

    def _varied(self, task: RunConfig) -> str:
        """What tells a run from the others; empty where there are none."""
        varied = [field for field in (*GRID, "seed") if len({getattr(each, field) for each in self._flat}) > 1]
        return " ".join(f"{field}={getattr(task, field)}" for field in varied)


_LONGEST_WAIT = 3600.0
"""Seconds for the other processes to drop the weights of large encoders."""
_TENSORS = ("model", "logits")
_RECORDED = ("curves", "best_epoch", "steps", "tokens", "seconds", "metrics", "tuned")
"""Fields of `Trained` that are kept as they are."""


def median_run(runs: Sequence[Run], metric: str) -> int:
    """The place of the run with the median of `metric` on dev: of an even number the lower one, of equals the first."""
    scores = [run.metrics["dev"][metric] for run in runs]
    return scores.index(statistics.median_low(scores))


def best_setting(settings: Sequence[Sequence[Run]], metric: str) -> int:
    """The place of the setting whose runs have the highest median of `metric` on what is kept back from train, the
    first of equals; the only one needs no such examples."""
    if len(settings) == 1:
        return 0
    medians = [statistics.median(run.metrics[CHOICE][metric] for run in runs) for runs in settings]
    return medians.index(max(medians))


def medians(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Split -> metric -> median over the runs."""
    return {split: {name: each["median"] for name, each in metrics.items()} for split, metrics in spread(runs).items()}


def spread(runs: Sequence[Run]) -> dict[str, dict[str, dict[str, float]]]:
    """Split -> metric -> `min`, `lower_quartile`, `median`, `upper_quartile` and `max` over the runs, the quartiles
    linear between neighbours."""
    return {
        split: {metric: _five([run.metrics[split][metric] for run in runs]) for metric in metrics}
        for split, metrics in runs[0].metrics.items()
    }


def _five(values: Sequence[float]) -> dict[str, float]:
    names = ("min", "lower_quartile", "median", "upper_quartile", "max")
    return dict(zip(names, np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist(), strict=True))
