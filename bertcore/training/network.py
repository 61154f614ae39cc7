"""How the processes of a training find each other on several machines, and that it is seen soon where they do not."""

import fcntl
import os
import socket
import struct
from datetime import timedelta

from torch import distributed

INTERFACE = "GLOO_SOCKET_IFNAME"
"""Environment variable: the interface at which gloo listens."""
_SIOCGIFADDR = 0x8915
"""Of Linux's sockios.h."""
_LONGEST_JOINING = timedelta(minutes=1)
"""All processes have just met at process 0. Gloo waits five times as long for a connection that another one opens."""


def choose_interface() -> None:
    """Among several machines, have gloo listen where this one reaches process 0, unless `INTERFACE` is set.

    It would listen at the address of the host's name, which on Debian and Ubuntu is 127.0.1.1: no other machine's.
    """
    if int(os.environ.get("GROUP_WORLD_SIZE", "1")) == 1 or os.environ.get(INTERFACE):
        return
    if name := interface_towards(os.environ["MASTER_ADDR"]):
        os.environ[INTERFACE] = name


def interface_towards(address: str) -> str | None:
    """The interface of this machine whose packets go to `address`, by IPv4; None where that is not known."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # sends nothing; the port does not matter
            own = probe.getsockname()[0]
            return next((name for _, name in socket.if_nameindex() if _address_of(name, probe) == own), None)
    except OSError:
        return None


def _address_of(interface: str, any_socket: socket.socket) -> str | None:
    """The first one by IPv4; None where it has none."""
    try:
        found = fcntl.ioctl(any_socket.fileno(), _SIOCGIFADDR, struct.pack("256s", interface.encode()))
    except OSError:
        return None
    return socket.inet_ntoa(found[20:24])  # netdevice(7): behind the name (16 bytes), family and port


def require_connections() -> None:
    """Connect every process with every other one through gloo, all at the same time; `RuntimeError` within
    minutes where one cannot. What the training itself connects has a day for its exchanges, and so for connecting."""
    distributed.new_group(timeout=_LONGEST_JOINING, backend="gloo")
