"""The comparison as one table, one picture, and words that say which variant to take for what."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from bertcore.evaluation.systems import PRETRAINED_WEIGHTS
from bertcore.files import replace_file
from tasks.comparing.advice import advice
from tasks.comparing.baselines import SIMPLE, mean_of, simple_mean, simple_scores
from tasks.comparing.variant import Variant
from tasks.reporting.comparison import Comparison
from tasks.reporting.document import NOTHING, Document, Paragraph, Picture, Section, Table, count, percent
from tasks.reporting.plots import COLOURS, STYLE, Rendered, render
from tasks.reporting.rendering import to_html, to_markdown

PICTURE = "compare"
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
    for name, scores in simple_scores(variants).items():
        cells = {columns[task]: percent(score) for task, score in scores.items()}
        if pairs and name == SIMPLE:
            cells["Minimal pairs"] = percent(pairs)
        if cells:
            cells |= {"Variant": name, "Mean": _percent(mean_of(scores, variants))}
            rows.append([cells.get(column, NOTHING) for column in header])
    return Table(header, rows, strong="Mean" if columns else None)


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
        if (simple := simple_mean(variants)) is not None:
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
