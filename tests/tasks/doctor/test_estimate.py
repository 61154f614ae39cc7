"""The estimates against real models, real optimizers and the memory that a real training takes."""

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertcore.allocator import keep_freed_memory
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import save_pretrained
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.pretraining import build_model, build_objective
from bertcore.training.config import PretrainConfig
from bertcore.training.flops import forward_flops, training_flops
from bertcore.training.optimizers import OPTIMIZERS, build_optimizer
from bertcore.training.step import WithObjective
from tasks.doctor.estimate import Load, parameters, sequence_flops, state_bytes, training_memory
from tests.import_closure import ROOT

VOCABULARY = 8192
OBJECTIVE = {
    "albert": "mlm_sop",
    "bert": "mlm_nsp",
    "deberta-v2": "mlm",
    "deberta-v3": "replaced_tokens",
    "distilbert": "mlm",
    "electra": "replaced_tokens",
}
OBJECTIVE |= {"modernbert": "mlm_repeats", "roberta": "mlm"}
"""What each architecture is trained with here."""
MODEL_TYPE = {"deberta-v3": "deberta-v2"}
"""Of those that are called otherwise here."""


def settings_of(architecture: str, optimizer: str = "adamw", teacher: str | None = None) -> PretrainConfig:
    """With `teacher`, a directory, the model is its student."""
    values: dict[str, Any] = {"objective": OBJECTIVE[architecture], "optimizer": optimizer}
    if teacher:
        values |= {"objective": "distillation", "objective_options": {"teacher": teacher}}
    return PretrainConfig(model=ModelConfig(architecture=MODEL_TYPE.get(architecture, architecture)), **values)


def save_teacher(directory: Path, preset: str, vocab_size: int = VOCABULARY) -> str:
    save_pretrained(build_pretraining(config_of(preset, vocab_size)), directory)
    return str(directory)


def config_of(preset: str, vocab_size: int = VOCABULARY, architecture: str = "bert") -> EncoderConfig:
    model = ModelConfig(architecture=MODEL_TYPE.get(architecture, architecture), preset=preset)
    return model.build(vocab_size).with_dropout(0.0, 0.0)


def batch_of(load: Load, vocab_size: int = VOCABULARY) -> PreTrainingBatch:
    places = np.arange(load.sequences)[:, None] * load.length + np.arange(load.masked)
    ids = np.random.default_rng(1).integers(0, vocab_size, load.tokens)
    return PreTrainingBatch.from_numpy(
        input_ids=ids,
        token_type_ids=np.zeros_like(ids),
        lengths=np.full(load.sequences, load.length),
        masked_positions=places.ravel(),
        masked_labels=ids[places.ravel()],
        next_sentence_labels=np.zeros(load.sequences, np.int64),
        masked_draws=np.random.default_rng(2).random(places.size),
    )


def train(config: EncoderConfig, load: Load, settings: PretrainConfig) -> tuple[WithObjective, torch.optim.Optimizer]:
    """Three steps, as the training loop takes them."""
    model = build_model(settings.objective, config).train()
    objective = build_objective(settings.objective, model, settings.objective_options)
    trained = WithObjective(model, objective)
    steps = build_optimizer(trained, settings)
    for _ in range(3):
        with torch.autocast("cpu", torch.bfloat16, enabled=load.precision == "bf16"):
            sums = trained(batch_of(load, config.vocab_size))
        sum(objective.weights[name] * each.loss_sum / each.count for name, each in sums.items()).backward()
        steps.step()
        steps.zero_grad()
    return trained, steps


def measure(architecture: str, preset: str, optimizer: str, teacher: str | None, **load: object) -> int:
    """Bytes by which this process grows while it trains; what the first step of any training needs is there before."""
    keep_freed_memory()
    first = Load(sequences=2, length=16, masked=2)
    train(config_of("tiny", 100, architecture), first, settings_of(architecture))
    before = resident("VmRSS")
    settings = settings_of(architecture, optimizer, teacher)
    train(config_of(preset, architecture=architecture), Load(**load), settings)  # type: ignore[arg-type]
    return resident("VmHWM") - before


def resident(name: str) -> int:
    """Bytes, now (VmRSS) or at most (VmHWM); `ru_maxrss` would count what the tests' own process had before."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says how much memory there was")
@pytest.mark.parametrize(
    ("architecture", "preset", "optimizer", "load", "taught"),
    [
        ("bert", "tiny", "muon", Load(sequences=96, length=128, masked=19), False),
        ("bert", "mini", "adamw", Load(sequences=24, length=128, masked=19), False),
        pytest.param(
            "modernbert", "mini", "muon", Load(sequences=24, length=128, masked=19), False, marks=pytest.mark.slow
        ),
        pytest.param(
            "roberta", "mini", "adamw", Load(sequences=24, length=128, masked=19), False, marks=pytest.mark.slow
        ),
        pytest.param(
            "electra", "mini", "adamw", Load(sequences=24, length=128, masked=19), False, marks=pytest.mark.slow
        ),
        pytest.param(
            "deberta-v2", "mini", "adamw", Load(sequences=24, length=128, masked=19), False, marks=pytest.mark.slow
        ),
        pytest.param(
            "deberta-v3", "mini", "adamw", Load(sequences=24, length=128, masked=19), False, marks=pytest.mark.slow
        ),
        pytest.param(
            "albert", "mini", "lamb", Load(sequences=24, length=128, masked=19), False, marks=pytest.mark.slow
        ),
        pytest.param(
            "distilbert", "mini", "adamw", Load(sequences=12, length=128, masked=19), True, marks=pytest.mark.slow
        ),
    ],
    ids=["tiny", "mini"]
    + [f"{name}-mini" for name in ("modern", "roberta", "electra", "deberta", "v3", "albert", "student")],
)
def test_memory_is_what_a_training_takes_within_30_percent(
    architecture: str, preset: str, optimizer: str, load: Load, taught: bool, tmp_path: Path
) -> None:
    teacher = save_teacher(tmp_path, "mini") if taught else None
    script = "import json, sys; from tests.tasks.doctor.test_estimate import measure; "
    script += "print(measure(*json.loads(sys.argv[1]), **json.loads(sys.argv[2])))"
    arguments = [json.dumps([architecture, preset, optimizer, teacher]), json.dumps(dataclasses.asdict(load))]
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    measured = int(done.stdout)
    settings = settings_of(architecture, optimizer, teacher)
    estimated = training_memory(config_of(preset, architecture=architecture), load, optimizer, settings).total
    print(f"{architecture} {preset}: {measured / 2**20:.0f} MiB measured, {estimated / 2**20:.0f} MiB estimated")
    assert 0.7 < estimated / measured < 1.3


@pytest.mark.parametrize(
    ("architecture", "matrices"),
    [("bert", 2), ("deberta-v2", 2), ("distilbert", 2), ("electra", 2), ("modernbert", 3), ("roberta", 2)],
)
def test_parameters_are_those_of_the_model(architecture: str, matrices: int) -> None:
    config = config_of("tiny", 300, architecture)
    model = build_pretraining(config)
    found = parameters(config)
    assert found.total == sum(each.numel() for each in model.parameters())
    width = config.hidden_size
    assert found.hidden_matrices == config.num_hidden_layers * (
        4 * width**2 + matrices * width * config.intermediate_size
    )


@pytest.mark.parametrize("architecture", ["albert", "bert", "electra"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_checkpoint_holds_the_parameters_and_the_optimizers_state(optimizer: str, architecture: str) -> None:
    config, load = config_of("tiny", 300, architecture), Load(sequences=2, length=16, masked=2)
    trained, steps = train(config, load, settings_of(architecture, optimizer))
    states = [
        tensor
        for parameter, state in steps.state.items()
        for tensor in state.values()
        if tensor.shape == parameter.shape  # not the count of the steps
    ]
    held = sum(4 * tensor.numel() for tensor in [*trained.parameters(), *states])
    assert state_bytes(parameters(config, settings_of(architecture, optimizer)), optimizer) == held


@pytest.mark.parametrize("architecture", OBJECTIVE)
def test_the_flops_of_a_batch_are_those_of_its_sequences(architecture: str) -> None:
    config, load = config_of("tiny", 300, architecture), Load(sequences=5, length=32, masked=4)
    objective = build_objective(OBJECTIVE[architecture], build_model(OBJECTIVE[architecture], config))
    expected = training_flops(config, batch_of(load, 300), objective)
    assert load.sequences * sequence_flops(config, 32, 4, settings_of(architecture)) == expected


@pytest.mark.parametrize("options", [{}, {"positions": "masked", "cosine_weight": 0.0}], ids=str)
def test_a_students_flops_are_those_that_its_training_counts(options: dict[str, Any], tmp_path: Path) -> None:
    config, load = config_of("tiny", 300, "distilbert"), Load(sequences=5, length=32, masked=4)
    settings = settings_of("distilbert", teacher=save_teacher(tmp_path, "tiny", 300))
    settings = dataclasses.replace(settings, objective_options={**settings.objective_options, **options})
    objective = build_objective("distillation", build_pretraining(config), settings.objective_options)
    counted = load.sequences * sequence_flops(config, 32, 4, settings)
    assert counted == training_flops(config, batch_of(load, 300), objective)
    assert counted > 1.3 * load.sequences * sequence_flops(config, 32, 4, settings_of("distilbert"))
    evaluated = load.sequences * sequence_flops(config, 32, 4, settings, backward=False)
    assert evaluated == forward_flops(config, batch_of(load, 300), objective) > counted / 3


def test_a_teacher_is_in_memory_and_in_no_checkpoint(tmp_path: Path) -> None:
    config, load = config_of("tiny", 300, "distilbert"), Load(sequences=2, length=16, masked=2)
    alone, taught = settings_of("distilbert"), settings_of("distilbert", teacher=save_teacher(tmp_path, "tiny", 300))
    count = parameters(config, taught)
    assert count.frozen == parameters(config_of("tiny", 300)).total
    assert state_bytes(count, "adamw") == state_bytes(parameters(config, alone), "adamw")
    memory, without = (training_memory(config, load, "adamw", settings) for settings in (taught, alone))
    assert memory.weights == without.weights + 4 * count.frozen and memory.passing > without.passing


def test_a_last_layer_that_all_tokens_need_is_counted_unless_it_is_computed_again() -> None:
    load, config = (
        Load(sequences=32, length=512, masked=77, device="cuda"),
        config_of("base", architecture="modernbert"),
    )
    repeats = settings_of("modernbert")
    masked = dataclasses.replace(repeats, objective="mlm", objective_options={})

    def added(load: Load) -> int:
        totals = [training_memory(config, load, "adamw", settings).total for settings in (repeats, masked)]
        return totals[0] - totals[1]

    of_a_token = 16 * config.hidden_size  # bytes, and more: what two norms and six products keep of it
    assert added(load) > load.tokens * of_a_token
    assert added(dataclasses.replace(load, checkpointing=True)) < load.tokens * of_a_token / 100


def test_what_needs_more_and_what_needs_less() -> None:
    load, config = Load(sequences=64, length=128, masked=19), config_of("base")

    def need(optimizer: str = "adamw", **changes: object) -> int:
        return training_memory(config, dataclasses.replace(load, **changes), optimizer).total  # type: ignore[arg-type]

    assert need(sequences=32) < need() < need(length=256)
    assert need("muon") < need() and need(precision="bf16") < need()
    assert need(device="cuda", checkpointing=True) < need(device="cuda") / 2
    assert need(checkpointing=True) < need()
