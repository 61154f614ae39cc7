"""Signs that a pre-training was not a normal one: each with what was found, and what to do about it."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bertcore.evaluation.systems import MAJORITY
from bertcore.vocabulary.size import CHOSEN, too_little
from tasks.reporting.document import SIGNS, Paragraph, Table, count
from tasks.reporting.measurements import Measurements
from tasks.reporting.normal import Curve, alike, carried_instead, read_curves
from tasks.reporting.summary import Summary, has_generator
from tasks.reporting.text_tables import text_tokens

_BEFORE = 10
"""Points of the training's curve that a point is compared with."""
_SPIKE = 0.35
"""Nats above the median of those before: a step or two in which weights were lost. Noise of one point is a tenth."""
_LOST = 0.1
"""Nats of held-out loss."""
_PLATEAU = 0.8
"""Nats below the unigrams: BERT's own architecture stays within them for its first 10 million tokens."""
_DETECTED = 0.05
"""Of the errors that a discriminator makes which calls no token replaced."""
_BEHIND = 0.8
"""Of what an encoder of the same size had gained over the unigrams after as many tokens."""
_GAP = 0.5
"""Nats between the training's loss and that of held-out text."""
_END = 0.1
"""Of the training's curve: the part at its end that stands for its loss."""


@dataclass(frozen=True, kw_only=True)
class Sign:
    """Something that is not as it should be."""

    name: str
    found: str
    remedy: str


def signs(measurements: Measurements, summary: Summary, given_vocabulary: bool = False) -> list[Sign]:
    """Of the pre-training; empty where nothing is off. `given_vocabulary`: whether it is another one's, which the text
    need not carry."""
    found = [_spikes, _lost_again, _plateau, _undetected, _behind, _overfitting]
    found += [] if given_vocabulary else [_vocabulary]
    return [sign for each in found for sign in each(measurements, summary)]


def part(found: Sequence[Sign], compared: bool) -> Table | Paragraph:
    """What the report shows of them; `compared`: whether `expected` knows an encoder like this one."""
    if not found:
        beside = " and not behind an encoder of its size that was measured" if compared else ""
        return Paragraph(
            "Signs of trouble: none. The loss had no spikes and ended at its lowest, and is on no plateau"
            f"{beside}; there is no overfitting, and no vocabulary that is too large for the text."
        )
    return Table(SIGNS, [[sign.name, sign.found, sign.remedy] for sign in found], left=SIGNS)


def expected(measurements: Measurements, summary: Summary) -> list[tuple[Curve, float]]:
    """The curves of encoders of about this size, with their loss after as many tokens."""
    if has_generator(summary):  # the loss is that of a generator, which is smaller
        return []
    architecture = measurements.words("pretrain").get("architecture")
    entries = round(measurements.number("tokenizer", "", "vocab_size"))
    curves = alike(read_curves(), architecture, summary["pretrain"]["parameters"], entries)
    reached = [(curve, curve.loss(summary["pretrain"]["tokens"])) for curve in curves]
    return [(curve, loss) for curve, loss in reached if loss is not None]


def _spikes(measurements: Measurements, _: Summary) -> Iterator[Sign]:
    curve = measurements.curve("curves/pretrain_train", "train/mlm_loss")
    steps, losses = list(curve.index), list(curve)
    above = [
        losses[place] - statistics.median(losses[place - _BEFORE : place]) for place in range(_BEFORE, len(losses))
    ]
    # A spike is counted where it begins: what follows is the way back.
    begins = [place for place, rise in enumerate(above) if rise > _SPIKE and (not place or above[place - 1] <= _SPIKE)]
    if begins:
        highest = max(range(len(above)), key=above.__getitem__)
        times = "once" if len(begins) == 1 else f"{len(begins)} times"
        yield Sign(
            name="spikes",
            found=f"the training loss spiked {times}, the most by {above[highest]:.1f} before step "
            f"{count(steps[highest + _BEFORE])}",
            remedy="lower `pretrain.learning_rate`, or lengthen `pretrain.warmup_steps`",
        )


def _lost_again(measurements: Measurements, _: Summary) -> Iterator[Sign]:
    curve = measurements.curve("curves/pretrain_eval", "eval/mlm_loss")
    if len(curve) and (lost := curve.iloc[-1] - curve.min()) > _LOST:
        yield Sign(
            name="lost again",
            found=f"the held-out loss was lower by {lost:.2f} at step {list(curve.index)[int(curve.argmin())]:,}",
            remedy="lower `pretrain.learning_rate`, or end `pretrain.max_steps` there",
        )


def _plateau(_: Measurements, summary: Summary) -> Iterator[Sign]:
    pretrain = summary["pretrain"]
    if not has_generator(summary) and (gain := pretrain["unigram_loss"] - pretrain["mlm_loss"]) < _PLATEAU:
        yield Sign(
            name="plateau",
            found=f"after {pretrain['tokens'] / 1e6:,.2f} M tokens the loss is {abs(gain):.2f} "
            f"{'below' if gain >= 0 else 'above'} that of the unigrams: "
            "little more is known than which words are frequent",
            remedy="raise `pretrain.max_steps`; with `recipe: modern` the plateau ends within the first million tokens",
        )


def _undetected(_: Measurements, summary: Summary) -> Iterator[Sign]:
    accuracy, majority = (summary["pretrain"].get(f"replaced_tokens_{name}") for name in ("accuracy", MAJORITY))
    if accuracy is not None and majority is not None and accuracy - majority < _DETECTED * (1 - majority):
        yield Sign(
            name="plateau",
            found=f"{100 * accuracy:.1f} % of the tokens are rightly told to be replaced or not; to say that none is "
            f"would be right for {100 * majority:.1f} %",
            remedy="raise `pretrain.max_steps`; ELECTRA's discriminator learns when its generator has begun to",
        )


def _behind(measurements: Measurements, summary: Summary) -> Iterator[Sign]:
    gain = summary["pretrain"]["unigram_loss"] - summary["pretrain"]["mlm_loss"]
    for curve, loss in expected(measurements, summary):
        if gain < _BEHIND * (curve.unigram_loss - loss):
            yield Sign(
                name="behind",
                found=f"the loss is {gain:.2f} below that of the unigrams; that of an encoder of this size was "
                f"{curve.unigram_loss - loss:.2f} after as many tokens (benchmarks/results/{curve.source})",
                remedy="see whether its curve has spikes or stands still: try a third of `pretrain.learning_rate`, "
                "then three times as much",
            )


def _overfitting(measurements: Measurements, summary: Summary) -> Iterator[Sign]:
    curve = measurements.curve("curves/pretrain_train", "train/mlm_loss")
    # In a text that was not yet read once, nothing can have been learned by heart.
    if len(curve) and summary["pretrain"]["tokens"] > text_tokens(measurements):
        end = curve.iloc[-max(1, round(_END * len(curve))) :].mean()
        if (gap := summary["pretrain"]["mlm_loss"] - end) > _GAP:
            yield Sign(
                name="overfitting",
                found=f"on the training text the loss is {gap:.2f} below that of held-out text",
                remedy="give more text, or lower `pretrain.max_steps`",
            )


def _vocabulary(measurements: Measurements, _: Summary) -> Iterator[Sign]:
    masks = measurements.numbers("mask")
    counted, tokens = masks.get("train_count_of_the_rarest_but_5_percent"), masks.get("train_text_tokens")
    entries = round(measurements.number("tokenizer", "", "vocab_size"))
    if counted is None or tokens is None:
        return
    if measurements.has("tokenizer", "", CHOSEN):
        if too_little(tokens, entries):
            yield Sign(
                name="vocabulary",
                found=f"the text is too little for the {count(entries)} entries that `vocab_size: auto` has chosen",
                remedy="give more text",
            )
    elif (carried := carried_instead(counted, tokens, entries)) is not None:
        yield Sign(
            name="vocabulary",
            found=f"5 % of its {count(entries)} entries occur "
            f"{f'at most {count(counted)} times' if counted else 'never'} in the text: they are hardly learned",
            remedy=f"set `tokenizer.vocab_size` to about {count(carried)} or `auto`, or give more text",
        )
