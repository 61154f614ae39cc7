"""The command `bertcore` itself: which commands there are, and how one of them ends.

A command is a module beside this one, with `EXAMPLES`, `arguments(parser)` and `run(options)`, and a row in `COMMANDS`.
Its module is imported when the command is called: `bertcore --help` waits for no torch.
"""

import argparse
import importlib
import io
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import NoReturn

from bertcore.config import suggest
from bertcore.errors import BAD_INPUT, INTERRUPTED, BertcoreError, status_of


@dataclass(frozen=True)
class Command:
    """A row of `bertcore --help`."""

    module: str
    """Its module in this package."""
    summary: str
    example: str
    """What follows `bertcore` in the most usual call."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0, or one of `bertcore.errors`. What is wrong with the input is one line."""
    if sys.stderr is None:  # closed; `print` would take the standard output
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (as long as the process)
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = given[0] if given else "--help"
    if name in ("-h", "--help"):
        print(_help())
        return 0
    if name not in COMMANDS:
        return _fail(f"{name}: no command; {suggest(name, COMMANDS)}; `bertcore --help` shows them all")
    if sys.stdout is None:
        return _fail("found no standard output, expected one; give --out FILE, and do not close it")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # the results are texts of any script, whatever the terminal's locale
    try:
        module = importlib.import_module(f"bertcore.commands.{COMMANDS[name].module}")
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as error:
        return _fail(f"{sys.executable}: {error.name} is not installed; activate the environment: . .venv/bin/activate")
    return _run(name, module, given[1:])


def _run(name: str, module: ModuleType, arguments: Sequence[str]) -> int:
    """Run the command `name`, which `module` holds, with `arguments`; its exit status."""
    parser = _Parser(
        prog=f"bertcore {name}",
        description=f"{COMMANDS[name].summary}.",
        epilog=f"examples:\n{module.EXAMPLES.rstrip()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.arguments(parser)
    try:
        module.run(parser.parse(arguments))
        sys.stdout.flush()
    except BertcoreError as error:
        return _fail(str(error), status_of(error))
    except BrokenPipeError:  # whoever reads the output has seen enough, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(
            f"{where}{error.strerror or error}; correct the permissions, free some space or name another place"
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


class _Parser(argparse.ArgumentParser):
    """Tells what is wrong in one line."""

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """`arguments`, whose options may stand among texts and files: `parse_args` takes none behind an option where
        one stands before it. Help, and what is missing, are as by `parse_args`."""
        options, rest = self.parse_known_args(arguments)
        return self.parse_intermixed_args(arguments) if rest else options

    def error(self, message: str) -> NoReturn:
        if unknown := re.match(r"unrecognized arguments: (--[^\s=]+)", message):
            options = [option for action in self._actions for option in action.option_strings if option[:2] == "--"]
            message = f"{unknown[1]}: no option; {suggest(unknown[1], options)}"
        self.exit(BAD_INPUT, f"error: {message}; {self.prog} --help says more\n")


def _fail(message: str, status: int = BAD_INPUT) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


def _help() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:{width}}  {command.summary}" for name, command in COMMANDS.items())
    examples = "\n".join(f"  bertcore {name} {command.example}" for name, command in COMMANDS.items())
    return _HELP.format(commands=rows, examples=examples)


_HELP = """\
usage: bertcore COMMAND …          (python -m bertcore is the same)

Use a finished model: any that this project has saved, and any Hugging Face directory of its architectures, offline.

commands:
{commands}

examples:
{examples}

A model is --model DIR; without it, the last one of this tree for that use. Texts are arguments, --file FILE (.txt with
a text a line; .csv, .tsv, .jsonl, .parquet with --column), or a pipe. Results are a table in a terminal, JSON lines in
a pipe, or --out FILE (.jsonl, .csv, .tsv, .parquet). `bertcore COMMAND --help` says more."""

COMMANDS: dict[str, Command] = {
    "fill-mask": Command("fill_mask", "the words that fit in place of [MASK]", '"the [MASK] of a function"'),
    "classify": Command("classify", "the class, or the set of labels, of texts", "--file tickets.csv --column body"),
    "regress": Command("regress", "a number for texts, such as their similarity", '"a cat" --pair "a dog"'),
    "tag": Command("tag", "the words of texts with their tags and places", '"size : int , the number of bytes"'),
    "answer": Command(
        "answer",
        "the answer to a question, cut out of a text",
        '--question "Which type?" --context page.txt',
    ),
    "choose": Command(
        "choose", "the right one of several choices", '--context "It reads a file." "Lines." "The price of bread."'
    ),
    "embed": Command("embed", "a vector for each text", "--file texts.txt --out vectors.parquet"),
    "similar": Command("similar", "how alike texts are, or the lines nearest to a text", '"open a file" "read a file"'),
    "search": Command("search", "the passages of your texts nearest to a query", '"sort a list in place" --in docs/'),
    "score": Command("score", "how likely texts are, or which of two is likelier", "--pairs blimp.jsonl"),
    "serve": Command(
        "serve", "models behind HTTP: a page and an API on this machine", "models/pretrained models/finetuned/*"
    ),
    "card": Command("card", "a model's card (README.md), with a report's scores", "models/pretrained --scores metrics"),
    "push": Command("push", "a model to the Hugging Face hub", "models/finetuned/topic hub://ORG/NAME --license mit"),
    "convert": Command("convert", "a model as ONNX, in float32 or int8", "models/finetuned/topic topic.onnx --int8"),
}
"""The commands by name, in the order in which the help shows them."""
