"""The models that a server has loaded, each once, and what each can be asked."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertcore.apply.answer import answer_pairs
from bertcore.apply.choose import choose
from bertcore.apply.classify import classify
from bertcore.apply.embed import Embedder
from bertcore.apply.fill_mask import MaskedLanguageModel, fill_mask
from bertcore.apply.finetuned import FineTuned
from bertcore.apply.search import Index
from bertcore.apply.tag import tag
from bertcore.apply.uses import Description
from bertcore.config import suggest
from bertcore.embedding.directory import read as read_reading
from bertcore.errors import ConfigError, InputError


@dataclass(frozen=True, kw_only=True)
class Served:
    """One model."""

    name: str
    description: Description
    works: dict[str, Callable[..., list[Any]]]
    """What it can be asked -> items and settings to results."""
    embedder: Embedder
    unseen: Counter[str] | None
    """What a fine-tuned model did not see of the texts that its head was asked about, by the reasons of `UNSEEN`."""

    @property
    def uses(self) -> list[str]:
        """The names of what it can be asked."""
        return sorted(self.works)


def load(directory: Path) -> Served:
    """A model with its head; `ArtifactError` where the directory is none, or not whole."""
    description = Description.read(directory)
    use = description.use
    works: dict[str, Callable[..., list[Any]]] = {}
    unseen = None
    if use == "embed":
        embedder = Embedder.load(directory)
    elif use == "fill-mask" and read_reading(directory) is not None:
        embedder = Embedder.load(directory)  # its class may promise a head for masked tokens that is not there
    elif use == "fill-mask":
        masked = MaskedLanguageModel.load(directory)
        works["fill-mask"] = partial(fill_mask, masked)
        embedder = Embedder(directory=directory, model=masked.model.base_model, tokenizer=masked.tokenizer)
    else:
        tuned = FineTuned.load(directory, use)
        unseen = tuned.unseen
        works[description.command] = partial(_WORKS[description.command], tuned)
        embedder = Embedder.load(directory)  # the weights of `tuned` are rounded, and not those of `bertcore embed`
    works["embed"] = lambda items: embedder.unit(items).tolist()
    name = directory.absolute().name or directory.resolve().name
    return Served(name=name, description=description, works=works, embedder=embedder, unseen=unseen)


def _best_answers(model: FineTuned, pairs: Sequence[tuple[str, str]], top: int) -> list[dict[str, Any]]:
    return [{**row, "best": row["best"][:top]} for row in answer_pairs(model, pairs)]


_WORKS: dict[str, Callable[..., list[Any]]] = {
    "tag": tag,
    "answer": _best_answers,
    "classify": classify,
    "regress": classify,
    "choose": choose,
}
"""By the name of the command."""


@dataclass(frozen=True)
class Models:
    """All models of a server by name, in the order in which they were given."""

    by_name: dict[str, Served]
    index: Index | None = None
    """What is searched, with the vectors of the first model."""

    @classmethod
    def load(cls, directories: Sequence[Path], searched: Callable[[Embedder], Index | None]) -> "Models":
        """`searched` opens what is searched with a model, if anything is. `ConfigError` where two have one name."""
        found: dict[str, Served] = {}
        for directory in directories:
            served = load(directory)
            if served.name in found:
                raise ConfigError(
                    f"{directory}: found two models with the name {served.name!r}, expected different ones, by which "
                    "requests choose; rename a directory"
                )
            found[served.name] = served
        return cls(found, searched(next(iter(found.values())).embedder))

    def choose(self, use: str, name: str | None, pairs: bool | None = None) -> Served:
        """The model `name`, or the first one for `use`, of those that are least `unlike` `pairs`; `InputError` where
        there is none."""
        if name is not None and name not in self.by_name:
            raise InputError(f"model: found {name!r}; {suggest(name, self.by_name)}")
        able = [each for each in self.by_name.values() if use in each.works and name in (None, each.name)]
        if not able:
            known = "; ".join(f"{each.name}: {', '.join(each.uses)}" for each in self.by_name.values())
            raise InputError(f"{use}: found no model for it{f' in {name!r}' if name else ''}, expected one of: {known}")
        return min(able, key=lambda each: each.description.unlike(pairs))
