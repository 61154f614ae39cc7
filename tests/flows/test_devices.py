"""How many stages run at once."""

import subprocess
from pathlib import Path

import pytest

from bertcore.errors import ConfigError
from flows.devices import cuda_devices, stages_at_once


def test_the_variable_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTCORE_STAGES_AT_ONCE", "3")
    assert stages_at_once() == 3
    monkeypatch.setenv("BERTCORE_STAGES_AT_ONCE", "many")
    with pytest.raises(ConfigError, match="STAGES_AT_ONCE: found 'many', expected a whole number of at least 1"):
        stages_at_once()


def test_otherwise_one_for_each_visible_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTCORE_STAGES_AT_ONCE", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0, GPU-5a,3")
    assert cuda_devices() == ["0", "GPU-5a", "3"]
    assert stages_at_once() == 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert stages_at_once() == 1


def test_a_listing_that_hangs_is_no_answer_and_is_asked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    asked: list[list[str]] = []

    def hang(command: list[str], timeout: float, **_: object) -> None:
        asked.append(command)
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", hang)
    driver = Path("/proc/driver/nvidia/gpus")
    expected = len(list(driver.iterdir())) if driver.is_dir() else 0
    assert len(cuda_devices()) == len(cuda_devices()) == expected
    assert asked == [[str(program), "-L"]]
