"""The default's pre-training by its own recipe and by BERT's: held-out loss by tokens read, as a table and a plot.

    python -m benchmarks.default_recipes [--keep]

Works in a clone of this repository for each side, by `dvc repro pretrain`: killed and run again it goes on. Every side
is evaluated on held-out sequences of its own kind (BERT's are pairs of parts), with 15 % masks. BERT's second phase, on
sequences of 512 tokens, is left out.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import yaml

from benchmarks import results
from benchmarks.machine import describe
from bertcore.compressed import read_json
from flows.environment import project_environment

HERE = Path(__file__).parent
SIDES: dict[str, tuple[str, dict[str, Any]]] = {
    "modern": ("modern", {}),
    "bert-2018": ("bert-2018", {"second_phase": None}),
    "bert-2018, rate 2e-3": ("bert-2018", {"second_phase": None, "learning_rate": 2e-3}),
    "bert-2018, rate 1e-3": ("bert-2018", {"second_phase": None, "learning_rate": 1e-3}),
}
"""Recipe, and what else is said in section `pretrain`: BERT's published rate is one for a million large steps."""
EVAL_STEPS = 400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--directory", type=Path, default=Path(".benchmarks"), help="where the clones lie (%(default)s)"
    )
    parser.add_argument("--keep", action="store_true", help="write table and plot into benchmarks/results/")
    arguments = parser.parse_args()
    clones = {side: (arguments.directory / f"default-{number}").resolve() for number, side in enumerate(SIDES)}
    curves = {side: train(*SIDES[side], clone) for side, clone in clones.items()}
    rows = [
        {"side": side, "million tokens": f"{tokens:.2f}", "held-out MLM loss": f"{loss:.3f}"}
        for side, curve in curves.items()
        for tokens, loss in curve.items()
    ]
    (*_, last) = clones.values()
    facts = {**describe(last), "work": "the default's text and tiny, one seed"}
    results.show("default-recipes", facts, rows, arguments.keep)
    if arguments.keep:
        plot(curves, results.DIRECTORY / "default-recipes.png")


def train(recipe: str, given: dict[str, Any], clone: Path) -> "pd.Series[float]":
    """Held-out loss of masked tokens by million tokens read."""
    if not clone.exists():
        subprocess.run(["git", "clone", "--quiet", HERE.parent, clone], check=True)
    committed = subprocess.run(["git", "show", "HEAD:params.yaml"], cwd=clone, check=True, capture_output=True).stdout
    values = yaml.safe_load(committed) | {"recipe": recipe}
    values["pretrain"] |= {"eval_steps": EVAL_STEPS, **given}
    if "second_phase" in given:
        values["mask"]["second_phase"] = None
    (clone / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "dvc", "repro", "pretrain"], cwd=clone, check=True, env=project_environment())
    curve = pd.read_csv(clone / "metrics/curves/pretrain_eval.csv", index_col="step")["eval/mlm_loss"]
    read = read_json(clone / "metrics/pretrain.json")
    return curve.set_axis(curve.index * read["tokens"] / read["steps"] / 1e6)


def plot(curves: dict[str, "pd.Series[float]"], path: Path) -> None:
    """A line a side."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for side, curve in curves.items():
        axes.plot(curve.index, curve.to_numpy(), marker="o", label=side)
    axes.set(xlabel="million tokens read", ylabel="held-out masked-LM loss (nats)")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
