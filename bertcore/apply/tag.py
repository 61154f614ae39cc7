"""Tags of words by a model of stage `finetune`: those that its scores are about, with its chain where it has one.

    python -m bertcore.apply.tag MODEL INPUT OUTPUT

INPUT is a .txt file with a sentence a line, its words (and marks) between blanks; also .gz, .zst. OUTPUT gets a word
and its tag a line, and a blank line after each sentence. `transformers` reads such a model too, but knows no chain.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bertcore.apply.extract import read_texts
from bertcore.compressed import read_json
from bertcore.errors import ArtifactError
from bertcore.evaluation.command import print_result
from bertcore.examples.schema import TAGGING, ExampleSet
from bertcore.finetune.crf import CRF, LinearChain
from bertcore.finetune.encoder_tokenizer import tokenizer_directory
from bertcore.finetune.inference import logits_of
from bertcore.finetune.result import saved_task
from bertcore.finetune.tagging import Tagged, Tagging, chain_of
from bertcore.model.architecture import EncoderConfig, EncoderModule
from bertcore.model.config import architecture_of
from bertcore.model.huggingface import load_config, load_pretrained
from bertcore.tokens.tokenizer import load_tokenizer
from bertcore.training.distributed import make_accelerator


def tag(directory: Path, sentences: Sequence[Sequence[str]]) -> Tagged:
    """The tags of all words, by a model of stage `finetune`, which says itself how long its windows are."""
    config, values = load_config(directory), read_json(directory / "config.json")
    labels = _labels(directory, values, config)
    task = saved_task(directory, Tagging.reading, crf=CRF in values)
    with tokenizer_directory(directory) as place:
        family = Tagging(
            task, ExampleSet(family="tagging", labels=labels, metrics=[], splits={}), load_tokenizer(place)
        )
    model = family.build(config)
    _load(model, directory, values)
    rows = [{"id": str(number), "words": words, "tags": None} for number, words in enumerate(sentences)]
    table = pa.Table.from_pylist(rows, TAGGING)
    features, accelerator = family.featurize(table), make_accelerator()
    model.to(accelerator.device)
    return family.predict(table, features, logits_of(model, features, accelerator), model)


def _labels(directory: Path, values: dict[str, Any], config: EncoderConfig) -> list[str]:
    names, kinds = values.get("id2label"), architecture_of(config).kinds
    tagger = next(name for name, kind in kinds.items() if kind == "token_classification")
    if values.get("architectures") != [tagger] or not isinstance(names, dict):
        raise ArtifactError(
            f"{directory}: found architectures {values.get('architectures')!r} and id2label {names!r}, expected a "
            f"{tagger} with the names of its tags; give models/finetuned/TASK"
        )
    return [names[index] for index in sorted(names, key=int)]


def _load(model: EncoderModule, directory: Path, values: dict[str, Any]) -> None:
    missing = [name for name in load_pretrained(model, directory).missing if not name.startswith("crf.")]
    if missing:
        raise ArtifactError(f"{directory}: found no {', '.join(missing)}, expected the whole tagger; save it anew")
    if chain_of(model) is not None:
        model.crf = LinearChain.from_config(values[CRF])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bertcore.apply.tag", description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="such as models/finetuned/TASK")
    parser.add_argument("input", type=Path, help=".txt with a sentence a line; also .gz, .zst")
    parser.add_argument("output", type=Path)
    options = parser.parse_args(arguments)
    return print_result(lambda: _run(options))


def _run(options: argparse.Namespace) -> dict[str, int]:
    sentences = [text.split() for text in read_texts(options.input, "text")]
    tagged = tag(options.model, sentences)
    tagged.write_file(options.output)
    return {"sentences": len(sentences), "words": sum(map(len, sentences))}


if __name__ == "__main__":
    sys.exit(main())
