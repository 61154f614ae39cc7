"""An objective from outside of the package, in one file: a second model is trained beside the first one."""

from dataclasses import dataclass

from bertcore.model.config import build_pretraining
from bertcore.model.encoder import EncoderModule
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.masked_language_modeling import class_sums
from bertcore.objectives.objective import Objective, ObjectiveRow, Sums
from bertcore.objectives.pretraining import OBJECTIVES


@dataclass(frozen=True, kw_only=True)
class TwinOptions:
    twin_weight: float = 0.5


class Twins(Objective):
    def __init__(self, model: EncoderModule, options: TwinOptions) -> None:
        super().__init__()
        self.twin = build_pretraining(model.config)
        self.weights = {"first": 1.0, "twin": options.twin_weight}

    def counts(self, batch: PreTrainingBatch) -> dict[str, int]:
        return dict.fromkeys(self.weights, batch.num_predictions)

    def forward(self, model: EncoderModule, batch: PreTrainingBatch) -> dict[str, Sums]:
        inputs = (batch.input_ids, batch.token_type_ids, batch.layout, batch.masked_positions)
        models = {"first": model, "twin": self.twin}
        return {name: class_sums(each(*inputs)[0], batch.masked_labels) for name, each in models.items()}


OBJECTIVES["twins"] = ObjectiveRow(options=TwinOptions, build=Twins, packings=("full_sentences",))
