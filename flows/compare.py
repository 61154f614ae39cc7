"""`make compare`: several variants at one wall-clock budget, one table, one picture, and which to take for what.

Every variant of compare.yaml has a clone of this repository in `.compare/NAME`, with the same DVC cache: what is alike
(text, tokenizer, shards) is made once. First a few steps of each say how fast it trains, and so how many steps the
budget pays for: all within minutes, on a machine that does nothing else. Then `dvc repro` runs one pipeline after the
other, however busy the machine is: killed and run again, the command goes on with the variant and the task it was at.
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bertcore.compressed import read_json
from bertcore.corpus.sources import look_for
from bertcore.errors import ArtifactError, ConfigError, InputError, TrainingError
from bertcore.files import write_json
from flows.environment import ROOT, complaint, project_environment, run_to_end
from flows.guard import guarded, release
from flows.locks import HeldError, hold
from flows.trees import link_inputs, share_cache
from tasks import params
from tasks.comparing import page, tracking
from tasks.comparing.config import TEACHER, CompareConfig
from tasks.comparing.variant import Speed, Variant, read_variant
from tasks.doctor.plan import Plan
from tasks.link_checks import remove_outdated_links
from tasks.processes import checkpoint_grace
from tasks.sections import check
from tasks.status import exit_status
from tasks.tracking.lineage import git_commit

_YAML = YAML(typ="safe", pure=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=Path("compare.yaml"), help="(%(default)s)")
    parser.add_argument("--directory", type=Path, default=Path(".compare"), help="of the variants (%(default)s)")
    parser.add_argument("--measure", action="store_true", help="measure the speeds of all variants, and end")
    options = parser.parse_args(arguments)
    return exit_status(partial(compare, options.file, options.directory.resolve(), options.measure))


def compare(file: Path, directory: Path, only_measure: bool = False) -> None:
    """Run what has not run yet, and write compare.md, compare.html and compare.png into `directory`.

    `ConfigError` where another comparison is at work in it.
    """
    config = CompareConfig.read(file)
    try:
        with hold(directory / ".lock", f"process {os.getpid()}"):
            _compare(config, directory, only_measure)
    except HeldError as holder:
        raise ConfigError(
            f"{directory}: found another comparison at work ({holder}), expected none; wait for it or stop it"
        ) from None


def _compare(config: CompareConfig, directory: Path, only_measure: bool) -> None:
    given = params.written(ROOT)
    if str(git_commit(ROOT)).endswith("-dirty"):
        print("compared is the code of the last commit: what was changed since is in no variant, but for params.yaml")
    tasks: dict[str, list[str]] = {}
    for name, variant in config.variants.items():
        first = config.params_of(name, given, config.calibration_steps, directory)
        tasks[name] = list(params.task_entries(first))
        if TEACHER not in variant:  # that of the others is not there yet
            _check(first, name)
    shared = [task for task in next(iter(tasks.values())) if all(task in own for own in tasks.values())]
    speeds = {name: measure(config, name, given, directory) for name in config.variants}
    if only_measure:
        return
    found: list[Variant] = []
    values: dict[str, dict[str, Any]] = {}
    for name, speed in speeds.items():
        values[name] = config.params_of(name, given, _steps(config, name, speed), directory)
        _check(values[name], name)
        _repro(directory / name, values[name], [])
        entries = read_json(directory / name / "metrics" / "tokenizer.json")["vocab_size"]
        flops = Plan.read(params.complete(values[name]), entries).flops()
        found.append(
            read_variant(
                name,
                directory / name,
                tasks[name],
                speed,
                flops,
                mlm_loss=_held_out_loss(directory / name) if speed.inference["predicts_tokens"] else None,
                compared_tasks=shared,
                teacher=config.variants[name].get(TEACHER),
            )
        )
    print(page.write(found, config.budget, directory))
    tracking.log(found, values, directory / "compare.html")
    print(f"{directory}/compare.html; `make ui` shows the runs side by side")


def clone(tree: Path) -> None:
    """A clone of this repository's last commit, with the DVC cache of this tree."""
    if not tree.exists():
        if within := run_to_end(["git", "rev-parse", "--show-prefix"], ROOT).stdout.strip():
            raise ConfigError(
                f"{ROOT}: found a project that is the folder {within} of a repository, expected a repository of its "
                "own, as every variant works in a clone; run this in a clone of the project alone"
            )
        beside = tree.with_name(f".{tree.name}.unfinished")
        shutil.rmtree(beside, ignore_errors=True)
        cloned = run_to_end(["git", "clone", "--quiet", str(ROOT), str(beside)], ROOT)
        if cloned.returncode:
            raise ConfigError(f"{tree}: git clone: {complaint(cloned)}")
        share_cache(beside)
        beside.rename(tree)
    ours, theirs = (str(git_commit(path)).removesuffix("-dirty") for path in (ROOT, tree))
    if ours != theirs:
        raise ConfigError(
            f"{tree}: found a clone of commit {theirs[:7]}, expected {ours[:7]}; remove {tree.parent} to compare anew, "
            "or go back to that commit"
        )


def measure(config: CompareConfig, name: str, given: dict[str, Any], directory: Path) -> Speed:
    """Time the first steps of a variant and its reading, in its clone, unless they are known already."""
    tree, path = directory / name, directory / f"{name}.json"
    clone(tree)
    wanted = config.params_of(name, given, config.calibration_steps, directory)
    digest = _digest(wanted)
    if not path.is_file() or read_json(path).get("params") != digest:
        _check(wanted, name)
        _repro(tree, wanted, ["pretrain"])
        trained, timing = (read_json(tree / "metrics" / part) for part in ("pretrain.json", "timing/pretrain.json"))
        seconds = trained["tokens"] / trained["steps"] / timing["tokens_per_second"]
        inference = _said_by(["tasks.comparing.inference", "models/pretrained"], tree)
        write_json(path, asdict(Speed(params=digest, seconds_per_step=seconds, inference=inference)))
    found = Speed(**read_json(path))
    milliseconds, steps = 1000 * found.seconds_per_step, _steps(config, name, found)
    print(f"{name}: {milliseconds:,.1f} ms a step, {steps:,} steps in {config.budget}", flush=True)
    return found


def _steps(config: CompareConfig, name: str, speed: Speed) -> int:
    """That the budget pays for."""
    steps, least = round(config.seconds / speed.seconds_per_step), config.calibration_steps
    if steps < least:
        raise ConfigError(
            f"budget: found {config.budget}, expected at least the {least * speed.seconds_per_step:.0f} s that the "
            f"first {least} steps of {name} take; give more, or set calibration_steps lower"
        )
    return steps


def _digest(values: dict[str, Any]) -> str:
    """Of what a variant's speed and size depend on: all but how it is evaluated."""
    kept = {key: value for key, value in values.items() if key not in ("minimal_pairs", "embed", "finetune")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _check(values: dict[str, Any], name: str) -> None:
    try:
        configs, _ = check(params.complete(values))
        look_for(configs["corpus"].sources)
    except (ConfigError, ArtifactError, InputError) as error:
        raise type(error)(f"variant {name}: {error}") from None


def _repro(tree: Path, values: dict[str, Any], stages: list[str]) -> None:
    """`dvc repro` with `values` as params.yaml; what is up to date is not run again. It ends with this process, however
    that ends: one that went on would meet the params of the next."""
    with (tree / "params.yaml").open("w", encoding="utf-8") as file:
        _YAML.dump(values, file)
    link_inputs(tree, values, tree.parent)
    remove_outdated_links(tree)
    command = [sys.executable, "-m", "dvc", "--quiet", "--wait-for-lock", "repro", *stages]
    grace = checkpoint_grace()
    process = guarded(command, stop_signal="SIGINT", grace=grace, cwd=tree, env=project_environment())
    try:
        status = process.wait()
    finally:
        release(process, timeout=grace + 5)
    if status:
        raise TrainingError(
            f"{tree}: `dvc repro {' '.join(stages)}`".rstrip() + " failed; see above, and run this again"
        )


def _held_out_loss(tree: Path) -> float:
    return _said_by(["tasks.comparing.held_out"], tree)["mlm_loss"]


def _said_by(command: list[str], tree: Path) -> dict[str, float]:
    done = run_to_end([sys.executable, "-m", *command], tree)
    if done.returncode:
        raise TrainingError(f"{tree}: {' '.join(command)} failed: {complaint(done)}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    sys.exit(main())
