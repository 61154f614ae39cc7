"""`bertcore serve`."""

import argparse
import dataclasses
import sys
from pathlib import Path

from bertcore.apply.embed import Embedder
from bertcore.apply.search import Index
from bertcore.commands.options import option_of, parse_arguments
from bertcore.commands.vectors import add_index, index_of
from bertcore.errors import ConfigError
from bertcore.serving.app import create_app
from bertcore.serving.limits import TOKEN_VARIABLE, Limits, token_for
from bertcore.serving.models import Models
from bertcore.serving.run import serve

EXAMPLES = f"""\
  bertcore serve models/pretrained models/finetuned/*         # a page and an API on http://127.0.0.1:8000
  bertcore serve models/pretrained --search docs/ --port 9000
  {TOKEN_VARIABLE}=… bertcore serve models/finetuned/topic --host 0.0.0.0
  curl -s 127.0.0.1:8000/v1/classify -H 'content-type: application/json' -d '{{"texts": ["parse a date"]}}'
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="directories; each one is loaded once")
    parser.add_argument(
        "--host", default="127.0.0.1", help="others than this machine need a token (default: %(default)s)"
    )
    parser.add_argument("--port", type=int, default=8000, help="0 = any free one (default: %(default)s)")
    parser.add_argument("--search", type=Path, metavar="PATH", help="texts to be searched, with the first model")
    add_index(parser)
    for field in dataclasses.fields(Limits):
        parser.add_argument(
            _option(field.name), dest=field.name, type=int, default=field.default, metavar="N", help=_HELP[field.name]
        )


def _option(limit: str) -> str:
    return option_of(limit if limit == "grace" else f"max_{limit}")


_HELP = {
    "body_bytes": "of a request (default: %(default)s)",
    "texts": "of a request (default: %(default)s)",
    "characters": "of a text (default: %(default)s)",
    "words": "of a request for tags (default: %(default)s)",
    "queue": "texts that wait; more are answered 429 (default: %(default)s)",
    "batch": "texts up to which requests are computed together (default: %(default)s)",
    "connections": "at once; to more the server is not available, 503 (default: %(default)s)",
    "grace": "seconds for running requests at the end (default: %(default)s)",
}


def run(options: argparse.Namespace) -> None:
    if not 0 <= options.port < 2**16:
        raise ConfigError(f"--port: found {options.port}, expected 0 to {2**16 - 1}, such as 8000")
    limits = parse_arguments(Limits, {name: getattr(options, name) for name in _HELP}, _option)
    if options.index is not None and options.search is None:
        raise ConfigError(
            f"--index: found {options.index} without --search, expected the texts that it is of; give both"
        )
    token = token_for(options.host)
    if options.search is not None and token is None:
        print(f"warning: whoever uses this machine can search {options.search}; set {TOKEN_VARIABLE}", file=sys.stderr)

    def searched(embedder: Embedder) -> Index | None:
        return None if options.search is None else index_of(options, options.search, embedder)

    models = Models.load(options.models, searched)

    def ready(address: str) -> None:
        listed = ", ".join(f"{each.name} ({', '.join(each.uses)})" for each in models.by_name.values())
        print(f"serving {listed}\n{address}", flush=True)

    serve(create_app(models, limits, token), options.host, options.port, limits, ready)
    print("ended", file=sys.stderr)
