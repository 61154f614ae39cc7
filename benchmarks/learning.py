"""What is learnt in an equal wall-clock budget: our recipes beside a plain Hugging Face loop, on the same text.

    python -m benchmarks.learning --text TEXT --vocab VOCAB.txt --minutes 20

All sides train on the same full sentences; each has the masks, the model and the optimizer of its recipe, and
Hugging Face's loop those of its example script: 15 % masks, AdamW, and a model of `transformers` with the shape and the
initial weights of a recipe's, whose head reads the masked tokens alone, as ours does (the script's reads all of them).
Two sides train at a time, each on its own half of the cores; with `--whole` one after
the other, each on all cores. The seconds of a step are measured first, on a quiet machine (`--measure` does no more),
and kept; then each side makes the steps that its budget holds, however long they take beside other work. Learning rates
and shares of masked tokens reach their ends at the last step. Held-out losses are computed by the same code, from the
weights, at 15 % masks; their time is not counted.
"""

import argparse
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
import transformers

from benchmarks import plots, results
from benchmarks.machine import describe
from benchmarks.options import make_parser
from benchmarks.steps import PlainTraining, Setting, masked_token_loss, our_training
from benchmarks.text import SEED, Text, prepared, text_arguments
from bertcore.config import parse
from bertcore.files import write_json
from bertcore.instances.config import MaskConfig
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.encoder import EncoderModule
from bertcore.model.huggingface import load_pretrained, save_pretrained
from bertcore.objectives.cross_entropy import cross_entropy
from bertcore.precision import device
from bertcore.recipes.recipe import with_recipe
from bertcore.training.config import PretrainConfig
from bertcore.training.step import as_batch

WARMUP = 0.06
MEASURED = 40
"""Steps by which a speed is measured, the first quarter of them left out."""
HELDOUT = 1024
"""Sequences."""
SENTENCES = MaskConfig(sequence_length=128, packing="full_sentences", duplicates=0, max_predictions_per_seq=None)
"""What is trained on by Hugging Face's loop, and what all sides are judged on."""
POINTS = 10
"""Evaluations of each side."""
PEER = "Hugging Face"


@dataclass(frozen=True)
class Point:
    """Where a training stands."""

    seconds: float
    steps: int
    tokens: int
    loss: float
    accuracy: float


class Side(Protocol):
    """A training that is told how far it is."""

    model: ModelConfig

    def step(self, progress: float) -> int:
        """One step, after that share of all (0 to 1); the real tokens in it."""

    def copy_to(self, judge: EncoderModule) -> None:
        """Give the weights to a `judge` of the same sizes."""


def _values(setting: Setting, recipe: str) -> dict[str, Any]:
    return with_recipe({"recipe": recipe, "pretrain": {"model": {"preset": setting.preset}}})


def _config(setting: Setting, values: dict[str, Any]) -> PretrainConfig:
    own = {**values["pretrain"], "objective": "mlm", "batch_size": setting.batch_size, "max_steps": 10**6}
    own.pop("second_phase", None)
    return parse(PretrainConfig, own, "benchmark")


class Ours:
    """`bertcore` with a recipe."""

    def __init__(self, setting: Setting, recipe: str) -> None:
        values = _values(setting, recipe)
        config = _config(setting, values)
        mask = replace(SENTENCES, masked_lm_prob_start=values["mask"].get("masked_lm_prob_start"))
        self._progress = 0.0
        self._training = our_training(setting, config, mask, lambda _: mask.rule_at(self._progress))
        self._peak, self.model = config.learning_rate, config.model

    def step(self, progress: float) -> int:
        self._progress, self._training.rate = progress, self._peak * _factor(progress)
        return self._training.train_step()

    def copy_to(self, judge: EncoderModule) -> None:
        judge.load_state_dict(self._training.model.state_dict())


class HuggingFace:
    """`transformers`' class of a recipe's model in a plain loop."""

    def __init__(self, setting: Setting, recipe: str, peak: float) -> None:
        text = Text(setting.text)
        self._peak, self.model = peak, _config(setting, _values(setting, recipe)).model
        torch.manual_seed(SEED)
        with tempfile.TemporaryDirectory() as directory:
            save_pretrained(build_pretraining(self.model.build(text.vocabulary.size)), Path(directory, "model"))
            model = transformers.AutoModelForMaskedLM.from_pretrained(
                Path(directory, "model"), attn_implementation="sdpa"
            )
        self._model = model.to(device()).train()
        loader = text.loader(SENTENCES, setting.batch_size)
        self._training = PlainTraining(loader, partial(masked_token_loss, self._model), self._model.parameters())

    def step(self, progress: float) -> int:
        for group in self._training.optimizer.param_groups:
            group["lr"] = self._peak * _factor(progress)
        return self._training.train_step()

    def copy_to(self, judge: EncoderModule) -> None:
        with tempfile.TemporaryDirectory() as directory:
            self._model.save_pretrained(directory)
            load_pretrained(judge, Path(directory))


def _factor(progress: float) -> float:
    """Linear warm-up, then linear to 0 at the end of the budget."""
    return max(min(progress / WARMUP, (1 - progress) / (1 - WARMUP)), 0.0) + 1e-4


def measure(make: Callable[[], Side], cores: Sequence[int]) -> float:
    """The seconds of a step on `cores`, the median of many."""
    _keep_to(cores)
    side, seconds = make(), []
    for _ in range(MEASURED):
        began = time.perf_counter()
        side.step(0.1 * WARMUP)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[MEASURED // 4 :])


def train(
    name: str, make: Callable[[], Side], setting: Setting, steps: int, step_seconds: float, cores: Sequence[int]
) -> list[Point]:
    """Train one side for `steps`; its curve."""
    _keep_to(cores)
    side, tokens, curve = make(), 0, list[Point]()
    judge = build_pretraining(side.model.build(Text(setting.text).vocabulary.size)).eval()
    for step in range(steps):
        tokens += side.step(step / steps)
        if (step + 1) * POINTS // steps > len(curve):
            side.copy_to(judge)
            curve.append(Point((step + 1) * step_seconds, step + 1, tokens, *heldout(judge, setting)))
            print(f"{name}: {step + 1:6,} steps of {steps:,}, {tokens:12,} tokens, {curve[-1]}", flush=True)
    return curve


def _keep_to(cores: Sequence[int]) -> None:
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(len(cores))


@torch.no_grad()
def heldout(model: EncoderModule, setting: Setting) -> tuple[float, float]:
    """Nats per predicted token, and the share of right ones, of the first held-out sequences, in float32."""
    total = right = count = 0.0
    left = HELDOUT
    for source in Text(setting.text).sources(SENTENCES, "heldout"):
        rows = torch.arange(min(len(source), left))
        left -= len(rows)
        for part in rows.split(64):
            batch = as_batch(source.take(part.numpy()))
            logits = model(batch.input_ids, batch.token_type_ids, batch.layout, batch.masked_positions)[0]
            loss, correct = cross_entropy(logits, batch.masked_labels)
            total, right, count = total + float(loss), right + int(correct), count + batch.num_predictions
    return total / count, right / count


def main() -> None:
    parser = make_parser(__doc__, "--preset", "--batch")
    text_arguments(parser, ".benchmarks/learning")
    parser.add_argument("--minutes", type=float, default=20, help="training time of each side (%(default)s)")
    parser.add_argument("--recipe", nargs="+", default=["modern"], help="of ours (modern)")
    parser.add_argument("--peer", nargs="+", default=["bert-2018"], help="recipes of the peer's models (bert-2018)")
    parser.add_argument("--learning-rate", type=float, nargs="+", default=[1e-3], help="peaks of the peer's (1e-3)")
    parser.add_argument("--whole", action="store_true", help="one after the other, each on all cores")
    parser.add_argument("--measure", action="store_true", help="measure the seconds of a step, and end")
    arguments = parser.parse_args()

    text = prepared(arguments)
    setting = Setting(text.directory, arguments.preset, 128, arguments.batch, 0.1)
    sides: dict[str, Callable[[], Side]] = {recipe: partial(Ours, setting, recipe) for recipe in arguments.recipe}
    timed_as = {recipe: recipe for recipe in arguments.recipe}
    for recipe, peak in itertools.product(arguments.peer, arguments.learning_rate):
        name = f"{PEER}, {recipe} at {peak:g}"
        sides[name], timed_as[name] = partial(HuggingFace, setting, recipe, peak), f"{PEER}, {recipe}"
    cores = sorted(os.sched_getaffinity(0))
    half = max(len(cores) // 2, 1)
    shares = [cores] if arguments.whole else [cores[:half], cores[-half:]]
    known = text.directory / f"speed-{arguments.preset}-{arguments.batch}-{len(shares[0])}.json"
    speeds = json.loads(known.read_text(encoding="utf-8")) if known.is_file() else {}
    if missing := {timed_as[name]: side for name, side in sides.items() if timed_as[name] not in speeds}:
        speeds |= _in_turns({name: partial(measure, side) for name, side in missing.items()}, shares)
        write_json(known, speeds)
    print(f"seconds of a step: {speeds}", flush=True)
    if arguments.measure:
        return
    work = {
        name: partial(train, name, make, setting, int(60 * arguments.minutes / seconds), seconds)
        for name, make in sides.items()
        for seconds in [speeds[timed_as[name]]]
    }
    _show(_in_turns(work, shares), arguments, text, len(shares[0]))


Found = TypeVar("Found")


def _in_turns(
    work: Mapping[str, Callable[[Sequence[int]], Found]], shares: Sequence[Sequence[int]]
) -> dict[str, Found]:
    """What is found for each name, each in a process of its own with one of `shares` of the cores, as many at a time
    as there are."""
    found: dict[str, Found] = {}
    names = list(work)
    for first in range(0, len(names), len(shares)):
        with ExitStack() as stack:
            running = {}
            for name, share in zip(names[first : first + len(shares)], shares, strict=False):
                pool = stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
                running[name] = pool.submit(work[name], share)
            found |= {name: each.result() for name, each in running.items()}
    return found


def _show(curves: dict[str, list[Point]], arguments: argparse.Namespace, text: Text, cores: int) -> None:
    turns = "one after the other" if arguments.whole else "two at a time"
    facts = {
        **describe(),
        "work": f"{arguments.preset}, {text.vocabulary.size:,} entries, {arguments.batch} x 128 tokens",
        "budget": f"{arguments.minutes:g} minutes of training on {cores} core(s) each, {turns}",
        PEER: "the classes of transformers for masked tokens, of which alone the head computes logits, with the "
        "recipe's dropout, 15 % masks and AdamW",
    }
    rows = [
        {
            "side": name,
            "minutes": f"{point.seconds / 60:.0f}",
            "tokens": f"{point.tokens:,}",
            "held-out MLM loss": f"{point.loss:.3f}",
            "accuracy": f"{100 * point.accuracy:.1f}",
        }
        for name, curve in curves.items()
        for point in curve
    ]
    peers = "" if arguments.peer == ["bert-2018"] else "-" + "-".join(arguments.peer)
    title = f"learning-{arguments.preset}{peers}"
    results.show(title, facts, rows, arguments.keep)
    if arguments.keep:
        kept = {name: [asdict(point) for point in curve] for name, curve in curves.items()}
        (results.DIRECTORY / f"{title}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        lines = {
            name: ([point.seconds / 60 for point in curve], [point.loss for point in curve])
            for name, curve in curves.items()
        }
        plots.heldout_losses(lines, "minutes of training", results.DIRECTORY / f"{title}.png")


if __name__ == "__main__":
    main()
