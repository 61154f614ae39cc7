"""dvc.yaml against the code: the deps of a stage are the files that decide what it computes, no more and no fewer."""

import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from bertcore.recipes.recipe import NAMES, read_recipe
from tasks import params, paths
from tasks.sections import SECTIONS, check
from tasks.tracking import lineage
from tests.import_closure import ROOT, import_closure

STAGES = YAML(typ="safe", pure=True).load((ROOT / "dvc.yaml").read_text())["stages"]

# What cannot change a stage's output but an error message, a progress bar or how bytes reach the disk.
NEUTRAL = {
    Path("bertcore") / f"{name}.py"
    for name in ("allocator", "config", "cores", "errors", "files", "progress", "compressed", "variables", "__init__")
}

RECIPES = Path("bertcore/recipes")
NAMES_ALONE = ("inputs", "examples")
"""Stages that read which tasks there are and where their data is, which no recipe gives."""


def code_of(stage: str) -> list[Path]:
    """The stage's own modules: `tasks/STAGE.py`, and the processes and rooms that it alone uses."""
    process = [Path("tasks/training") / f"{name}.py" for name in ("process", "saving")] if stage == "pretrain" else []
    cards = [Path("tasks/cards.py")] if stage in ("pretrain", "finetune", "embed") else []
    checks = [Path("tasks/sections.py"), Path("tasks/links.py")] if stage == "inputs" else []
    return [Path("tasks") / f"{stage}.py", *process, *cards, *checks]


def deps(stage: str) -> list[str]:
    return lineage.stage_paths(stage, "TASK")[0]


@pytest.fixture(autouse=True)
def in_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_stages_are_modules_and_sections() -> None:
    assert [stage for stage in STAGES if not (ROOT / "tasks" / f"{stage}.py").is_file()] == []
    assert set(params.read()) - {"recipe"} == {*SECTIONS, "finetune"} <= set(STAGES)


def test_stages_whose_sections_a_recipe_fills_depend_on_it() -> None:
    """`inputs` computes nothing with the values, and what a recipe gives to tasks names none of them."""
    filled = {section for name in NAMES for section in read_recipe(name)}
    for stage, content in STAGES.items():
        sections = {param.split(".")[0] for param in content.get("params", [])}
        concerned = bool(sections & filled) and stage not in NAMES_ALONE
        assert ("recipe" in sections) == (concerned or stage == "inputs"), stage
        assert (str(RECIPES) in content.get("deps", [])) == concerned, stage


@pytest.mark.parametrize("stage", STAGES)
def test_deps_are_the_imported_files(stage: str) -> None:
    declared = [Path(dep) for dep in deps(stage) if dep.split("/")[0] in ("bertcore", "tasks")]
    closure = set().union(*(import_closure(file) for file in code_of(stage)))
    imported = {file for file in closure if file.parts[0] == "bertcore" and (ROOT / file).stat().st_size} - NEUTRAL
    if str(RECIPES) not in deps(stage):  # all read params.yaml; the test above says whose values a recipe may give
        imported.discard(RECIPES / "recipe.py")
    imported |= set(code_of(stage)) | {file for file in closure if file.parts[:2] == ("tasks", "reporting")}
    uncovered = {file for file in imported if not any(file == dep or dep in file.parents for dep in declared)}
    idle = [dep for dep in declared if not any(file == dep or dep in file.parents for file in imported)]
    assert not uncovered and not idle, (
        f"{stage}: not among the deps: {sorted(map(str, uncovered))}; without use: {idle}"
    )


@pytest.mark.parametrize("stage", ["mask", "pretrain", "minimal_pairs"])
def test_what_takes_hours_is_not_done_anew_for_code_that_it_does_not_run(stage: str) -> None:
    """Not even for a file of a package that it uses other files of."""
    closure = set().union(*(import_closure(file) for file in code_of(stage)))
    watched = {file.relative_to(ROOT) for dep in deps(stage) for file in (ROOT / dep).rglob("*.py")}
    assert {file for file in watched - closure if (ROOT / file).stat().st_size} == set()


def test_clean_removes_what_stages_write_and_nothing_of_the_users(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    written = [tmp_path / out for stage in STAGES for out in lineage.stage_paths(stage, "TASK")[1]]
    own = [tmp_path / name for name in ("data/mine.txt", "models/teacher/config.json", "params.yaml")]
    for path in (*written, *own):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    subprocess.run(["make", "clean"], cwd=tmp_path, check=True, capture_output=True)
    assert [path for path in written if path.exists()] == []
    assert all(path.exists() for path in own)


@pytest.mark.parametrize("stage", STAGES)
def test_data_deps_are_outs_of_other_stages(stage: str) -> None:
    outs = [Path(out) for other in STAGES for out in lineage.stage_paths(other, "TASK")[1]]
    for dep in map(Path, deps(stage)):
        if dep.parts[0] in ("data", "models", "metrics", "predictions"):
            assert any(out == dep or out in dep.parents or dep in out.parents for out in outs), f"{stage}: {dep}"


def test_every_declared_path_begins_with_one_of_the_known_places() -> None:
    places = [str(value) for name, value in vars(paths).items() if isinstance(value, Path)]
    for stage in STAGES:
        for out in lineage.stage_paths(stage, "TASK")[1]:
            assert any(out == place or out.startswith(place + "/") for place in places), f"{stage}: {out}"


def test_a_stage_that_takes_time_is_in_the_run_cache_and_what_has_no_cache_in_git() -> None:
    for stage in {"inputs", "report"} ^ set(STAGES):
        declared = STAGES[stage]
        assert all(isinstance(out, str) for out in declared["outs"]), f"{stage}: an out without a cache"
        for out in [*declared.get("metrics", []), *declared.get("plots", [])]:
            ((path, how),) = out.items()
            assert how["cache"] is False, f"{stage}: {path}"
            ignored = subprocess.run(["git", "check-ignore", "--quiet", path], cwd=ROOT, check=False).returncode == 0
            assert not ignored, f"{stage}: {path} has no cache, and git ignores it"


def test_the_committed_params_are_sound() -> None:
    configs, tasks = check(params.read())
    assert configs["pretrain"].model.preset == "tiny" and set(tasks) == {"topic", "pair", "tagging", "qa"}


def test_locks_name_versions_and_no_addresses() -> None:
    for name in ("requirements.lock", "requirements-dev.lock", "requirements-dask.lock", "requirements-onnx.lock"):
        for line in (ROOT / name).read_text().splitlines():
            assert "==" in line and "/" not in line and " @ " not in line, f"{name}: {line}"
