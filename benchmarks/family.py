"""The pre-training step of every variant of the family beside `transformers`' class of the same variant.

    python -m benchmarks.family --text TEXT --vocab VOCAB.txt [--variants roberta albert …] [--keep]

Both sides have models of the same shape, sequences, masks, dropout and optimizer (AdamW), in bfloat16 where the
processor has it. The masks, the objective and the dropout are those of the recipe. Classes for masked tokens stand
there twice: as they are, and with a head that reads the masked tokens alone, as ours does. Every side has a process
of its own, and they take turns. With --processor-time the time is that of the processor, for machines on which other
work runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

from benchmarks import results
from benchmarks.machine import describe
from benchmarks.options import CLOCKS, make_parser
from benchmarks.steps import Batch, Loss, PlainTraining, masked_token_loss
from benchmarks.text import SEED, Text, prepared, text_arguments
from benchmarks.turns import Work, row, take_turns
from bertcore.instances.config import MaskConfig
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.huggingface import save_pretrained
from bertcore.objectives.pretraining import build_model, build_objective
from bertcore.objectives.replaced_tokens import GENERATOR
from bertcore.recipes.recipe import read_recipe
from bertcore.training import machine
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.config import PretrainConfig
from bertcore.training.loop import Pretraining, TrainingData


@dataclass(frozen=True)
class Setting:
    """What both sides of a variant train."""

    text: Path
    """A directory that `Text.prepare` made."""
    variant: str
    preset: str
    length: int
    batch_size: int
    positions: int = 512
    """Tokens that the models can read."""
    window: int | None = None
    """Tokens that ModernBERT's local layers see; None = as the preset says."""

    @property
    def directory(self) -> Path:
        """Of the weights that both sides begin with."""
        return self.text / f"{self.variant}-{self.preset}"

    @property
    def teacher(self) -> Path:
        return self.text / f"{self.variant}-{self.preset}-teacher"

    @property
    def mask(self) -> MaskConfig:
        return MaskConfig(**{**read_recipe(self.variant)["mask"], "sequence_length": self.length})

    @property
    def config(self) -> PretrainConfig:
        recipe = read_recipe(self.variant)["pretrain"]
        fields = {key: value for key, value in recipe["model"].items() if key not in ("architecture", "preset")}
        architecture = recipe["model"]["architecture"]
        fields["max_position_embeddings"] = self.positions + 2 * (architecture == "roberta")
        if self.window is not None:
            fields["local_attention"] = self.window
        model = ModelConfig(architecture=architecture, preset=self.preset, fields=fields)
        options = dict(recipe.get("objective_options", {}))
        if recipe["objective"] == "distillation":
            options["teacher"] = str(self.teacher)
        return PretrainConfig(
            model=model,
            objective=recipe["objective"],
            objective_options=options,
            batch_size=self.batch_size,
            max_steps=10**6,
        )

    def save_weights(self) -> None:
        """Of the model, its companions and its teacher, a BERT of the same preset."""
        vocabulary = Text(self.text).vocabulary
        torch.manual_seed(SEED)
        if "teacher" in self.config.objective_options:
            teacher = build_pretraining(ModelConfig(preset=self.preset).build(vocabulary.size, vocabulary.pad))
            save_pretrained(teacher, self.teacher)
        model = build_model(self.config.objective, self.config.model.build(vocabulary.size, vocabulary.pad))
        objective = build_objective(self.config.objective, model, self.config.objective_options)
        for folder, each in {"": model, **objective.companions}.items():
            save_pretrained(each, self.directory / folder)


def ours(setting: Setting) -> Work:
    """The training loop, as stage `pretrain` runs it."""
    text, config = Text(setting.text), setting.config
    model = build_model(config.objective, config.model.build(text.vocabulary.size, text.vocabulary.pad))
    loader = text.loader(setting.mask, setting.batch_size)
    checkpoints, accelerator = Checkpoints(setting.text / "checkpoints"), machine.make_accelerator()
    return Pretraining(config, model, TrainingData(batches=loader), accelerator, checkpoints).train_step


ATTENTION = dict.fromkeys(("DebertaV2ForMaskedLM", "DebertaV2Model"), "eager")
"""Of classes that have no other than what is written out in them."""


class Peer(PlainTraining):
    """`transformers`' models of a variant, with SDPA where they have it. With `masked_only` a class for masked tokens
    computes the logits of those alone."""

    def __init__(self, setting: Setting, masked_only: bool = False) -> None:
        self.setting, self.masked_only, self._models = setting, masked_only, nn.ModuleList()
        loss = LOSSES[setting.variant](self)
        trained = [each for each in self._models.parameters() if each.requires_grad]
        super().__init__(Text(setting.text).loader(setting.mask, setting.batch_size), loss, trained)

    def load(self, kind: str, directory: Path | None = None) -> Any:
        """The model of class `kind` from `directory`, or from the setting's, in training."""
        path, attention = directory or self.setting.directory, ATTENTION.get(kind, "sdpa")
        model = getattr(transformers, kind).from_pretrained(path, attn_implementation=attention).train()
        self.add(model)
        return model

    def add(self, module: nn.Module) -> None:
        """One that is trained, too."""
        self._models.append(module)


def _masked_lm(kind: str, peer: Peer) -> Loss:
    model = peer.load(kind)
    if peer.masked_only:
        return partial(masked_token_loss, model)

    def loss(batch: Batch) -> Tensor:
        return model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=batch["labels"]).loss

    return loss


def _albert(peer: Peer) -> Loss:
    model = peer.load("AlbertForPreTraining")

    def loss(batch: Batch) -> Tensor:
        return model(**batch, sentence_order_label=batch.pop("next_sentence_label")).loss

    return loss


def _electra(peer: Peer) -> Loss:
    generator = peer.load("ElectraForMaskedLM", peer.setting.directory / GENERATOR)
    discriminator = peer.load("ElectraForPreTraining")
    generator.electra.embeddings = discriminator.electra.embeddings
    return _replaced_tokens(generator, lambda ids, mask: discriminator(input_ids=ids, attention_mask=mask).logits, 50.0)


def _deberta_v3(peer: Peer) -> Loss:
    """The encoder of `transformers`, with the head and the sum of two tables of microsoft/DeBERTa's code."""
    generator = peer.load("DebertaV2ForMaskedLM", peer.setting.directory / GENERATOR)
    encoder, width = peer.load("DebertaV2Model"), generator.config.hidden_size
    encoder.embeddings.word_embeddings = _Sum(generator.deberta.embeddings.word_embeddings)
    head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))
    peer.add(head)

    def logits(ids: Tensor, mask: Tensor) -> Tensor:
        states = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return head(states + states[:, :1]).squeeze(-1)

    return _replaced_tokens(generator, logits, 10.0)


class _Sum(nn.Module):
    """Embeddings from the sum of another table, which is not trained from here, and one that is."""

    def __init__(self, other: nn.Embedding) -> None:
        super().__init__()
        self.weight, self._other = nn.Parameter(torch.zeros_like(other.weight)), [other]

    def forward(self, ids: Tensor) -> Tensor:
        return functional.embedding(ids, self._other[0].weight.detach() + self.weight)


def _replaced_tokens(generator: Any, detect: Callable[[Tensor, Tensor], Tensor], weight: float) -> Loss:
    def loss(batch: Batch) -> Tensor:
        ids, mask, labels = batch["input_ids"], batch["attention_mask"], batch["labels"]
        generated = generator(input_ids=ids, attention_mask=mask, labels=labels)
        masked, real = labels != -100, mask.bool()
        with torch.no_grad():
            samples = torch.multinomial(generated.logits[masked].float().softmax(-1), 1).squeeze(1)
        replaced = ids.masked_scatter(masked, samples)
        told = torch.zeros_like(ids).masked_scatter(masked, (samples != labels[masked]).long())
        found = detect(replaced, mask)[real]
        return generated.loss + weight * functional.binary_cross_entropy_with_logits(found, told[real].float())

    return loss


def _distilbert(peer: Peer) -> Loss:
    """As huggingface/transformers' research project `distillation` computes it."""
    student = peer.load("DistilBertForMaskedLM")
    teacher = peer.load("BertForMaskedLM", peer.setting.teacher).eval().requires_grad_(False)

    def loss(batch: Batch) -> Tensor:
        inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
        own = student(**inputs, labels=batch["labels"], output_hidden_states=True)
        with torch.no_grad():
            other = teacher(**inputs, output_hidden_states=True)
        real = batch["attention_mask"].bool()
        targets = functional.softmax(other.logits[real].float() / 2.0, dim=-1)
        kl = functional.kl_div(
            functional.log_softmax(own.logits[real].float() / 2.0, dim=-1), targets, reduction="batchmean"
        )
        states, expected = own.hidden_states[-1][real], other.hidden_states[-1][real]
        cosine = functional.cosine_embedding_loss(states, expected, torch.ones(len(states)))
        return 5.0 * 4.0 * kl + 2.0 * own.loss + cosine

    return loss


LOSSES: dict[str, Callable[[Peer], Loss]] = {
    "roberta": partial(_masked_lm, "RobertaForMaskedLM"),
    "albert": _albert,
    "deberta": partial(_masked_lm, "DebertaV2ForMaskedLM"),
    "deberta-v3": _deberta_v3,
    "electra": _electra,
    "distilbert": _distilbert,
    "modern": partial(_masked_lm, "ModernBertForMaskedLM"),
}


MASKED_LM = [name for name, loss in LOSSES.items() if isinstance(loss, partial)]
"""Variants whose peer is one class for masked tokens."""


def theirs(setting: Setting, masked_only: bool = False) -> Work:
    """For turns."""
    return Peer(setting, masked_only).train_step


def main() -> None:
    parser = make_parser(__doc__, "--preset", "--length", "--batch", "--processor-time", turns=5)
    text_arguments(parser, ".benchmarks/family", 400)
    parser.add_argument("--variants", nargs="+", choices=LOSSES, default=list(LOSSES))
    parser.add_argument("--steps", type=int, default=2, help="steps of a turn (%(default)s)")
    options = parser.parse_args()

    text, rows = prepared(options), list[dict[str, str]]()
    clock, of_time = CLOCKS[options.processor_time]
    for variant in options.variants:
        setting = Setting(text.directory, variant, options.preset, options.length, options.batch)
        setting.save_weights()
        sides = {"bertcore": partial(ours, setting), "transformers": partial(theirs, setting)}
        if variant in MASKED_LM:
            sides["transformers, head of masked tokens alone"] = partial(theirs, setting, masked_only=True)
        measured = take_turns(sides, options.turns, options.steps, clock=clock)
        first = measured["bertcore"]
        rows += [{"variant": variant, "by": name, **row(first, turns)} for name, turns in measured.items()]
        print(rows[-1], flush=True)
    facts = {
        **describe(),
        "work": f"{options.preset}, {text.vocabulary.size:,} WordPiece entries, {options.batch} sequences of at most "
        f"{options.length} tokens a step, dropout and masks of the recipes",
        "turns": f"{options.turns} of {options.steps} steps each",
        "time": of_time,
    }
    results.show(f"family-{options.preset}-{options.length}", facts, rows, keep=options.keep)


if __name__ == "__main__":
    main()
