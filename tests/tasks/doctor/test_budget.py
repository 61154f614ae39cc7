"""`make plan`: what a machine can pre-train in a given time."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertcore.errors import ConfigError
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.huggingface import save_pretrained
from bertcore.training.config import PretrainConfig
from bertcore.vocabulary.size import vocabulary_for
from tasks import params
from tasks.doctor import budget, machine
from tasks.doctor.estimate import sequence_flops
from tasks.doctor.plan import Plan, masked
from tasks.doctor.speed import Speed
from tests.import_closure import ROOT

LITTLE: dict[str, Any] = {"batch_size": 1, "steps": 1, "tokens": 1, "seconds": 1.0, "epochs": None, "curve": None}


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    monkeypatch.chdir(tmp_path)
    return Plan.read(params.read())


def _reached(_: Plan) -> Speed:
    return Speed(flops=1e11, update=0.0)


def test_sizes_beyond_one_that_is_too_large_for_the_time_are_not_measured(plan: Plan) -> None:
    asked: list[Plan] = []

    def speed(sized: Plan) -> Speed:
        asked.append(sized)
        return Speed(1e11, 0.0)

    _, sizes, found = budget.reachable(plan, 60.0, speed)
    assert len(asked) < len(sizes) == 8, "the sizes of the architecture"
    assert len(found) == len(asked) - 1 and all(reached.steps for reached in found)
    rows = budget.describe("60s", 512, sizes, found).splitlines()[1:9]
    assert [row.endswith("too large for the time") for row in rows] == [n >= len(found) for n in range(8)]


def test_a_time_that_is_too_short_for_every_size_is_one_line(plan: Plan) -> None:
    with pytest.raises(ConfigError) as caught:
        budget.reachable(plan, 0.001, _reached)
    said = (
        "BUDGET: found 0.001 s, expected time for 100 steps of tiny, the smallest size that can be trained; give more"
    )
    assert str(caught.value) == said


def test_a_batch_that_does_not_fit_into_memory_is_made_in_parts(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    size = budget.Size("small", 1, replace(plan.configs["pretrain"].model, preset="small").build(8192))
    large = budget.Reached(size=size, **(LITTLE | {"batch_size": 1024}))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for variable in ("BERTCORE_MICRO_BATCH", "BERTCORE_PROCESSES", "BERTCORE_ACCELERATE_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    said = {}
    for free in (2**50, 2**33, 2**20):
        monkeypatch.setattr(machine, "memory", lambda free=free: machine.Memory(free, free))
        said[free] = budget.in_parts(plan, large)
    assert said[2**50] is None
    found = re.fullmatch(
        r"Set BERTCORE_MICRO_BATCH=(\d+): 1,024 sequences at once need more memory than is free now.",
        str(said[2**33]),
    )
    assert found and 1 < int(found[1]) < 1024
    monkeypatch.setattr(machine, "memory", lambda: machine.Memory(2**33, 2**33))
    monkeypatch.setenv("BERTCORE_MICRO_BATCH", found[1])
    assert budget.in_parts(plan, large) is None, "with it, the batch fits"
    assert str(said[2**20]).startswith("Even one sequence at once is too many: pre-training needs about")


def test_more_time_reads_more_and_carries_larger_models(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "text_tokens", lambda _: 1e10)
    chosen = []
    for seconds in (60.0, 3600.0, 10 * 86400.0):
        vocabulary, sizes, found = budget.reachable(plan, seconds, _reached)
        parameters = [size.parameters for size in sizes]
        assert parameters == sorted(parameters) and vocabulary % 64 == 0
        assert [reached.size for reached in found] == sizes[: len(found)]
        read = [reached.tokens for reached in found]
        assert read == sorted(read, reverse=True)
        chosen.append(budget.proposed(found))
    assert [each.size.parameters for each in chosen] == sorted(each.size.parameters for each in chosen)
    assert chosen[0].size.preset == "tiny" and chosen[-1].size.preset != "tiny"
    assert not chosen[0].reads_enough and chosen[-1].reads_enough


def test_a_text_that_was_read_forty_times_ends_the_training_before_the_time(plan: Plan) -> None:
    text = plan.text_tokens()
    vocabulary, sizes, found = budget.reachable(plan, 20 * 86400.0, _reached)
    for reached in found:
        assert reached.tokens <= 40 * text and reached.epochs is not None and reached.epochs <= 40
    chosen = budget.proposed(found)
    assert chosen.epochs is not None and chosen.epochs > 39 and chosen.seconds < 5 * 86400.0
    assert not any(each.reads_enough for each in found if each.size.parameters > 2 * text), "20 for each parameter"
    said = budget.describe("20d", vocabulary, sizes, found)
    assert "It reads the text 40 times, and beyond 40 reading it again adds little: " in said
    short = budget.proposed(budget.reachable(plan, 600.0, _reached)[2])
    assert short.epochs is not None and short.epochs < 39 and short.seconds == pytest.approx(600.0, rel=0.05)


def test_speeds_are_measured_with_as_many_sequences_as_fit(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[int, list[int]] = {}
    for free in (2**50, 2**31):
        monkeypatch.setattr(machine, "memory", lambda free=free: machine.Memory(free, free))
        batches = asked.setdefault(free, [])

        def speed(sized: Plan, batches: list[int] = batches) -> Speed:
            batches.append(sized.configs["pretrain"].batch_size)
            return Speed(1e11, 0.0)

        budget.reachable(plan, 3600.0, speed)
    assert set(asked[2**50]) == {4096}
    assert 1 <= min(asked[2**31]) < max(asked[2**31]) < 4096 and asked[2**31] == sorted(asked[2**31], reverse=True)


def test_what_is_known_of_the_rate_is_said_of_sizes_for_which_it_was_not_measured(plan: Plan) -> None:
    assert budget.of_rate(plan, "tiny") is None
    said = budget.of_rate(plan, "base")
    assert said and said.startswith("Muon's rate of 0.01 was measured up to mini")


def test_the_time_of_the_steps_is_the_time_that_was_given(plan: Plan) -> None:
    speed, seconds = Speed(1e11, update=0.5), 7200.0
    vocabulary, _, found = budget.reachable(plan, seconds, lambda _: speed)
    mask, architecture = plan.configs["mask"].phases[0], plan.configs["pretrain"].model.architecture
    for reached in found[:3]:
        config = budget.ModelConfig(architecture=architecture, preset=reached.size.preset).build(vocabulary)
        flops = sequence_flops(config, mask.sequence_length, masked(mask), plan.configs["pretrain"])
        of_step = reached.batch_size * flops / speed.flops + speed.update
        assert reached.steps * of_step == pytest.approx(seconds, rel=0.01)


def test_a_teacher_costs_time_and_leaves_out_the_sizes_that_it_cannot_teach(plan: Plan, tmp_path: Path) -> None:
    vocabulary, *_ = budget.reachable(plan, 600.0, _reached)
    save_pretrained(build_pretraining(ModelConfig(preset="mini").build(vocabulary)), tmp_path / "teacher")
    model = ModelConfig(architecture="distilbert")
    alone = replace(plan.configs["pretrain"], model=model, objective="mlm", objective_options={})
    taught = replace(alone, objective="distillation", objective_options={"teacher": "teacher"})

    def found(training: PretrainConfig) -> tuple[list[budget.Size], dict[str, budget.Reached]]:
        changed = replace(plan, configs={**plan.configs, "pretrain": training})
        _, sizes, reached = budget.reachable(changed, 600.0, _reached)
        return sizes, {each.size.preset: each for each in reached}

    (only,), by_teacher = found(taught)
    sizes, by_itself = found(alone)
    assert only.preset == "mini" and len(sizes) > 3
    assert by_teacher["mini"].tokens < 0.6 * by_itself["mini"].tokens
    too_long = replace(taught, objective_options={"teacher": "teacher", "layers": [0]})
    with pytest.raises(ConfigError, match="found a teacher that fits no preset of distilbert, .* run make doctor"):
        found(too_long)


def test_a_vocabulary_that_is_given_stays(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("".join(f"{index}\n" for index in range(777)))
    values: dict[str, Any] = params.read()
    values["tokenizer"]["vocab_file"] = "vocab.txt"
    assert budget.reachable(Plan.read(values), 60.0, _reached)[0] == 777
    values["tokenizer"]["vocab_size"] = "auto"
    given = Plan.read(values)
    assert budget.reachable(given, 60.0, _reached)[0] == 777 and budget._entries(given, 777) is None


def test_a_size_that_is_left_to_the_stage_stays_so(plan: Plan) -> None:
    values: dict[str, Any] = params.read()
    values["tokenizer"]["vocab_size"] = "auto"
    left = Plan.read(values)
    vocabulary, sizes, found = budget.reachable(left, 60.0, _reached)
    assert vocabulary == vocabulary_for(plan.text_tokens()) == left.encoder.vocab_size
    shown = budget.describe("60s", budget._entries(left, vocabulary), sizes, found)
    assert f"tokenizer.vocab_size      auto (reckoned with {vocabulary:,} here)\n" in shown
    assert budget._entries(plan, vocabulary) == vocabulary


def test_a_second_phase_is_paid_for(plan: Plan) -> None:
    values: dict[str, Any] = params.read()
    values |= {"recipe": "bert-2018", "mask": {"sequence_length": 128, "second_phase": {"sequence_length": 512}}}
    values["pretrain"] = {"model": {"preset": "tiny"}, "max_steps": 1000, "second_phase": {"share": 0.5}}
    phased = Plan.read(params.complete(values))
    vocabulary, _, (first, *_) = budget.reachable(phased, 600.0, _reached)
    model = ModelConfig(architecture="bert", preset=first.size.preset).build(vocabulary)
    flops, length = phased.mean_sequence(model)
    assert length == (128 + 512) / 2
    assert first.tokens == round(first.steps * first.batch_size * length)
    assert first.steps * first.batch_size * flops <= 600.0 * 1e11 < (first.steps + 1) * first.batch_size * flops


def test_an_expected_loss_is_a_measured_one_or_none(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "tasks/reporting").mkdir(parents=True)
    architecture = plan.configs["pretrain"].model.architecture
    numbers = '"vocabulary": 8192, "parameters": 5000000, "unigram_loss": 7.0'
    entry = f'{{"architecture": "{architecture}", "preset": "mini", {numbers}, "source": "a.md", "points": '
    (tmp_path / "tasks/reporting/curves.json").write_text(f"[{entry} [[1, 9.0], [1e12, 3.0]]}}]")
    vocabulary, sizes, found = budget.reachable(plan, 3600.0, _reached)
    shown = budget.describe("1h", vocabulary, sizes, found)
    by_name = {line.split()[0]: line for line in shown.splitlines()[1:9]}
    expected = re.search(r"  (\d\.\d\d) \(8,192 entries, a.md\)$", by_name["mini"])
    assert expected and 3.0 < float(expected[1]) < 9.0
    assert by_name["tiny"].endswith("  not measured") and "pretrain.max_steps" in shown
    model = ModelConfig(architecture=architecture, preset="mini", fields={"num_hidden_layers": 5})
    deeper = replace(plan, configs={**plan.configs, "pretrain": replace(plan.configs["pretrain"], model=model)})
    assert not any(each.curve for each in budget.reachable(deeper, 3600.0, _reached)[2]), "measured was another"
    (tmp_path / "tasks/reporting/curves.json").write_text(f"[{entry} [[1, 9.0], [2, 3.0]]}}]")
    assert "below 3.00 (8,192 entries, a.md)" in budget.describe("1h", *budget.reachable(plan, 3600.0, _reached))


def test_what_else_the_section_says_of_the_model_is_planned_with(plan: Plan) -> None:
    def found(**fields: Any) -> tuple[dict[str, budget.Size], dict[str, budget.Reached]]:
        model = ModelConfig(architecture="modernbert", preset="base", fields=fields)
        changed = replace(plan.configs["pretrain"], model=model)
        of_plan = replace(plan, configs={**plan.configs, "pretrain": changed})
        _, sizes, reached = budget.reachable(of_plan, 3600.0, _reached)
        return {size.preset: size for size in sizes}, {each.size.preset: each for each in reached}

    (usual, reached), (deep, less), (three, _) = found(), found(num_hidden_layers=12), found(num_attention_heads=3)
    assert deep["tiny"].parameters > usual["tiny"].parameters and less["tiny"].tokens < reached["tiny"].tokens
    assert "tiny" in usual and "tiny" not in three and "base" in three, "128 is no multiple of 3, 768 is one"


def test_a_vocabulary_of_a_file_is_not_proposed_and_published_weights_have_their_size(
    plan: Plan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = budget.Size("tiny", 1, plan.encoder)
    shown = [size], [budget.Reached(size=size, **LITTLE)]
    assert "vocab_size" in budget.describe("1h", 512, *shown)
    assert "vocab_size" not in budget.describe("1h", None, *shown)
    changed = replace(plan.configs["pretrain"], model=ModelConfig(architecture="modernbert"), init_from="published")
    published = replace(plan, configs={**plan.configs, "pretrain": changed})
    monkeypatch.setattr(Plan, "read", classmethod(lambda *_: published))
    assert budget.main(["1h"]) == 2
    assert "pretrain.init_from: found published, whose size it has" in capsys.readouterr().err


def test_the_command_refuses_what_is_no_time(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    assert budget.main(["soon"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: BUDGET: found 'soon'") and said.endswith("; run make plan BUDGET=2h\n")
    assert budget.main(["--", "-1h"]) == 2
    assert capsys.readouterr().err.startswith("error: BUDGET: found '-1h'")
