"""Curves that a person compares at a glance."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt


def heldout_losses(curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], along: str, path: Path) -> None:
    """Held-out loss, a line a side: its places on the axis called `along`, and its losses."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for side, (places, losses) in curves.items():
        axes.plot(places, losses, marker="o", label=side)
    axes.set(xlabel=along, ylabel="held-out masked-LM loss (nats)")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)
