"""What is launched: how many processes, by whose settings, and what is refused beforehand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from accelerate.commands.config.config_args import load_config_from_file

from bertcore.errors import ConfigError
from bertcore.training.launch import launch_command
from bertcore.training.machine import threads

ROOT = Path(__file__).resolve().parents[3]


def test_the_machine_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTCORE_PROCESSES", "none")
    with pytest.raises(ConfigError, match="BERTCORE_PROCESSES: found 'none', expected a whole number"):
        launch_command("x")
    monkeypatch.setenv("BERTCORE_PROCESSES", "2")
    monkeypatch.setenv("BERTCORE_PRECISION", "fp8")
    with pytest.raises(ConfigError, match="BERTCORE_PRECISION: found 'fp8'"):
        launch_command("x")


def test_every_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("BERTCORE_PRECISION", "no")
    assert launch_command("x")[1]["BERTCORE_EXPECTED_PROCESSES"] == "2"
    monkeypatch.setenv("BERTCORE_PROCESSES", "3")
    with pytest.raises(ConfigError, match="BERTCORE_PROCESSES: found 3, expected at most the 2 GPUs of this machine"):
        launch_command("x")
    monkeypatch.setenv("BERTCORE_ACCELERATE_CONFIG", str(ROOT / "infra/accelerate/gpus.yaml"))
    with pytest.raises(ConfigError, match=r"gpus\.yaml: num_processes: found 8, expected at most the 2 GPUs"):
        launch_command("x")
    monkeypatch.setenv("BERTCORE_ACCELERATE_CONFIG", str(ROOT / "infra/accelerate/cpu.yaml"))
    launch_command("x")


@pytest.mark.parametrize("processes", [1, 2])
def test_what_accelerate_config_left_in_the_home_changes_nothing(
    processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "accelerate").mkdir()
    theirs = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\ngpu_ids: '0'\nnum_processes: 4\n"
    (tmp_path / "accelerate" / "default_config.yaml").write_text(theirs)
    found = "f\"joined {os.environ.get('WORLD_SIZE', '1')} {os.environ.get('ACCELERATE_USE_FSDP')}\\n\""
    # In one piece: two processes that print at once would mix their words.
    (tmp_path / "worker.py").write_text(f"import os; os.write(1, {found}.encode())")
    monkeypatch.setenv("BERTCORE_PROCESSES", str(processes))
    command, environment = launch_command("worker")
    environment |= {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), "HF_HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, check=True, timeout=120, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"joined {processes} None"] * processes


def test_an_accelerate_config_says_how_many_processes_must_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own.yaml"
    monkeypatch.setenv("BERTCORE_ACCELERATE_CONFIG", str(path))
    with pytest.raises(ConfigError, match=r"own\.yaml', expected a file; see infra/accelerate"):
        launch_command("x")
    path.write_text((ROOT / "infra/accelerate/cpu.yaml").read_text())
    environment = launch_command("x")[1]
    assert environment["BERTCORE_EXPECTED_PROCESSES"] == "2"
    assert environment["OMP_NUM_THREADS"] == os.environ.get("OMP_NUM_THREADS", str(threads(2)))
    path.write_text("[")
    with pytest.raises(ConfigError, match=r"BERTCORE_ACCELERATE_CONFIG: .*own\.yaml: .*correct it"):
        launch_command("x")


@pytest.mark.parametrize("name", ["cpu", "fsdp2", "gpus"])
def test_two_trainings_of_one_machine_take_ports_of_their_own(name: str) -> None:
    assert load_config_from_file(str(ROOT / f"infra/accelerate/{name}.yaml")).main_process_port == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("distributed_type: DEEPSPEED", "distributed_type: found DEEPSPEED, expected MULTI_GPU"),
        (
            "distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: FULL_SHARD}",
            "fsdp_version: found 1, expected 2",
        ),
    ],
)
def test_other_ways_to_divide_weights_are_refused(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.yaml").write_text(f"compute_environment: LOCAL_MACHINE\nnum_processes: 2\nuse_cpu: true\n{text}\n")
    monkeypatch.setenv("BERTCORE_ACCELERATE_CONFIG", str(tmp_path / "own.yaml"))
    with pytest.raises(ConfigError, match=said):
        launch_command("x")
