"""What a saved model is for: its own config.json says it, so that the right head is taken, and a wrong use is one
line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertcore.compressed import read_json
from bertcore.errors import ArtifactError, ConfigError
from bertcore.model.config import ARCHITECTURES
from bertcore.model.encoder import Kind
from bertcore.model.huggingface import FAMILY, PAIRS, READING, load_config, with_labels
from bertcore.tokens.kind import max_length_of

PRETRAINED, FINETUNED, EMBEDDING = Path("models/pretrained"), Path("models/finetuned"), Path("models/embedding")
"""Where the stages of a tree leave their models."""

MASKED: tuple[Kind, ...] = ("masked_lm", "pair_pretraining", "order_pretraining")
"""Kinds of classes with a masked-LM head."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """A model directory, as far as config.json tells."""

    directory: Path
    values: dict[str, Any]
    """config.json."""
    architecture: str
    """Hugging Face's name of the class."""
    kind: Kind | None
    """What that class gives; None for a class that is not known here, whose encoder can still be read."""

    @classmethod
    def read(cls, directory: Path) -> "Description":
        """`ArtifactError` where `directory` is no model of an architecture that is known here."""
        config = load_config(directory)
        values = with_labels(read_json(directory / "config.json"))
        names = values.get("architectures") or [""]
        kind = ARCHITECTURES[config.model_type].kinds.get(names[0])
        return cls(directory=directory, values=values, architecture=names[0], kind=kind)

    @property
    def command(self) -> str:
        """Name of the command that uses it."""
        return USES[self.use].command or self.use

    @property
    def labels(self) -> list[str] | None:
        """The names of the classes, sets or tags; None where the head has none."""
        names = self.values.get("id2label")
        if self.kind == "sequence_classification" and self.problem == "regression":
            return None
        if self.kind not in ("sequence_classification", "token_classification"):
            return None
        if not isinstance(names, dict) or not names:
            raise ArtifactError(
                f"{self.directory}/config.json: id2label: found {names!r}, expected the names of the labels of a "
                f"{self.architecture}; save the model with them"
            )
        if not all(str(index).isdecimal() for index in names):
            raise ArtifactError(
                f"{self.directory}/config.json: id2label: found the keys {', '.join(map(repr, names))}, expected "
                "numbers from 0; save the model anew"
            )
        return [str(names[index]) for index in sorted(names, key=int)]

    @property
    def problem(self) -> str:
        """`single_label_classification`, `multi_label_classification` or `regression`, by Hugging Face's rule where
        config.json does not say it: one output is a number."""
        names = self.values.get("id2label") or {}
        return self.values.get("problem_type") or ("regression" if len(names) == 1 else "single_label_classification")

    @property
    def family(self) -> str | None:
        """The head family that trained it; None where nothing says so, as of models that others have trained."""
        return self._reading.get(FAMILY)

    @property
    def pairs(self) -> bool | None:
        """Whether it was fine-tuned on pairs of texts; None where nothing says so, or on both."""
        return self._reading.get(PAIRS)

    def unlike(self, pairs: bool | None) -> int:
        """How far it is from a model of pairs of texts, or of texts: 1 where nothing says what it is of, 2 where it is
        of the other ones. With None, of anything, 0."""
        return 0 if pairs in (None, self.pairs) else 1 if self.pairs is None else 2

    @property
    def _reading(self) -> dict[str, Any]:
        """What stands under `READING`, if that is what should."""
        found = self.values.get(READING)
        return found if isinstance(found, dict) else {}

    @property
    def use(self) -> str:
        """What the model is for: a key of `USES`."""
        return next((name for name, use in USES.items() if use.fits(self)), "embed")


@dataclass(frozen=True, kw_only=True)
class Use:
    """Something that a model can be good for."""

    fits: Callable[[Description], bool]
    expected: str
    """What model it takes."""
    remedy: str
    """Which one to give."""
    command: str | None = None
    """Name of the command that uses it, where that is not the name of the use."""
    family: str | None = None
    """A key of `bertcore.finetune.families.FAMILIES`, for heads that stage `finetune` trains."""


def _classifies(*problems: str) -> Callable[[Description], bool]:
    return lambda model: model.kind == "sequence_classification" and model.problem in problems


def _is_kind(*kinds: Kind) -> Callable[[Description], bool]:
    return lambda model: model.kind in kinds


_FINETUNED = "give models/finetuned/TASK of such a task"

USES: dict[str, Use] = {
    "fill-mask": Use(
        fits=_is_kind(*MASKED), expected="a masked-LM head", remedy="give a directory such as models/pretrained"
    ),
    "classify": Use(
        fits=_classifies("single_label_classification"),
        expected="a head for classes of texts",
        remedy=_FINETUNED,
        family="classification",
    ),
    "classify-multi": Use(
        fits=_classifies("multi_label_classification"),
        expected="a head for sets of labels",
        remedy=_FINETUNED,
        command="classify",
        family="multi_label",
    ),
    "regress": Use(
        fits=_classifies("regression"), expected="a head for a number", remedy=_FINETUNED, family="classification"
    ),
    "tag": Use(
        fits=_is_kind("token_classification"),
        expected="a head for tags of words",
        remedy=_FINETUNED,
        family="tagging",
    ),
    "answer": Use(
        fits=_is_kind("question_answering"),
        expected="a head for answers in a context",
        remedy=_FINETUNED,
        family="question_answering",
    ),
    "choose": Use(
        fits=_is_kind("multiple_choice"),
        expected="a head for choices",
        remedy=_FINETUNED,
        family="multiple_choice",
    ),
    "embed": Use(fits=lambda model: True, expected="an encoder", remedy="give any model directory"),
}
"""What models are for, by the name of the command that uses them, of which `classify` has two; any model has an
encoder."""


def require(directory: Path, *uses: str) -> Description:
    """What `directory` is; `ArtifactError` where it is for none of `uses`."""
    model = Description.read(directory)
    if any(USES[use].fits(model) for use in uses):
        return model
    found = f"{model.architecture or 'no architecture'}" + (f" ({model.problem})" if _is_classifier(model) else "")
    expected = " or ".join(USES[use].expected for use in uses)
    other = f"; for this one there is `bertcore {model.command}`" if model.use not in uses else ""
    raise ArtifactError(f"{directory}: found {found}, expected {expected}; {USES[uses[0]].remedy}{other}")


def _is_classifier(model: Description) -> bool:
    return model.kind == "sequence_classification"


def default_model(uses: Sequence[str], pairs: bool | None = None) -> Path:
    """The last model of this tree for one of `uses`: models/pretrained, a model within it, or the newest of
    models/finetuned; to embed, models/embedding before all of them. With `pairs` the one that is least `unlike` it.

    `ConfigError` where there is none.
    """
    beside = sorted(PRETRAINED.glob("[!.]*/"))
    first = [EMBEDDING] if "embed" in uses else []
    finetuned = sorted(FINETUNED.glob("[!.]*"), key=_changed, reverse=True)  # hidden: rejected, unfinished
    places = [*first, PRETRAINED, *beside, *finetuned]
    models = (Description.read(place) for place in places if (place / "config.json").is_file())
    nearest: Description | None = None
    for model in (model for model in models if any(USES[use].fits(model) for use in uses)):
        if nearest is None or model.unlike(pairs) < nearest.unlike(pairs):
            nearest = model
        if not nearest.unlike(pairs):
            break
    if nearest is not None:
        return nearest.directory
    expected = " or ".join(USES[use].expected for use in uses)
    raise ConfigError(
        f"--model: found no model with {expected} in {PRETRAINED.parent.absolute()}, expected one; name its directory, "
        "or run the pipeline (make pretrain)"
    )


def _changed(directory: Path) -> float:
    path = directory / "config.json"
    return path.stat().st_mtime if path.is_file() else 0.0


def published_reading(model: Description) -> dict[str, Any]:
    """How texts are read by a model that says nothing of it under `READING`, as those of others: what `transformers`'s
    pipelines do with them, but in windows, or cut by a classifier, where a text is longer than `LONGEST_PUBLISHED` or
    what the model reads."""
    config = load_config(model.directory)
    settings = model.directory / "tokenizer_config.json"
    limit = max_length_of(read_json(settings)) if settings.is_file() else None
    longest = min(config.max_sequence_length, limit or LONGEST_PUBLISHED, LONGEST_PUBLISHED)
    return {
        "sequence_length": longest,
        "doc_stride": max(longest // 4, 1),
        "max_query_length": min(64, longest // 2),
        **({"long_texts": "truncate"} if model.kind == "sequence_classification" else {}),
    }


LONGEST_PUBLISHED = 512
"""Tokens of a window, for published models: what most of them were fine-tuned with at most."""


def reading(model: Description, fields: Sequence[str]) -> dict[str, Any]:
    """The `fields` of the task that the model was fine-tuned with, as config.json has them under `READING`;
    `ArtifactError` where it has some and not all of them."""
    found = model.values.get(READING)
    if found is None:
        return {name: value for name, value in published_reading(model).items() if name in fields}
    if not isinstance(found, dict) or not set(fields) <= set(found):
        raise ArtifactError(
            f"{model.directory}/config.json: {READING}: found {found!r}, expected {', '.join(fields)}, which stage "
            "finetune saves with its models; fine-tune the model anew"
        )
    return {name: found[name] for name in fields}
