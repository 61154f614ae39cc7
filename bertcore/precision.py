"""Where this machine computes, and in what type of number its matrix products: bfloat16 where the hardware multiplies
it."""

import os
from pathlib import Path

import torch

from bertcore.errors import ConfigError
from bertcore.variables import choice

PRECISIONS = ("bf16", "no")


def device() -> torch.device:
    """The GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def precision() -> str:
    """`bf16` or `no`: of a launched training what its launcher says, which may have its own config."""
    if launched := os.environ.get("ACCELERATE_MIXED_PRECISION"):
        if launched not in PRECISIONS:
            raise ConfigError(
                f"found mixed_precision {launched!r}, expected bf16 or no: float16 would need its losses scaled; "
                "correct the accelerate config"
            )
        return launched
    return choice("BERTCORE_PRECISION", PRECISIONS) or ("bf16" if has_fast_bf16() else "no")


def has_fast_bf16() -> bool:
    """Whether matrix products in bfloat16 are computed by the hardware."""
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    cpu = Path("/proc/cpuinfo")
    return cpu.is_file() and any(flag in cpu.read_text() for flag in ("avx512_bf16", "amx_bf16"))


def autocast(device: torch.device) -> torch.autocast:
    """Where nothing is trained: `precision` for the matrix products on `device`."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision() == "bf16")
