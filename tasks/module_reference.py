"""Write docs/architecture.md: how the project is laid out, and what every module is, by the first sentence of its
docstring.

Usage: python -m tasks.module_reference
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from bertcore.files import replace_file

PAGE = Path("docs/architecture.md")

HEAD = """# Architecture

Written by `python -m tasks.module_reference`: a module says itself what it is. A test holds it current.

Text goes in at the top, a fine-tuned and evaluated encoder comes out at the bottom. `dvc.yaml` is the only place that
declares stages and edges. `dvc repro` runs them; the Prefect flow reads the same graph and runs each stage as one task,
adding what DVC has not: retries with resume, live progress, artifacts, cancellation, a page. After either, the other
finds every stage cached.

- **`flows -> tasks -> bertcore`.** Imports go down only, also between the packages of `bertcore`; a test reads them.
  `flows` alone imports prefect and dvc, `tasks` alone imports mlflow, and `bertcore` knows no orchestrator.
- **Packages are stages.** A package of `bertcore` holds what its stage computes with, and `dvc.yaml` names packages, or
  files of them, as dependencies: editing anything else re-runs `inputs` alone, which checks parameters with all of it.
- **One section, one dataclass.** A section of `params.yaml` is a frozen dataclass beside the code that it configures.
- **Variants are rows.** A source, format, head family, architecture, objective, kind of tokenizer or optimizer is a
  file and a row in a plain dict; [CONTRIBUTING.md](../CONTRIBUTING.md) walks the ways that people take.
- **The way of a training.** `tasks/pretrain.py` looks at what it reads, `bertcore/training/launch.py` makes the command
  of Accelerate, `tasks/training/launcher.py` runs it and hands signals on; in each process `tasks/training/process.py`
  builds from `params.yaml` what `bertcore/training/loop.py` trains.
- **Determinism.** Data order, pairs and masks are pure functions of the seed and the step. What clocks and machines
  decide lies in `metrics/timing/` and `reports/` only.

| path | what it is |
|:--|:--|
| `params.yaml` | every knob, one section per stage |
| `dvc.yaml` | the pipeline: commands, deps, params, outs |
| `prefect.yaml` | the deployments of the three flows |
| `Makefile` | pretrain, compare, doctor, plan, ui, onnx, test, test-infra, lint, check, faults, docs, clean |
| `requirements*.lock` | the versions; `-dev` and `-infra`: what tests add; the others: for those who want them |
| `infra/` | how to go from one machine to many, and the installation |
| `benchmarks/` | side by side with named peers; results with machine and versions |
| `tests/` | mirrors the tree; `faults/` kills and damages real trainings, `contributing/` adds what people add |
"""

PACKAGES = ("flows", "tasks", "bertcore")


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for package in PACKAGES:
        for directory in _packages(Path(package)):
            parts += _package(directory)
    return "\n".join(parts).rstrip("\n") + "\n"


def _packages(package: Path) -> list[Path]:
    """The package and every folder of it that has modules."""
    return sorted({path.parent for path in package.rglob("*.py") if _summary(path)} | {package})


def _package(directory: Path) -> Iterator[str]:
    """A title and a row for each module; the docstring of `__init__.py` says what the package is."""
    opening = _summary(directory / "__init__.py")
    yield f"## `{directory.as_posix()}/`\n" + (f"\n{opening}\n" if opening else "")
    yield "| module | what it is |\n|:--|:--|"
    for path in sorted(directory.glob("*.py")):
        if path.name != "__init__.py" and (summary := _summary(path)):
            yield f"| `{path.name}` | {summary.replace('|', chr(92) + '|')} |"
    yield ""


def _summary(path: Path) -> str:
    """The first sentence of a module's docstring, on one line; empty where there is none."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path.is_file() else None
    first = " ".join((text or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[a-z)`\]])\. (?=[A-Z`])", first)[0].rstrip(".:")


def main() -> None:
    """Write the page."""
    with replace_file(PAGE) as beside:
        beside.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
