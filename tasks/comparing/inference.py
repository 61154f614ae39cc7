"""How fast a saved encoder reads, and the memory that it takes: measured in a process of its own.

    python -m tasks.comparing.inference models/pretrained

Prints JSON: `predicts_tokens` (1 where the model itself predicts masked tokens, else 0), `parameters`,
`tokens_per_second` of hidden states without gradients, `peak_bytes` of the process.
"""

import json
import sys
import time
from pathlib import Path

import torch

from bertcore.apply.pooling import load_encoder
from bertcore.memory import peak_bytes
from bertcore.model.huggingface import load_kind
from bertcore.model.layout import Layout
from bertcore.precision import autocast, device

SEQUENCES, LENGTH, PASSES = 32, 128, 5


def measure(directory: Path) -> dict[str, float]:
    """Of `SEQUENCES` full sequences at once; the fastest of some passes, after one that is not counted."""
    model, place = load_encoder(directory), device()
    config = model.config
    length = min(LENGTH, config.max_sequence_length)
    layout = Layout.from_lengths(torch.full((SEQUENCES,), length)).to(place)
    ids = torch.arange(SEQUENCES * length, device=place) % config.vocab_size
    seconds = []
    for _ in range(PASSES + 1):
        began = time.perf_counter()
        with torch.inference_mode(), autocast(place):
            model.hidden_states(ids, torch.zeros_like(ids), layout).sum().item()  # waits for the device
        seconds.append(time.perf_counter() - began)
    peak = torch.cuda.max_memory_allocated() if place.type == "cuda" else peak_bytes()
    return {
        "predicts_tokens": float(load_kind(directory) != "replaced_tokens"),
        "parameters": model.num_parameters(),
        "tokens_per_second": SEQUENCES * length / min(seconds[1:]),
        "peak_bytes": peak,
    }


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
