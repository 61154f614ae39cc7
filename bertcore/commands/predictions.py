"""What `bertcore classify` and `bertcore regress` do."""

import argparse
from collections.abc import Iterator

from bertcore.apply.classify import classify, no_answer
from bertcore.apply.finetuned import FineTuned
from bertcore.commands.options import model_directory
from bertcore.commands.parts import in_parts, progress_of, say_unseen
from bertcore.commands.results import Record, check_output, write
from bertcore.commands.texts import read


def predict(options: argparse.Namespace, uses: tuple[str, ...], *, keep_all: bool) -> None:
    """Write what a model for one of `uses` says about the texts."""
    check_output(options)
    texts = read(options)
    model = FineTuned.load(model_directory(options, *uses), *uses)

    def records() -> Iterator[Record]:
        progress = progress_of("classify", len(texts))
        found = in_parts(texts, lambda part: classify(model, part, progress), nothing=no_answer(model))
        for number, (text, row) in enumerate(found, start=1):
            pair = {"text": text} if isinstance(text, str) else {"text": text[0], "pair": text[1]}
            row = {key: value for key, value in row.items() if keep_all or key != "probabilities"}
            yield {**({} if options.texts else {"number": number}), **row, **pair}

    write(options, records())
    say_unseen(model)
