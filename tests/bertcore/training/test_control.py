"""What an exchange says that failed because a process is no more, or otherwise, and what a GPU says."""

import pytest
import torch
from torch import distributed

from bertcore.training.control import how_failed, how_lost

GLOO = "[/__w/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] "


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            f"{GLOO}Read error [10.0.0.1]:6267: Connection reset by peer. This is typically caused by a remote worker",
            "Read error [10.0.0.1]:6267: Connection reset by peer",
        ),
        (f"{GLOO}Connection closed by peer [10.0.0.1]:40344", "Connection closed by peer [10.0.0.1]:40344"),
        (
            "NCCL error, unhandled system error.\nLast error:\nsocket: Connection reset by peer",
            "socket: Connection reset by peer",
        ),
        ("[1] is setting up a connection: Socket Timeout", "[1] is setting up a connection: Socket Timeout"),
        (f"{GLOO}Timed out waiting 1800000ms for recv operation to complete", ""),
        ("mat1 and mat2 shapes cannot be multiplied", ""),
    ],
)
def test_only_a_lost_process_is_said_to_be_lost(said: str, expected: str) -> None:
    assert how_lost(RuntimeError(said)) == expected


NCCL = (
    "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled system error (run with "
    "NCCL_DEBUG=INFO for details), NCCL version 2.27.5\nncclSystemError: System call (e.g. socket, malloc) failed.\n"
    "Last error:\nsocketStartConnect: Connect to 10.0.0.2<35233> failed : Software caused connection abort"
)
CUDA = "CUDA error: an illegal memory access was encountered\nSearch for `cudaErrorIllegalAddress' in https://docs"
FULL_MESH = f"Gloo connectFullMesh failed with {GLOO}timed out connecting: SO_ERROR: Connection refused, remote=[::1]:1"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            distributed.DistBackendError(NCCL),
            "NCCL error, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5 "
            "socketStartConnect: Connect to 10.0.0.2<35233> failed : Software caused connection abort",
        ),
        (torch.AcceleratorError(CUDA), "CUDA error: an illegal memory access was encountered"),
        (
            RuntimeError(FULL_MESH),
            "Gloo connectFullMesh failed with timed out connecting: SO_ERROR: Connection refused, remote=[::1]:1",
        ),
        (
            RuntimeError("Gloo connectFullMesh failed with [/__w/gloo/gloo/transport/tcp/pair.h:311] Connect timeout"),
            "Gloo connectFullMesh failed with Connect timeout",
        ),
        (
            RuntimeError(f"{GLOO}Timed out waiting 1800000ms for recv operation to complete"),
            "Timed out waiting 1800000ms for recv operation to complete",
        ),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ""),
        (RuntimeError(""), ""),
    ],
)
def test_a_failure_of_a_gpu_or_of_an_exchange_is_one_line(error: RuntimeError, expected: str) -> None:
    assert how_failed(error) == expected
