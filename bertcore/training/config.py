"""Section `pretrain` of params.yaml. Nothing about the machine stands in it; see `training.machine` for that."""

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from bertcore.config import parse, suggest, within
from bertcore.draws import check_seed
from bertcore.errors import ConfigError
from bertcore.minimal_pairs.pairs import EvalPairsConfig
from bertcore.model.config import ModelConfig
from bertcore.model.encoder_config import EncoderConfig
from bertcore.objectives.pretraining import OBJECTIVES, check_architecture
from bertcore.training.optimizers.config import OptimizationConfig, Refinements
from bertcore.training.schedule import DECAY_SHARE, above, decay_begin, rate_share


@dataclass(frozen=True, kw_only=True)
class LongerPhase:
    """`pretrain.second_phase`: the last part of the training, on the sequences of `mask.second_phase`."""

    share: float = 0.1
    """Of `max_steps`."""
    batch_size: int | None = None
    """Sequences of one optimizer step; None = as in the first phase."""

    def __post_init__(self) -> None:
        within(self, "share", "a share between 0 and 1, such as 0.1", above=0, below=1)
        within(self, "batch_size", "at least 1, or null", least=1)


class Phase(NamedTuple):
    """Steps on sequences of one length."""

    begin: int
    """Steps before it."""
    steps: int
    batch_size: int
    key: str
    """The one of params.yaml that says `batch_size`."""


@dataclass(frozen=True, kw_only=True)
class PretrainConfig(OptimizationConfig):
    """One pre-training run."""

    init_from: str | None = None
    """A Hugging Face directory whose weights and sizes the training starts from; None = random weights."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """Shape of the encoder."""
    objective: str = "mlm_nsp"
    """What the encoder is trained to predict; its options are below."""
    objective_options: dict[str, Any] = field(default_factory=dict)
    """What the objective can be told, such as weights of its terms: fields of its row's `options`."""
    head_warmup_steps: int | None = None
    """Steps at the start in which new heads are trained alone and the encoder stays as it was published, before the
    learning rate rises anew for all; of use where the directory of `init_from` lacks a head that the objective needs,
    such as that of masked tokens. None = 200, or half of `max_steps` where that is less."""
    batch_size: int = 256
    """Sequences of one optimizer step, over all processes and micro-batches."""
    batch_size_start: int | None = None
    """Sequences of the first step; from there they grow in a line to `batch_size`. None = the same throughout."""
    batch_ramp_share: float = 0.5
    """Of `max_steps`: where `batch_size` is reached; of use with `batch_size_start` only."""
    max_steps: int = 1_000_000
    """Optimizer steps, those of the second phase included."""
    second_phase: LongerPhase | None = None
    """The last steps on longer sequences; None = one length throughout."""
    warmup_steps: int | None = None
    """Steps in which the learning rate rises linearly from 0 to its peak; None = 6 % of `max_steps`, 10,000 at most."""
    decay_share: float = DECAY_SHARE
    """Of `max_steps`: the part at the end in which schedule `wsd` falls to 0. All that comes before it is the same for
    every `max_steps`, and is taken over by a longer or shorter training that differs in nothing else, bit by bit.
    Give `warmup_steps` for that, by default a share of `max_steps`, and leave out a second phase and a share of masks
    that falls over the whole training (`mask.masked_lm_prob_start: null`; recipe `modern` has one)."""
    learning_rate_floor: float = 0.0
    """Share of the peak at which the schedules `linear`, `cosine` and `wsd` end."""
    embedding_learning_rate: float | None = None
    """Peak for the embedding tables, the masked-token head's tied one included; None = `learning_rate`."""
    head_learning_rate: float | None = None
    """Peak for the matrices outside of embeddings and encoder layers; None = `learning_rate`."""
    vector_learning_rate: float | None = None
    """Peak for biases and layer norms; None = `learning_rate`."""
    hidden_weight_decay: float | None = None
    """Of the matrices of the encoder layers; None = `weight_decay`. Muon's steps do not become smaller with the
    gradients: without enough of it the layers' weights grow until attention sees one token each, and learns no more."""
    cautious_weight_decay: bool = False
    """Of muon's matrices: only entries that the step itself brings nearer to 0 decay."""
    ema_decay: float | None = None
    """Share of the moving average of the weights that is kept at each step, such as 0.999. The average is evaluated and
    exported; None = the weights themselves are."""
    logging_steps: int = 20
    """Steps between two points of the curves."""
    eval_steps: int = 200
    """Steps between two evaluations on held-out text; there is always one at the end."""
    eval_sequences: int = 2048
    """Held-out sequences used at most."""
    eval_pairs: EvalPairsConfig | None = None
    """Minimal pairs scored at every evaluation, by the first process while the others wait; None = none."""
    checkpoint_seconds: int = 120
    """Seconds between two checkpoints; 50 times as many as the last one took to write, where that is more."""
    checkpoint_steps: int | None = None
    """Steps between two checkpoints, beside those by the clock; None = by the clock alone."""
    keep_every: int | None = None
    """Steps between two encoders that are kept for good, each as a Hugging Face directory in `models/checkpoints`, for
    scores along a training; None = the last one alone. With it, no stable phase is shared with trainings of other
    lengths (`decay_share`), whose encoders are not there."""
    loss_spike: float | None = None
    """A loss above this many times its running mean is a step that diverged; None = only one that is not finite."""
    skip_on_divergence: bool = False
    """Pass over the rows of a step that diverged, instead of ending the training."""
    seed: int = 1
    """Of the initial weights, the dropout and the order of the data."""

    @property
    def encoder_key(self) -> str:
        """Which key of params.yaml says how large the encoder is."""
        return "pretrain.model.preset" if self.init_from is None else "pretrain.init_from"

    @property
    def first_phase_steps(self) -> int:
        """Steps before the second phase begins; all where there is none."""
        return self.max_steps - (round(self.max_steps * self.second_phase.share) if self.second_phase else 0)

    @property
    def phases(self) -> list[Phase]:
        """One for each of `mask.phases`, in the order of training."""
        first = Phase(0, self.first_phase_steps, self.batch_size, "pretrain.batch_size")
        if self.second_phase is None:
            return [first]
        size = self.second_phase.batch_size or self.batch_size
        return [first, Phase(first.steps, self.max_steps - first.steps, size, "pretrain.second_phase.batch_size")]

    @property
    def warmup(self) -> int:
        """Steps before the learning rate has its peak."""
        if self.warmup_steps is not None:
            return self.warmup_steps
        return min(round(_WARMUP_SHARE * self.max_steps), _LONGEST_WARMUP)

    @property
    def head_warmup(self) -> int:
        """Steps before more than new heads is trained, where there are any."""
        return min(_HEAD_WARMUP, self.max_steps // 2) if self.head_warmup_steps is None else self.head_warmup_steps

    @property
    def ramp_steps(self) -> int:
        """Steps before the batch has its full size."""
        return 0 if self.batch_size_start is None else round(self.max_steps * self.batch_ramp_share)

    @property
    def stable_steps(self) -> int | None:
        """Steps that do not depend on `max_steps`; None where all may, and where encoders of them are kept."""
        if self.schedule != "wsd" or self.second_phase is not None or self.keep_every is not None:
            return None
        return decay_begin(self.max_steps, self.decay_share)

    @property
    def kept_steps(self) -> range:
        """Those after which an encoder is kept, beside the last one."""
        every = self.keep_every or self.max_steps
        return range(every, self.max_steps, every)

    @property
    def refinements(self) -> Refinements:
        peaks = (self.embedding_learning_rate, self.head_learning_rate, self.vector_learning_rate)
        embeddings, head, vectors = (1.0 if peak is None else peak / self.learning_rate for peak in peaks)
        return Refinements(
            embeddings=embeddings,
            head=head,
            vectors=vectors,
            hidden_decay=self.hidden_weight_decay,
            cautious=self.cautious_weight_decay,
        )

    def learning_rate_at(self, step: int) -> float:
        """Of the step that has `step` steps before it."""
        share = rate_share(self.schedule, step, self.warmup, self.max_steps, self.decay_share)
        return self.learning_rate * (share if step < self.warmup else above(self.learning_rate_floor, share))

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("batch_size", "max_steps", "logging_steps", "eval_steps", "eval_sequences", "checkpoint_seconds"):
            within(self, name, "at least 1", least=1)
        self._check_ramp()
        self._check_rates()
        self._check_model()
        for name in ("checkpoint_steps", "keep_every"):
            within(self, name, "at least 1, or null", least=1)
        within(self, "loss_spike", "a factor above 1, such as 2.0, or null", above=1)
        check_seed(self.seed)
        if not 0 <= self.warmup <= self.max_steps:
            raise ValueError(
                f"warmup_steps: found {self.warmup}, expected between 0 and max_steps ({self.max_steps}); lower it"
            )
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective: found {self.objective!r}; {suggest(self.objective, OBJECTIVES)}")
        check_architecture(self.objective, self.model.architecture)
        try:
            options: Any = parse(OBJECTIVES[self.objective].options, self.objective_options, "objective_options")
        except ConfigError as error:
            raise ValueError(str(error)) from None
        # With their defaults: what is written out is the same training as what is left out.
        object.__setattr__(self, "objective_options", asdict(options))

    def _check_ramp(self) -> None:
        within(self, "batch_ramp_share", "0 < share <= 1, such as 0.5", above=0, most=1)
        if self.batch_size_start is None:
            return
        within(
            self,
            "batch_size_start",
            f"between 1 and batch_size ({self.batch_size}), or null",
            least=1,
            most=self.batch_size,
        )
        if self.ramp_steps > self.first_phase_steps:
            raise ValueError(
                f"batch_ramp_share: found {self.batch_ramp_share}, expected that the batch has its size before the "
                f"second phase begins; lower it to {self.first_phase_steps / self.max_steps:g} at most"
            )

    def _check_model(self) -> None:
        if self.head_warmup < 0:
            raise ValueError(f"head_warmup_steps: found {self.head_warmup}, expected 0 or more, or null")
        if self.init_from is None:
            if self.head_warmup_steps:
                raise ValueError(
                    f"head_warmup_steps: found {self.head_warmup_steps} without init_from, where all weights are new; "
                    "set it to null"
                )
            try:
                self.model.build(EncoderConfig.vocab_size)
            except ValueError as error:
                raise ValueError(f"model.{error}") from None
            return
        if self.model.preset is not None:
            raise ValueError(
                f"model.preset: found {self.model.preset!r} beside init_from, expected none: the sizes are those of "
                f"{self.init_from}; set it to null"
            )
        if self.head_warmup >= self.max_steps:
            raise ValueError(
                f"head_warmup_steps: found {self.head_warmup} beside init_from, expected fewer than max_steps "
                f"({self.max_steps}), so that the encoder is trained too; lower it"
            )

    def _check_rates(self) -> None:
        for name in ("embedding_learning_rate", "head_learning_rate", "vector_learning_rate"):
            within(self, name, "more than 0, or null for learning_rate", above=0)
        within(self, "hidden_weight_decay", "0 or more, or null for weight_decay", least=0)
        within(self, "ema_decay", "0 < decay < 1, such as 0.999, or null", above=0, below=1)
        within(self, "decay_share", "0 < share <= 1, such as 0.2", above=0, most=1)
        if self.schedule == "wsd" and decay_begin(self.max_steps, self.decay_share) == self.max_steps:
            raise ValueError(
                f"decay_share: found {self.decay_share} of {self.max_steps} steps with schedule wsd, expected one step "
                "at least; raise it, or take schedule constant"
            )
        within(self, "learning_rate_floor", "0 <= share < 1", least=0, below=1)
        if self.learning_rate_floor and self.schedule not in _WITH_FLOOR:
            raise ValueError(
                f"learning_rate_floor: found {self.learning_rate_floor} with schedule {self.schedule}, expected "
                f"{', '.join(_WITH_FLOOR)}; change one of them"
            )
        if self.schedule == "wsd" and self.warmup > decay_begin(self.max_steps, self.decay_share):
            raise ValueError(
                f"warmup_steps: found {self.warmup}, expected that the warm-up ends before the decay of the last "
                f"decay_share ({self.decay_share}) of {self.max_steps} steps; lower one of them"
            )
        if self.cautious_weight_decay and self.optimizer != "muon":
            raise ValueError(f"cautious_weight_decay: found true with optimizer {self.optimizer}, expected muon")


_WARMUP_SHARE, _LONGEST_WARMUP = 0.06, 10_000
"""Of RoBERTa large (30,000 of 500,000 steps), and of BERT."""

_HEAD_WARMUP = 200

_WITH_FLOOR = ("linear", "cosine", "wsd")
