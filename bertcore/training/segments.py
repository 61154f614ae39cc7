"""The embeddings of segments that no sequence of a training has.

Where no sequence is a pair (FULL- and DOC-SENTENCES), every token is of segment 0, and no gradient reaches the rows of
the other segments; pairs of texts and questions use them when the model is fine-tuned. Left as they were drawn, they
would add noise there that the encoder has never seen: a tiny BERT's held-out loss was 6.43 with segment 0 and 6.58 with
segment 1. Segments drawn at random would teach no more than to ignore them.

So the rows keep the distance from row 0 that they had in the weights that the training began with, published ones or
those of a teacher; where they were drawn, they are equal to it. The saved model then reads every segment exactly as it
has learned to read segment 0, as a RoBERTa does, which has one only; and what a published model knows about segments
stays.
"""

import torch
from torch import Tensor

from bertcore.instances.config import LABELS
from bertcore.model.encoder import EncoderModule
from bertcore.objectives.pretraining import OBJECTIVES
from bertcore.training.config import PretrainConfig


def sees_pairs(objective: str) -> bool:
    """Whether sequences of the objective may be pairs, so that the rows of both segments are trained."""
    return any(packing in LABELS for packing in OBJECTIVES[objective].packings)


def segment_rows(model: EncoderModule) -> Tensor | None:
    """(S, H) a copy of the embeddings of segments; None where there are none."""
    table = model.base_model.segment_embeddings
    return None if table is None else table.weight.detach().clone()


def distance_of(model: EncoderModule, config: PretrainConfig, built: Tensor | None) -> Tensor | None:
    """(S - 1, H) how far the rows of further segments lie from row 0 when a training begins; None without such rows, or
    where they are trained. `built`: its `segment_rows` before its objective was built, which may give it a teacher's
    weights."""
    rows = segment_rows(model)
    if rows is None or built is None or sees_pairs(config.objective):
        return None
    drawn = config.init_from is None and torch.equal(rows, built)
    return torch.zeros_like(rows[1:]) if drawn else rows[1:] - rows[:1]


@torch.no_grad()
def keep_distance(model: EncoderModule, distance: Tensor) -> None:
    """Give the rows of further segments the `distance` from row 0 that `distance_of` gave."""
    table = model.base_model.segment_embeddings
    assert table is not None, "a distance, but no segments"
    table.weight[1:] = table.weight[:1] + distance.to(table.weight.device)
