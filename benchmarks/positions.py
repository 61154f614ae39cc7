"""What more positions give a published encoder: the held-out loss of the variants of a comparison, by length.

    ln -s DATA real && ln -s MODEL published
    make compare FILE=benchmarks/compare-positions.yaml
    python -m benchmarks.positions .compare --keep

Every variant is asked for masked tokens of the same held-out text, in windows of 128 tokens and longer ones, as far
as it reads. The first variant is asked with its positions repeated, too, before anything is learned of them.
"""

import tempfile
from pathlib import Path

from benchmarks import results
from benchmarks.machine import describe
from benchmarks.options import make_parser
from bertcore.model.config import build_pretraining
from bertcore.model.encoder import EncoderModule
from bertcore.model.huggingface import load_config, load_pretrained, save_pretrained
from bertcore.training.initial import with_positions
from tasks.comparing.held_out import measure
from tasks.params import PARAMS, values_of
from tasks.paths import METRICS, PRETRAINED, SHARDS, TOKENIZER
from tasks.reporting.measurements import Measurements

LENGTHS = (128, 512, 1024, 2048)
VARIANTS = ("as-published", "extended")
"""Of compare-positions.yaml."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("directory", type=Path, help="what `make compare` has made")
    arguments = parser.parse_args()
    trees = [arguments.directory / name for name in VARIANTS]
    rows = [row(tree.name, tree / PRETRAINED, tree) for tree in trees]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "repeated"
        save_pretrained(repeated(trees[0] / PRETRAINED, max(LENGTHS)), made)
        rows.insert(1, row(f"{trees[0].name}, positions repeated", made, trees[0]))
    facts = {
        **describe(),
        "work": "masked-LM loss in nats, on full sentences of the same held-out text at 15 % masks",
        **{tree.name: trained(tree) for tree in trees},
    }
    results.show("positions", facts, rows, arguments.keep)


def repeated(model: Path, positions: int) -> EncoderModule:
    """The model with more positions, which nothing was learned of."""
    loaded = build_pretraining(load_config(model))
    load_pretrained(loaded, model)
    return with_positions(loaded, positions)


def row(name: str, model: Path, tree: Path) -> dict[str, str]:
    """The losses of `model`, as far as it reads, on the held-out text of `tree`."""
    longest = load_config(model).max_sequence_length
    return {"encoder": name} | {f"{length:,}": loss(model, tree, length, longest) for length in LENGTHS}


def loss(model: Path, tree: Path, length: int, longest: int) -> str:
    if length > longest:
        return "–"
    return f"{measure(model, tree / SHARDS, tree / TOKENIZER, length)['mlm_loss']:.3f}"


def trained(tree: Path) -> str:
    """How it was trained, in words."""
    params = values_of((tree / PARAMS).read_text(encoding="utf-8"), tree / PARAMS)
    measured = Measurements.read(tree / METRICS, ())
    million = measured.number("pretrain", "", "tokens") / 1e6
    speed = measured.number("timing/pretrain", "", "tokens_per_second")
    size, length = params["pretrain"]["batch_size"], params["mask"]["sequence_length"]
    return (
        f"{params['pretrain']['max_steps']:,} steps of {size} x {length:,}, {million:.2f} million tokens, "
        f"{speed:,.0f} a second"
    )


if __name__ == "__main__":
    main()
