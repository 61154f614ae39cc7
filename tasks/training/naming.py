"""What a pre-training is called, by all that decides it: the directories of its checkpoints, and its run in MLflow."""

import dataclasses
import json
import logging
from typing import Any

from bertcore.files import checksum
from bertcore.instances.config import MaskConfig
from bertcore.shards.store import MANIFEST
from bertcore.training.checkpoint import Checkpoints, training_key
from bertcore.training.config import PretrainConfig
from tasks.paths import CHECKPOINTS, EVAL_PAIRS, INPUTS, OBJECTIVE, SHARDS, TOKENIZER
from tasks.tracking.lineage import code_of
from tasks.training.checkpoints import has_finished

logger = logging.getLogger(__name__)

_STABLE = "stable-"
"""How the directories of stable phases begin, which are of no training alone."""

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
        pairs = (path for path in EVAL_PAIRS.rglob("*") if path.is_file())
        files = [SHARDS / MANIFEST, TOKENIZER / "tokenizer.json", *sorted(models), *sorted(pairs)]
        self._inputs, self._code = [checksum(path) for path in files], code_of("pretrain")

    @property
    def checkpoints(self) -> Checkpoints:
        """Those of this training alone."""
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
        return Checkpoints(CHECKPOINTS / "pretrain" / f"{_STABLE}{self._key(common)}", keep=4)

    def tell_of_others(self) -> None:
        """Where this training begins anew, say whose checkpoints lie beside its own: those of others that have not
        finished, perhaps of itself before a change."""
        own, stable = self.checkpoints, self.stable_phases
        if any(each is not None and each.latest_step() is not None for each in (own, stable)):
            return
        beside = (path for path in own.directory.parent.glob("*") if not path.name.startswith(_STABLE))
        started = (path for path in beside if Checkpoints(path).latest_step() is not None)
        if others := sorted(str(path) for path in started if not has_finished(path)):
            logger.info(
                "no checkpoint is of these inputs, parameters and code: begun anew; those in %s are of others",
                ", ".join(others),
            )

    @property
    def _deciding(self) -> dict[str, Any]:
        values = dataclasses.asdict(self._config)
        return {name: value for name, value in values.items() if name not in _DECIDE_NOTHING}

    def _key(self, config: dict[str, Any]) -> str:
        sections = [json.dumps(section, sort_keys=True) for section in (config, dataclasses.asdict(self._mask))]
        return training_key(*self._inputs, *sections, self._code)
