"""The models of a training as Hugging Face directories: of its last step, and of every `pretrain.keep_every` steps."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertcore.errors import ArtifactError
from bertcore.export import gate
from bertcore.files import disk_errors, replace_directory
from bertcore.model.encoder import EncoderModule
from bertcore.model.huggingface import save_pretrained
from bertcore.shards.store import Manifest
from bertcore.training.control import Control
from bertcore.training.loop import SECOND_PHASE, Pretraining
from tasks import cards
from tasks.paths import KEPT, SHARDS, TOKENIZER


def metrics_of(training: Pretraining) -> dict[str, Any]:
    """What metrics/pretrain.json says of the steps done; without scores where it was not evaluated after them."""
    state = training.state
    scores = state.history.last("eval/loss") if state.history.evaluated(state.step) else {}
    companions = {name: model.num_parameters() for name, model in training.companions.items()}
    return {
        **_part(scores, "eval/"),
        **({"second_phase": longer} if (longer := _part(scores, f"{SECOND_PHASE}/")) else {}),
        "steps": state.step,
        "tokens": state.tokens,
        "skipped_steps": state.watch.skipped,
        "parameters": training.model.num_parameters(),
        "architecture": training.model.config.model_type,
        **({"companions": companions} if companions else {}),
    }


def _part(metrics: dict[str, float], prefix: str) -> dict[str, float]:
    return {name.removeprefix(prefix): value for name, value in metrics.items() if name.startswith(prefix)}


def save(
    models: Mapping[str, EncoderModule], metrics: Mapping[str, Any], directory: Path, place: Path | None = None
) -> None:
    """Write `models`, as `Pretraining.whole_models` gives them, into `directory`, and have a fresh process read them.

    `place`: where they are used from, as their cards say, if it is another one.
    """
    manifest = Manifest.read(SHARDS)
    tokens = {split: manifest.tokens(split) for split in ("train", "heldout")}
    for folder, model in models.items():
        card = cards.of_pretrained(model, tokens, metrics, (place or directory) / folder)
        with disk_errors(directory):
            save_pretrained(model, directory / folder, TOKENIZER, card=card)
        gate.check(model, directory / folder, TOKENIZER)


class KeptEncoders:
    """Those of some `steps` of a training: beside its checkpoints while it goes on, as DVC removes the outputs of a
    stage that it starts again, and in `KEPT` when it has ended."""

    def __init__(self, training: Pretraining, steps: range, control: Control) -> None:
        self._training, self._steps, self._control = training, steps, control
        self._beside = training.checkpoints.directory / "kept"

    def keep(self, step: int) -> None:
        """Write the encoder of this step, if it is one of them; every process must ask."""
        if step in self._steps:
            models = self._training.whole_models()
            # The others wait here: the GPUs' own exchange would give up after ten minutes.
            self._control.on_main(lambda: self._save(models, step))

    def _save(self, models: Mapping[str, EncoderModule], step: int) -> None:
        name = f"step-{step:08d}"
        save(models, metrics_of(self._training), self._beside / name, KEPT / name)

    def publish(self) -> None:
        """Put copies of all of them into `KEPT`: their own place is cleared when DVC has recorded the stage."""
        with disk_errors(KEPT), replace_directory(KEPT) as beside:
            for name in (f"step-{step:08d}" for step in self._steps):
                if not (self._beside / name).is_dir():
                    raise ArtifactError(
                        f"{self._beside / name}: not found, expected the encoder that the training has kept there; "
                        f"remove {self._beside.parent}, or set pretrain.keep_every to null: both train anew"
                    )
                shutil.copytree(self._beside / name, beside / name)
