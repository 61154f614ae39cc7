"""How often a masked language model prefers the right sentence of a minimal pair, without any training.

    python -m bertcore.apply.minimal_pairs MODEL PAIRS... [--variant original|within_word_l2r] [--share 0.1]

MODEL is a Hugging Face directory with a masked-LM head, such as models/pretrained. PAIRS are JSON lines, also .gz or
.zst: BLiMP's files, or objects with `good`, `bad` and `kind`. The table goes to the standard error, JSON to the
standard output. Baselines need the training text: the stage `minimal_pairs` has them.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from bertcore.config import parse
from bertcore.evaluation.command import print_result
from bertcore.finetune.encoder_tokenizer import tokenizer_directory
from bertcore.minimal_pairs.pairs import MinimalPairsConfig, Variant, read_pairs, score, subset
from bertcore.minimal_pairs.results import as_table, summarize
from bertcore.minimal_pairs.scoring import load_masked_language_model, pseudo_likelihood_scorer
from bertcore.tokens.tokenizer import load_tokenizer


def evaluate(directory: Path, config: MinimalPairsConfig) -> dict[str, Any]:
    """The metrics of the model in `directory` on the files of `config`; see `results.summarize`."""
    pairs = subset([pair for name in config.files for pair in read_pairs(Path(name))], config.share)
    model = load_masked_language_model(directory)
    with tokenizer_directory(directory) as place:
        tokenizer = load_tokenizer(place)
    scores = score(pairs, pseudo_likelihood_scorer(model, tokenizer, config.variant))
    return {"variant": config.variant, "share": config.share, **summarize(pairs, {"model": scores})}


def main(arguments: Sequence[str] | None = None) -> int:
    description = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m bertcore.apply.minimal_pairs", description=description)
    parser.add_argument("model", type=Path, help="such as models/pretrained")
    parser.add_argument("pairs", nargs="+", help="JSON lines; also .gz, .zst")
    parser.add_argument("--variant", choices=get_args(Variant), default=MinimalPairsConfig.variant)
    parser.add_argument("--share", type=float, default=1.0, help="of the pairs of every paradigm (default %(default)s)")
    return print_result(lambda: _run(parser.parse_args(arguments)))


def _run(options: argparse.Namespace) -> dict[str, Any]:
    values = {name: value for name, value in vars(options).items() if name != "model"}
    metrics = evaluate(options.model, parse(MinimalPairsConfig, values, "options"))
    print(as_table(metrics), file=sys.stderr)
    return metrics


if __name__ == "__main__":
    sys.exit(main())
