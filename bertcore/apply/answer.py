"""Answers to questions by a model of stage `finetune`, cut out of a context, exactly as its scores were made.

    python -m bertcore.apply.answer MODEL --question TEXT --context FILE_OR_TEXT
    python -m bertcore.apply.answer MODEL --file SQUAD.json

Prints JSON: for one question the best answers with their probabilities, best first, "" for "no answer", which only a
model knows that has learned from questions without answers; for a SQuAD file the answer of each question by its id, as
`bertcore.evaluation.squad` scores them. A context may be of any length: it is read in overlapping windows.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bertcore.compressed import read_json, read_text
from bertcore.errors import ArtifactError, ConfigError, InputError
from bertcore.evaluation.command import print_result
from bertcore.examples.files import is_empty
from bertcore.examples.schema import QUESTION_ANSWERING, ExampleSet
from bertcore.examples.squad import read_file
from bertcore.finetune.encoder_tokenizer import tokenizer_directory
from bertcore.finetune.family import READING
from bertcore.finetune.inference import logits_of
from bertcore.finetune.question_answering import (
    UNANSWERABLE,
    Answers,
    QuestionAnswering,
)
from bertcore.finetune.result import saved_task
from bertcore.model.config import architecture_of
from bertcore.model.huggingface import load_config, load_pretrained
from bertcore.tokens.tokenizer import load_tokenizer
from bertcore.training.distributed import make_accelerator

ONLY = "question"
"""The id of the only question."""


def answer(directory: Path, questions: pa.Table) -> Answers:
    """The answers to `questions` (`schema.QUESTION_ANSWERING`; their own answers may be null)."""
    config, values = load_config(directory), read_json(directory / "config.json")
    kinds = architecture_of(config).kinds
    reader = next(name for name, kind in kinds.items() if kind == "question_answering")
    if values.get("architectures") != [reader]:
        raise ArtifactError(
            f"{directory}: found architectures {values.get('architectures')!r}, expected a {reader}; give "
            "models/finetuned/TASK"
        )
    task = saved_task(directory, QuestionAnswering.reading)
    nothing = ExampleSet(family="question_answering", labels=None, metrics=[], splits={})
    with tokenizer_directory(directory) as place:
        tokenizer = load_tokenizer(place)
    family = QuestionAnswering(task, nothing, tokenizer, may_be_null=bool(values[READING].get(UNANSWERABLE)))
    model = family.build(config)
    if missing := load_pretrained(model, directory).missing:
        raise ArtifactError(f"{directory}: found no {', '.join(missing)}, expected the whole model; save it anew")
    features, accelerator = family.featurize(questions), make_accelerator()
    model.to(accelerator.device)
    return family.predict(questions, features, logits_of(model, features, accelerator), model)


def _table(question: str, context: str) -> pa.Table:
    for name, text in (("question", question), ("context", context)):
        if is_empty(text):
            raise InputError(f"--{name}: found {text!r}, expected words; give some")
    row = {"id": ONLY, "title": "", "context": context, "question": question, "answers": None}
    return pa.Table.from_pylist([row], QUESTION_ANSWERING)


def _context(given: str) -> str:
    """The text of a file of that name, or what was given itself."""
    try:
        is_file = Path(given).is_file()
    except OSError:  # longer than any name of a file
        is_file = False
    return read_text(Path(given)) if is_file else given


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bertcore.apply.answer", description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="such as models/finetuned/TASK")
    parser.add_argument("--question")
    parser.add_argument("--context", help="a text, or a file with one; also .gz, .zst")
    parser.add_argument("--file", type=Path, help="questions and contexts in SQuAD's layout instead; also .gz, .zst")
    options = parser.parse_args(arguments)
    return print_result(lambda: _run(options))


def _run(options: argparse.Namespace) -> dict[str, Any]:
    if options.file is not None:
        return answer(options.model, read_file(options.file, is_train=False, labelled=False)).predicted
    if options.question is None or options.context is None:
        raise ConfigError("found no --question with a --context, expected both of them, or --file with a SQuAD file")
    found = answer(options.model, _table(options.question, _context(options.context)))
    best = [{"text": each["text"], "probability": each["probability"]} for each in found.n_best[ONLY]]
    return {"answer": found.predicted[ONLY], "best": best}


if __name__ == "__main__":
    sys.exit(main())
