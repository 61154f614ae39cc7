"""The default's pre-training by its own recipe and by BERT's: held-out loss by tokens read, as a table and a plot.

    python -m benchmarks.default_recipes [--keep]

Works in a clone of this repository for each side, by `dvc repro pretrain`: killed and run again it goes on. Every side
is evaluated on held-out sequences of its own kind (BERT's are pairs of parts), with 15 % masks. BERT's second phase, on
sequences of 512 tokens, is left out.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import plots, results
from benchmarks.clones import DIRECTORY, make_clone, repro, vary_params
from benchmarks.machine import describe
from benchmarks.options import make_parser
from tasks.paths import METRICS
from tasks.reporting.measurements import Measurements

_BERT: dict[str, Any] = {"recipe": "bert-2018", "mask.second_phase": None, "pretrain.second_phase": None}
SIDES: dict[str, dict[str, Any]] = {
    "modern": {"recipe": "modern"},
    "bert-2018": _BERT,
    "bert-2018, rate 2e-3": _BERT | {"pretrain.learning_rate": 2e-3},
    "bert-2018, rate 1e-3": _BERT | {"pretrain.learning_rate": 1e-3},
}
"""What differs from the default's parameters: BERT's published rate is one for a million large steps."""
EVAL_STEPS = 400


def main() -> None:
    arguments = make_parser(__doc__).parse_args()
    clones = {side: (DIRECTORY / f"default-{number}").resolve() for number, side in enumerate(SIDES)}
    curves = {side: train(SIDES[side], clone) for side, clone in clones.items()}
    rows = [
        {"side": side, "million tokens": f"{tokens:.2f}", "held-out MLM loss": f"{loss:.3f}"}
        for side, curve in curves.items()
        for tokens, loss in curve.items()
    ]
    (*_, last) = clones.values()
    facts = {**describe(last), "work": "the default's text and tiny, one seed"}
    results.show("default-recipes", facts, rows, arguments.keep)
    if arguments.keep:
        lines = {side: (curve.index.tolist(), curve.tolist()) for side, curve in curves.items()}
        plots.heldout_losses(lines, "million tokens read", results.DIRECTORY / "default-recipes.png")


def train(given: dict[str, Any], clone: Path) -> "pd.Series[float]":
    """Held-out loss of masked tokens by million tokens read."""
    make_clone(clone)
    vary_params(clone, given | {"pretrain.eval_steps": EVAL_STEPS})
    repro(clone, "pretrain")
    measured = Measurements.read(clone / METRICS, ())
    curve, trained = measured.curve("curves/pretrain_eval", "eval/mlm_loss"), measured.numbers("pretrain")
    return curve.set_axis(curve.index * trained["tokens"] / trained["steps"] / 1e6)


if __name__ == "__main__":
    main()
