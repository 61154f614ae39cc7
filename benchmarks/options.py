"""The options that measurements have in common, each said once."""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SHARED: dict[str, dict[str, Any]] = {
    "--preset": {"default": "mini", "help": "size of the model (%(default)s)"},
    "--length": {"type": int, "default": 128, "help": "tokens of a sequence at most (%(default)s)"},
    "--batch": {"type": int, "default": 32, "help": "sequences of a step (%(default)s)"},
    "--processor-time": {"action": "store_true", "help": "measure what the processor spent"},
    "--directory": {"type": Path, "help": "the clone (.benchmarks/NAME_OF_FILE)"},
}
CLOCKS: dict[bool, tuple[Callable[[], float], str]] = {
    False: (time.perf_counter, "elapsed"),
    True: (time.process_time, "of the processor, which other work shared"),
}
"""By --processor-time: what gives the seconds, and what is said of them."""


def make_parser(description: str, *shared: str, turns: int | None = None) -> argparse.ArgumentParser:
    """A parser with --keep and those of the `shared` options; and with --turns, of which `turns` is the default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="write the result into benchmarks/results/")
    for option in shared:
        parser.add_argument(option, **_SHARED[option])
    if turns is not None:
        parser.add_argument("--turns", type=int, default=turns, help="turns of each (%(default)s)")
    return parser
