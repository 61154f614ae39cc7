"""One task's scores side by side, and what may be concluded from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt

from bertcore.errors import ArtifactError
from bertcore.evaluation.systems import MAJORITY, PRETRAINED_WEIGHTS, RANDOM_WEIGHTS, SYSTEMS
from tasks.paths import PRETRAINED
from tasks.reporting.measurements import Measurements

GOOD, MIXED, BAD = "good", "mixed", "bad"

CORRELATIONS = ("mcc", "pearson", "spearmanr")
"""Metrics between -1 and 1; all others are shares of right answers, or means of such shares."""

STANDARD_ERRORS = 2.0
"""A difference of fewer standard errors is taken for chance: about one in twenty would be as large without a cause."""

FEWEST_EXAMPLES = 30
"""From which on resampling them says how far chance reaches."""

_NAMES = {
    RANDOM_WEIGHTS: "random initialisation",
    PRETRAINED_WEIGHTS: "pre-trained",
    "overlap_sentence": "word overlap",
    "nsp": "NSP",
    "sop": "SOP",
    "f1": "F1",
    "macro_f1": "macro F1",
    "mcc": "MCC",
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The scores of one task on its dev examples by its headline metric, as shares (0..1) or coefficients (-1..1)."""

    task: str
    metric: str
    majority: float
    baseline_name: str | None
    """The best of the simple methods that learn from words; None where the task has none."""
    baseline: float | None
    random_initialisation: float | None
    """None where the task was not trained from random weights."""
    pretrained: float
    dev_examples: int
    against_random: "Interval | None"
    """Of the gain."""
    against_majority: "Interval"
    """Of the lead over the majority."""
    against_baseline: "Interval | None" = None
    """Of the lead over the best simple method; None where the task has none."""
    started_from: str | None = None
    """The directory that its fine-tuning began with; None = the encoder that was pre-trained here."""
    seeds: int = 1
    """Runs that either score is the median of."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """System -> its lowest and its highest score over the seeds."""

    @property
    def gain(self) -> float | None:
        """What pre-training adds to the same architecture from random weights with the same budget."""
        return None if self.random_initialisation is None else self.pretrained - self.random_initialisation

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and the highest score of the pre-trained encoder over the seeds."""
        return self.ranges.get(PRETRAINED_WEIGHTS, (self.pretrained, self.pretrained))

    @property
    def simple(self) -> float:
        """Of the best simple method, or of the majority where the task has none."""
        return self.majority if self.baseline is None else self.baseline

    @property
    def baseline_label(self) -> str:
        return readable(self.baseline_name) if self.baseline_name else ""

    @property
    def helped(self) -> bool:
        """Whether pre-training is better than random weights for certain, as far as dev examples and seeds tell. A few
        that all agree leave a bootstrap no doubt, and prove nothing."""
        found = self.against_random
        return found is not None and found.low > 0 and self.dev_examples >= FEWEST_EXAMPLES

    @property
    def leads(self) -> bool:
        """Whether it is better than the majority and the simple baseline for certain, in the same sense."""
        return self._remark() is None and self.dev_examples >= FEWEST_EXAMPLES

    def verdict(self) -> "Verdict":
        """Against random weights first; then against what needs no network, unless that is behind for certain."""
        if self.dev_examples < FEWEST_EXAMPLES:
            return Verdict("too few examples", MIXED)
        remark = self._remark()
        if self.against_random is None:
            return remark or Verdict.beside(self.baseline_label or readable(MAJORITY), better=True)
        if self.helped:
            effect = Verdict("helps", GOOD)
        else:
            effect = Verdict("hurts", BAD) if self.against_random.high < 0 else Verdict("unclear", MIXED)
        return effect.with_remark(remark) if remark else effect

    def _remark(self) -> "Verdict | None":
        if self.against_majority.low <= 0:
            return Verdict("no better than majority", BAD)
        lead = self.against_baseline
        if lead is not None and lead.low <= 0:
            return Verdict(f"baseline {'better' if lead.high < 0 else 'as good'}", MIXED)
        return None


@dataclass(frozen=True)
class Interval:
    """What the difference of two systems may be: of a paired bootstrap over the examples and the spread over seeds."""

    low: float
    high: float
    difference: float | None = None
    """What it is about; None where that is not shown."""


@dataclass(frozen=True)
class Verdict:
    """A conclusion in a few words, and its tone: `GOOD`, `MIXED` or `BAD` news."""

    text: str
    tone: str

    @classmethod
    def beside(cls, baseline: str, better: bool, praise: str | None = None) -> "Verdict":
        """On a score of the pre-training itself; `praise` in place of what is said where it is better."""
        return cls(praise or f"beats {baseline}", GOOD) if better else cls(f"no better than {baseline}", BAD)

    def with_remark(self, remark: "Verdict") -> "Verdict":
        """Both in one line, in the worse tone."""
        worse = max(self.tone, remark.tone, key=(GOOD, MIXED, BAD).index)
        return Verdict(f"{self.text}; {remark.text}", worse)


def read_comparison(measurements: Measurements, task: str) -> Comparison:
    """The scores of `task`; `ArtifactError` where one is missing or no share."""
    source = f"finetune/{task}"
    metric = measurements.word(source, "metrics", "0")
    headline = {system: values[metric] for system, values in systems(measurements, task).items()}
    for system in (MAJORITY, PRETRAINED_WEIGHTS):
        headline[system] = measurements.number(source, system, metric)
    for system, value in headline.items():
        if not -1.0 <= value <= 1.0:
            raise ArtifactError(
                f"metrics/{source}.json: {system}/{metric}: found {value}, expected a share or a coefficient from "
                f"-1 to 1; run `dvc repro --force finetune@{task}`"
            )
    simple = {system: value for system, value in headline.items() if system not in SYSTEMS}
    best = max(simple, key=lambda system: simple[system], default=None)
    started = measurements.words(source, "protocol").get("started_from", str(PRETRAINED))
    return Comparison(
        task=task,
        metric=metric,
        majority=headline[MAJORITY],
        baseline_name=best,
        baseline=None if best is None else simple[best],
        random_initialisation=headline.get(RANDOM_WEIGHTS),
        pretrained=headline[PRETRAINED_WEIGHTS],
        dev_examples=round(measurements.number(source, "", "dev_examples")),
        against_random=_interval(measurements, source, "random") if RANDOM_WEIGHTS in headline else None,
        against_majority=_interval(measurements, source, MAJORITY),
        against_baseline=None if best is None else _interval(measurements, source, "baseline"),
        started_from=None if started == str(PRETRAINED) else started,
        seeds=round(measurements.numbers(source, "protocol").get("seeds", 1)),
        ranges={
            system: (found["min"], found["max"])
            for system in (RANDOM_WEIGHTS, PRETRAINED_WEIGHTS)
            if (found := measurements.numbers(source, f"spread/{system}/dev/{metric}"))
        },
    )


def _interval(measurements: Measurements, source: str, pair: str) -> Interval:
    """As the stage measured it."""
    low, high = (measurements.number(source, f"comparison/{pair}", name) for name in ("low", "high"))
    return Interval(low, high, measurements.numbers(source, f"comparison/{pair}").get("difference"))


def systems(measurements: Measurements, task: str) -> Mapping[str, dict[str, float]]:
    """Everything that was scored on the dev examples of `task`: name -> metric -> value."""
    source = f"finetune/{task}"
    metric = measurements.word(source, "metrics", "0")
    groups = {name: measurements.numbers(source, name) for name in measurements.groups(source) if "/" not in name}
    return {name: values for name, values in groups.items() if metric in values}


def readable(name: str) -> str:
    """A system or a metric as it is shown: `bag_of_words` as "bag of words"."""
    return _NAMES.get(name, name).replace("_", " ")


def margin(metric: str, first: float, second: float, count: int) -> float:
    """`STANDARD_ERRORS` of the difference of two scores over `count` examples.

    The scores are taken as independent; as both are of the same examples, the true error is commonly smaller.
    """
    return sqrt(error(metric, first, count) ** 2 + error(metric, second, count) ** 2)


def error(metric: str, score: float, count: int) -> float:
    """`STANDARD_ERRORS` of one score over `count` examples.

    Shares with one success and one failure added (Agresti and Caffo 2000), so that 0 and 1 have an error too;
    means of shares, such as F1, vary at most as much. Correlations: (1 - r^2) / sqrt(n - 1).
    """
    if metric in CORRELATIONS:
        return STANDARD_ERRORS * (1 - score**2) / sqrt(max(count - 1, 1))
    share = (min(max(score, 0.0), 1.0) * count + 1) / (count + 2)
    return STANDARD_ERRORS * sqrt(share * (1 - share) / (count + 2))
