"""How fast a fine-tuned model answers, one text at a time and 32, beside `transformers`, ONNX Runtime and `optimum`.

    python -m benchmarks.inference [--preset mini] [--architecture bert] [--turns 5] [--optimum PYTHON] [--keep]

All variants have the same weights and texts of the same lengths. `transformers` computes as ours does, in bfloat16
where the processor has it, and once more in float32, which is what it takes by default. Padding is made where a variant
needs it, and is part of its time, as is everything from token ids to logits. They take turns in one process, but for
optimum's, which needs an interpreter with an older `transformers`, `pip install optimum-onnx[onnxruntime]`: every turn
of ours stands beside one of each of the others.
"""

import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from benchmarks import results
from benchmarks.machine import describe
from benchmarks.options import make_parser
from benchmarks.turns import Turns, Work, faster
from bertcore.apply.prepacked import pack
from bertcore.commands.onnx_scores import onnx_logits
from bertcore.export import onnx
from bertcore.finetune.features import Features
from bertcore.finetune.inference import logits_of
from bertcore.model.config import ModelConfig, build_head
from bertcore.model.huggingface import label_names, load_config, load_pretrained, save_pretrained
from bertcore.precision import precision
from bertcore.tokens.wordpiece import SPECIAL_TOKENS, make_tokenizer, save_tokenizer
from bertcore.training.machine import make_accelerator

ENTRIES = 30_522
LABELS = ["a", "b", "c", "d"]
CASES: dict[str, tuple[int, ...]] = {
    "1 x 16": (16,),
    "1 x 128": (128,),
    "1 x 512": (512,),
    "32 x 128": (128,) * 32,
    "32, of 16 to 512": tuple(np.geomspace(16, 512, 32).round().astype(int).tolist()),
}
"""Lengths of the texts that are given at once."""
UNITS = {1: 8, 32: 1}
"""Calls of a turn, by the number of texts."""


def features_of(lengths: tuple[int, ...]) -> Features:
    """Texts of random words, in no order of their lengths."""
    generator = np.random.default_rng(1)
    tokens = generator.integers(len(SPECIAL_TOKENS), ENTRIES, sum(lengths)).astype(np.int32)
    shuffled = generator.permutation(np.asarray(lengths, dtype=np.int64))
    return Features(tokens=tokens, token_types=np.zeros(len(tokens), np.int8), lengths=shuffled, targets=None)


def ours(directory: Path, lengths: tuple[int, ...]) -> Work:
    model = build_head(load_config(directory), "sequence_classification", len(LABELS))
    load_pretrained(model, directory)
    features, accelerator = features_of(lengths), make_accelerator()
    model.to(accelerator.device).eval()
    pack(model)

    def work() -> int:
        logits_of(model, features, accelerator)
        return len(features.tokens)

    return work


def theirs(directory: Path, lengths: tuple[int, ...], bfloat16: bool) -> Work:
    model = transformers.AutoModelForSequenceClassification.from_pretrained(directory).eval()
    features, device = features_of(lengths), "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device)

    @torch.inference_mode()
    def work() -> int:
        rows = np.split(features.tokens.astype(np.int64), np.cumsum(features.lengths)[:-1])
        ids, mask = _padded(rows, int(features.lengths.max()))
        with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
            model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits.float().cpu().numpy()
        return len(features.tokens)

    return work


def _padded(rows: list[NDArray[np.int64]], longest: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids, mask = np.zeros((2, len(rows), longest), dtype=np.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row)], mask[place, : len(row)] = row, 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


def runtime(path: Path, lengths: tuple[int, ...]) -> Work:
    session, features = onnx.session_of(path, torch.get_num_threads()), features_of(lengths)

    def work() -> int:
        onnx_logits(session, features, per_token=False)
        return len(features.tokens)

    return work


def optimum(python: Path, directory: Path, lengths: tuple[int, ...]) -> Work:
    script, threads = Path(__file__).with_name("optimum_peer.py"), torch.get_num_threads()
    command = [str(each) for each in (python, script, directory, threads, *lengths)]
    peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    assert peer.stdin is not None and peer.stdout is not None
    requests, answers = peer.stdin, peer.stdout  # the peer ends with its input
    assert answers.readline() == "ready\n"

    def work() -> int:
        requests.write("\n")
        assert answers.readline() == "done\n"
        return sum(lengths)

    return work


def variants_of(place: Path, model: Path, lengths: tuple[int, ...]) -> dict[str, Work]:
    """All but optimum's; the exported files lie in `place`."""
    variants = {"bertcore": ours(model, lengths)}
    if precision() == "bf16":
        variants["transformers, bfloat16"] = theirs(model, lengths, bfloat16=True)
    return variants | {
        "transformers, float32": theirs(model, lengths, bfloat16=False),
        "ONNX Runtime, float32": runtime(place / "float32.onnx", lengths),
        "ONNX Runtime, int8": runtime(place / "int8.onnx", lengths),
    }


_WARMUP = 2


def in_turns(variants: Mapping[str, Work], turns: int, units: int) -> dict[str, Turns]:
    """As `benchmarks.turns.take_turns`, without a process for each: loading transformers takes longer than the work."""
    rates: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(-_WARMUP, turns):
        for name, work in variants.items():
            began = time.perf_counter()
            tokens = sum(work() for _ in range(units))
            if turn >= 0:
                rates[name].append(tokens / (time.perf_counter() - began))
    return {name: Turns(of_variant, 0.0) for name, of_variant in rates.items()}


def saved_model(architecture: str, preset: str, place: Path) -> Path:
    """With random weights, and a tokenizer, without which nothing is exported."""
    config = ModelConfig(architecture=architecture, preset=preset).build(ENTRIES)
    entries = [*SPECIAL_TOKENS, *(f"word{number}" for number in range(ENTRIES - len(SPECIAL_TOKENS)))]
    (place / "tokenizer").mkdir()
    save_tokenizer(make_tokenizer({entry: n for n, entry in enumerate(entries)}, True), place / "tokenizer", True)
    torch.manual_seed(1)
    model = build_head(config, "sequence_classification", len(LABELS))
    extra = {"problem_type": "single_label_classification", **label_names(LABELS)}
    save_pretrained(model, place / "model", place / "tokenizer", extra)
    return place / "model"


def rows_of(case: str, found: dict[str, Turns]) -> list[dict[str, str]]:
    """A row for each variant of a case."""
    lengths = CASES[case]
    return [
        {
            "texts x tokens": case,
            "variant": name,
            "ms a call": f"{1000 * sum(lengths) / turns.median:,.1f}",
            "tokens/s": f"{turns.median:,.0f}",
            "bertcore is faster by": faster(found["bertcore"], turns),
        }
        for name, turns in found.items()
    ]


def main() -> None:
    parser = make_parser(__doc__, "--preset", turns=5)
    parser.add_argument("--architecture", default="bert")
    parser.add_argument("--optimum", type=Path, metavar="PYTHON", help="an interpreter that has optimum")
    options = parser.parse_args()
    rows: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="bertcore-inference-") as folder:
        place = Path(folder)
        model = saved_model(options.architecture, options.preset, place)
        print(onnx.export(model, place / "float32.onnx"))
        print(onnx.export(model, place / "int8.onnx", int8=True))
        for case, lengths in CASES.items():
            variants = variants_of(place, model, lengths)
            if options.optimum:
                variants["optimum"] = optimum(options.optimum, model, lengths)
            rows += rows_of(case, in_turns(variants, options.turns, UNITS[len(lengths)]))
    work = f"{options.architecture} {options.preset}, {ENTRIES:,} entries, from token ids to the logits of 4 classes"
    facts = {**describe(), "work": work, "turns": str(options.turns)}
    results.show(f"inference-{options.architecture}-{options.preset}", facts, rows, options.keep)


if __name__ == "__main__":
    main()
