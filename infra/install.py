"""Install locks into the running Python with pip, show how far it is, and leave the command `bertcore` beside that
Python; only the standard library is needed.

Usage: .venv/bin/python infra/install.py requirements.lock [MORE.lock …]
"""

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

LARGE = re.compile(r"\(\d+(\.\d+)? [GT]B\)|\(\d{3,}(\.\d+)? MB\)")
"""How pip tells the size of a download that may take minutes."""

ROOT = Path(__file__).resolve().parent.parent

COMMAND = """\
#!/bin/sh
'''exec' {python} "$0" "$@"
' '''
import sys

sys.path.insert(0, {root!r})
from bertcore.commands.main import main

sys.exit(main())
"""
"""What `[project.scripts]` of pyproject.toml would give; the tree itself is not installed, so that its code is always
the code that runs. The second and third line
are a text to Python; behind `#!` the path of an interpreter could have no blank in it."""

EVERY = 25
"""Packages between two lines where no terminal shows them."""


def main(locks: list[str]) -> int:
    """pip's exit status, for the packages of all `locks`."""
    total = sum(len(Path(lock).read_text(encoding="utf-8").split()) for lock in locks)
    print(f"installing the {total} packages of {', '.join(locks)}", flush=True)
    command = [sys.executable, "-m", "pip", "install", "--progress-bar", "off"]
    command += [argument for lock in locks for argument in ("-r", lock)]
    began, terminal = time.monotonic(), sys.stdout.isatty()
    clear, end = ("\r\x1b[K", "") if terminal else ("", "\n")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as pip:
        assert pip.stdout is not None
        for line in steps(pip.stdout, total, all_of_them=terminal):
            print(f"{clear}{line[:100]}", end=end, flush=True)
        status = pip.wait()
    done = "installed" if status == 0 else f"pip ended with status {status}"
    print(f"{clear}{done} after {time.monotonic() - began:.0f} s", flush=True)
    if status == 0:
        write_command(Path(sys.executable).parent)
    return status


def write_command(directory: Path) -> None:
    """Leave `bertcore` in `directory`, for who has activated the environment."""
    path = directory / "bertcore"
    path.write_text(COMMAND.format(python=shlex.quote(sys.executable), root=str(ROOT)), encoding="utf-8")
    path.chmod(0o755)


def steps(output: Iterable[str], total: int, *, all_of_them: bool) -> Iterator[str]:
    """What pip does, from what it prints: a line for each package, or for some and every large download."""
    count, name = 0, ""
    for line in map(str.strip, output):
        if line.startswith(("Collecting ", "Requirement already satisfied: ")):
            count, name = count + 1, re.sub(r"^(Collecting|Requirement already satisfied:) ", "", line).split(" ")[0]
            if all_of_them or count % EVERY == 0:
                yield f"{min(count, total)} of {total}  {name}"
        elif line.startswith("Downloading ") and ".metadata" not in line and (all_of_them or LARGE.search(line)):
            yield f"{min(count, total)} of {total}  {line[0].lower()}{line[1:]}"
        elif line.startswith("Installing collected packages"):
            yield "unpacking them, which takes a minute or more"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
