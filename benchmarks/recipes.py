"""Recipes side by side: one text, one change at a time, all judged on the same held-out text at fixed 15 % masks.

    python -m benchmarks.recipes benchmarks/recipes-default.yaml --keep

A file of trials has `base`, values of params.yaml by dotted name that every trial has, `trials`, those of each trial by
its name, and `seeds`, of the pre-training. A trial is a run of the graph as far as the zero-shot scores, in a clone of
this repository: what was run before is taken from DVC's cache, so that the command, killed, goes on where it was.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from benchmarks import results
from benchmarks.machine import describe
from flows.environment import ROOT, project_environment

_YAML = YAML(typ="safe", pure=True)


@dataclass(frozen=True)
class Outcome:
    """What a trial came to with one seed."""

    tokens: int
    minutes: float
    """Of training alone: without evaluation, checkpoints and start-up."""
    loss: float
    accuracy: float
    pairs: float
    """Minimal pairs, percent."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", type=Path, help="a file of trials")
    parser.add_argument("--directory", type=Path, default=Path(".benchmarks/recipes"), help="the clone (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="write the result into benchmarks/results/")
    arguments = parser.parse_args()
    wanted = _YAML.load(arguments.trials.read_text(encoding="utf-8"))
    clone = arguments.directory.resolve()
    if not clone.exists():
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    committed = _YAML.load((clone / "params.yaml").read_text(encoding="utf-8"))
    rows = []
    for name, change in wanted["trials"].items():
        values = {**wanted.get("base", {}), **(change or {})}
        found = [run(clone, committed, {**values, "pretrain.seed": seed}) for seed in wanted.get("seeds", [1])]
        rows.append(_row(name, change or {}, found))
        print(" | ".join(rows[-1].values()), flush=True)
    subprocess.run(["git", "checkout", "--quiet", "params.yaml"], cwd=clone, check=True)
    base = ", ".join(f"{key} {value}" for key, value in wanted.get("base", {}).items())
    facts = {**describe(clone), "every trial": base, "repeated by": f"python -m benchmarks.recipes {arguments.trials}"}
    results.show(arguments.trials.stem, facts, rows, arguments.keep)


def run(clone: Path, committed: Mapping[str, Any], values: Mapping[str, Any]) -> Outcome:
    """Pre-train and score with `values` over the committed params."""
    params = json.loads(json.dumps(committed))
    for dotted, value in values.items():
        *sections, key = dotted.split(".")
        section = params
        for each in sections:
            section = section.setdefault(each, {})
        section[key] = value
    with (clone / "params.yaml").open("w", encoding="utf-8") as file:
        _YAML.dump(params, file)
    command = [sys.executable, "-m", "dvc", "--quiet", "repro", "minimal_pairs"]
    subprocess.run(command, cwd=clone, check=True, env=project_environment(), stdout=sys.stderr)

    def read(name: str) -> dict[str, Any]:
        return json.loads((clone / "metrics" / name).read_text(encoding="utf-8"))

    trained, timing = read("pretrain.json"), read("timing/pretrain.json")
    minutes = trained["tokens"] / timing["tokens_per_second"] / 60
    pairs = 100 * read("minimal_pairs.json")["accuracy"]
    return Outcome(trained["tokens"], minutes, trained["mlm_loss"], 100 * trained["mlm_accuracy"], pairs)


def _row(name: str, change: Mapping[str, Any], found: list[Outcome]) -> dict[str, str]:
    def spread(values: list[float], digits: int) -> str:
        middle = f"{statistics.median(values):.{digits}f}"
        low, high = min(values), max(values)
        return middle if len(values) == 1 else f"{middle} ({low:.{digits}f} to {high:.{digits}f})"

    return {
        "trial": name,
        "change": ", ".join(f"{key} {value}" for key, value in change.items()) or "none",
        "tokens": f"{statistics.median(one.tokens for one in found) / 1e6:.1f} M",
        "minutes": spread([one.minutes for one in found], 1),
        "held-out MLM loss": spread([one.loss for one in found], 3),
        "accuracy": spread([one.accuracy for one in found], 1),
        "minimal pairs": spread([one.pairs for one in found], 1),
    }


if __name__ == "__main__":
    main()
