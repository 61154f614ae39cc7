"""A small DVC project beside the real flows: a chain, a matrix, a stage that can fail and one that can be slow."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = ["flows", "prefect.yaml", ".dvcignore", ".gitignore", ".dvc/config"]
OURS += ["bertcore", "tasks/__init__.py", "tasks/processes.py", "tasks/status.py", "tasks/reporting"]
OURS += ["tasks/doctor/__init__.py", "tasks/doctor/findings.py", "tasks/experiment.py", "tasks/links.py"]
OURS += ["tasks/link_checks.py", "tasks/params.py", "tasks/paths.py"]

DVC_YAML = """
stages:
  corpus:
    cmd: python stage.py corpus data/corpus.txt
    deps: [stage.py]
    params: [corpus]
    outs: [data/corpus.txt]
  pretrain:
    cmd: python stage.py pretrain models/pretrained.txt data/corpus.txt
    deps: [data/corpus.txt, stage.py]
    params: [pretrain]
    outs: [models/pretrained.txt]
    meta: {retries: 1, retry_delay_seconds: 0}
  finetune:
    matrix:
      task: ${finetune.tasks}
    cmd: python stage.py finetune@${key} models/${key}.txt models/pretrained.txt
    deps: [models/pretrained.txt, stage.py]
    params:
      - finetune.tasks.${key}
    outs:
      - models/${key}.txt
  report:
    cmd: python stage.py report reports/tables.json models/qa.txt models/topic.txt
    deps: [models/qa.txt, models/topic.txt, stage.py]
    outs: [{reports/tables.json: {cache: false}}]
"""

PARAMS = """
corpus: {sources: [pydoc], words: 3}
pretrain: {learning_rate: 0.1}
finetune:
  tasks:
    topic: {data: corpus, epochs: 1}
    qa: {data: corpus, epochs: 1}
"""

# What it does beside its work is switched by files that DVC does not watch: `fail-NAME`, `slow-NAME`, `once-NAME`.
STAGE = """
import os, signal, sys, time
from pathlib import Path

name, out, *deps = sys.argv[1:]

def stop(number, frame):
    Path("stopped").write_text(name)
    sys.exit(75)

with open("runs.log", "a") as log:
    log.write(f"{name} {os.environ.get('BERTCORE_PIPELINE_NAME')}\\\\n")
signal.signal(signal.SIGINT, stop)
if Path(f"fail-{name}").exists():
    print(f"error: params.yaml: {name}: found 1, expected 2; write 2", file=sys.stderr)
    sys.exit(1)
if Path(f"once-{name}").exists():
    Path(f"once-{name}").unlink()
    raise ValueError("only the first time")
for step in range(1, 401 if Path(f"slow-{name}").exists() else 3):
    print(f"{name}  {step // 4}% {step}/400 loss 1.0", flush=True)
    time.sleep(0.1)
text = name + Path("params.yaml").read_text() + "".join(Path(dep).read_text() for dep in deps)
if name == "report":
    text = '[["Results", {"header": ["task", "f1"], "rows": [["`topic`", "0.75"]]}]]'
Path(out).parent.mkdir(exist_ok=True)
Path(out).write_text(text)
""".replace("\\\\", "\\")

SLOW_TO_STOP = STAGE.replace("def stop(number, frame):\n", "def stop(number, frame):\n    time.sleep(3)\n")
"""The checkpoint takes three seconds, in which the worker has long ended."""
assert SLOW_TO_STOP != STAGE

# What the flow asks before its stages: the file `sick` makes it fail, `mad` end without an answer.
DOCTOR = """
import sys
from pathlib import Path
from tasks.doctor.findings import Finding, dump

if Path("mad").exists():
    sys.exit("ModuleNotFoundError: No module named 'torch'")
found = [Finding(level="ok", name="versions", text="as in the lock")]
found.append(Finding(level="warn", name="disk", text="1 MiB is free", remedy="free some space"))
if Path("sick").exists():
    found.append(Finding(level="FAIL", name="memory", text="1 GiB needed", remedy="choose a smaller preset"))
print(dump(found))
"""

TOYS = {"dvc.yaml": DVC_YAML, "params.yaml": PARAMS, "stage.py": STAGE, "tasks/doctor/__main__.py": DOCTOR}


class Tree:
    """A working tree of its own with the project's flows and the toy pipeline."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
        # Nothing of the user's own Prefect or proxies may reach the tests.
        self.environment["HOME"] = str(root / "home")
        self.environment["BERTCORE_STAGES_AT_ONCE"] = "2"

    def launch(self, *stages: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(self.command(*stages), capture_output=True, timeout=900, check=False, **self.options())

    def start(self, module: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", module]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **self.options())

    def command(self, *stages: str) -> list[str]:
        return [sys.executable, "-m", "flows.launch", *stages]

    def options(self) -> dict:
        return {"cwd": self.root, "env": self.environment, "text": True}

    def runs(self) -> list[str]:
        """Names of the stages whose command ran since the last call, in order."""
        log = self.root / "runs.log"
        names = [line.split()[0] for line in log.read_text().splitlines()] if log.is_file() else []
        log.unlink(missing_ok=True)
        return names

    def processes(self) -> list[str]:
        """Command lines of the processes that work in this tree; those that are ending get a second for it."""
        deadline = time.monotonic() + 1.0
        while (found := self._processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def _processes(self) -> list[str]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()).is_relative_to(self.root):
                    found.append(" ".join(process.cmdline()) or process.name())
            except (psutil.Error, OSError):
                continue
        return found

    def edit(self, name: str, old: str, new: str) -> None:
        file = self.root / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))


def make_tree(root: Path) -> Tree:
    for name in OURS:
        source, target = ROOT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for name, text in TOYS.items():
        (root / name).write_text(text)
    (root / "home").mkdir()
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    return Tree(root)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return make_tree(tmp_path)
