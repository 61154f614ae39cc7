"""The report's pictures, each as PNG (for Markdown) and SVG (for the page); the same numbers give the same bytes."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from bertcore.evaluation.systems import MAJORITY, PRETRAINED_WEIGHTS, RANDOM_WEIGHTS
from tasks.reporting.comparison import Comparison, error, readable
from tasks.reporting.document import percent
from tasks.reporting.measurements import CURVES, Measurements
from tasks.reporting.summary import Summary, pretrain_terms, scores_of

COLOURS = {MAJORITY: "#c5ccd6", "baseline": "#e0a13a", RANDOM_WEIGHTS: "#86b4dc", PRETRAINED_WEIGHTS: "#1f5fa8"}
LEGEND = {name: readable(name) if name != "baseline" else "simple baseline" for name in COLOURS}
TRAIN, HELDOUT, REFERENCE = "#86b4dc", "#1f5fa8", "#b3541e"

_TERM_TITLES = {"nsp": "Next sentence", "sop": "Sentence order"}
_TASKS_PER_ROW = 5
_FEW_POINTS = 12
_ROUND = [1, 2, 5, 10]
STYLE: dict[Any, Any] = {
    "axes.edgecolor": "#9aa4b1",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.labelcolor": "#3b4554",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "grid.color": "#e7eaee",
    "legend.frameon": False,
    "text.color": "#1c2430",
    "xtick.color": "#556070",
    "ytick.color": "#556070",
}


@dataclass(frozen=True)
class Rendered:
    png: bytes
    svg: bytes


def draw(measurements: Measurements, summary: Summary, comparisons: Sequence[Comparison]) -> dict[str, Rendered]:
    """Name -> picture, for all of which there are numbers. Without pyplot, so that no state is shared."""
    with matplotlib.rc_context(STYLE):
        figures = {"lengths": _lengths(measurements)}
        if any(measurements.has(source) for source in CURVES):
            figures |= {"curves": _curves(measurements, summary), "accuracy": _accuracy(measurements, summary)}
        if comparisons:
            figures["comparison"] = _comparison(comparisons)
        return {name: render(figure) for name, figure in figures.items()}


def render(figure: Figure) -> Rendered:
    """The same figure gives the same bytes."""
    png, svg = io.BytesIO(), io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "report"}):
        figure.savefig(png, format="png", dpi=150, metadata={"Software": None})
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    return Rendered(png.getvalue(), svg.getvalue())


def _curves(measurements: Measurements, summary: Summary) -> Figure:
    """Masked LM loss with the held-out points and the unigram baseline; the learning rate."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    loss, rate = figure.subplots(1, 2, width_ratios=[2, 1])
    loss.set_title("Masked LM loss")
    _curve(loss, measurements, "mlm_loss")
    _reference(loss, summary["pretrain"]["unigram_loss"], "unigram baseline")
    loss.set_ylabel("nats per predicted token")
    loss.legend()
    rate.set_title("Learning rate")
    values = measurements.curve("curves/pretrain_train", "train/learning_rate")
    rate.plot(values.index.to_numpy(int), values.to_numpy(), color=HELDOUT)
    rate.set_ylim(bottom=0)
    rate.yaxis.set_major_locator(MaxNLocator(5, steps=_ROUND))
    rate.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    for axes in (loss, rate):
        _steps(axes)
    return figure


def _accuracy(measurements: Measurements, summary: Summary) -> Figure:
    """Accuracy of the masked LM and of every other term of the objective that has one, and of minimal pairs that were
    scored during the training."""
    pretrain = summary["pretrain"]
    panels: list[tuple[str, str, str, float | None]] = [
        ("mlm_accuracy", "Masked LM accuracy", "unigram baseline", pretrain["unigram_accuracy"])
    ]
    for term in pretrain_terms(summary):
        _, accuracy = scores_of(term)
        if accuracy in pretrain:
            title = f"{_TERM_TITLES.get(term, readable(term))} accuracy"
            by_length, majority = pretrain.get(f"{term}_by_length_alone"), pretrain.get(f"{term}_majority")
            if by_length is None:
                panels.append((accuracy, title, "most frequent label", majority))
            else:
                panels.append((accuracy, title, "by length alone", by_length))
    if not measurements.curve("curves/pretrain_eval", "eval/pairs_accuracy").empty:
        panels.append(("pairs_accuracy", "Minimal pairs", "chance", 0.5))
    figure = Figure(figsize=(10, 4.0), layout="constrained")
    for axes, (name, title, label, reference) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
    ):
        axes.set_title(title)
        _curve(axes, measurements, name)
        if reference is not None:
            _reference(axes, reference, label)
        axes.yaxis.set_major_formatter(_PERCENT)
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=_ROUND))
        if axes.lines:
            axes.legend()
        _steps(axes)
    return figure


def _lengths(measurements: Measurements) -> Figure:
    """Share of the sequences by their number of tokens, train beside held out."""
    counts = {split: measurements.numbers("mask", f"{split}/length_histogram") for split in ("train", "heldout")}
    bins = sorted({name for each in counts.values() for name in each}, key=lambda name: int(name.split("-")[0]))
    labels = [_bin_label(name) for name in bins]
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.set_title("Length of the pre-training sequences")
    for shift, (split, label, colour) in zip(
        (-0.2, 0.2), (("train", "train", TRAIN), ("heldout", "held out", HELDOUT)), strict=True
    ):
        total = max(sum(counts[split].values()), 1)
        shares = [counts[split].get(name, 0) / total for name in bins]
        axes.bar([place + shift for place in range(len(bins))], shares, 0.38, label=label, color=colour)
    step = -(-len(bins) // 20)
    axes.set_xticks(range(0, len(bins), step), labels[::step])
    axes.set_xlabel("tokens, special ones included")
    axes.yaxis.set_major_formatter(_PERCENT)
    axes.legend(loc="upper left")
    return figure


def _comparison(comparisons: Sequence[Comparison]) -> Figure:
    """Every task's headline score: grouped bars for baselines, random initialisation and pre-trained encoder."""
    rows = [comparisons[first : first + _TASKS_PER_ROW] for first in range(0, len(comparisons), _TASKS_PER_ROW)]
    systems = [name for name in COLOURS if any(_score(each, name) is not None for each in comparisons)]
    figure = Figure(figsize=(10, 0.7 + 3.7 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), 1, squeeze=False)[:, 0]
    for axes, row in zip(panels, rows, strict=True):
        _bars(axes, row, systems, max(map(len, rows)))
    handles = [Patch(color=COLOURS[system], label=LEGEND[system]) for system in systems]
    figure.legend(handles=handles, loc="outside upper left", ncols=len(systems))
    return figure


def _bars(axes: Axes, comparisons: Sequence[Comparison], systems: Sequence[str], places: int) -> None:
    width, lowest = 0.84 / len(systems), 0.0
    for position, system in enumerate(systems):
        shift = (position - (len(systems) - 1) / 2) * width
        found = [(place, _score(each, system), each) for place, each in enumerate(comparisons)]
        for place, score, each in found:
            if score is None:
                continue
            above = (
                error(each.metric, score, each.dev_examples) if system in (RANDOM_WEIGHTS, PRETRAINED_WEIGHTS) else 0.0
            )
            lowest = min(lowest, score - above)
            axes.bar(place + shift, score, width * 0.92, color=COLOURS[system])
            if above:
                axes.errorbar(place + shift, score, above, fmt="none", ecolor="#111111", elinewidth=1.2, capsize=2.5)
            height = max(score, 0) + above + 0.012
            axes.text(place + shift, height, percent(score), ha="center", va="bottom", fontsize=8.5)
    names = [f"{each.task}\n{readable(each.metric)}" for each in comparisons]
    axes.set_xticks(range(len(comparisons)), names)
    axes.tick_params(axis="x", length=0, labelcolor="#1c2430")
    axes.set_xlim(-0.55, places - 0.45)
    axes.set_ylim(lowest - 0.1 if lowest < 0 else 0.0, 1.08)
    axes.axhline(0, color="#9aa4b1", linewidth=0.9)
    axes.spines["bottom"].set_visible(False)
    axes.set_ylabel("score × 100")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f}"))
    axes.yaxis.set_major_locator(MultipleLocator(0.2))


def _score(comparison: Comparison, system: str) -> float | None:
    scores = {
        MAJORITY: comparison.majority,
        "baseline": comparison.baseline,
        RANDOM_WEIGHTS: comparison.random_initialisation,
        PRETRAINED_WEIGHTS: comparison.pretrained,
    }
    return scores[system]


def _curve(axes: Axes, measurements: Measurements, name: str) -> None:
    """Train as a line and held out as points, from the recorded curves."""
    for part, label, colour, marker in (("train", "train", TRAIN, ""), ("eval", "held out", HELDOUT, "o")):
        values = measurements.curve(f"curves/pretrain_{part}", f"{part}/{name}")
        if not values.empty:
            shown = marker or ("." if len(values) <= _FEW_POINTS else "")
            steps = values.index.to_numpy(int)
            axes.plot(steps, values.to_numpy(), color=colour, marker=shown, markersize=5, label=label)


def _reference(axes: Axes, value: float, label: str) -> None:
    axes.axhline(value, color=REFERENCE, linestyle=(0, (5, 3)), linewidth=1.3, label=label)


def _steps(axes: Axes) -> None:
    axes.set_xlabel("optimizer step")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=_ROUND, integer=True))


def _bin_label(name: str) -> str:
    low, high = name.split("-")
    return low if low == high else f"{low}–{high}"


_PERCENT = FuncFormatter(lambda value, _: f"{100 * value:.3g} %")
