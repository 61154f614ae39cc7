"""The house rule: imports go down only, and the training core runs without the orchestrators."""

from pathlib import Path

import pytest

from tests.import_closure import ROOT, imported_modules

RANKS = [
    {"flows"},
    {"tasks"},
    {"bertcore.commands"},
    {"bertcore.serving"},
    {"bertcore.apply", "bertcore.export"},
    {"bertcore.embedding"},
    {"bertcore.finetune", "bertcore.linear"},
    {"bertcore.training", "bertcore.evaluation"},
    {"bertcore.objectives", "bertcore.minimal_pairs", "bertcore.masks"},
    {"bertcore.examples", "bertcore.audit"},
    {"bertcore.model", "bertcore.instances"},
    {"bertcore.shards", "bertcore.vocabulary"},
    {"bertcore.tokens"},
    {"bertcore.corpus"},
    {
        "bertcore.allocator",
        "bertcore.config",
        "bertcore.errors",
        "bertcore.files",
        "bertcore.progress",
        "bertcore.compressed",
        "bertcore.cores",
        "bertcore.hub",
        "bertcore.memory",
        "bertcore.precision",
        "bertcore.draws",
        "bertcore.ragged",
        "bertcore.recipes",
        "bertcore.variables",
        "bertcore.words",
        "bertcore.workers",
    },
]
"""From the top to the ground; those on one floor do not know each other, but for the ground floor."""

CORE = ["model", "objectives", "minimal_pairs", "training", "finetune", "embedding"]
CORE_MAY_IMPORT = {"torch", "numpy", "pyarrow", "safetensors", "tokenizers", "accelerate", "bertcore"}

SOURCES = sorted(
    path.relative_to(ROOT) for folder in ("bertcore", "tasks", "flows") for path in (ROOT / folder).rglob("*.py")
)


def floor(module: str) -> int | None:
    for rank, rooms in enumerate(RANKS):
        if any(module == room or module.startswith(room + ".") for room in rooms):
            return rank
    return None


def room(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "bertcore" else parts[0]


@pytest.mark.parametrize("file", SOURCES, ids=str)
def test_imports_go_down_only(file: Path) -> None:
    own = ".".join(file.with_suffix("").parts).removesuffix(".__init__")
    here = floor(own)
    assert here is not None or own in ("bertcore", "bertcore.__main__"), f"{file} has no place in RANKS"
    for module in imported_modules(file):
        there = floor(module)
        if there is None or here is None or room(module) == room(own):
            continue
        assert there > here or there == here == len(RANKS) - 1, f"{file} imports {module}, which is not below it"


@pytest.mark.parametrize("file", SOURCES, ids=str)
def test_each_orchestrator_has_one_importer(file: Path) -> None:
    importer = {"prefect": "flows", "dvc": "flows", "mlflow": "tasks"}
    web = {"fastapi", "uvicorn", "pydantic", "prometheus_client", "starlette"}
    for module in imported_modules(file):
        top = module.split(".")[0]
        assert importer.get(top, file.parts[0]) == file.parts[0], f"{file} imports {module}"
        assert top not in web or file.parts[:2] == ("bertcore", "serving"), f"{file} imports {module}"


@pytest.mark.parametrize(
    "file", [file for file in SOURCES if file.parts[:1] == ("bertcore",) and file.parts[1] in CORE], ids=str
)
def test_the_training_core_needs_little(file: Path) -> None:
    import sys

    foreign = {module.split(".")[0] for module in imported_modules(file)} - CORE_MAY_IMPORT - sys.stdlib_module_names
    assert not foreign, f"{file} imports {foreign}"
