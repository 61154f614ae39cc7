"""docs/faults.md: what the campaign did to the trainings, a line for each kind of harm, and how it was done."""

import textwrap
from dataclasses import dataclass, field
from typing import Any

from tests.faults import prefect_runs, stages
from tests.faults.trainings import PARAMS
from tests.import_closure import ROOT

TABLE = ROOT / "docs" / "faults.md"


@dataclass
class Row:
    """One line of the table."""

    injected: str
    times: int
    outcome: str
    steps: list[int] = field(default_factory=list)
    """That later attempts went on from."""
    seconds: list[float] = field(default_factory=list)
    """From each harm to the end of the last process that trained."""

    def __str__(self) -> str:
        steps = f"from step {self.steps[0]:,}" if self.steps else ""
        if len(self.steps) > 1:
            first, last = min(self.steps), max(self.steps)
            steps = f"{len(self.steps)} times, from step" + (
                f"s {first:,} to {last:,}" if last > first else f" {last:,}"
            )
        slowest = f"{max(self.seconds):.1f} s" if self.seconds else ""
        return f"| {self.injected} | {self.times} | {self.outcome} | {steps} | {slowest} |"


def head() -> str:
    """The document above its table."""
    texts = (
        f"""Written by `make faults` (`python -m tests.faults.campaign`). The trainings are real: the processes of stage
        `pretrain` with their checkpoints, an MLflow store in SQLite, dropout on, {_rhythm(PARAMS)}. A whole stage that
        is harmed from outside writes a checkpoint every {stages.ENDLESS["pretrain"]["checkpoint_steps"]} steps and has
        too many steps to end by itself. Below Prefect, with a real server, worker and deployment, one training of
        {prefect_runs.VALUES["pretrain"]["max_steps"]:,} steps has {_rhythm(prefect_runs.VALUES)}.""",
        """A kill comes at a random moment after the first checkpoint that a process has written. What is compared with
        the uninterrupted training is every byte of `models/pretrained`, of `metrics/pretrain.json` and of the curves,
        and every point of every MLflow curve: none missing, none twice. Steps are those that the logs say were gone on
        from. The slowest end is the time from the harm to the end of the last process that trained. Trainings that name
        no recipe are of BERT with Adam; those that do have its objective, optimizer, masks and tokenizer, and three
        micro-batches a step; SpanBERT is BERT with its spans and its second objective, `mlm_clm` BERT that predicts
        the next token, too.""",
        """The other stages are killed at random moments, every second time while they write, and run
        again, going on from what they have kept: compared are the bytes of everything that they write, but what clocks
        decide, and no unfinished directory may be left.""",
    )
    paragraphs = [textwrap.fill(" ".join(text.split()), 120, break_on_hyphens=False) for text in texts]
    return "\n\n".join(["# What was done to the training, and what came of it", *paragraphs]) + "\n\n"


def _rhythm(values: dict[str, Any]) -> str:
    steps = [f"{values['pretrain'][f'{name}_steps']:,}" for name in ("checkpoint", "logging", "eval")]
    return "checkpoints every {} steps, points of the curves every {}, evaluations every {}".format(*steps)


def page(rows: list[Row], machine: str) -> str:
    """The document of what was done so far."""
    kills = sum(row.times for row in rows if row.injected.startswith("SIGKILL"))
    damaged = sum(row.times for row in rows if "of the last checkpoint" in row.injected)
    columns = "| injected | times | what happened | gone on from a checkpoint | slowest end |\n|---|---|---|---|---|\n"
    table = columns + "".join(f"{row}\n" for row in rows)
    return f"{head()}{table}\n{kills} processes killed, {damaged} checkpoints damaged. {machine}\n"
