"""What is learnt in an equal wall-clock budget: our training beside a Hugging Face loop, on the same text.

    python -m benchmarks.learning --text TEXT --vocab VOCAB.txt --minutes 20

Both sides train at the same time, each on its own half of the cores, from the same global batches in the same order,
and both learning rates fall to 0 at the end of the budget. Held-out losses are computed by the same code, from the
weights; their time is not counted.
"""

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks import results
from benchmarks.machine import describe
from benchmarks.steps import HuggingFaceTraining, Setting, our_training
from benchmarks.text import Text, mask_config, prepared, text_arguments
from bertcore.config import parse
from bertcore.model.architecture import EncoderModule
from bertcore.model.bert_names import from_huggingface
from bertcore.model.config import build_pretraining
from bertcore.objectives.pretraining import build_objective
from bertcore.recipes import with_recipe
from bertcore.training.config import PretrainConfig
from bertcore.training.step import as_batch

POINTS = 5
"""Evaluations in the budget."""
WARMUP = 0.06
HELDOUT = 1024
"""Sequences."""


@dataclass(frozen=True)
class Point:
    """Where a training stands."""

    seconds: float
    steps: int
    tokens: int
    mlm_loss: float


class Ours:
    """`bertcore`, with a recipe or with the same settings as the other side."""

    def __init__(self, setting: Setting, values: dict[str, Any]) -> None:
        config = parse(PretrainConfig, {**values, "batch_size": setting.batch_size, "max_steps": 10**6}, "benchmark")
        self.peak, self._training = config.learning_rate, our_training(setting, config)
        self.model = config.model

    def step(self, rate: float) -> int:
        self._training.rate = rate
        return self._training.train_step()

    def state(self) -> dict[str, torch.Tensor]:
        return self._training.model.state_dict()


class HuggingFace:
    """`transformers`' model in a plain loop."""

    def __init__(self, setting: Setting, peak: float) -> None:
        self.peak, self._training = peak, HuggingFaceTraining(setting)
        self.model = setting.model

    def step(self, rate: float) -> int:
        for group in self._training.optimizer.param_groups:
            group["lr"] = rate
        return self._training.train_step()

    def state(self) -> dict[str, torch.Tensor]:
        found = self._training.model.state_dict()
        return from_huggingface({name: value for name, value in found.items() if "predictions.decoder" not in name})


SIDES: dict[str, Callable[..., Any]] = {"bertcore": Ours, "Hugging Face": HuggingFace}


def train(
    name: str, setting: Setting, options: Any, seconds: float, cores: list[int], queue: Any = None
) -> list[Point]:
    """Train one side on `cores` for `seconds`; a point after every fifth of them."""
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(len(cores))
    side = SIDES[name](setting, options)
    judge = build_pretraining(side.model.build(Text(setting.text).vocabulary.size)).eval()
    points: list[Point] = []
    used, steps, tokens = 0.0, 0, 0
    while len(points) < POINTS:
        began = time.perf_counter()
        tokens += side.step(side.peak * _factor(used / seconds))
        used, steps = used + time.perf_counter() - began, steps + 1
        if used >= seconds * (len(points) + 1) / POINTS:
            judge.load_state_dict(side.state())
            points.append(Point(used, steps, tokens, heldout_loss(judge, setting)))
            print(
                f"{name}: {used:6.0f} s {steps:6,} steps {tokens:12,} tokens, loss {points[-1].mlm_loss:.3f}",
                flush=True,
            )
    if queue is not None:
        queue.put((name, points))
    return points


def _factor(progress: float) -> float:
    """Linear warm-up, then linear to 0 at the end of the budget."""
    return max(min(progress / WARMUP, (1 - progress) / (1 - WARMUP)), 0.0) + 1e-4


@torch.no_grad()
def heldout_loss(model: EncoderModule, setting: Setting) -> float:
    """Masked-LM loss in nats per predicted token of the first held-out sequences, in float32."""
    total = count = 0.0
    left = HELDOUT
    for source in Text(setting.text).sources(mask_config(setting.sequence_length), "heldout"):
        rows = torch.arange(min(len(source), left))
        left -= len(rows)
        for part in rows.split(64):
            sums = build_objective("mlm", model)(model, as_batch(source.take(part.numpy())))["mlm"]
            total, count = total + float(sums.loss_sum), count + sums.count
    return total / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    text_arguments(parser, ".benchmarks/learning")
    parser.add_argument("--preset", default="mini", help="size of the model (%(default)s)")
    parser.add_argument("--batch", type=int, default=32, help="sequences of a step (%(default)s)")
    parser.add_argument("--minutes", type=float, default=20, help="training time of either side (%(default)s)")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="peak of Hugging Face's (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="write the result into benchmarks/results/")
    arguments = parser.parse_args()

    text = prepared(arguments)
    setting = Setting(text.directory, arguments.preset, 128, arguments.batch, 0.1)
    cores = sorted(os.sched_getaffinity(0))
    half = max(len(cores) // 2, 1)
    values = {"recipe": "modern", "pretrain": {"model": {"preset": arguments.preset}}}
    ours = with_recipe(values)["pretrain"]
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    for name, options, share in (
        ("bertcore", ours, cores[:half]),
        ("Hugging Face", arguments.learning_rate, cores[-half:]),
    ):
        work = (name, setting, options, 60 * arguments.minutes, share, queue)
        context.Process(target=train, args=work, daemon=True).start()
    curves = dict(queue.get() for _ in range(2))
    facts = {
        **describe(),
        "work": f"{arguments.preset}, {text.vocabulary.size:,} entries, {arguments.batch} x 128 tokens",
        "budget": f"{arguments.minutes:g} minutes of training on {half} core(s) each, at the same time",
        "bertcore": "recipe modern",
        "Hugging Face": f"AdamW, peak {arguments.learning_rate:g}, dropout 0.1",
    }
    results.show(
        f"learning-{arguments.preset}",
        facts,
        [_row(*pair) for pair in zip(*curves.values(), strict=True)],
        arguments.keep,
    )


def _row(ours: Point, theirs: Point) -> dict[str, str]:
    return {
        "minutes": f"{ours.seconds / 60:.0f}",
        "bertcore: tokens": f"{ours.tokens:,}",
        "held-out MLM loss": f"{ours.mlm_loss:.3f}",
        "Hugging Face: tokens": f"{theirs.tokens:,}",
        "its held-out MLM loss": f"{theirs.mlm_loss:.3f}",
    }


if __name__ == "__main__":
    main()
