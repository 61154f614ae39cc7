"""Replaced-token detection (Clark et al. 2020): which tokens of a text did a generator put there?

The generator is trained on the masked tokens, in the same steps, and its samples take their places. No gradient goes
through a sample. Both models have the same embeddings, as their architecture shares them.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from bertcore.config import within
from bertcore.errors import ArtifactError
from bertcore.model.config import build_pretraining, discriminator_of
from bertcore.model.encoder import EncoderModule
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import load_config, load_pretrained
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.cross_entropy import CHUNK_ROWS
from bertcore.objectives.masked_language_modeling import class_sums
from bertcore.objectives.objective import Objective, ObjectiveRow, Sums, binary_sums, require_weights

GENERATOR = "generator"
"""The folder of the generator in the directory of the discriminator."""
_OTHER_ROWS = 1024
"""Of logits, elsewhere than on the CPU, whose probabilities are added up at a time: 20 bytes for each number."""


@dataclass(frozen=True, kw_only=True)
class ReplacedTokenOptions:
    """`pretrain.objective_options` of replaced-token detection."""

    generator_width: float | None = None
    """The generator's `hidden_size` and `intermediate_size` over those of the model. null = a quarter for ELECTRA, as
    beside small and large (beside base: a third), and 1.0, without a choice, for DeBERTa."""
    generator_layers: float | None = None
    """Its layers over those of the model. null = 1.0 for ELECTRA, 0.5 for DeBERTa."""
    mlm_weight: float = 1.0
    """Of the generator's masked tokens in the loss."""
    detection_weight: float = 50.0
    """Of all tokens, told apart from replaced ones, in the loss. 50 is ELECTRA's; recipe `deberta-v3` has 10."""

    def __post_init__(self) -> None:
        for name in ("generator_width", "generator_layers"):
            if getattr(self, name) is None:
                continue
            expected = "a share of the model's own, more than 0 and at most 1, such as 0.25: a larger generator is too "
            within(self, name, expected + "hard to see through", above=0, most=1)
        for name in ("mlm_weight", "detection_weight"):  # without either one of the two models learns nothing
            require_weights(self, name)


class ReplacedTokens(Objective):
    """The generator's masked tokens (`mlm`), and for each token whether it is a replaced one (`replaced_tokens`)."""

    def __init__(self, model: EncoderModule, options: ReplacedTokenOptions) -> None:
        super().__init__()
        row = discriminator_of(model.config)
        shape = row.generator(model.config, options.generator_width, options.generator_layers)
        self.generator = build_pretraining(shape)
        begun_with = model.published.base_model.token_embeddings.state_dict()
        self.generator.base_model.token_embeddings.load_state_dict(begun_with)
        row.share(model, self.generator)
        self.weights = {"mlm": options.mlm_weight, "replaced_tokens": options.detection_weight}

    def load(self, model: EncoderModule, directory: Path) -> list[str]:
        """The generator of `directory` has the shape that it has there; without one it keeps its initial weights."""
        place = directory / GENERATOR
        if not place.is_dir():
            known = {*model.parameters(), self.generator.base_model.token_embeddings.weight}
            return [name for name, parameter in self.named_parameters() if parameter not in known]
        check_generator(model.config, place)
        shape = load_config(place).with_padding(model.config.pad_token_id, str(place))
        self.generator = build_pretraining(shape)
        missing = load_pretrained(self.generator, place).missing
        discriminator_of(model.config).share(model, self.generator)
        return [f"generator.{name}" for name in missing]

    @property
    def companions(self) -> dict[str, EncoderModule]:
        return {GENERATOR: self.generator}

    @property
    def of_every_token(self) -> bool:
        return True

    def counts(self, batch: PreTrainingBatch) -> dict[str, int]:
        return {"mlm": batch.num_predictions, "replaced_tokens": batch.layout.total}

    def forward(self, model: EncoderModule, batch: PreTrainingBatch) -> dict[str, Sums]:
        assert batch.masked_draws is not None, "a batch without draws for the samples"
        (logits,) = self.generator(batch.input_ids, batch.token_type_ids, batch.layout, batch.masked_positions)
        samples = sample(logits.detach()[: batch.num_predictions], batch.masked_draws)
        terms = {"mlm": class_sums(logits, batch.masked_labels)}
        places = batch.counted_positions
        inputs = batch.input_ids.index_copy(0, places, samples)
        replaced = torch.zeros(batch.layout.total, dtype=torch.bool, device=inputs.device)
        replaced[places] = samples != batch.masked_labels  # the original token, drawn by chance, is no replaced one
        detected = model(inputs, batch.token_type_ids, batch.layout)
        terms["replaced_tokens"] = binary_sums(detected, replaced)
        return terms

    def model_flops(self, config: EncoderConfig, batch: PreTrainingBatch) -> int:
        return discriminator_of(config).flops(config, batch.layout.lengths)

    def further_flops(self, batch: PreTrainingBatch) -> int:
        """The generator."""
        return super().model_flops(self.generator.config, batch)


def check_generator(model: EncoderConfig, place: Path) -> None:
    """`ArtifactError` where `model` and the generator in `place` could not share their embeddings, or it is larger."""
    generator = load_config(place)
    if type(generator) is not type(model):
        raise ArtifactError(
            f"{place}: model_type: found {generator.model_type!r}, expected {model.model_type!r} as in the "
            "model beside it; give the generator that it was trained with, or remove the folder"
        )
    shared = discriminator_of(model).shared
    for name in dict.fromkeys(("hidden_size", "num_hidden_layers", *shared)):
        found, own = getattr(generator, name), getattr(model, name)
        if found != own if name in shared else found > own:
            expected = f"{own} as in the model beside it" if name in shared else f"at most the {own} of the model"
            raise ArtifactError(
                f"{place}: {name}: found {found!r}, expected {expected}; give the generator that it was "
                "trained with, or remove the folder"
            )


@torch.no_grad()
def sample(logits: Tensor, draws: Tensor) -> Tensor:
    """(M, V) logits and (M,) numbers in [0, 1) -> (M,) tokens, token v with its probability softmax(logits)[v].

    One number decides a token: the first whose cumulated probability is above it. The distribution is that of the
    published Gumbel noise at temperature 1, which takes a number for every entry of the vocabulary.
    """
    rows = CHUNK_ROWS if logits.device.type == "cpu" else _OTHER_ROWS
    tokens = [logits.new_empty(0, dtype=torch.int64)]
    for part, drawn in zip(logits.split(rows), draws[:, None].split(rows), strict=True):
        cumulated = functional.softmax(part.float(), -1).cumsum(-1, dtype=torch.float64)
        tokens.append(torch.searchsorted(cumulated, drawn * cumulated[:, -1:], right=True).squeeze(1))
    return torch.cat(tokens).clamp_max(logits.shape[1] - 1)


def _check(config: EncoderConfig, options: ReplacedTokenOptions, longest: int) -> None:
    discriminator_of(config).generator(config, options.generator_width, options.generator_layers)


REPLACED_TOKENS = ObjectiveRow(
    options=ReplacedTokenOptions,
    build=ReplacedTokens,
    packings=("full_sentences", "doc_sentences"),
    needs_discriminator=True,
    check=_check,
)
