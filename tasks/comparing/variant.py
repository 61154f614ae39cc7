"""What came out of one variant, read from the metrics of its tree."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertcore.files import checksum
from bertcore.tokens.kind import TOKENIZER_FILE
from tasks.paths import TOKENIZER
from tasks.reporting import minimal_pairs
from tasks.reporting.comparison import STANDARD_ERRORS, Comparison, read_comparison
from tasks.reporting.measurements import Measurements


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Of a variant on this machine, measured before any is trained."""

    params: str
    """Digest of the values that it was measured with."""
    seconds_per_step: float
    inference: Mapping[str, float]
    """What `tasks.comparing.inference` prints."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """The numbers of one variant."""

    name: str
    parameters: int
    """Of the encoder, without heads."""
    steps: int
    tokens: int
    """Read in pre-training."""
    seconds: float
    """Of training alone, as this training had them."""
    training_flops: float
    """Of the pre-training with its evaluation, all sequences counted as full; a teacher's forward passes are in it."""
    mlm_loss: float | None
    """On held-out sequences that are the same for all variants; None where the masked tokens are not what the model
    predicts."""
    minimal_pairs: float | None = None
    """Share of them; None where none were scored."""
    scores: Mapping[str, Comparison]
    """By task, beside what needs no network."""
    inference_tokens_per_second: float
    peak_bytes: float
    vocabulary: str = ""
    """Checksum of its tokenizer: losses are of the same pieces where it is the same."""
    pairs_baseline: float | None = None
    """Share of the minimal pairs that the best baseline has."""
    pairs_error: float = 0.0
    """Standard error of the difference of both shares, pair by pair."""
    compared_tasks: Sequence[str] | None = None
    """Those that all variants have, over which means are taken; None = its own."""
    teacher: str | None = None
    """The variant that it has learned from, whose own training is not counted here."""

    @property
    def knows_grammar(self) -> bool:
        """Whether it has more of the minimal pairs than the best baseline, by more than two standard errors."""
        if self.minimal_pairs is None or self.pairs_baseline is None:
            return self.minimal_pairs is not None
        return self.minimal_pairs - self.pairs_baseline > STANDARD_ERRORS * self.pairs_error

    @property
    def mean_score(self) -> float | None:
        """Over the compared tasks, of their medians; None without any."""
        tasks = self.scores if self.compared_tasks is None else self.compared_tasks
        return statistics.mean(self.scores[task].pretrained for task in tasks) if tasks else None

    @property
    def led(self) -> int:
        """Tasks in which it is better than what needs no network, by more than chance."""
        return sum(score.leads for score in self.scores.values())

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds

    def metrics(self) -> dict[str, float]:
        """For MLflow, whose page that compares runs begins with the first one."""
        found: dict[str, float | None] = {
            "mean_score": self.mean_score,
            "tasks_led": self.led if self.scores else None,
            "parameters": self.parameters,
            "steps": self.steps,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "training_flops": self.training_flops,
            "tokens_per_second": self.tokens_per_second,
            "eval/mlm_loss": self.mlm_loss,
            "minimal_pairs": self.minimal_pairs,
            "inference_tokens_per_second": self.inference_tokens_per_second,
            "peak_bytes": self.peak_bytes,
        }
        for task, score in self.scores.items():
            found[f"{task}/{score.metric}"] = score.pretrained
            found[f"{task}/{score.metric}_low"], found[f"{task}/{score.metric}_high"] = score.spread
            found[f"{task}/simple_baseline"] = score.simple
        return {name: float(value) for name, value in found.items() if value is not None}


def read_variant(
    name: str,
    tree: Path,
    tasks: Iterable[str],
    speed: Speed,
    training_flops: float,
    *,
    mlm_loss: float | None,
    compared_tasks: Sequence[str] | None = None,
    teacher: str | None = None,
) -> Variant:
    """From the metrics below `tree`, whose pipeline has run with `tasks`, and what was measured besides."""
    inference, names = speed.inference, sorted(tasks)
    measurements = Measurements.read(tree / "metrics", names)
    trained = measurements.numbers("pretrain")
    pairs: dict[str, float] = {}
    if measurements.has(minimal_pairs.SOURCE):
        baseline, _, error = minimal_pairs.against_strongest(measurements)
        shares = minimal_pairs.accuracies(measurements)
        pairs = {"minimal_pairs": shares["model"], "pairs_baseline": shares[baseline], "pairs_error": error}
    return Variant(
        name=name,
        parameters=round(inference["parameters"]),
        steps=round(trained["steps"]),
        tokens=round(trained["tokens"]),
        seconds=trained["tokens"] / measurements.number("timing/pretrain", "", "tokens_per_second"),
        training_flops=training_flops,
        mlm_loss=mlm_loss,
        scores={task: read_comparison(measurements, task) for task in names},
        inference_tokens_per_second=inference["tokens_per_second"],
        peak_bytes=inference["peak_bytes"],
        vocabulary=checksum(tree / TOKENIZER / TOKENIZER_FILE),
        compared_tasks=compared_tasks,
        teacher=teacher,
        **pairs,
    )
