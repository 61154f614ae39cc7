"""The random generators of a training process: torch's on the CPU and on its GPU. Nothing else in a step is random."""

from typing import Any

import torch


def random_state() -> dict[str, Any]:
    """Where they stand."""
    return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None}


def set_random_state(state: dict[str, Any]) -> None:
    """Where they stood when `random_state` gave `state`."""
    torch.set_rng_state(state["cpu"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
