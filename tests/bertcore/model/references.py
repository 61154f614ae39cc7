"""What the comparisons with transformers share: random batches, how close is equal, and one comparison of all classes.

Both sides compute in double precision. In float32 the rounding of a deep model's gradients is a hundred times epsilon
and differs between processors, so that any tolerance there is too wide for some and too narrow for others.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from bertcore.model.config import ARCHITECTURES, build_head, build_pretraining
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import save_pretrained
from bertcore.model.layout import Layout
from bertcore.objectives.batch import PreTrainingBatch

TOLERANCE = 1e-12
"""Relative to the largest value of a tensor: 4,500 times the rounding of one operation in double precision."""

LOSS_TOLERANCE = 16 * torch.finfo(torch.float32).eps
"""Of the loss and the gradients, which come through the cross entropy: it computes in float32 whatever the model does.
Its exponential, sum, logarithm and quotient round once or twice each; what follows is linear in the gradient."""

EXACT = 1e-10
"""Relative to the largest value of a tensor; of a gradient also as it is: that of a bias of the keys is truly 0, as it
shifts all scores of a query alike, and what is seen of it is rounding."""

LENGTHS = [40, 5, 23, 64]
HEADS = [
    ("sequence_classification", "ForSequenceClassification"),
    ("token_classification", "ForTokenClassification"),
    ("question_answering", "ForQuestionAnswering"),
    ("multiple_choice", "ForMultipleChoice"),
]
"""Families of heads, with the ends of the names of transformers' classes."""
_LABELS = {"sequence_classification": 3, "token_classification": 3, "question_answering": 2, "multiple_choice": 1}
"""Logits of each head that is compared."""


def random_batch(config: EncoderConfig, lengths: list[int], seed: int = 0) -> PreTrainingBatch:
    generator = torch.Generator().manual_seed(seed)
    layout = Layout.from_lengths(torch.tensor(lengths))

    def draw(high: int, count: int) -> Tensor:
        return torch.randint(high, (count,), generator=generator)

    masked = torch.randperm(layout.total, generator=generator)[: max(1, layout.total * 15 // 100)].sort().values
    return PreTrainingBatch(
        input_ids=draw(config.vocab_size - 1, layout.total) + 1,  # 0 is [PAD]
        token_type_ids=draw(max(config.segments, 1), layout.total),
        layout=layout,
        masked_positions=masked,
        masked_labels=draw(config.vocab_size, len(masked)),
        next_sentence_labels=draw(2, len(lengths)),
    )


def padded(values: Tensor, layout: Layout, fill: int = 0) -> Tensor:
    empty = torch.full((layout.batch_size * layout.max_length, *values.shape[1:]), fill, dtype=values.dtype)
    return empty.index_copy(0, layout.padded_index, values).unflatten(0, (layout.batch_size, -1))


def assert_close(
    found: Tensor, expected: Tensor, what: str, tolerance: float = TOLERANCE, scale: float | None = None
) -> None:
    assert found.shape == expected.shape, what
    scale = scale or float(expected.detach().abs().max())
    difference = float((found - expected).detach().abs().max())
    assert difference <= tolerance * scale, f"{what}: {difference / scale:.1e} of the scale"


def drawn(model: nn.Module) -> Any:
    """The model with weights of which none is 0 and no scale is 1."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.15 * torch.randn(parameter.shape)
    return model.eval()


def saved(model: Any, directory: Path) -> Any:
    """`model` in float64, as it stands in `directory`."""
    save_pretrained(model, directory)
    return model.double()


@dataclass(frozen=True)
class Batch:
    """The same sequences as both sides take them."""

    layout: Layout
    ids: Tensor
    types: Tensor
    """Segments, also for an encoder without any, which must not read them."""
    theirs: dict[str, Tensor]

    def flat(self, outputs: Tensor) -> Tensor:
        """What transformers gives for each token, laid out as ours."""
        return outputs.flatten(0, 1)[self.layout.padded_index]


@dataclass(frozen=True)
class Reference:
    """transformers' classes of one architecture, of which ours are to be the equal."""

    architecture: str
    classes: str
    """How their names begin."""
    tied: frozenset[str] = frozenset()
    """Parameters that transformers has beside the equal ones of the embeddings."""
    segments: bool = False
    pad: int = 0
    tolerance: float = EXACT

    def load(self, directory: Path, kind: str, **settings: Any) -> Any:
        loader = getattr(transformers, f"{self.classes}{kind}")
        return loader.from_pretrained(directory, dtype=torch.float64, **settings).eval()

    def batch(self, lengths: list[int]) -> Batch:
        """Of any of 60 ids but the padding's and those below."""
        layout = Layout.from_lengths(torch.tensor(lengths))
        generator = torch.Generator().manual_seed(1)
        ids = torch.randint(self.pad + 1, 60, (layout.total,), generator=generator)
        types = torch.randint(0, 2, (layout.total,), generator=generator)
        theirs = {"input_ids": padded(ids, layout, self.pad), "attention_mask": layout.key_mask().long()}
        if self.segments:
            theirs["token_type_ids"] = padded(types, layout)
        return Batch(layout, ids, types, theirs)

    def assert_close(self, found: Tensor, expected: Tensor) -> None:
        assert_close(found, expected, self.classes, self.tolerance)

    def assert_same_gradients(self, model: Any, reference: Any) -> None:
        names = ARCHITECTURES[self.architecture].names
        found = names.to_huggingface({name: each.grad for name, each in model.named_parameters()})
        expected = {name: each.grad for name, each in reference.named_parameters()}
        assert found.keys() == expected.keys() - self.tied
        for name, gradient in found.items():
            largest, tolerance = float(expected[name].abs().max()), max(self.tolerance, EXACT)
            torch.testing.assert_close(gradient, expected[name], rtol=0, atol=max(tolerance * largest, EXACT))

    def assert_same_masked_lm(
        self, config: EncoderConfig, lengths: list[int], directory: Path, **settings: Any
    ) -> None:
        """Logits of every third token, and the gradients of a loss of them; `settings` are transformers'."""
        model = saved(drawn(build_pretraining(config)), directory)
        reference, batch = self.load(directory, "ForMaskedLM", **settings), self.batch(lengths)
        places = torch.arange(0, batch.layout.total, 3)
        (found,) = model(batch.ids, batch.types, batch.layout, places)
        expected = batch.flat(reference(**batch.theirs).logits)[places]
        self.assert_close(found, expected)
        found.logsumexp(1).square().sum().backward()
        expected.logsumexp(1).square().sum().backward()
        self.assert_same_gradients(model, reference)

    def assert_same_head(self, config: EncoderConfig, family: Any, kind: str, directory: Path) -> None:
        """The logits of one of `HEADS`, and the gradients of a loss of them."""
        model = saved(drawn(build_head(config, family, _LABELS[family])), directory)
        reference, batch = self.load(directory, kind, num_labels=_LABELS[family]), self.batch(LENGTHS)
        found, outputs = model(batch.ids, batch.types, batch.layout), reference(**_in_pairs(family, batch.theirs))
        expected = _logits_like(found, outputs, batch)
        self.assert_close(found, expected)
        found.square().sum().backward()
        expected.square().sum().backward()
        self.assert_same_gradients(model, reference)


def _in_pairs(family: str, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Of multiple choice, always two choices of one example."""
    if family != "multiple_choice":
        return inputs
    return {name: each.unflatten(0, (-1, 2)) for name, each in inputs.items()}


def _logits_like(found: Tensor, outputs: Any, batch: Batch) -> Tensor:
    logits = outputs.logits if "logits" in outputs else torch.stack([outputs.start_logits, outputs.end_logits], -1)
    return logits.reshape_as(found) if logits.ndim == 2 else batch.flat(logits)
