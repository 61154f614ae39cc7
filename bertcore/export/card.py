"""A model's card: the README.md that stands with it, with the head that the Hugging Face hub reads.

The head is YAML whose values are written as JSON, which is YAML too. A card holds nothing that a clock or a machine
decides, so that the same model has the same card.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertcore.compressed import read_json, read_text
from bertcore.errors import ArtifactError
from bertcore.export.kinds import ROWS
from bertcore.model.config import kinds_by_class
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import CARD_FILE, CRF, PAIRS, READING, load_config

UNKNOWN_LICENSE = "unknown"
"""As the hub has it. The licence of weights follows from that of their text, which only its owner knows."""

_COMMANDS = {
    "fill-mask": 'bertcore fill-mask --model {model} "the [MASK] of a list"',
    "text-classification": 'bertcore classify --model {model} "a text"',
    "token-classification": 'bertcore tag --model {model} "a text"',
    "question-answering": 'bertcore answer --model {model} --question "What?" --context page.txt',
    "multiple-choice": 'bertcore choose --model {model} --context "a text" "a choice" "another one"',
    "feature-extraction": "bertcore embed --model {model} --file texts.txt --out vectors.parquet",
}


@dataclass(frozen=True, kw_only=True)
class Result:
    """One score, as the hub's `model-index` has it."""

    task: str
    """Its name, which is also that of the data."""
    metric: str
    value: float
    split: str = "dev"


@dataclass(frozen=True, kw_only=True)
class Card:
    """What is said of one model."""

    name: str
    model_type: str
    pipeline_tag: str
    language: str | None = None
    """ISO 639 code of the text."""
    license: str = UNKNOWN_LICENSE
    tags: Sequence[str] = ()
    results: Sequence[Result] = ()
    sections: Mapping[str, str] = field(default_factory=dict)
    """Title -> Markdown, in this order."""

    def render(self) -> str:
        """The whole file."""
        head = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in self._head().items())
        body = "\n\n".join(f"## {title}\n\n{text.strip()}" for title, text in self.sections.items())
        return f"---\n{head}---\n\n# {self.name}\n\n{body}\n"

    def _head(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "language": self.language,
            "license": self.license,
            "library_name": "transformers",
            "pipeline_tag": self.pipeline_tag,
            "tags": list(dict.fromkeys([self.model_type, "bertcore", *self.tags])),
        }
        if self.results:
            values["model-index"] = [{"name": self.name, "results": [self._result(each) for each in self.results]}]
        return {key: value for key, value in values.items() if value is not None}

    def _result(self, result: Result) -> dict[str, Any]:
        return {
            "task": {"type": self.pipeline_tag, "name": result.task},
            "dataset": {"name": result.task, "type": result.task, "split": result.split},
            "metrics": [{"type": result.metric, "value": result.value}],
        }


def pipeline_tag(architecture: str) -> str:
    """The hub's name for the use of Hugging Face's class `architecture`: of one that is not known, of its encoder."""
    return ROWS[kinds_by_class().get(architecture, "encoder")].tag


def shape(config: EncoderConfig) -> str:
    """A few words about an encoder."""
    return (
        f"{config.num_hidden_layers} layers of width {config.hidden_size}, a vocabulary of {config.vocab_size:,} "
        f"entries, sequences of at most {config.max_sequence_length:,} tokens"
    )


def usage(tag: str, model: str, config: Mapping[str, Any]) -> str:
    """How the model is used, with this project and with transformers; `config`: what config.json says of its head."""
    command = _COMMANDS[tag].format(model=model)
    if config.get("problem_type") == "regression":
        command = command.replace(" classify ", " regress ")
    if (config.get(READING) or {}).get(PAIRS):
        command += ' --pair "another text"'
    loader = next((row.auto_class for row in ROWS.values() if row.tag == tag and not row.has_pipeline), None)
    python = (
        f'from transformers import pipeline\n\nuse = pipeline("{tag}", "{model}")'
        if loader is None
        else f'from transformers import {loader}\n\nmodel = {loader}.from_pretrained("{model}")'
    )
    if CRF in config:
        return (
            f"```sh\n{command}\n```\n\nIts tags are chosen together, by the chain of tags in config.json (`{CRF}`), of "
            "which transformers' pipeline knows nothing: there each tag is chosen alone, and the scores are others."
        )
    return f"```sh\n{command}\n```\n\n```python\n{python}\n```"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Markdown, of which the first row is the head."""
    head, *body = rows
    lines = [head, ["--"] * len(head), *body]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)


def describe(directory: Path) -> Card:
    """A card of what the directory itself tells; the stages say more. `ArtifactError` where it is no model."""
    config, values = load_config(directory), read_json(directory / "config.json")
    architecture = (values.get("architectures") or [""])[0]
    tag = pipeline_tag(architecture)
    name = directory.resolve().name
    return Card(
        name=name,
        model_type=config.model_type,
        pipeline_tag=tag,
        sections={
            "Model": f"{architecture or config.model_type}: {shape(config)}.",
            "Use": usage(tag, name, values),
            "Limits": "How it was made, and what it scores, is not known to this directory.",
        },
    )


def read(directory: Path) -> str:
    """The card that stands with a model, or one that its directory gives."""
    path = directory / CARD_FILE
    return read_text(path) if path.is_file() else describe(directory).render()


def with_section(card: str, title: str, text: str) -> str:
    """The card with `text` under `title`, in place of what stood there, else at its end."""
    section = f"## {title}\n\n{text.strip()}\n"
    pattern = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if pattern.search(card):
        return pattern.sub(lambda found: section + ("\n" if found.end() < len(card) else ""), card)
    return f"{card.rstrip()}\n\n{section}"


def with_license(card: str, name: str) -> str:
    """The card with another licence in its head; `ArtifactError` where it has no head."""
    head = re.match(r"---\n.*?^---\n", card, re.MULTILINE | re.DOTALL)
    if head is None:
        raise ArtifactError("the card: found no head between two lines of ---, expected one; write the card anew")
    line = f"license: {json.dumps(name)}\n"
    changed, count = re.subn(r"^license:.*\n", lambda _: line, head.group(), count=1, flags=re.MULTILINE)
    return (changed if count else head.group().replace("---\n", f"---\n{line}", 1)) + card[head.end() :]
