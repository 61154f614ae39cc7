"""A model with a fine-tuned head, loaded once: its predictions are exactly those that its scores are about.

The family that trained the head reads the texts and makes the predictions here too, with the settings that the model's
own config.json keeps (`finetuning`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from accelerate import Accelerator
from numpy.typing import NDArray

from bertcore.apply.prepacked import pack
from bertcore.apply.uses import USES, Description, reading, require
from bertcore.config import parse
from bertcore.errors import ArtifactError, ConfigError
from bertcore.examples.schema import ExampleSet
from bertcore.finetune.config import RunConfig
from bertcore.finetune.crf import LinearChain
from bertcore.finetune.encoder_tokenizer import tokenizer_for
from bertcore.finetune.families import FAMILIES
from bertcore.finetune.family import Family
from bertcore.finetune.features import Features
from bertcore.finetune.inference import logits_of
from bertcore.model.encoder import EncoderModule
from bertcore.model.huggingface import CRF, FAMILY, READING, checked_config, load_pretrained
from bertcore.training.machine import make_accelerator

UNSEEN = {
    "truncated": "texts cut to what the model reads",
    "questions_cut": "questions cut to what the model reads",
    "choices_cut": "choices cut, or their contexts, to what the model reads",
    "words_cut": "words cut to what the model reads",
    "words_without_pieces": "words of characters that the tokenizer leaves out, read as unknown ones",
}
"""What is counted of features that do not show all of their texts -> how it is said."""


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """What a model says about the rows of a table."""

    features: Any
    """The sequences that the rows were read as; `counts` says what they do not show."""
    logits: NDArray[np.float32]
    """Of all sequences, or of all their tokens."""
    cut: list[bool]
    """Of each row, whether the model has not seen all of its texts."""
    predictions: Any
    """As stage `finetune` has them: the family's `Predictions`."""

    def with_cut(self, said: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What is `said` of each row, and whether it was `cut`."""
        return [{**row, "cut": cut} for row, cut in zip(said, self.cut, strict=True)]


@dataclass(frozen=True, kw_only=True)
class FineTuned:
    """A saved model, ready to predict."""

    description: Description
    labels: list[str] | None
    family: Family
    model: EncoderModule
    accelerator: Accelerator
    unseen: Counter[str] = field(default_factory=Counter)
    """What it did not see of all that it was given, by the reasons of `UNSEEN`."""

    @classmethod
    def load(cls, directory: Path, *uses: str) -> "FineTuned":
        """The model of `directory`, which must be for one of `uses` (keys of `USES`); on the GPU where there is one.

        `ArtifactError` for a model of another use, or one that is not whole.
        """
        description = require(directory, *uses)
        name = description.family or next(
            use.family for key, use in USES.items() if key in uses and use.fits(description)
        )
        if name not in FAMILIES:
            raise ArtifactError(
                f"{directory}/config.json: {READING}.{FAMILY}: found {name!r}, expected one of {', '.join(FAMILIES)}; "
                "import the module that adds it"
            )
        labels = description.labels
        task = _task(description, FAMILIES[name].reading)
        config = checked_config(directory)
        tokenizer = tokenizer_for(directory, config)
        nothing = ExampleSet(family=name, labels=labels, metrics=[], splits={})
        family = FAMILIES[name].saved(task, nothing, tokenizer, description.values)
        model = family.build(config)
        _load_weights(model, description)
        accelerator = make_accelerator()
        model.to(accelerator.device).eval()
        pack(model)
        return cls(description=description, labels=labels, family=family, model=model, accelerator=accelerator)

    def predict(self, table: pa.Table, progress: str | None = None) -> Predicted:
        """Of the rows of `table`, in the schema of the family; what is to be predicted may be null. `progress`: the
        name that the work is shown under."""
        features: Features = self.family.featurize(table)
        self.unseen.update({name: features.counts.get(name, 0) for name in UNSEEN})
        logits = logits_of(self.model, features, self.accelerator, progress)
        predictions = self.family.predict(table, features, logits, self.model)
        cut = np.zeros(table.num_rows, np.bool_) if features.cut is None else features.cut
        return Predicted(features=features, logits=logits, cut=cut.tolist(), predictions=predictions)


def _task(description: Description, fields: tuple[str, ...]) -> RunConfig:
    where = f"{description.directory}/config.json: {READING}"
    more = {"crf": True} if CRF in description.values else {}
    values = {"format": "", "data": str(description.directory), **reading(description, fields), **more}
    try:
        return parse(RunConfig, values, where)
    except ConfigError as error:
        raise ArtifactError(str(error)) from None


def _load_weights(model: EncoderModule, description: Description) -> None:
    """All weights, those of a chain of tags from config.json."""
    found = load_pretrained(model, description.directory).missing
    if missing := [name for name in found if not name.startswith(f"{CRF}.")]:
        raise ArtifactError(
            f"{description.directory}: found no {', '.join(missing)}, expected the whole model; save it anew"
        )
    if CRF in description.values:
        model.add_module(CRF, LinearChain.from_config(description.values[CRF]))
