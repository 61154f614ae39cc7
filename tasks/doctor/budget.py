"""`make plan BUDGET=2h`: what this machine can pre-train in a given time, size by size, and what is proposed of it.

The time is that of the pre-training alone. The sizes are the presets of the architecture in params.yaml, with what else
`pretrain.model` says; the speed of each is measured here and now, by a few of its steps, up to the first that is too
large for the time; expected losses come from measured curves only.
"""

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import zip_longest

from bertcore.config import parse
from bertcore.corpus.sources import look_for
from bertcore.errors import ConfigError
from bertcore.model.config import ARCHITECTURES, ModelConfig
from bertcore.model.encoder_config import EncoderConfig
from bertcore.objectives.pretraining import OBJECTIVES
from bertcore.progress import track
from bertcore.training.config import PretrainConfig
from bertcore.training.machine import process_count
from bertcore.vocabulary.size import vocabulary_for
from tasks import params
from tasks.doctor.estimate import parameters
from tasks.doctor.machine import check_memory
from tasks.doctor.plan import Plan
from tasks.doctor.speed import Speed
from tasks.durations import duration, seconds_of
from tasks.reporting.normal import Curve, nearest_curve, read_curves
from tasks.status import exit_status

TOKENS_PER_PARAMETER = 20
"""Fewer than these (Hoffmann et al. 2022) leave a smaller model ahead; the rule where no curve was measured."""

_STEPS = 3500
"""So many optimizer steps at least, and less than twice as many, where a batch within `_BATCHES` makes them.

Mini was better after 3,905 steps of 32 sequences than after 6,181 of 16, in the same time (results/learning-mini.md).
"""
_BATCHES = (16, 4096)
_FEWEST = 100
"""Optimizer steps: a size that makes fewer of the smallest batch is too large for the time."""
_MANY_PASSES = 40
"""Beyond some forty passes, what is read again adds little (Muennighoff et al. 2023: little after 4, none after 40)."""
_WARMUP_SHARE = 0.1
_RATE_MEASURED = ("tiny", "mini")


@dataclass(frozen=True)
class Size:
    """One preset, with what else `pretrain.model` says."""

    preset: str
    parameters: int
    config: EncoderConfig


@dataclass(frozen=True, kw_only=True)
class Reached:
    """What a size comes to in the time."""

    size: Size
    batch_size: int
    steps: int
    tokens: int
    """That are read in the time."""
    epochs: float | None
    """Passes over the text; None where its size is not known here."""
    seconds: float
    """Of its steps: less than the time where the text was read `_MANY_PASSES` times before."""
    curve: Curve | None
    """The nearest that was measured of such a model."""

    @property
    def reads_enough(self) -> bool:
        return self.tokens >= TOKENS_PER_PARAMETER * self.size.parameters

    @property
    def exhausts_text(self) -> bool:
        return self.epochs is not None and self.epochs > _MANY_PASSES - 1


def reachable(
    plan: Plan, seconds: float, speed: Callable[[Plan], Speed] = Plan.speed
) -> tuple[int, list[Size], list[Reached]]:
    """The vocabulary that the text carries, every size, the smallest first, and what the first of them come to in the
    time, as fast as `speed` says it is in batches as large as fit. Beyond the first that is too large for the time,
    none is asked for.

    `ConfigError` where none can be trained.
    """
    text = plan.text_tokens()
    tokenizer = plan.configs["tokenizer"]
    known = tokenizer.vocab_file or tokenizer.size_is_chosen or not text
    vocabulary = plan.encoder.vocab_size if known else vocabulary_for(text)
    sizes, found = _sizes(plan, vocabulary), list[Reached]()
    for number, size in enumerate(track(sizes, "sizes measured", len(sizes))):
        if number > len(found):
            continue
        most = max(_fitting(plan, size.config, _BATCHES[1]), 1)
        if reached := _in_time(size, plan, seconds, speed(plan.sized(size.config, most))):
            found.append(reached)
        elif not found:
            raise ConfigError(
                f"BUDGET: found {seconds:g} s, expected time for {_FEWEST} steps of {size.preset}, the smallest size "
                "that can be trained; give more"
            )
    return vocabulary, sizes, found


def _sizes(plan: Plan, vocabulary: int) -> list[Size]:
    """Every preset that the objective can teach, the smallest first."""
    training, length = plan.configs["pretrain"], plan.configs["mask"].phases[0].sequence_length
    architecture = training.model.architecture
    found = []
    for preset in ARCHITECTURES[architecture].presets:
        try:
            config = replace(training.model, preset=preset).build(vocabulary)
        except ValueError:
            continue
        if _can_learn(config, training, length):
            found.append(Size(preset, parameters(config).total, config))
    if not found:
        raise ConfigError(
            f"params.yaml: pretrain.objective_options: found a teacher that fits no preset of {architecture}, expected "
            "one of their sizes to compare them; run make doctor for the time of the sizes that params.yaml gives"
        )
    return sorted(found, key=lambda size: size.parameters)


def _in_time(size: Size, plan: Plan, seconds: float, speed: Speed) -> Reached | None:
    """What the time pays for and the text is worth; None where the time is too little."""
    (flops, length), text = plan.mean_sequence(size.config), plan.text_tokens()
    of_one, worth = flops / speed.flops, _MANY_PASSES * text / length if text else math.inf
    sequences = min(max(seconds - _STEPS * speed.update, 0.0) / of_one, worth)
    batch = min(max(_power_of_two(sequences / _STEPS), _BATCHES[0]), _BATCHES[1])
    of_step = batch * of_one + speed.update
    in_time = int(seconds / of_step)
    if in_time < _FEWEST:
        return None
    steps = int(min(in_time, max(worth / batch, _FEWEST)))
    tokens = round(steps * batch * length)
    return Reached(
        size=size,
        batch_size=batch,
        steps=steps,
        tokens=tokens,
        epochs=tokens / text if text else None,
        seconds=steps * of_step,
        curve=_curve(plan.configs["pretrain"].model.architecture, size),
    )


def _curve(architecture: str, size: Size) -> Curve | None:
    """None where none was measured: all are of presets as they are."""
    vocabulary = size.config.vocab_size
    plain = ModelConfig(architecture=architecture, preset=size.preset).build(vocabulary)
    if parameters(plain).total != size.parameters:
        return None
    return nearest_curve(read_curves(), architecture, size.preset, vocabulary)


def _can_learn(config: EncoderConfig, training: PretrainConfig, longest: int) -> bool:
    """Whether the objective takes a model of this size: a teacher may have layers of another one."""
    row = OBJECTIVES[training.objective]
    try:
        row.check(config, parse(row.options, training.objective_options, "pretrain.objective_options"), longest)
    except ValueError:
        return False
    return True


def proposed(found: list[Reached]) -> Reached:
    """The largest that reads enough for its size, else the smallest."""
    return next((each for each in reversed(found) if each.reads_enough), found[0])


def _power_of_two(number: float) -> int:
    return int(2 ** max(round(number).bit_length() - 1, 0))


def _fitting(plan: Plan, encoder: EncoderConfig, batch: int) -> int:
    """How many sequences, `batch` or a half, a quarter … of it, fit into the memory that is free now; 0 = not one."""
    while batch and check_memory(plan.sized(encoder, batch)).level != "ok":
        batch //= 2
    return batch


def in_parts(plan: Plan, chosen: Reached) -> str | None:
    """What must be set so that the training fits into the memory that is free now; None for nothing."""
    encoder = chosen.size.config
    fitting = _fitting(plan, encoder, chosen.batch_size)
    if not fitting:
        return f"Even one sequence at once is too many: {check_memory(plan.sized(encoder, 1)).text}."
    if fitting == chosen.batch_size:
        return None
    return (
        f"Set BERTCORE_MICRO_BATCH={-(-fitting // process_count())}: {chosen.batch_size:,} sequences at once need more "
        "memory than is free now."
    )


def of_rate(plan: Plan, preset: str) -> str | None:
    """What is known of the learning rate at this size; None where there is nothing to say."""
    rate = plan.configs["pretrain"].learning_rate
    if plan.configs["pretrain"].optimizer != "muon" or preset in _RATE_MEASURED:
        return None
    return (
        f"Muon's rate of {rate:g} was measured up to {_RATE_MEASURED[-1]}, and larger sizes want a lower one: compare "
        "pretrain.learning_rate at a half and a quarter of it for some hundred steps first."
    )


def _entries(plan: Plan, vocabulary: int) -> int | str | None:
    """What is proposed as `tokenizer.vocab_size`; None beside a vocabulary that is given."""
    tokenizer = plan.configs["tokenizer"]
    if tokenizer.vocab_file:
        return None
    return f"auto (reckoned with {vocabulary:,} here)" if tokenizer.size_is_chosen else vocabulary


def describe(budget: str, vocabulary: int | str | None, sizes: list[Size], found: list[Reached]) -> str:
    """The table, the proposal and its reasons, as a person reads them; `vocabulary` where it is not given."""
    chosen = proposed(found)
    width = max(len(size.preset) for size in sizes)
    lines = [
        f"{'preset':{width}} {'parameters':>12} {'batch':>6} {'steps':>10} {'tokens':>16} {'passes':>7}  expected loss",
        *(_row(size, reached, width) for size, reached in zip_longest(sizes, found)),
        "",
        f"Proposed: {chosen.size.preset}, for {budget} of pre-training on this machine:",
        "",
        *([f"  tokenizer.vocab_size      {vocabulary}"] if vocabulary else []),
        f"  pretrain.model.preset     {chosen.size.preset}",
        f"  pretrain.batch_size       {chosen.batch_size}",
        f"  pretrain.max_steps        {chosen.steps}",
        f"  pretrain.warmup_steps     {int(chosen.steps * _WARMUP_SHARE)}",
        "",
        f"It is the largest that reads {TOKENS_PER_PARAMETER} tokens for each of its parameters."
        if chosen.reads_enough
        else f"None reads {TOKENS_PER_PARAMETER} tokens for each of its parameters: "
        + ("more text" if chosen.exhausts_text else "a longer time")
        + " would gain much.",
    ]
    if chosen.exhausts_text:
        lines.append(
            f"It reads the text {chosen.epochs:.0f} times, and beyond {_MANY_PASSES} reading it again adds little: "
            f"{duration(chosen.seconds / 60)} are enough, and more text would gain more than more time."
        )
    return "\n".join(lines)


def _row(size: Size, reached: Reached | None, width: int) -> str:
    of_size = f"{size.preset:{width}} {size.parameters:>12,}"
    if reached is None:
        return f"{of_size} {'':42}  too large for the time"
    passes = "–" if reached.epochs is None else f"{reached.epochs:.1f}"
    work = f"{reached.batch_size:>6,} {reached.steps:>10,} {reached.tokens:>16,} {passes:>7}"
    return f"{of_size} {work}  {_expected(reached)}"


def _expected(reached: Reached) -> str:
    """The loss of the nearest curve at as many tokens; its last one, where more are read than it knows."""
    if (curve := reached.curve) is None:
        return "not measured"
    measured, (known, last) = f"({curve.vocabulary:,} entries, {curve.source})", curve.points[-1]
    if (loss := curve.loss(reached.tokens)) is not None:
        return f"{loss:.2f} {measured}"
    return f"below {last:.2f} {measured}" if reached.tokens > known else "not measured"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tasks.doctor.budget", description=__doc__.splitlines()[0])
    parser.add_argument("budget", help="of the pre-training: 30m, 2h, 1.5d")
    budget = parser.parse_args(arguments).budget

    def work() -> None:
        try:
            seconds = seconds_of(budget)
        except ValueError as error:
            raise ConfigError(f"BUDGET: {error}; run make plan BUDGET=2h") from None
        plan = Plan.read(params.read())
        if (published := plan.configs["pretrain"].init_from) is not None:
            raise ConfigError(
                f"params.yaml: pretrain.init_from: found {published}, whose size it has, expected null to compare "
                "sizes; run make doctor for the time that it takes"
            )
        look_for(plan.configs["corpus"].sources)  # their size need not be known here, but a path leads somewhere
        vocabulary, sizes, found = reachable(plan, seconds)
        print(describe(budget, _entries(plan, vocabulary), sizes, found))
        chosen = proposed(found)
        for remark in (in_parts(plan, chosen), of_rate(plan, chosen.size.preset)):
            if remark:
                print(remark)

    return exit_status(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
