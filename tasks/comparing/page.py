"""The comparison as one table, one picture, and words that say which variant to take for what."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from bertcore.evaluation.systems import PRETRAINED_WEIGHTS
from bertcore.files import replace_file
from tasks.comparing.variant import Variant
from tasks.reporting.comparison import STANDARD_ERRORS, Comparison
from tasks.reporting.document import NOTHING, Document, Paragraph, Picture, Section, Table, count, percent
from tasks.reporting.plots import COLOURS, STYLE, Rendered, render
from tasks.reporting.rendering import to_html, to_markdown

PICTURE = "compare"
SIMPLE = "simple baseline"
Point: TypeAlias = tuple[float, float]

NOTE = (
    "Every variant was pre-trained for the same wall-clock on this machine: the speed of its first steps said for how "
    "many it is enough; minutes and tokens a second are those of the whole training. Held-out loss "
    "compares models that predict masked tokens of one vocabulary; it is of the same sequences for all, full sentences "
    "of 128 tokens, whatever a variant was trained on. A discriminator is asked for the pairs which sentence's tokens "
    "are original ones. Means are over the tasks that all variants have. "
    "Scores of tasks are medians over the seeds on dev, with the lowest and the highest in brackets, times 100; "
    "differences within such a range say nothing. A variant leads in a task where it is better than the majority and "
    "the simple baseline, which counts words, by more than chance: few dev examples or seeds prove little. Inference "
    "is that of the encoder alone; MiB is the peak of the process that reads with it, Python and torch included; on a "
    "GPU, of the memory there alone."
)


def write(variants: Sequence[Variant], budget: str, directory: Path) -> str:
    """Write compare.md, compare.html and compare.png into `directory`; the Markdown."""
    document = describe(variants, budget)
    picture = draw(variants)
    markdown, html = to_markdown(document), to_html(document, {PICTURE: picture.svg})
    files = {"compare.md": markdown.encode(), "compare.html": html.encode(), f"{PICTURE}.png": picture.png}
    for name, content in files.items():
        with replace_file(directory / name) as beside:
            beside.write_bytes(content)
    return markdown


def describe(variants: Sequence[Variant], budget: str) -> Document:
    """The document."""
    alternative = "Mean score of each variant by the speed of its encoder"
    parts: list[Paragraph | Table | Picture] = [
        *map(Paragraph, advice(variants)),
        table(variants),
        Paragraph(NOTE),
        Picture(PICTURE, alternative),
    ]
    names = ", ".join(variant.name for variant in variants)
    return Document(
        "Variants side by side", f"{names}: {budget} of pre-training each.", [Section("Results", parts)], []
    )


def table(variants: Sequence[Variant]) -> Table:
    """A row for each variant, and below them for what needs no network."""
    columns = {task: f"{task} ({score.metric})" for variant in variants for task, score in variant.scores.items()}
    header = ["Variant", "Parameters", "Tokens", "Minutes", "Tokens/s", "Training FLOPs", "Held-out loss"]
    header += ["Minimal pairs", *columns.values(), "Mean", "Leads in", "Inference tokens/s", "MiB"]
    common = statistics.mode(variant.vocabulary for variant in variants)
    rows = [
        [
            variant.name if variant.teacher is None else f"{variant.name}, from {variant.teacher}",
            count(variant.parameters),
            f"{variant.tokens / 1e6:.1f} M",
            f"{variant.seconds / 60:.1f}",
            count(variant.tokens_per_second),
            f"{variant.training_flops:.2g}",
            _loss(variant, common),
            _percent(variant.minimal_pairs),
            *(_cell(variant.scores.get(task)) for task in columns),
            _percent(variant.mean_score),
            f"{variant.led} of {len(variant.scores)}" if variant.scores else NOTHING,
            count(variant.inference_tokens_per_second),
            count(variant.peak_bytes / 2**20),
        ]
        for variant in variants
    ]
    pairs = max((variant.pairs_baseline or 0.0 for variant in variants), default=0.0)
    for name, scores in _simple_scores(variants).items():
        cells = {columns[task]: percent(score) for task, score in scores.items()}
        if pairs and name == SIMPLE:
            cells["Minimal pairs"] = percent(pairs)
        if cells:
            cells |= {"Variant": name, "Mean": _percent(_mean(scores, variants))}
            rows.append([cells.get(column, NOTHING) for column in header])
    return Table(header, rows, strong="Mean" if columns else None)


def _simple_scores(variants: Sequence[Variant]) -> dict[str, dict[str, float]]:
    """By task what needs no network: the most frequent answer, and the simple baseline, or that answer where a task has
    none. Of the best variant, as what they learn from is the variant's part of train."""
    majority: dict[str, float] = {}
    simple: dict[str, float] = {}
    for score in (score for variant in variants for score in variant.scores.values()):
        majority[score.task] = max(score.majority, majority.get(score.task, score.majority))
        simple[score.task] = max(score.simple, simple.get(score.task, score.simple))
    return {"majority": majority, SIMPLE: simple}


def _mean(scores: Mapping[str, float], variants: Sequence[Variant]) -> float | None:
    """Over the tasks that the means of `variants` are over; None without any."""
    compared = variants[0].compared_tasks if variants else None
    found = [score for task, score in scores.items() if compared is None or task in compared]
    return statistics.mean(found) if found else None


def _simple_mean(variants: Sequence[Variant]) -> float | None:
    return _mean(_simple_scores(variants)[SIMPLE], variants)


def _loss(variant: Variant, vocabulary: str) -> str:
    """With a mark where the masked tokens are those of another vocabulary than `vocabulary`."""
    if variant.mlm_loss is None:
        return NOTHING
    return f"{variant.mlm_loss:.2f}" + ("" if variant.vocabulary == vocabulary else " (other pieces)")


def _percent(share: float | None) -> str:
    return NOTHING if share is None else percent(share)


def _cell(score: Comparison | None) -> str:
    if score is None:
        return NOTHING
    low, high = score.spread
    return percent(score.pretrained) + ("" if low == high else f" ({percent(low)}–{percent(high)})")


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
    """Which variant to take for what, with the one after it."""
    scored = [variant for variant in variants if variant.mean_score is not None]
    ranges = [score.spread for variant in scored for score in variant.scores.values()]
    widest = max((high - low for low, high in ranges), default=0.0)
    paired = [variant for variant in variants if variant.knows_grammar]
    needs = [
        _Need(
            what="For fine-tuned tasks",
            candidates=scored,
            value=lambda each: each.mean_score or 0.0,
            words=lambda each: f"a mean of {percent(each.mean_score or 0.0)}",
        ),
        _Need(
            what="For grammar without fine-tuning",
            candidates=paired,
            value=lambda each: each.minimal_pairs or 0.0,
            words=_pairs_words,
            as_good=lambda best, other: not _more_pairs(best, other),
        ),
        _Need(
            what="For the fastest inference",
            candidates=variants,
            value=lambda each: each.inference_tokens_per_second,
            words=lambda each: f"{count(each.inference_tokens_per_second)} tokens a second{_warning(each)}",
        ),
        _Need(
            what="For the smallest model",
            candidates=variants,
            value=lambda each: -each.parameters,
            words=lambda each: f"{count(each.parameters)} parameters{_warning(each)}",
        ),
    ]
    said = [need.said() for need in needs if need.candidates]
    if (simple := _simple_mean(scored)) is not None:
        said.insert(1, _beside_simple(scored, simple))
    said += [_kept(variant, other) for variant in variants for other in variants if variant.teacher == other.name]
    if not paired and (best_baseline := max((each.pairs_baseline or 0.0 for each in variants), default=0.0)):
        most = max(each.minimal_pairs or 0.0 for each in variants)
        said.append(
            f"For grammar without fine-tuning take none: the best has {percent(most)} % of the minimal pairs, counts "
            f"of words {percent(best_baseline)} %."
        )
    if widest:
        said.append(f"Over its seeds a task's score varies by up to {percent(widest)} points: less is no difference.")
    elif scored:
        said.append("A task's score varies with its seed, and each has one: small differences say nothing.")
    return said


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


def draw(variants: Sequence[Variant]) -> Rendered:
    """Score by speed, beside the simple baselines; the area of a point is the number of parameters."""
    tasks = any(variant.mean_score is not None for variant in variants)
    points: dict[str, Point] = {}
    for each in variants:
        if (score := each.mean_score if tasks else each.minimal_pairs) is not None:
            points[each.name] = (each.inference_tokens_per_second, 100 * score)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8, 4.8), layout="constrained")
        axes = figure.subplots()
        parameters = {variant.name: variant.parameters for variant in variants}
        for name, point in points.items():
            axes.scatter(*point, s=400 * parameters[name] / max(parameters.values()), color=COLOURS[PRETRAINED_WEIGHTS])
        if (simple := _simple_mean(variants)) is not None:
            axes.axhline(100 * simple, color=COLOURS["baseline"], linestyle="--", label="simple baselines")
            axes.legend()
        axes.set_xlabel("inference, tokens per second")
        axes.set_ylabel("mean score of the tasks, times 100" if tasks else "minimal pairs, percent")
        axes.margins(0.2)
        label_points(figure, axes, points)
        return render(figure)


_BESIDE = {
    (0, 12): ("center", "bottom"),
    (0, -12): ("center", "top"),
    (12, 0): ("left", "center"),
    (-12, 0): ("right", "center"),
}
"""How far a name is from its point, in typographic points -> which part of it is there."""


_PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
"""Behind a name, so that no line goes through it."""


def label_points(figure: Figure, axes: Axes, points: Mapping[str, Point]) -> list[Annotation]:
    """Each point's name above it, or where it would cover another one below it or beside it."""
    figure.draw_without_rendering()  # from now on the axes stay where they are
    labels: list[Annotation] = []
    for name, point in points.items():
        label = axes.annotate(name, point, xytext=(0, 0), textcoords="offset points", in_layout=False, bbox=_PAPER)
        for offset, (across, up) in _BESIDE.items():
            label.set(position=offset, horizontalalignment=across, verticalalignment=up)
            box = label.get_window_extent()
            if not any(box.overlaps(other.get_window_extent()) for other in labels):
                break
        labels.append(label)
    return labels
