"""compare.yaml: what is compared, and how long each variant is pre-trained."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertcore.config import parse, suggest, within
from bertcore.errors import ConfigError
from bertcore.tokens.tokenizer import TokenizerConfig
from bertcore.training.initial import vocabulary_keys
from tasks.durations import seconds_of
from tasks.params import complete, text_of, values_of
from tasks.variation import vary

TEACHER = "teacher"
"""The key of a variant that names an earlier one."""
_STEPS, _EVAL_STEPS = "pretrain.max_steps", "pretrain.eval_steps"


@dataclass(frozen=True, kw_only=True)
class CompareConfig:
    """The content of compare.yaml."""

    budget: str
    """Wall-clock of the pre-training of each variant, such as 10m or 2h."""
    variants: dict[str, dict[str, Any]]
    """Name -> values of params.yaml by dotted name. `teacher` names an earlier variant, from whose encoder a
    distillation learns."""
    base: dict[str, Any] = field(default_factory=dict)
    """Values that every variant has, if it has none of its own."""
    calibration_steps: int = 60
    """Steps by whose speed the number of steps is set that the budget pays for."""

    def __post_init__(self) -> None:
        try:
            seconds_of(self.budget)
        except ValueError as error:
            raise ValueError(f"budget: {error}; correct it") from None
        within(self, "calibration_steps", "at least 1", least=1)
        if not self.variants:
            raise ValueError("variants: found none, expected at least one name with its values")
        for place, (name, values) in enumerate(self.variants.items()):
            if not name.replace("-", "").replace("_", "").isalnum():
                raise ValueError(f"variants: found the name {name!r}, expected letters, digits, - and _; rename it")
            earlier = list(self.variants)[:place]
            if (teacher := values.get(TEACHER)) is not None and teacher not in earlier:
                raise ValueError(
                    f"variants.{name}.{TEACHER}: found {teacher!r}, expected a variant that stands before it; "
                    f"{suggest(str(teacher), earlier)}"
                )
        if TEACHER in self.base:
            raise ValueError(f"base: found {TEACHER}, which a variant has by itself; move it to those that distil")
        for name, values in {"base": self.base, **self.variants}.items():
            for key in (_STEPS, _EVAL_STEPS):
                if key in values:
                    raise ValueError(f"{name}: found {key}, which the budget and the measured speed give; remove it")

    @property
    def seconds(self) -> float:
        """The budget."""
        return seconds_of(self.budget)

    @classmethod
    def read(cls, path: Path) -> "CompareConfig":
        """`ConfigError` naming what is wrong in the file."""
        if not path.is_file():
            raise ConfigError(f"{path}: not found, expected the variants to compare; write it, or name another file")
        content = values_of(text_of(path), path) or {}
        if isinstance(content, Mapping) and isinstance(variants := content.get("variants"), Mapping):
            content = {**content, "variants": {str(name): values or {} for name, values in variants.items()}}
        return parse(cls, content, str(path))

    def params_of(self, name: str, given: Mapping[str, Any], steps: int, directory: Path) -> dict[str, Any]:
        """params.yaml of a variant for so many steps; `directory` holds the trees of the others by their names.

        `ConfigError` for a dotted key that leads through something that has no keys.
        """
        values = {**self.base, **self.variants[name]}
        teacher = values.pop(TEACHER, None)
        params = copy.deepcopy(dict(given))
        try:
            vary(params, copy.deepcopy({**values, _STEPS: steps, _EVAL_STEPS: steps}))
            if teacher is not None:
                model = str(directory / teacher / "models" / "pretrained")
                tokenizer = parse(TokenizerConfig, complete(params).get("tokenizer") or {}, "tokenizer")
                vary(params, {"pretrain.objective_options.teacher": model, **vocabulary_keys(tokenizer.kind, model)})
        except ConfigError as error:
            raise ConfigError(f"variant {name}: {error}") from None
        return params
