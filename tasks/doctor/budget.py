"""`make plan BUDGET=2h`: what this machine can pre-train in a given time, size by size, and what is proposed of it.

The time is that of the pre-training alone. The sizes are the presets of the architecture in params.yaml; the speed of
each is measured here and now, by a few of its steps; expected losses come from measured curves only.
"""

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from bertcore.config import parse
from bertcore.errors import ConfigError
from bertcore.model.architecture import EncoderConfig
from bertcore.model.config import ARCHITECTURES, ModelConfig
from bertcore.objectives.pretraining import OBJECTIVES
from bertcore.progress import track
from bertcore.training.config import PretrainConfig
from tasks import params
from tasks.doctor.estimate import parameters, sequence_flops
from tasks.doctor.machine import duration
from tasks.doctor.normal import nearest_curve, read_curves, vocabulary_for
from tasks.doctor.plan import Plan, masked
from tasks.status import exit_status

TOKENS_PER_PARAMETER = 20
"""Fewer than these (Hoffmann et al. 2022) leave a smaller model ahead; the rule where no curve was measured."""

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_STEPS = 3500
"""So many optimizer steps at least, and less than twice as many, where a batch within `_BATCHES` makes them.

Mini was better after 3,905 steps of 32 sequences than after 6,181 of 16, in the same time (results/learning-mini.md).
"""
_BATCHES = (16, 4096)
_WARMUP_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class Option:
    """What one preset would come to."""

    preset: str
    parameters: int
    batch_size: int
    steps: int
    tokens: int
    """That are read in the time."""
    epochs: float | None
    """Passes over the text; None where its size is not known here."""
    loss: float | None
    """Of the nearest measured curve at as many tokens; None where none was measured."""
    bound: float | None = None
    """The last loss of that curve, where more tokens are read than it knows."""
    source: str = ""
    """What the loss was measured with."""

    @property
    def reads_enough(self) -> bool:
        return self.tokens >= TOKENS_PER_PARAMETER * self.parameters


def seconds_of(text: str) -> float:
    """`2h`, `90m`, `1.5d` as seconds; `ConfigError` for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)", text.strip())
    if not found or not float(found[1]):
        raise ConfigError(f"BUDGET: found {text!r}, expected a time such as 30m, 2h or 1.5d; run make plan BUDGET=2h")
    return float(found[1]) * _SECONDS[found[2]]


def options(plan: Plan, seconds: float, speed: Callable[[EncoderConfig], float]) -> tuple[int, list[Option]]:
    """The vocabulary that the text carries, and what every preset, the smallest first, would come to in the time, at
    the FLOP/s that `speed` says it reaches."""
    text = plan.text_tokens()
    fixed = plan.configs["tokenizer"].vocab_file
    vocabulary = plan.encoder.vocab_size if fixed or not text else vocabulary_for(text)
    mask, curves, training = plan.configs["mask"].phases[0], read_curves(), plan.configs["pretrain"]
    found, architecture = [], training.model.architecture
    presets = ARCHITECTURES[architecture].presets
    for preset in track(presets, "sizes measured", len(presets)):
        config = ModelConfig(architecture=architecture, preset=preset).build(vocabulary)
        if not _can_learn(config, training, mask.sequence_length):
            continue
        work = sequence_flops(config, mask.sequence_length, masked(mask), training)
        sequences = seconds * speed(config) / work
        batch = min(max(_power_of_two(sequences / _STEPS), _BATCHES[0]), _BATCHES[1])
        steps = int(sequences / batch)
        tokens = steps * batch * mask.sequence_length
        option = Option(
            preset=preset,
            parameters=parameters(config).total,
            batch_size=batch,
            steps=steps,
            tokens=tokens,
            epochs=tokens / text if text else None,
            loss=None,
        )
        if curve := nearest_curve(curves, architecture, preset, vocabulary):
            measured = f"{curve.vocabulary:,} entries, {curve.source}"
            known, last = curve.points[-1]
            bound = last if tokens > known else None
            option = replace(option, loss=curve.loss(tokens), bound=bound, source=measured)
        found.append(option)
    if not found:
        raise ConfigError(
            f"params.yaml: pretrain.objective_options: found a teacher that fits no preset of {architecture}, expected "
            "one of their sizes to compare them; run make doctor for the time of the sizes that params.yaml gives"
        )
    return vocabulary, sorted(found, key=lambda option: option.parameters)


def _can_learn(config: EncoderConfig, training: PretrainConfig, longest: int) -> bool:
    """Whether the objective takes a model of this size: a teacher may have layers of another one."""
    row = OBJECTIVES[training.objective]
    try:
        row.check(config, parse(row.options, training.objective_options, "pretrain.objective_options"), longest)
    except ValueError:
        return False
    return True


def proposed(found: list[Option]) -> Option:
    """The largest preset that reads enough for its size, else the smallest."""
    return next((option for option in reversed(found) if option.reads_enough), found[0])


def _power_of_two(number: float) -> int:
    return int(2 ** max(round(number).bit_length() - 1, 0))


def describe(seconds: float, vocabulary: int, found: list[Option]) -> str:
    """The table, the proposal and its reasons, as a person reads them."""
    chosen = proposed(found)
    width = max(len(option.preset) for option in found)
    lines = [
        f"{'preset':{width}} {'parameters':>12} {'batch':>6} {'steps':>10} {'tokens':>16} {'passes':>7}  expected loss",
        *(_row(option, width) for option in found),
        "",
        f"Proposed: {chosen.preset}, for {duration(seconds / 60)} of pre-training on this machine:",
        "",
        f"  tokenizer.vocab_size      {vocabulary}",
        f"  pretrain.model.preset     {chosen.preset}",
        f"  pretrain.batch_size       {chosen.batch_size}",
        f"  pretrain.max_steps        {chosen.steps}",
        f"  pretrain.warmup_steps     {int(chosen.steps * _WARMUP_SHARE)}",
        "",
        f"It is the largest that reads {TOKENS_PER_PARAMETER} tokens for each of its parameters."
        if chosen.reads_enough
        else f"None reads {TOKENS_PER_PARAMETER} tokens for each of its parameters: a longer time would gain much.",
    ]
    if chosen.epochs is not None and chosen.epochs > _MANY_PASSES:
        lines.append(f"The text is read {chosen.epochs:.0f} times: more of it would gain more than more time.")
    return "\n".join(lines)


_MANY_PASSES = 40
"""Beyond some forty passes, what is read again adds little (Muennighoff et al. 2023: little after 4, none after 40)."""


def _row(option: Option, width: int) -> str:
    passes = "–" if option.epochs is None else f"{option.epochs:.1f}"
    if option.loss is not None:
        loss = f"{option.loss:.2f} ({option.source})"
    else:
        loss = "not measured" if option.bound is None else f"below {option.bound:.2f} ({option.source})"
    return (
        f"{option.preset:{width}} {option.parameters:>12,} {option.batch_size:>6,} {option.steps:>10,} "
        f"{option.tokens:>16,} {passes:>7}  {loss}"
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tasks.doctor.budget", description=__doc__.splitlines()[0])
    parser.add_argument("budget", help="of the pre-training: 30m, 2h, 1.5d")
    budget = parser.parse_args(arguments).budget

    def work() -> None:
        seconds, plan = seconds_of(budget), Plan.read(params.read())
        print(describe(seconds, *options(plan, seconds, plan.speed)))

    return exit_status(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
