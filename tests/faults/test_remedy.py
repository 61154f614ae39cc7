"""The command that an error names for a damaged file mends it, where the file is one with DVC's copy, too."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bertcore.errors import ArtifactError
from bertcore.files import checksum
from bertcore.shards.store import Manifest, ShardEntry, verify

STAGE = "stages:\n  shards:\n    cmd: mkdir out && echo content > out/shard\n    outs: [out]\n"


def run(*command: str, at: Path) -> None:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(command, cwd=at, env=environment, check=True, capture_output=True)


def damage_unseen(path: Path) -> None:
    """As a disk does it: another byte, the same time and the same write protection."""
    state = path.stat()
    path.chmod(0o644)
    path.write_bytes(b"cOntent\n")
    path.chmod(state.st_mode)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.mark.parametrize("links", ["hardlink", "symlink", "copy"])
def test_the_remedy_brings_the_file_back(tmp_path: Path, links: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dvc.yaml").write_text(STAGE)
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text(
        f"[core]\n    no_scm = true\n    analytics = false\n[cache]\n    type = {links}\n"
    )
    run("dvc", "repro", at=tmp_path)
    run("dvc", "checkout", "--relink", at=tmp_path)
    shard = tmp_path / "out/shard"
    manifest = Manifest(1, "", [ShardEntry("shard", "train", 0, 0, 0, checksum(shard))])
    verify(Path("out"), manifest)
    damage_unseen(shard)
    with pytest.raises(ArtifactError) as raised:
        verify(Path("out"), manifest)
    remedy = re.search(r"run `(.*)`", str(raised.value))
    assert remedy is not None
    run("sh", "-c", remedy[1], at=tmp_path)
    verify(Path("out"), manifest)
