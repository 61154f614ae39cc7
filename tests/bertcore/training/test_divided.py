"""Several CPU processes resume with the same bits: two that divide weights, gradients and optimizer state (FSDP2), and
three that add whole gradients (DDP). That they train what one process trains is in
tests/tasks/training/test_world_sizes.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bertcore.training.launch import launch_command
from tests.samples import token_shard

WORKER = """
import sys
from dataclasses import replace
from pathlib import Path
import pytest
import torch
from torch.distributed.tensor import DTensor
from bertcore.training.flight_record import weight_norms
from tests.bertcore.training import test_loop as module
from tests.divided import divide_weights
directory, mode, is_divided = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "divided"
if is_divided:
    divide_weights()
settings = replace(module._no_dropout(), max_steps=6)
run = module.training(directory, settings)
if mode == "stopped":
    run.settle_order()
    while run.state.step < 3:
        run.train_step()
    run._control.on_main(run.checkpoints.hold)
    run._keeper.save()
else:
    run.run()
    layers = run.model.bert.encoder.layer.parameters()  # what lies outside of them is still whole after a forward pass
    assert all(isinstance(value, DTensor) == is_divided for value in layers)
    norms = weight_norms(run.model)  # every process must ask
    model = run.whole_models()[""]
    if run._accelerator.is_main_process:
        torch.save(model.state_dict(), directory / "weights.pt")
        assert norms == pytest.approx(weight_norms(model), rel=1e-6)
"""


@pytest.fixture
def run_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "worker.py").write_text(WORKER)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def run(directory: Path, mode: str, weights: str, processes: int) -> dict[str, torch.Tensor] | None:
        directory.mkdir(exist_ok=True)
        token_shard(directory, 80)  # written before two processes look for it
        monkeypatch.setenv("BERTCORE_PROCESSES", str(processes))
        command, environment = launch_command("worker")
        environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
        subprocess.run([*command, str(directory), mode, weights], env=environment, check=True, timeout=120)
        return torch.load(directory / "weights.pt", weights_only=True) if mode != "stopped" else None

    return run


@pytest.mark.slow
@pytest.mark.parametrize("how", [("divided", 2), ("whole", 3)], ids=["divided", "whole"])
def test_several_processes_resume_with_the_same_bits(run_worker, how: tuple[str, int], tmp_path: Path) -> None:
    whole = run_worker(tmp_path / "whole", "finished", *how)
    run_worker(tmp_path / "resumed", "stopped", *how)
    resumed = run_worker(tmp_path / "resumed", "finished", *how)
    for name, tensor in whole.items():
        assert torch.equal(resumed[name], tensor), name


HEADS_FIRST = """
import copy
import itertools
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from bertcore.training.state import load_whole_state, whole_state

def start(way):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    for module in (*model, model) if way == "divided" else ():
        fully_shard(module)
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)

def step(model, optimizer, number):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).square().sum().backward()
    if number < 3:
        for parameter in model[0].parameters():
            parameter.grad = None
    optimizer.step()

def same_bits(before, after, stopped):
    (model, optimizer), (resumed, its_optimizer) = start(before), start(after)
    for number in range(stopped):
        step(model, optimizer, number)
    load_whole_state(resumed, its_optimizer, copy.deepcopy(whole_state(model, optimizer)))
    for number in range(stopped, 6):
        step(model, optimizer, number)
        step(resumed, its_optimizer, number)
    for pair in zip(model.parameters(), resumed.parameters(), strict=True):
        ours, theirs = (each.full_tensor() if isinstance(each, DTensor) else each for each in pair)
        assert torch.equal(ours, theirs), (before, after, stopped)

torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
for case in itertools.product(("divided", "whole"), ("divided", "whole"), (0, 2, 4)):
    same_bits(*case)
"""


def test_weights_resume_from_before_all_of_them_had_a_gradient_divided_or_not() -> None:
    subprocess.run([sys.executable, "-c", HEADS_FIRST], check=True, timeout=300)
