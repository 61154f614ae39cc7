"""Long sequences: a training step and the reading of a text, beside `transformers` and beside attention to all pairs.

    python -m benchmarks.long_texts --text TEXT --vocab VOCAB.txt [--lengths 512 2048 8192] [--keep]

A ModernBERT with windows of 128 tokens in two of mini's four layers. "all pairs, masked" is the same code with the
windows as a mask on all pairs of tokens, as it was computed before. `transformers` computes with SDPA. Every side has a
process of its own, whose peak memory is told; a training step reads `--tokens` tokens or one sequence.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import transformers

from benchmarks import family, results
from benchmarks.family import Setting
from benchmarks.machine import describe
from benchmarks.options import CLOCKS, make_parser
from benchmarks.text import Text, prepared, text_arguments
from benchmarks.turns import Work, row, take_turns
from bertcore.model import group_attention
from bertcore.model.config import build_pretraining
from bertcore.model.huggingface import load_config, load_pretrained
from bertcore.model.layout import Layout
from bertcore.precision import autocast

NEVER = 2**31


def masked(work: str, setting: Setting) -> Work:
    """Ours, with all pairs of tokens whatever the length."""
    group_attention._BLOCKS = group_attention._TILED_FROM = NEVER
    return WORK[work]["bertcore"](setting)


def _sequence(setting: Setting) -> torch.Tensor:
    """The tokens of the longest of a few sequences, which end with a sentence."""
    instances = Text(setting.text).loader(setting.mask, 8).batch(0)
    return torch.from_numpy(instances.take(np.asarray([instances.lengths.argmax()])).tokens.astype("int64"))


def our_reading(setting: Setting) -> Work:
    """The last states of one text."""
    model = build_pretraining(load_config(setting.directory))
    load_pretrained(model, setting.directory)
    ids, encoder = _sequence(setting), model.base_model.eval()
    layout, types = Layout.from_lengths(torch.tensor([len(ids)])), torch.zeros_like(ids)

    @torch.inference_mode()
    def work() -> int:
        with autocast(ids.device):
            encoder.hidden_states(ids, types, layout)
        return len(ids)

    return work


def their_reading(setting: Setting) -> Work:
    """The same by transformers."""
    model = transformers.ModernBertModel.from_pretrained(setting.directory, attn_implementation="sdpa").eval()
    ids = _sequence(setting)[None]

    @torch.inference_mode()
    def work() -> int:
        with autocast(ids.device):
            model(input_ids=ids, attention_mask=torch.ones_like(ids))
        return ids.numel()

    return work


WORK = {
    "training step": {"bertcore": family.ours, "transformers": family.theirs},
    "reading": {"bertcore": our_reading, "transformers": their_reading},
}


def main() -> None:
    parser = make_parser(__doc__, "--preset", "--processor-time", turns=3)
    text_arguments(parser, ".benchmarks/long", 2000)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048, 8192], help="(%(default)s)")
    parser.add_argument("--tokens", type=int, default=4096, help="of a training step (%(default)s)")
    options = parser.parse_args()

    text, rows = prepared(options), list[dict[str, str]]()
    clock, of_time = CLOCKS[options.processor_time]
    for length in options.lengths:
        batch = max(options.tokens // length, 1)
        setting = Setting(text.directory, "modern", options.preset, length, batch, max(options.lengths), window=128)
        setting.save_weights()
        for work in WORK:
            found = _rows(work, setting, options.turns, clock)
            print(*found, sep="\n", flush=True)
            rows += found
    facts = {
        **describe(),
        "work": f"modern {options.preset}, {text.vocabulary.size:,} entries; a step of recipe modern with AdamW, or "
        "the last states of one text",
        "turns": f"{options.turns} of one step or text each, after one that is not counted",
        "time": of_time,
    }
    results.show(f"long_texts-{options.preset}", facts, rows, keep=options.keep)


def _rows(work: str, setting: Setting, turns: int, clock: Callable[[], float]) -> list[dict[str, str]]:
    variants = {
        "bertcore": partial(WORK[work]["bertcore"], setting),
        "all pairs, masked": partial(masked, work, setting),
        "transformers": partial(WORK[work]["transformers"], setting),
    }
    measured = take_turns(variants, turns, 1, warmup=1, clock=clock)
    tokens = f"{1 if work == 'reading' else setting.batch_size} x {setting.length:,}"
    return [
        {"work": work, "tokens": tokens, "by": name, **row(measured["bertcore"], found, rate="tokens/s")}
        for name, found in measured.items()
    ]


if __name__ == "__main__":
    main()
