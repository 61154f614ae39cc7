"""`make pretrain`: run the pipeline through its Prefect deployment and show it, from nothing to the table of results.

Exit status: 0 completed, 1 failed or not started, 130 stopped with Ctrl-C.
"""

import argparse
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from flows import server
from flows.deployment_run import console_of, launched, run_deployment
from flows.environment import REMOTE, ROOT
from tasks.reporting.document import SIGNS, TABLES, read_tables
from tasks.reporting.rendering import plain_text

if TYPE_CHECKING:
    from rich.console import Console

    from tasks.reporting.document import Table as ReportTable

REPORTS = ROOT / "reports"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m flows.launch", description=__doc__.splitlines()[0])
    parser.add_argument("stages", nargs="*", help="run only these stages of dvc.yaml and what they need")
    stages = parser.parse_args(arguments).stages
    return launched("make pretrain", lambda: _launch(stages))


def _launch(stages: list[str]) -> int:
    environment = dict(os.environ)
    if not server.runs(environment) and _up_to_date(stages):
        # A server and a worker, started to be told so, would take a quarter of a minute.
        print("nothing to do: every stage is up to date in dvc.lock")
        return _push(environment) or _show_results(stages)
    parameters = {"stages": stages} if stages else {}
    return run_deployment("pretrain-flow", parameters, lambda *_: _show_results(stages))


def _push(environment: dict[str, str]) -> int:
    """Give the remote what it misses, which an earlier run could not push; 1 where it cannot be done."""
    if not environment.get(REMOTE):
        return 0
    print(f"{REMOTE}: what is missing there is pushed", flush=True)
    command = [sys.executable, "-m", "flows.remote", "push"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def _up_to_date(stages: list[str]) -> bool:
    from flows.graph import GraphError, read_graph, select, unchanged
    from tasks.link_checks import outdated_link

    try:
        selected = select(read_graph(ROOT), stages or None)
        return outdated_link(ROOT) is None and unchanged(ROOT, selected) == {stage.name for stage in selected}
    except GraphError:
        return False  # the flow tells it


def _show_results(stages: list[str]) -> int:
    """The report's first table, and where the rest is; nothing where `stages` were run that make no report."""
    if stages and "report" not in stages:
        return 0
    if found := read_tables(REPORTS / TABLES):
        _, results = found[0]
        console = console_of()
        console.print()
        _print_table(results, console)
        for table in (table for _, table in found if tuple(table.header) == SIGNS):
            console.print()
            _print_table(table, console)
    page = REPORTS / "report.html"
    if page.is_file():
        print(f"\nThe whole report: {page.relative_to(ROOT)}")
    print("The runs in Prefect and MLflow: make ui")
    return 0


def _print_table(table: "ReportTable", console: "Console") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in table.header:
        shown.add_column(column)
    for row in table.rows:
        shown.add_row(*(Text(plain_text(cell)) for cell in row))
    console.print(shown)


if __name__ == "__main__":
    sys.exit(main())
