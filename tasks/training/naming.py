"""What a pre-training is called, by all that decides it: the directories of its checkpoints, and its run in MLflow."""

import dataclasses
import json
from typing import Any

from bertcore.files import checksum
from bertcore.instances.config import MaskConfig
from bertcore.tokens.shards import MANIFEST
from bertcore.training.checkpoint import Checkpoints, training_key
from bertcore.training.config import PretrainConfig
from tasks.paths import CHECKPOINTS, INPUTS, OBJECTIVE, SHARDS, TOKENIZER
from tasks.tracking.lineage import code_of

_OF_THE_END = ("decay_share", "batch_ramp_share")
_DECIDE_NOTHING = ("checkpoint_steps", "checkpoint_seconds", "skip_on_divergence")
"""When a training is saved, and whether it goes on where another one ends: the steps before are the same. A step that
was left out stays so, also where that is not allowed any more."""


class TrainingNames:
    """Those of a training with these parameters on the inputs and with the code that there are."""

    def __init__(self, config: PretrainConfig, mask: MaskConfig) -> None:
        self._config, self._mask = config, mask
        names = ("*.safetensors", "config.json")
        directories = (INPUTS / "init_from", OBJECTIVE)
        models = (path for directory in directories for name in names for path in directory.rglob(name))
        files = [SHARDS / MANIFEST, TOKENIZER / "tokenizer.json", *sorted(models)]
        self._inputs, self._code = [checksum(path) for path in files], code_of("pretrain")

    @property
    def checkpoints(self) -> Checkpoints:
        """Its own."""
        return Checkpoints(CHECKPOINTS / "pretrain" / self._key(self._deciding))

    @property
    def run(self) -> str:
        """By its parameters that decide nothing, too: what its processes, and one run in MLflow, share."""
        own = self.checkpoints.directory.name
        return training_key(own, json.dumps(dataclasses.asdict(self._config), sort_keys=True))

    @property
    def stable_phases(self) -> Checkpoints | None:
        """The ends of the stable phases of trainings like this one, of whatever length: the four longest, and the
        newest. None where its schedule has none.

        Of the same length only, where the share of masked tokens depends on it. They stay until somebody removes them,
        for longer trainings to come.
        """
        config = self._config
        if config.stable_steps is None:
            return None
        resolved = {"warmup_steps": config.warmup, "ramp_steps": config.ramp_steps}
        if config.init_from is not None:
            resolved["head_warmup_steps"] = config.head_warmup
        free = (*_OF_THE_END, "max_steps") if self._mask.masked_lm_prob_start is None else _OF_THE_END
        common = {name: value for name, value in (self._deciding | resolved).items() if name not in free}
        return Checkpoints(CHECKPOINTS / "pretrain" / f"stable-{self._key(common)}", keep=4)

    @property
    def _deciding(self) -> dict[str, Any]:
        values = dataclasses.asdict(self._config)
        return {name: value for name, value in values.items() if name not in _DECIDE_NOTHING}

    def _key(self, config: dict[str, Any]) -> str:
        sections = [json.dumps(section, sort_keys=True) for section in (config, dataclasses.asdict(self._mask))]
        return training_key(*self._inputs, *sections, self._code)
