"""The training that params.yaml and the environment ask for, in numbers: what the checks hold against the machine."""

import contextlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertcore.corpus.config import CorpusConfig, SourceEntry
from bertcore.corpus.sources import source_of
from bertcore.errors import ConfigError, InputError
from bertcore.finetune.config import TaskConfig
from bertcore.instances.config import MaskConfig
from bertcore.model.encoder_config import EncoderConfig
from bertcore.precision import device, precision
from bertcore.tokens.tokenizer import TokenizerConfig, entries_of
from bertcore.training.config import PretrainConfig
from bertcore.training.launch import launched_processes
from bertcore.training.machine import activation_checkpointing, micro_batch_size
from bertcore.vocabulary.size import CHOSEN, vocabulary_for
from tasks.contradictions import encoder
from tasks.doctor.estimate import Load, MemoryNeed, parameters, sequence_flops, state_bytes, training_memory
from tasks.doctor.speed import Speed, training_speed
from tasks.paths import METRICS
from tasks.sections import check

_CHECKPOINTS = 3
"""Two are kept while the next one is written."""
_TEXT_BYTES_PER_TOKEN = 4.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Checked parameters, and what follows from them."""

    configs: dict[str, Any]
    """Sections of params.yaml by name."""
    tasks: dict[str, TaskConfig]
    """The fine-tuning tasks by name."""
    encoder: EncoderConfig
    """The model that will be trained."""

    @classmethod
    def read(cls, values: dict[str, Any], entries: int | None = None) -> "Plan":
        """From the content of params.yaml; a `BertcoreError` names what cannot be used. `entries`: of the vocabulary,
        where it is made already; None: see `entries_asked`."""
        configs, tasks = check(values)
        return cls(configs=configs, tasks=tasks, encoder=encoder(configs, entries or entries_asked(configs)))

    @property
    def _pretrain(self) -> PretrainConfig:
        config: PretrainConfig = self.configs["pretrain"]
        return config

    def _phases(self) -> list[tuple[MaskConfig, int, int]]:
        """Mask section, batch size and steps of each phase."""
        both = zip(self.configs["mask"].phases, self._pretrain.phases, strict=True)
        return [(mask, phase.batch_size, phase.steps) for mask, phase in both]

    def memory(self) -> MemoryNeed:
        """Of one training process, in the phase that needs the most; `ConfigError` for a bad variable."""
        loads, config = [_load(*phase[:2]) for phase in self._phases()], self._pretrain
        needs = [training_memory(self.encoder, load, config.optimizer, config) for load in loads]
        return max(needs, key=lambda need: need.total)

    def flops(self) -> int:
        """Of pre-training with its evaluations, all sequences counted as full."""
        config, (mask, *_) = self._pretrain, self._phases()[0]
        evaluated = (config.max_steps // config.eval_steps + 1) * config.eval_sequences
        forward = sequence_flops(self.encoder, mask.sequence_length, masked(mask), config, backward=False)
        return self._training_flops(self.encoder) + evaluated * forward

    def mean_sequence(self, encoder: EncoderConfig) -> tuple[float, float]:
        """FLOPs and tokens of a training sequence of `encoder`, the mean over the phases."""
        total = sum(size * number for _, size, number in self._phases())
        return self._training_flops(encoder) / total, self.tokens / total

    @property
    def tokens(self) -> int:
        """That the training reads, all sequences counted as full."""
        return sum(number * size * mask.sequence_length for mask, size, number in self._phases())

    def _training_flops(self, encoder: EncoderConfig) -> int:
        return sum(
            number * size * sequence_flops(encoder, mask.sequence_length, masked(mask), self._pretrain)
            for mask, size, number in self._phases()
        )

    def speed(self) -> Speed:
        """Of the training here and now."""
        mask, batch, _ = self._phases()[0]
        return training_speed(self.encoder, self._pretrain, _load(mask, batch))

    def sized(self, encoder: EncoderConfig, batch_size: int) -> "Plan":
        """The training of `encoder` in place of that of params.yaml, with so many sequences to a step."""
        longer = self._pretrain.second_phase and replace(self._pretrain.second_phase, batch_size=None)
        changed = replace(self._pretrain, batch_size=batch_size, batch_size_start=None, second_phase=longer)
        return replace(self, encoder=encoder, configs={**self.configs, "pretrain": changed})

    def seconds(self, speed: Speed) -> float:
        """Of pre-training with its evaluations."""
        return self.flops() / speed.flops + self._pretrain.max_steps * speed.update

    @property
    def model_bytes(self) -> int:
        """Of one saved model, with what is saved beside it."""
        return 4 * parameters(self.encoder, self._pretrain).total

    @property
    def kept_bytes(self) -> int:
        """Of the encoders of earlier steps."""
        return self.model_bytes * len(self._pretrain.kept_steps)

    @property
    def checkpoint_bytes(self) -> int:
        """With the encoders of earlier steps, which stand beside them until all is recorded."""
        config, count = self._pretrain, parameters(self.encoder, self._pretrain)
        kept = _CHECKPOINTS + (config.stable_steps is not None)  # the end of the stable phase, too
        return kept * state_bytes(count, config.optimizer, averaged=config.ema_decay is not None) + self.kept_bytes

    @property
    def models_bytes(self) -> int:
        """Of the pre-trained model, those of earlier steps and one for each task."""
        return self.model_bytes * (1 + len(self.tasks)) + self.kept_bytes

    def text_bytes(self) -> tuple[float, list[str]]:
        """Of the sources, as far as that can be known from here, and the URIs of those whose size is unknown."""
        sizes = _sizes_of_sources(self.configs["corpus"])
        known = sum(max(weight, 1.0) * size for _, weight, size in sizes if size is not None)
        return known, [uri for uri, _, size in sizes if size is None]

    def text_tokens(self) -> float:
        """About so many in the text, each source as often as its weight says; 0 where the size of one is unknown."""
        return _text_tokens(self.configs["corpus"])

    def data_bytes(self, text: float) -> float:
        """Corpus, shards and instances of so much text, at most."""
        mask, tokens = self.configs["mask"], text / _TEXT_BYTES_PER_TOKEN
        id_bytes = 2 if self.encoder.vocab_size <= 2**16 else 4
        # A static copy holds every token, and id and place of every predicted one.
        copy = tokens * (id_bytes + mask.masked_lm_prob * (id_bytes + 2)) * 1.1
        return text + tokens * id_bytes * 1.1 + copy * max(mask.duplicates, 0.1) * len(mask.phases)


def _text_tokens(corpus: CorpusConfig) -> float:
    sizes = _sizes_of_sources(corpus)
    if any(size is None for _, _, size in sizes):
        return 0.0
    return sum(weight * size for _, weight, size in sizes if size is not None) / _TEXT_BYTES_PER_TOKEN


def _sizes_of_sources(corpus: CorpusConfig) -> list[tuple[str, float, float | None]]:
    """URI, weight and bytes of each source; None where they are unknown."""
    return [(each.uri, each.weight, _size_of(each, corpus.max_documents)) for each in corpus.sources]


def _size_of(source: SourceEntry, documents: int | None) -> float | None:
    with contextlib.suppress(ConfigError, InputError):  # its files may be where the corpus was made
        return source_of(source.uri, **source.reading).text_bytes(documents)
    return None


def _load(mask: MaskConfig, batch_size: int) -> Load:
    share = -(-batch_size // launched_processes()[0])
    return Load(
        sequences=micro_batch_size(share),
        length=mask.sequence_length,
        masked=masked(mask),
        device=device().type,
        precision=precision(),
        checkpointing=activation_checkpointing(),
    )


def masked(mask: MaskConfig) -> int:
    """Predicted tokens of a full sequence."""
    rule = mask.rule_at(0.0)  # the step with the most predictions
    wanted = max(1, round(rule.masked_lm_prob * mask.sequence_length))
    return min(wanted, rule.max_predictions_per_seq or wanted)


def given_entries(tokenizer: TokenizerConfig) -> list[str]:
    """Those of an existing vocabulary that params.yaml names; empty where one is trained."""
    return [] if tokenizer.vocab_file is None else entries_of(Path(tokenizer.vocab_file))


def entries_asked(configs: dict[str, Any]) -> int:
    """How many entries params.yaml asks for. Of `auto` an estimate: as many as an earlier run has chosen, else as the
    size of the text lets expect, else, where that is unknown, the most that are chosen."""
    tokenizer: TokenizerConfig = configs["tokenizer"]
    if not tokenizer.size_is_chosen:
        given = len(given_entries(tokenizer))
        return given + tokenizer.new_entries if given else tokenizer.most_entries
    if before := chosen_before():
        return before
    tokens = _text_tokens(configs["corpus"])
    return vocabulary_for(tokens) if tokens else tokenizer.most_entries


def chosen_before() -> int | None:
    """The size that `auto` came to in the last run; None where that one had a given size, or there was none."""
    try:
        metrics = json.loads((METRICS / "tokenizer.json").read_text("utf-8"))
        return int(metrics["vocab_size"]) if CHOSEN in metrics else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
