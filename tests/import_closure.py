"""Which files of the project a module imports, directly or not, found by parsing."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def module_file(module: str) -> Path | None:
    """The file of a dotted name below the project's root, relative to it; None for other packages."""
    path = Path(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if (ROOT / candidate).is_file():
            return candidate
    return None


@cache
def imported_modules(file: Path) -> frozenset[str]:
    """Every module that `file` names in an import statement, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def import_closure(file: Path) -> set[Path]:
    """`file` and every project file that it imports, directly or not."""
    found, waiting = set(), [file]
    while waiting:
        current = waiting.pop()
        if current in found:
            continue
        found.add(current)
        waiting += [other for name in imported_modules(current) if (other := module_file(name))]
    return found
