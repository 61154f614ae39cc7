"""On another device than the CPU nothing is left on the CPU: seen where there is no GPU, on a pretended device."""

import subprocess
import sys

import pytest
from torch.utils import backend_registration

from bertcore.precision import device
from tests.import_closure import ROOT

SETUP = "_setup_privateuseone_for_python_backend"
"""What `tests.pretended_device` needs of torch, which calls it experimental."""
TESTS = [
    "test_gpu.py::test_losses_and_gradients_are_those_of_the_cpu",  # of every recipe
    "training/test_loop.py::test_a_resumed_training_has_the_bits_of_an_uninterrupted_one",
    "finetune/test_distillation.py::test_a_student_comes_near_to_its_teacher",  # with every head, saved and loaded
    "finetune/test_distillation.py::test_a_teacher_with_a_chain_is_refused",
    "embedding/test_training.py::test_cached_gradients_are_those_of_the_whole_batch",
    "minimal_pairs/test_detection.py",
    "minimal_pairs/test_scoring.py",
    "commands/test_embed.py",
    "commands/test_fill_mask.py",
]
"""Below this directory: what trains models, and what asks them."""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(backend_registration, SETUP), reason="this torch makes no devices of Python")
@pytest.mark.skipif(device().type != "cpu", reason="there is a GPU, on which all tests run")
def test_nothing_is_left_on_the_cpu() -> None:
    plugins = ["-p", "tests.pretended_device", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *(f"tests/bertcore/{name}" for name in TESTS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:]
