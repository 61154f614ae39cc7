"""Cores by affinity and by the limits of control groups, in both of their versions."""

import os
from pathlib import Path

import pytest

from bertcore import cores


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        ("0::/job/inner\n", {"job/cpu.max": "200000 100000", "job/inner/cpu.max": "max 100000"}, 2),
        ("0::/job\n", {"job/cpu.max": "350000 100000"}, 3),
        ("0::/job\n", {"job/cpu.max": "50000 100000"}, 1),
        ("0::/job\n", {"job/cpu.max": "max 100000"}, 16),
        ("0::/job\n", {}, 16),
        ("5:cpu,cpuacct:/job\n", {"cpu/job/cpu.cfs_quota_us": "400000", "cpu/job/cpu.cfs_period_us": "100000"}, 4),
        ("5:cpu:/job\n", {"cpu/job/cpu.cfs_quota_us": "-1", "cpu/job/cpu.cfs_period_us": "100000"}, 16),
        (None, {}, 16),
    ],
)
def test_a_control_group_limits_the_cores(
    group: str | None, files: dict[str, str], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    if group is not None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(group)
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert cores.available(tmp_path) == expected
