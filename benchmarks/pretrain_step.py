"""The pre-training step beside Hugging Face's, alternately in one run, on the same real tokens with their real lengths.

    python -m benchmarks.pretrain_step --text TEXT --vocab VOCAB.txt --preset mini --length 128 --batch 32

Every variant has its own process and they take turns; a ratio is that of neighbouring turns. The matrix-multiply peak
is measured in the same run, before the turns. The result is printed, and kept in benchmarks/results/ with --keep.
"""

from functools import partial

from benchmarks import results
from benchmarks.machine import describe, gemm_peak_flops
from benchmarks.options import make_parser
from benchmarks.steps import Setting, huggingface, ours
from benchmarks.text import Text, mask_config, prepared, text_arguments
from benchmarks.turns import row, take_turns
from bertcore.training.flops import training_flops
from bertcore.training.step import as_batch


def main() -> None:
    parser = make_parser(__doc__, "--preset", "--length", "--batch", turns=9)
    text_arguments(parser, ".benchmarks/step", 400)
    parser.add_argument("--dropout", type=float, default=0.1, help="of activations and attention (%(default)s)")
    parser.add_argument("--steps", type=int, default=4, help="steps of a turn (%(default)s)")
    parser.add_argument("--no-compile", action="store_true", help="leave out both sides with torch.compile")
    arguments = parser.parse_args()

    text = prepared(arguments)
    setting = Setting(text.directory, arguments.preset, arguments.length, arguments.batch, arguments.dropout)
    variants = {
        "bertcore": partial(ours, setting),
        "Hugging Face": partial(huggingface, setting),
        "Hugging Face, head of masked tokens alone": partial(huggingface, setting, masked_only=True),
    }
    if not arguments.no_compile:
        variants["bertcore, compiled"] = partial(ours, setting, compiled=True)
        variants["Hugging Face, compiled"] = partial(huggingface, setting, compiled=True)
    peak = gemm_peak_flops()
    measured = take_turns(variants, arguments.turns, arguments.steps, warmup=5)
    flops, real = _per_token(text, setting)
    facts = {
        **describe(),
        "work": f"{arguments.preset}, {text.vocabulary.size:,} entries, {arguments.batch} sequences of at most "
        f"{arguments.length} tokens ({real:.0%} real), dropout {arguments.dropout}",
        "turns": f"{arguments.turns} of {arguments.steps} steps each",
        "matrix-multiply peak": f"{peak / 1e9:,.0f} GFLOP/s",
        "share of the peak": "of the products that a step needs; padding, and states that no head reads, earn nothing",
    }
    shares = {name: {"share of the peak": f"{turns.median * flops / peak:.2f}"} for name, turns in measured.items()}
    rows = [{"variant": name, **row(measured["bertcore"], turns, shares[name])} for name, turns in measured.items()]
    name = f"pretrain_step-{arguments.preset}-{arguments.length}-dropout{arguments.dropout:g}"
    results.show(name, facts, rows, keep=arguments.keep)


def _per_token(text: Text, setting: Setting) -> tuple[float, float]:
    """Model FLOPs of a real token, and the share of real tokens if all sequences were padded to the length."""
    instances = text.loader(mask_config(setting.sequence_length), setting.batch_size * 16).batch(0)
    flops = training_flops(setting.model.build(text.vocabulary.size), as_batch(instances))
    return flops / len(instances.tokens), len(instances.tokens) / (len(instances) * setting.sequence_length)


if __name__ == "__main__":
    main()
