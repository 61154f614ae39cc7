"""Whatever `inputs` accepts, the stages can do: drawn parameters are refused in one line, or train a step."""

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from bertcore.errors import ConfigError
from bertcore.training import machine
from bertcore.training.supervision import Supervision
from tasks import mask
from tasks.sections import check
from tasks.training.process import build
from tests.faults.trainings import params, prepare
from tests.import_closure import ROOT


def section(**choices: list[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: st.sampled_from(values) for name, values in choices.items()})


MODELS = section(
    hidden_size=[16, 48],
    num_hidden_layers=[1, 2],
    num_attention_heads=[1, 2],
    max_position_embeddings=[16, 64, 512, 512],
    type_vocab_size=[1, 2, 2, 2],
    hidden_dropout_prob=[0.0, 0.1],
)
MASKS = section(
    sequence_length=[8, 16, 48],
    masking=["token", "whole_word", "span"],
    replace_unit=["token", "token", "word", "span"],
    span_lengths=["harmonic", "geometric"],
    rounding=["bert", "roberta"],
    duplicates=[0, 1],
    masked_lm_prob=[0.05, 0.15, 0.9],
    max_predictions_per_seq=[None, 1, 8],
)
TRAININGS = section(
    batch_size=[1, 8],
    max_steps=[1, 3, 100],
    warmup_steps=[0, 0, 2],
    optimizer=["adamw", "bert_adam", "lamb", "muon"],
)
LONGER = {"sequence_length": 64}
PHASES = st.sampled_from(
    [(None, None), (None, None), (LONGER, {"share": 0.5}), (LONGER, {"share": 0.01}), (LONGER, None)]
)
OBJECTIVES = st.sampled_from([
    *(("pairs", "mlm_nsp"), ("sentence_order", "mlm_sop"), ("full_sentences", "mlm"), ("doc_sentences", "mlm")),
    ("pairs", "mlm"),
])  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the stages before `mask` have made of a small text."""
    return prepare(tmp_path_factory.mktemp("tree") / "tree", params())


class Silent:
    def log_metrics(self, metrics: object) -> None:
        """Nothing of the mask stage is looked at here."""


@pytest.mark.slow
def test_what_is_accepted_trains_a_step(tree: Path) -> None:
    accepted = 0

    @settings(max_examples=100, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(model=MODELS, masks=MASKS, training=TRAININGS, objective=OBJECTIVES, phases=PHASES)
    def draw(model: Any, masks: Any, training: Any, objective: tuple[str, str], phases: tuple[Any, Any]) -> None:
        nonlocal accepted
        values = YAML(typ="safe", pure=True).load((ROOT / "params.yaml").read_text())
        values["recipe"] = None
        values["mask"] = masks | {"packing": objective[0], "second_phase": phases[0]}
        own = {"model": model, "objective": objective[1], "eval_sequences": 8, "second_phase": phases[1]}
        values["pretrain"] = training | own
        values["finetune"] = {"tasks": {}}
        accepted += trains(values)

    with contextlib.chdir(tree), pytest.MonkeyPatch.context() as environment:
        for variable in [each for each in os.environ if each.startswith("BERTCORE_")]:
            environment.delenv(variable)
        environment.setenv("BERTCORE_PRECISION", "no")
        draw()
    assert accepted >= 5, "what is drawn must be sound often enough to say something"


def trains(values: dict[str, Any]) -> bool:
    """Whether `inputs` accepts `values`; if it does, the stages have done a step with them."""
    try:
        check(values)
    except ConfigError as error:
        assert str(error).startswith("params.yaml: ") and "\n" not in str(error)
        return False
    with Path("params.yaml").open("w") as file:
        YAML().dump(values, file)
    mask.run(Silent())  # type: ignore[arg-type]
    loop = build(machine.make_accelerator(), Supervision())
    loop.train_step()
    return True
