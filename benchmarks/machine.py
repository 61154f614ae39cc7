"""What a measurement was made on."""

from importlib.metadata import version
from pathlib import Path

import torch

from bertcore import cores
from bertcore.precision import device, precision
from bertcore.training.flops import peak_flops
from tasks.tracking.lineage import git_commit

PACKAGES = ("torch", "transformers", "accelerate", "tokenizers", "numpy")


def describe(code: Path = Path(__file__).parent) -> dict[str, str]:
    """Device, cores, precision, versions, and the commit of the working tree that `code` is in."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else _processor()
    count = cores.available()
    return {
        "device": f"{name}, {count} core{'s' * (count > 1)}, {torch.get_num_threads()} threads",
        "precision": {"bf16": "bfloat16 autocast", "no": "float32"}[precision()],
        "versions": ", ".join(f"{name} {version(name)}" for name in PACKAGES),
        "commit": git_commit(code) or "unknown",
    }


def gemm_peak_flops() -> float:
    """The matrix-multiply peak of this machine's device in the precision of the training, FLOP/s."""
    return peak_flops(device(), torch.bfloat16 if precision() == "bf16" else torch.float32)


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "CPU")
    features = " ".join(name for name in ("avx512_bf16", "amx_bf16") if any(name in line for line in lines))
    return f"{model} {features}".strip()
