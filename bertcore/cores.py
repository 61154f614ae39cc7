"""How many cores this process may use: those of its affinity, or fewer where a control group, such as a container's,
gives it less time."""

import os
from collections.abc import Iterator
from pathlib import Path


def available(root: Path = Path("/")) -> int:
    """At least one. `root`: of the file system with /proc and /sys."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(int(min([cores, *_quotas(root)])), 1)


def control_groups(controller: str, root: Path = Path("/")) -> Iterator[tuple[int, Path]]:
    """The version of Linux's control groups, 1 or 2, and the directory of each that limits this process by
    `controller`, from its own one up; none on other systems."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            version, mounted = 2, root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            version, mounted = 1, root / "sys/fs/cgroup" / controller
        else:
            continue
        group = mounted / path.lstrip("/")
        yield from ((version, place) for place in (group, *group.parents) if place.is_relative_to(mounted))


def _quotas(root: Path) -> Iterator[float]:
    """Cores' worth of time that each group may take."""
    for version, place in control_groups("cpu", root):
        try:
            if version == 2:
                quota, period = (place / "cpu.max").read_text().split()
            else:
                quota, period = ((place / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        except OSError:
            continue
        if quota != "max" and int(quota) > 0:
            yield int(quota) / int(period)
