"""What an exchange says that failed because a process is no more."""

import pytest

from bertcore.training.control import how_lost

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
