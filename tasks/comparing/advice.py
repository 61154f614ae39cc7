"""What a comparison concludes, in sentences: which variant to take for what."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tasks.comparing.baselines import simple_mean
from tasks.comparing.variant import Variant
from tasks.reporting.comparison import STANDARD_ERRORS
from tasks.reporting.document import count, percent


@dataclass(frozen=True, kw_only=True)
class _Need:
    """What somebody takes a variant for."""

    what: str
    candidates: Sequence[Variant]
    """Which come into question."""
    value: Callable[[Variant], float]
    """The larger, the better."""
    words: Callable[[Variant], str]
    """For that value."""
    as_good: Callable[[Variant, Variant], bool] = lambda best, other: False
    """Whether the second is, but for chance, as good as the first, where it is not so to the last digit."""

    def said(self) -> str:
        """Which one to take, and the one after it."""
        best, *others = sorted(self.candidates, key=self.value, reverse=True)
        after = f", before `{others[0].name}` with {self.words(others[0])}" if others else ""
        if others and (self.value(best) == self.value(others[0]) or self.as_good(best, others[0])):
            after += ", which is as good"
        return f"{self.what} take `{best.name}`: {self.words(best)}{after}."


def advice(variants: Sequence[Variant]) -> list[str]:
    """Sentences: which variant to take for what, with the one after it, and what the scores cannot tell."""
    scored = [variant for variant in variants if variant.mean_score is not None]
    said = [need.said() for need in _needs(variants, scored) if need.candidates]
    if (simple := simple_mean(scored)) is not None:
        said.insert(1, _beside_simple(scored, simple))
    said += [_kept(variant, other) for variant in variants for other in variants if variant.teacher == other.name]
    return [*said, *_no_grammar(variants), *_noise(scored)]


def _needs(variants: Sequence[Variant], scored: Sequence[Variant]) -> list[_Need]:
    useful = [each for each in variants if each.led or not each.scores] or variants
    return [
        _Need(
            what="For fine-tuned tasks",
            candidates=scored,
            value=lambda each: each.mean_score or 0.0,
            words=lambda each: f"a mean of {percent(each.mean_score or 0.0)}",
        ),
        _Need(
            what="For grammar without fine-tuning",
            candidates=[variant for variant in variants if variant.knows_grammar],
            value=lambda each: each.minimal_pairs or 0.0,
            words=_pairs_words,
            as_good=lambda best, other: not _more_pairs(best, other),
        ),
        _Need(
            what="For the fastest inference",
            candidates=useful,
            value=lambda each: each.inference_tokens_per_second,
            words=lambda each: f"{count(each.inference_tokens_per_second)} tokens a second{_warning(each)}",
        ),
        _Need(
            what="For the smallest model",
            candidates=useful,
            value=lambda each: -each.parameters,
            words=lambda each: f"{count(each.parameters)} parameters{_warning(each)}",
        ),
    ]


def _no_grammar(variants: Sequence[Variant]) -> Iterator[str]:
    """A sentence where no variant knows more of grammar than counts of words do; nothing otherwise."""
    baseline = max((each.pairs_baseline or 0.0 for each in variants), default=0.0)
    if baseline and not any(variant.knows_grammar for variant in variants):
        most = max(each.minimal_pairs or 0.0 for each in variants)
        yield (
            f"For grammar without fine-tuning take none: the best has {percent(most)} % of the minimal pairs, counts "
            f"of words {percent(baseline)} %."
        )


def _noise(scored: Sequence[Variant]) -> Iterator[str]:
    """A sentence on how far scores vary with the seed alone; nothing where there are no scores."""
    ranges = [score.spread for variant in scored for score in variant.scores.values()]
    if widest := max((high - low for low, high in ranges), default=0.0):
        yield f"Over its seeds a task's score varies by up to {percent(widest)} points: less is no difference."
    elif scored:
        yield "A task's score varies with its seed, and each has one: small differences say nothing."


def _warning(variant: Variant) -> str:
    """Behind what speaks for a variant that has learned nothing of use."""
    return " (better than the simple baselines in no task)" if variant.scores and not variant.led else ""


def _beside_simple(scored: Sequence[Variant], mean: float) -> str:
    """In how many tasks the variants are worth their network."""
    leading = [variant for variant in scored if variant.led]
    tasks = [f"`{variant.name}` in {variant.led} of {len(variant.scores)} tasks" for variant in leading]
    others = "" if len(leading) == len(scored) else ", the others in none" if leading else "no variant in any task"
    return (
        f"The simple baselines have a mean of {percent(mean)}; better than they and the majority, by "
        f"more than chance, is {', '.join(tasks)}{others}."
    )


def _kept(student: Variant, teacher: Variant) -> str:
    """What the student is beside the variant that it has learned from."""
    score = ""
    if student.mean_score is not None and teacher.mean_score is not None and teacher.mean_score > 0:
        kept = percent(student.mean_score / teacher.mean_score)
        score = f"keeps {kept} % of its teacher's mean score{_warning(teacher)}, "
    faster = student.inference_tokens_per_second / teacher.inference_tokens_per_second
    return (
        f"`{student.name}` {score}has {percent(student.parameters / teacher.parameters)} % of the parameters of "
        f"`{teacher.name}`, and reads {faster:.1f} times as many tokens a second."
    )


def _more_pairs(variant: Variant, other: Variant) -> bool:
    """Whether more of the minimal pairs by more than chance, as far as the errors beside the baselines tell."""
    error = math.hypot(variant.pairs_error, other.pairs_error)
    return (variant.minimal_pairs or 0.0) - (other.minimal_pairs or 0.0) > STANDARD_ERRORS * error


def _pairs_words(variant: Variant) -> str:
    counted = "" if variant.pairs_baseline is None else f" (counts of words: {percent(variant.pairs_baseline)} %)"
    return f"{percent(variant.minimal_pairs or 0.0)} % of the minimal pairs{counted}"
